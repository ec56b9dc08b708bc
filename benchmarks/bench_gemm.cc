/* Matrix products: the shapes of transformer layers, cubes, a single token's projection, and small ones that show a call's cost. */
#include "bench.h"

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

/* |computed - exact| <= k u / (1 - k u) * sum |a||b| for a chain of k fused multiply-adds (Higham, Accuracy and Stability of
 * Numerical Algorithms, 2002, section 3.1); here u is 2^-24 and the factors are below 1 in size. */
Tolerance tolerance(int64_t k) {
    double terms = static_cast<double>(k);
    return {1.01 * terms * terms / 16777216.0, 0};
}

class Gemm : public Work {
  public:
    Gemm(Shape shape, bool packed) : a_(shape.m * shape.k), b_(shape.n * shape.k), c_(shape.m * shape.n), gemm_{} {
        a_.fill(1, 1);
        b_.fill(1, 2);
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

    Buffer a_, b_, c_;
    std::unique_ptr<Buffer> packed_b_;
    struct heed_gemm gemm_, request_; /* the product by plain b, and what is timed */
};

/* A packing that fails leaves the request plain without b, which heed_gemm then refuses. */
void Gemm::pack() {
    packed_b_ = std::make_unique<Buffer>(heed_gemm_packed_size(gemm_.n, gemm_.k));
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
        one.a = gemm_.a + row * gemm_.lda;
        one.c = scalar.data();
        if (heed_gemm(&one, &scalar_exec) != HEED_OK)
            return heed_error_message();
        ref_gemm(&one, exact.data());
        std::string wrong = compare_row(row, gemm_.c + row * gemm_.ldc, scalar, exact, tolerance(gemm_.k));
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

void add_shape(const Shape &shape, bool packed, const std::string &isa, int threads) {
    const std::string size = std::to_string(shape.m) + "x" + std::to_string(shape.n) + "x" + std::to_string(shape.k);
    Request request;
    request.group = "gemm";
    request.shape = size + (packed ? "_packed" : "_plain");
    request.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
    request.bytes = 4.0 * static_cast<double>(shape.m * shape.k + shape.k * shape.n + shape.m * shape.n);
    if (shape.m == 3)
        request.figure = Figure::time;
    if (packed ? shape.n == 4096 || shape.m == 2048 || shape.m == 128 : shape.m == 64 || shape.m == 3)
        request.label = "GEMM " + size + (packed ? ", packed" : "");
    request.make = [shape, packed] { return std::make_unique<Gemm>(shape, packed); };
    add(request, isa, threads);
}

template <size_t n> std::vector<Shape> list(const Shape (&shapes)[n]) { return {shapes, shapes + n}; }

} // namespace

void add_gemm(const Plan &plan) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads))
            for (const Shape &shape : plan.brief ? list(brief_shapes) : is_scalar(isa) ? list(scalar_shapes) : list(all_shapes))
                for (bool packed : {false, true})
                    add_shape(shape, packed, isa, threads);
}

} // namespace bench
