/* Matrix products: the shapes of transformer layers, cubes, a single token's projection, and small ones that show a call's cost; of
 * floats, and with weights of 16 bits. */
#include "bench.h"

#include <cstring>

extern "C" {
#include "reference/reference.h"
}

namespace bench {
namespace {

struct Shape {
    int64_t m, n, k;
};
const Shape all_shapes[] = {{512, 512, 512}, {1024, 1024, 1024}, {2048, 2048, 2048}, {128, 768, 768},
                            {512, 768, 768}, {512, 3072, 768},   {512, 768, 3072},   {1, 4096, 4096},
                            {8, 4096, 4096}, {64, 64, 64},       {16, 16, 16},       {3, 3, 4}};
const Shape scalar_shapes[] = {{128, 768, 768}, {64, 64, 64}, {16, 16, 16}, {3, 3, 4}};
const Shape brief_shapes[] = {{67, 130, 100}, {64, 64, 64}, {1, 300, 200}};

/* With packed weights of bf16, and activations of either type, or in pairs of both. */
const Shape bf16_shapes[] = {{512, 512, 512}, {128, 768, 768}, {512, 768, 3072}, {1, 4096, 4096}, {8, 4096, 4096}};
const Shape brief_bf16_shapes[] = {{67, 130, 100}, {1, 300, 200}};

struct Types {
    heed_type a, b;
    heed_compute compute;
};
const Types floats = {HEED_F32, HEED_F32, HEED_COMPUTE_F32}, weights_of_bf16 = {HEED_F32, HEED_BF16, HEED_COMPUTE_F32},
            both_of_bf16 = {HEED_BF16, HEED_BF16, HEED_COMPUTE_F32}, pairs_of_bf16 = {HEED_BF16, HEED_BF16, HEED_COMPUTE_BF16};

int64_t bytes_of(heed_type type) { return type == HEED_F32 ? 4 : 2; }
std::string name_of(heed_type type) { return type == HEED_F32 ? "f32" : "bf16"; }
std::string name_of(Types types) {
    const std::string name = types.a == types.b ? name_of(types.a) : name_of(types.a) + "x" + name_of(types.b);
    return name + (types.compute == HEED_COMPUTE_BF16 ? "_pairs" : "");
}

/* Random numbers of the type in (-1, 1): a bf16 is the upper half of a float. */
class Matrix : public Buffer {
  public:
    Matrix(int64_t n, heed_type type, uint64_t seed) : Buffer((n * bytes_of(type) + 3) / 4) {
        if (type == HEED_F32) {
            fill(1, seed);
            return;
        }
        Buffer values(n);
        values.fill(1, seed);
        for (int64_t i = 0; i < n; i++) {
            uint32_t bits;
            std::memcpy(&bits, values.data() + i, sizeof bits);
            const uint16_t half = static_cast<uint16_t>(bits >> 16);
            std::memcpy(reinterpret_cast<char *>(data()) + i * static_cast<int64_t>(sizeof half), &half, sizeof half);
        }
    }
};

/* |computed - exact| <= k u / (1 - k u) * sum |a||b| for a chain of k fused multiply-adds (Higham, Accuracy and Stability of
 * Numerical Algorithms, 2002, section 3.1); here u is 2^-24 and the factors are below 1 in size.  In pairs each is first rounded to
 * bf16, which moves it by at most 2^-8 of it. */
Tolerance tolerance(int64_t k, heed_compute compute) {
    double terms = static_cast<double>(k), rounded = compute == HEED_COMPUTE_BF16 ? terms / 127 : 0;
    return {1.01 * terms * terms / 16777216.0 + rounded, 0};
}

class Gemm : public Work {
  public:
    Gemm(Shape shape, bool packed, Types types)
        : a_(shape.m * shape.k, types.a, 1), b_(shape.n * shape.k, types.b, 2), c_(shape.m * shape.n), gemm_{} {
        gemm_.a_type = types.a, gemm_.b_type = types.b, gemm_.compute = types.compute;
        gemm_.m = shape.m, gemm_.n = shape.n, gemm_.k = shape.k;
        gemm_.alpha = 1;
        gemm_.a = a_.data(), gemm_.lda = shape.k;
        gemm_.b = b_.data(), gemm_.ldb = shape.n;
        gemm_.c = c_.data(), gemm_.ldc = shape.n;
        request_ = gemm_;
        if (packed)
            pack();
    }
    heed_status call(const heed_exec &exec) override { return heed_gemm(&request_, &exec); }
    std::string check() override;

  private:
    void pack();

    Matrix a_, b_;
    Buffer c_;
    std::unique_ptr<Buffer> packed_b_;
    struct heed_gemm gemm_, request_; /* the product by plain b, and what is timed */
};

/* A packing that fails leaves the request plain without b, which heed_gemm then refuses. */
void Gemm::pack() {
    packed_b_ = std::make_unique<Buffer>((heed_gemm_packed_bytes(&gemm_) + 3) / 4);
    request_.b = nullptr;
    if (heed_gemm_pack_b(&gemm_, packed_b_->data(), nullptr) == HEED_OK)
        request_.packed_b = packed_b_->data();
}

std::string Gemm::check() {
    std::vector<float> scalar(static_cast<size_t>(gemm_.n));
    std::vector<double> exact(static_cast<size_t>(gemm_.n));
    for (int64_t row : rows_to_check(gemm_.m, 2 * gemm_.n * gemm_.k)) {
        struct heed_gemm one = gemm_;
        one.m = 1;
        one.a = reinterpret_cast<const char *>(a_.data()) + row * gemm_.lda * bytes_of(gemm_.a_type);
        one.c = scalar.data();
        if (heed_gemm(&one, &scalar_exec) != HEED_OK)
            return heed_error_message();
        ref_gemm(&one, exact.data());
        std::string wrong = compare_row(row, c_.data() + row * gemm_.ldc, scalar, exact, tolerance(gemm_.k, gemm_.compute));
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

void add_shape(const Shape &shape, bool packed, Types types, const std::string &isa, int threads) {
    const std::string size = std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
    Request request;
    request.group = "gemm";
    request.shape = size + (packed ? "_packed" : "_plain");
    request.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
    request.dtype = name_of(types);
    request.bytes = static_cast<double>(bytes_of(types.a) * shape.m * shape.k + bytes_of(types.b) * shape.k * shape.n +
                                        bytes_of(HEED_F32) * shape.m * shape.n);
    if (shape.m == 3)
        request.figure = Figure::time;
    if (packed ? shape.n == 4096 || shape.m == 2048 || shape.m == 128 : shape.m == 64 || shape.m == 3)
        request.label = "GEMM " + size + (packed ? ", packed" : "") + (types.b == HEED_F32 ? "" : ", " + name_of(types));
    request.make = [shape, packed, types] { return std::make_unique<Gemm>(shape, packed, types); };
    add(request, isa, threads);
}

template <size_t n> std::vector<Shape> list(const Shape (&shapes)[n]) { return {shapes, shapes + n}; }

} // namespace

void add_gemm(const Plan &plan) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads)) {
            for (const Shape &shape : plan.brief ? list(brief_shapes) : is_scalar(isa) ? list(scalar_shapes) : list(all_shapes))
                for (bool packed : {false, true})
                    add_shape(shape, packed, floats, isa, threads);
            if (is_scalar(isa))
                continue;
            for (const Shape &shape : plan.brief ? list(brief_bf16_shapes) : list(bf16_shapes))
                for (Types types : {weights_of_bf16, both_of_bf16, pairs_of_bf16})
                    add_shape(shape, true, types, isa, threads);
        }
}

} // namespace bench
