/* Matrix products: the shapes of transformer layers, cubes, a single token's projection, and small ones that show a call's cost; of
 * floats, and with weights of 16, 8 and 4 bits. */
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
const Shape all_shapes[] = {{512, 512, 512},  {1024, 1024, 1024}, {2048, 2048, 2048}, {128, 768, 768}, {512, 768, 768},
                            {512, 3072, 768}, {512, 768, 3072},   {1, 4096, 4096},    {8, 4096, 4096}, {16, 4096, 4096},
                            {64, 64, 64},     {16, 16, 16},       {3, 3, 4}};
const Shape scalar_shapes[] = {{128, 768, 768}, {64, 64, 64}, {16, 16, 16}, {3, 3, 4}};
const Shape brief_shapes[] = {{67, 130, 100}, {64, 64, 64}, {1, 300, 200}};

/* With packed weights of bf16, and activations of either type, or of both, computed in pairs or as by AMX. */
const Shape bf16_shapes[] = {{512, 512, 512}, {128, 768, 768},  {512, 768, 3072}, {1, 4096, 4096},
                             {8, 4096, 4096}, {16, 4096, 4096}, {32, 4096, 4096}};
const Shape brief_bf16_shapes[] = {{67, 130, 100}, {1, 300, 200}};

struct Types {
    heed_type a, b;
    heed_compute compute;
    bool transposed = false; /* b as checkpoints have weights, one output after another */
};
const Types floats = {HEED_F32, HEED_F32, HEED_COMPUTE_F32}, weights_of_bf16 = {HEED_F32, HEED_BF16, HEED_COMPUTE_F32},
            both_of_bf16 = {HEED_BF16, HEED_BF16, HEED_COMPUTE_F32}, pairs_of_bf16 = {HEED_BF16, HEED_BF16, HEED_COMPUTE_BF16},
            dots_of_bf16 = {HEED_BF16, HEED_BF16, HEED_COMPUTE_BF16_AMX};

/* Weights of 8 and 4 bits.  A single row reads them from memory, where those of a large model are: layers in turn. */
const Shape weight_shapes[] = {{1, 4096, 4096}, {8, 4096, 4096}, {32, 4096, 4096}, {512, 768, 768}};
const Shape brief_weight_shapes[] = {{67, 130, 256}, {1, 300, 512}};
const heed_type weight_types[] = {HEED_I8,   HEED_Q8_0, HEED_Q4_0,   HEED_Q5_0, HEED_Q4_K,
                                  HEED_Q5_K, HEED_Q6_K, HEED_IQ4_NL, HEED_MXFP4};
/* Few rows, with weights as checkpoints have them. */
const Shape checkpoint_shapes[] = {{1, 4096, 4096},  {4, 4096, 4096},  {8, 4096, 4096},
                                   {16, 4096, 4096}, {64, 4096, 4096}, {1, 4096, 11008}};
const Shape brief_checkpoint_shapes[] = {{1, 300, 200}, {16, 300, 200}};
const heed_type checkpoint_types[] = {HEED_F32, HEED_BF16};
const int64_t layers_bytes = INT64_C(256) << 20;

/* Elements and bytes of a block; where its scale d is, and what makes its elements as small as others, in f16: 2^-7, 2^-3, 2^-10,
 * 2^-11, 2^-13 or 2^-4, of mxfp4 an exponent and two elements; and m, where there is one, which makes their mean 0. */
struct Format {
    const char *name;
    int64_t elements, bytes, scale_at;
    uint16_t scale, less;
};
const Format &format_of(heed_type type) {
    static const Format formats[] = {{"f32", 1, 4, -1, 0, 0},
                                     {"bf16", 1, 2, -1, 0, 0},
                                     {"f16", 1, 2, -1, 0, 0},
                                     {"i8", 1, 1, -1, 0, 0},
                                     {"q8_0", 32, 34, 0, 0x2000, 0},
                                     {"q4_0", 32, 18, 0, 0x3000, 0},
                                     {"q4_K", 256, 144, 0, 0x1400, 0x1f80},
                                     {"q5_K", 256, 176, 0, 0x1000, 0x1fc0},
                                     {"q6_K", 256, 210, 208, 0x0800, 0},
                                     {"q5_0", 32, 22, 0, 0x2c00, 0},
                                     {"iq4_nl", 32, 18, 0, 0x2000, 0},
                                     {"mxfp4", 32, 17, 0, 0x537c, 0}};
    return formats[type];
}
bool has_blocks(heed_type type) { return format_of(type).elements > 1; }
bool is_of_bytes(heed_type type) { return type == HEED_I8 || has_blocks(type); }
/* Of so many elements, whole blocks. */
int64_t bytes_of(heed_type type, int64_t n) { return n / format_of(type).elements * format_of(type).bytes; }
std::string name_of(heed_type type) { return format_of(type).name; }
std::string name_of(Types types) {
    const std::string name = types.a == types.b ? name_of(types.a) : name_of(types.a) + "x" + name_of(types.b);
    return name + (types.compute == HEED_COMPUTE_BF16       ? "_pairs"
                   : types.compute == HEED_COMPUTE_BF16_AMX ? "_amx"
                   : types.compute == HEED_COMPUTE_I8       ? "_i8"
                                                            : "");
}

/* Random numbers of the type in (-1, 1): a bf16 is the upper half of a float.  Bytes are any, and blocks have scales with which
 * they are as small. */
class Matrix : public Buffer {
  public:
    Matrix(int64_t n, heed_type type, uint64_t seed) : Buffer((bytes_of(type, n) + 3) / 4) {
        const int64_t count = type == HEED_F32 ? 0 : type == HEED_BF16 ? n : (bytes_of(type, n) + 1) / 2;
        const Format &format = format_of(type);
        char *bytes = reinterpret_cast<char *>(data());
        if (type == HEED_F32)
            fill(1, seed);
        Buffer values(count);
        values.fill(1, seed);
        for (int64_t i = 0; i < count; i++) {
            uint32_t bits;
            std::memcpy(&bits, values.data() + i, sizeof bits);
            const uint16_t half = static_cast<uint16_t>(bits >> (type == HEED_BF16 ? 16 : 4));
            std::memcpy(bytes + 2 * i, &half, sizeof half);
        }
        for (int64_t i = 0; has_blocks(type) && i < n / format.elements; i++) {
            std::memcpy(bytes + i * format.bytes + format.scale_at, &format.scale, sizeof format.scale);
            if (format.less)
                std::memcpy(bytes + i * format.bytes + 2, &format.less, sizeof format.less);
        }
    }
};

/* |computed - exact| <= k u / (1 - k u) * sum |a||b| for a chain of k fused multiply-adds (Higham, Accuracy and Stability of
 * Numerical Algorithms, 2002, section 3.1); here u is 2^-24 and the factors are below 1 in size.  In bf16 each is first rounded,
 * which moves it by at most 2^-8 of it; as bytes those of a alone are, by at most 1/254 of the largest. */
Tolerance tolerance(int64_t k, heed_compute compute) {
    double terms = static_cast<double>(k), rounded = compute != HEED_COMPUTE_F32 ? terms / 127 : 0;
    return {1.01 * terms * terms / 16777216.0 + rounded, 0};
}

class Gemm : public Work {
  public:
    Gemm(Shape shape, bool packed, Types types, int64_t layers)
        : a_(shape.m * shape.k, types.a, 1), b_(shape.n * shape.k, types.b, 2), scales_(shape.n), c_(shape.m * shape.n), gemm_{} {
        gemm_.a_type = types.a, gemm_.b_type = types.b, gemm_.compute = types.compute;
        gemm_.m = shape.m, gemm_.n = shape.n, gemm_.k = shape.k;
        gemm_.alpha = 1;
        gemm_.a = a_.data(), gemm_.lda = shape.k;
        gemm_.transpose_b = types.transposed;
        gemm_.b = b_.data(), gemm_.ldb = gemm_.transpose_b ? shape.k : shape.n;
        if (types.b == HEED_I8) {
            scales_.fill(1.0f / 128, 3);
            gemm_.b_scales = scales_.data();
        }
        gemm_.c = c_.data(), gemm_.ldc = shape.n;
        request_ = gemm_;
        for (int64_t layer = 0; (packed || layers > 1) && layer < layers; layer++)
            packed ? pack() : copy();
    }
    heed_status call(const heed_exec &exec) override {
        if (!layers_.empty())
            (request_.b ? request_.b : request_.packed_b) = layers_[next_++ % layers_.size()]->data();
        return heed_gemm(&request_, &exec);
    }
    std::string check() override;

  private:
    void pack();
    void copy();

    Matrix a_, b_;
    Buffer scales_, c_;
    std::vector<std::unique_ptr<Buffer>> layers_; /* b, packed or not, again and again */
    size_t next_ = 0;
    struct heed_gemm gemm_, request_; /* the product by plain b, and what is timed */
};

/* A packing that fails leaves the request plain without b, which heed_gemm then refuses. */
void Gemm::pack() {
    auto packed = std::make_unique<Buffer>((heed_gemm_packed_bytes(&gemm_) + 3) / 4);
    request_.b = nullptr;
    if (heed_gemm_pack_b(&gemm_, packed->data(), nullptr) == HEED_OK)
        layers_.push_back(std::move(packed));
}

void Gemm::copy() {
    const int64_t bytes = bytes_of(gemm_.b_type, gemm_.n * gemm_.k);
    auto layer = std::make_unique<Buffer>((bytes + 3) / 4);
    std::memcpy(layer->data(), b_.data(), static_cast<size_t>(bytes));
    layers_.push_back(std::move(layer));
}

std::string Gemm::check() {
    std::vector<float> scalar(static_cast<size_t>(gemm_.n));
    std::vector<double> exact(static_cast<size_t>(gemm_.n));
    for (int64_t row : rows_to_check(gemm_.m, 2 * gemm_.n * gemm_.k)) {
        struct heed_gemm one = gemm_;
        one.m = 1;
        one.a = reinterpret_cast<const char *>(a_.data()) + bytes_of(gemm_.a_type, row * gemm_.lda);
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
    request.shape = size + (packed ? "_packed" : types.transposed && !is_of_bytes(types.b) ? "_transposed" : "_plain");
    request.flops = 2.0 * static_cast<double>(shape.m * shape.n * shape.k);
    request.dtype = name_of(types);
    request.bytes = static_cast<double>(bytes_of(types.a, shape.m * shape.k) + bytes_of(types.b, shape.k * shape.n) +
                                        bytes_of(HEED_F32, shape.m * shape.n));
    if (shape.m == 3)
        request.figure = Figure::time;
    int64_t layers = 1;
    if (shape.m <= 4 && types.transposed) {
        layers = layers_bytes / bytes_of(types.b, shape.k * shape.n) + 1;
        request.working_set = static_cast<double>(layers_bytes);
        request.figure = Figure::bytes;
    }
    if (packed ? shape.n == 4096 || shape.m == 2048 || shape.m == 128 : shape.m == 64 || shape.m == 3)
        request.label = "GEMM " + size + (packed ? ", packed" : "") + (types.b == HEED_F32 ? "" : ", " + name_of(types));
    request.make = [shape, packed, types, layers] { return std::make_unique<Gemm>(shape, packed, types, layers); };
    add(request, isa, threads);
}

template <size_t n> std::vector<Shape> list(const Shape (&shapes)[n]) { return {shapes, shapes + n}; }

/* As floats and, of blocks, as integers. */
void add_weights_of_bytes(const Plan &plan, int threads) {
    for (const std::string &isa : plan.isas)
        for (const Shape &shape : plan.brief ? list(brief_weight_shapes) : list(weight_shapes))
            for (heed_type type : weight_types)
                for (heed_compute compute : {HEED_COMPUTE_F32, HEED_COMPUTE_I8})
                    for (bool packed : {false, true})
                        if (!is_scalar(isa) && computes(isa, compute) && (compute == HEED_COMPUTE_F32 || has_blocks(type)))
                            add_shape(shape, packed, {HEED_F32, type, compute, true}, isa, threads);
}

/* Products of both kinds of bf16: by their instructions, and by what stands in for these. */
void add_products_of_bf16(const Plan &plan, int threads) {
    for (const std::string &isa : plan.isas)
        for (const Shape &shape : plan.brief ? list(brief_bf16_shapes) : list(bf16_shapes))
            for (Types types : {pairs_of_bf16, dots_of_bf16})
                if (!is_scalar(isa) && computes(isa, types.compute))
                    add_shape(shape, true, types, isa, threads);
}

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
                for (Types types : {weights_of_bf16, both_of_bf16})
                    add_shape(shape, true, types, isa, threads);
            for (const Shape &shape : plan.brief ? list(brief_checkpoint_shapes) : list(checkpoint_shapes))
                for (heed_type type : checkpoint_types)
                    add_shape(shape, false, {HEED_F32, type, HEED_COMPUTE_F32, true}, isa, threads);
        }
    for (int threads : plan.threads) {
        add_weights_of_bytes(plan, threads);
        add_products_of_bf16(plan, threads);
    }
}

} // namespace bench
