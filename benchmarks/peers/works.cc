/* The work of `make bench-peers`: data, heed's side, exact results. */
#include "peers.h"

#include <sys/mman.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <new>
#include <numeric>
#include <random>
#include <stdexcept>

extern "C" {
#include "reference/reference.h"
}

namespace peers {
namespace {

void require(heed_status status) {
    if (status != HEED_OK)
        throw std::runtime_error(std::string("heed: ") + heed_error_message());
}

heed_exec exec_of(const Shape &shape) {
    heed_exec exec = {};
    exec.threads = static_cast<int>(shape.threads);
    return exec;
}

/* A single row waits for memory, and loses nothing by products of floats.  Peers too have AMX where there is one. */
heed_compute compute_of(const Shape &shape, int64_t rows) {
    struct heed_info info = {};
    require(heed_info(&info));
    if (!shape.bf16 || rows == 1)
        return HEED_COMPUTE_F32;
    return std::strcmp(info.isa, "amx") == 0 ? HEED_COMPUTE_BF16_AMX : HEED_COMPUTE_BF16;
}

/* A product of floats, which is exact, and the one that is timed. */
class Product : public Work {
  public:
    void call_heed() override {
        const heed_exec exec = exec_of(shape_);
        require(heed_gemm(&timed_, &exec));
    }

  protected:
    Product(const Shape &shape, bool transpose_b) : Work(shape), gemm_{} {
        gemm_.m = shape.m, gemm_.n = shape.n, gemm_.k = shape.k;
        gemm_.alpha = 1;
        gemm_.transpose_b = transpose_b;
        gemm_.a = random(0, shape.m * shape.k, 1), gemm_.lda = shape.k;
        gemm_.b = random(1, shape.k * shape.n, 1), gemm_.ldb = transpose_b ? shape.k : shape.n;
        gemm_.c = heed_output_.get(), gemm_.ldc = shape.n;
        timed_ = gemm_;
    }
    std::vector<double> exact_row(int64_t row) const override {
        std::vector<double> exact(static_cast<size_t>(shape_.n));
        struct heed_gemm one = gemm_;
        one.m = 1;
        one.a = static_cast<const float *>(one.a) + row * one.lda;
        ref_gemm(&one, exact.data());
        return exact;
    }
    /* The timed one's b, if it is known beforehand. */
    void pack() {
        if (!shape_.prepared)
            return;
        packed_ = allocate(heed_gemm_packed_bytes(&timed_) / static_cast<int64_t>(sizeof(float)));
        require(heed_gemm_pack_b(&timed_, packed_.get(), nullptr));
        timed_.packed_b = packed_.get();
        timed_.b = nullptr;
    }

    struct heed_gemm gemm_, timed_;

  private:
    Floats packed_;
};

class Gemm : public Product {
  public:
    explicit Gemm(const Shape &shape) : Product(shape, shape.kind == gemm_transposed) {
        timed_.a = stored(0), timed_.b = stored(1), timed_.c = result();
        timed_.a_type = timed_.b_type = timed_.c_type = type();
        timed_.compute = compute_of(shape, shape.m);
        pack();
    }
};

/* Weights as GGUF files have them; gemm_ is by the floats that they are. */
class BlockGemm : public Product {
  public:
    explicit BlockGemm(const Shape &shape) : Product(shape, true) {
        make_blocks();
        timed_.b = blocks_.get(), timed_.b_type = static_cast<heed_type>(shape.weights);
        timed_.compute = shape.as_i8 ? HEED_COMPUTE_I8 : HEED_COMPUTE_F32;
        shape_.input[1] = blocks_.get();
        pack();
    }

  private:
    void make_blocks();
    void round_floats(const Blocks &blocks);
    void make_any_blocks(const Blocks &blocks);

    Floats blocks_;
};

void BlockGemm::round_floats(const Blocks &blocks) {
    struct heed_convert convert = {};
    convert.rows = shape_.n, convert.columns = shape_.k;
    convert.input = {inputs_[1].get(), 0, 0, shape_.k, HEED_F32};
    convert.output = {blocks_.get(), 0, 0, shape_.k, blocks.type};
    require(heed_convert(&convert, nullptr));
}

/* Any bits, with scales for which weights are in (-1, 1): d is 2^-10, 2^-11, 2^-13, 2^-7 or, with two elements, an exponent; m what
 * makes their mean 0. */
void BlockGemm::make_any_blocks(const Blocks &blocks) {
    const uint16_t d = blocks.type == HEED_Q4_K     ? 0x1400
                       : blocks.type == HEED_Q5_K   ? 0x1000
                       : blocks.type == HEED_Q6_K   ? 0x0800
                       : blocks.type == HEED_IQ4_NL ? 0x2000
                                                    : 0x537c;
    const uint16_t m = blocks.type == HEED_Q4_K ? 0x1f80 : 0x1fc0;
    unsigned char *bytes = reinterpret_cast<unsigned char *>(blocks_.get());
    const int64_t end = shape_.n * shape_.k / blocks.elements * blocks.bytes;
    std::mt19937 random(1);
    for (int64_t i = 0; i < end; i++)
        bytes[i] = static_cast<unsigned char>(random());
    for (int64_t block = 0; block < end; block += blocks.bytes) {
        std::memcpy(bytes + block + (blocks.type == HEED_Q6_K ? blocks.bytes - 2 : 0), &d, sizeof d);
        if (blocks.type == HEED_Q4_K || blocks.type == HEED_Q5_K)
            std::memcpy(bytes + block + 2, &m, sizeof m);
    }
}

void BlockGemm::make_blocks() {
    const Blocks &blocks = blocks_of(shape_.weights);
    const heed_type type = blocks.type;
    const int64_t n = shape_.n, k = shape_.k;
    std::vector<int32_t> ids(static_cast<size_t>(n));
    std::iota(ids.begin(), ids.end(), 0);
    blocks_ = allocate(n * k / blocks.elements * blocks.bytes / 4 + 1);
    const bool made = type == HEED_Q8_0 || type == HEED_Q4_0 || type == HEED_Q5_0; /* by heed_convert */
    made ? round_floats(blocks) : make_any_blocks(blocks);
    struct heed_lookup lookup = {};
    lookup.data = blocks_.get(), lookup.rows = n, lookup.stride = k, lookup.type = type, lookup.ids = ids.data();
    struct heed_embedding widen = {};
    widen.rows = n, widen.columns = k, widen.tables = 1, widen.lookup = &lookup;
    widen.output = {inputs_[1].get(), 0, 0, k, HEED_F32};
    require(heed_embedding(&widen, nullptr));
}

class Softmax : public Work {
  public:
    explicit Softmax(const Shape &shape) : Work(shape), softmax_{} {
        softmax_.rows = shape.m, softmax_.columns = shape.n;
        softmax_.input = random(0, shape.m * shape.n, 8), softmax_.input_stride = shape.n;
        softmax_.output = heed_output_.get(), softmax_.output_stride = shape.n;
    }
    void call_heed() override {
        const heed_exec exec = exec_of(shape_);
        require(heed_softmax(&softmax_, &exec));
    }

  protected:
    std::vector<double> exact_row(int64_t row) const override {
        std::vector<double> exact(static_cast<size_t>(shape_.n));
        struct heed_softmax one = softmax_;
        one.rows = 1;
        one.input += row * one.input_stride;
        ref_softmax(&one, exact.data());
        return exact;
    }

  private:
    struct heed_softmax softmax_;
};

class Attention : public Work {
  public:
    explicit Attention(const Shape &shape);
    void call_heed() override {
        const heed_exec exec = exec_of(shape_);
        require(heed_attention(&timed_, &exec));
    }

  protected:
    std::vector<double> exact_row(int64_t row) const override;

  private:
    void move_to_cache();

    struct heed_attention attention_, timed_;
    struct heed_kv_cache cache_;
    Floats pages_;
};

Attention::Attention(const Shape &shape) : Work(shape), attention_{}, cache_{} {
    const int64_t d = shape.head_dim, q_head = shape.queries * d, kv_head = shape.keys * d;
    attention_.batch = 1;
    attention_.num_heads = shape.heads, attention_.num_kv_heads = shape.kv_heads;
    attention_.query_tokens = shape.queries, attention_.key_tokens = shape.keys;
    attention_.head_dim = attention_.value_dim = d;
    attention_.causal = shape.causal;
    attention_.query = {random(0, shape.heads * q_head, 1.7320508f), 0, q_head, d, HEED_F32}; /* variance 1 */
    attention_.key = {random(1, shape.kv_heads * kv_head, 1.7320508f), 0, kv_head, d, HEED_F32};
    attention_.value = {random(2, shape.kv_heads * kv_head, 1), 0, kv_head, d, HEED_F32};
    attention_.output = {heed_output_.get(), 0, q_head, d, HEED_F32};
    timed_ = attention_;
    timed_.query.data = stored(0), timed_.key.data = stored(1), timed_.value.data = stored(2), timed_.output.data = result();
    timed_.query.type = timed_.key.type = timed_.value.type = timed_.output.type = type();
    timed_.compute = compute_of(shape, shape.queries);
    if (shape.prepared)
        move_to_cache();
}

void Attention::move_to_cache() {
    cache_.num_pages = cache_.pages_per_sequence = 1;
    cache_.page_tokens = (shape_.keys + 63) / 64 * 64;
    cache_.num_kv_heads = shape_.kv_heads;
    cache_.head_dim = cache_.value_dim = shape_.head_dim;
    cache_.key_type = cache_.value_type = type();
    pages_ = allocate(heed_kv_page_bytes(&cache_) / 4);
    cache_.data = pages_.get();
    struct heed_kv_append append = {};
    append.batch = 1, append.tokens = shape_.keys;
    append.key = attention_.key, append.value = attention_.value;
    append.cache = &cache_;
    require(heed_kv_append(&append, nullptr));
    timed_.key = timed_.value = {};
    timed_.cache = &cache_;
}

/* A row alone: one query with the keys that it sees. */
std::vector<double> Attention::exact_row(int64_t row) const {
    const int64_t head = row / shape_.queries, query = row % shape_.queries, kv_head = head / (shape_.heads / shape_.kv_heads);
    std::vector<double> exact(static_cast<size_t>(shape_.head_dim));
    struct heed_attention one = attention_;
    one.num_heads = one.num_kv_heads = one.query_tokens = 1;
    one.causal = false;
    one.key_tokens = shape_.causal ? query + 1 : shape_.keys;
    one.query.data = shape_.input[0] + head * one.query.head_stride + query * one.query.token_stride;
    one.key.data = shape_.input[1] + kv_head * one.key.head_stride;
    one.value.data = shape_.input[2] + kv_head * one.value.head_stride;
    struct ref_attention_result result = {};
    result.output = exact.data();
    if (!ref_attention(&one, &result))
        throw std::bad_alloc();
    return exact;
}

} // namespace

std::string heed_isa() {
    struct heed_info info;
    require(heed_info(&info));
    return info.isa;
}

Floats allocate(int64_t floats) {
    static size_t stagger = 0;
    stagger = (stagger + 5 * 64) % 4096;
    const size_t page = 2 << 20, bytes = static_cast<size_t>(floats) * sizeof(float) + stagger, unit = bytes < page ? 64 : page;
    const size_t rounded = (bytes + unit - 1) / unit * unit;
    void *memory = std::aligned_alloc(unit, rounded);
    if (!memory)
        throw std::bad_alloc();
    if (unit == page)
        madvise(memory, rounded, MADV_HUGEPAGE); /* advice: may fail */
    std::memset(memory, 0, rounded);
    return Floats(reinterpret_cast<float *>(static_cast<char *>(memory) + stagger), Free{memory});
}

void Free::operator()(float *) const { std::free(memory); }

Work::Work(const Shape &shape)
    : shape_(shape), heed_output_(allocate(output_floats(shape))), output_(allocate(output_floats(shape))) {
    shape_.output = output_.get();
    if (shape.bf16)
        halves_[3] = allocate((output_floats(shape) + 1) / 2);
}

const float *Work::heed_output() {
    const uint16_t *halves = reinterpret_cast<const uint16_t *>(halves_[3].get());
    for (int64_t i = 0; shape_.bf16 && i < output_floats(shape_); i++)
        heed_output_[static_cast<size_t>(i)] = static_cast<float>(ref_widen_bf16(halves[i]));
    return heed_output_.get();
}

/* None of them is 0: a processor may treat zeros specially. */
const float *Work::random(int input, int64_t floats, float amplitude) {
    std::mt19937 generator(static_cast<unsigned>(input + 1));
    inputs_[input] = allocate(floats);
    for (int64_t i = 0; i < floats; i++) {
        const float odd = static_cast<float>(generator() >> 9) * 2 + 1; /* 1, 3, ..., 2^24 - 1 */
        inputs_[input][static_cast<size_t>(i)] = amplitude * (odd / 8388608.0f - 1);
    }
    if (shape_.bf16)
        halves_[input] = allocate((floats + 1) / 2);
    uint16_t *halves = reinterpret_cast<uint16_t *>(halves_[input].get());
    for (int64_t i = 0; shape_.bf16 && i < floats; i++) {
        float &x = inputs_[input][static_cast<size_t>(i)];
        x = static_cast<float>(ref_widen_bf16(halves[i] = ref_round_bf16(static_cast<double>(x))));
    }
    return shape_.input[input] = inputs_[input].get();
}

double Work::error_of(const float *output) const {
    const int64_t width = shape_.kind == attention ? shape_.head_dim : shape_.n, count = output_floats(shape_) / width;
    const int64_t checked = std::min<int64_t>(count, 8); /* the first and the last among them */
    double largest = 0, deviation = 0;
    for (int64_t i = 0; i < checked; i++) {
        const int64_t row = checked == 1 ? 0 : i * (count - 1) / (checked - 1);
        const std::vector<double> exact = exact_row(row);
        for (size_t j = 0; j < exact.size(); j++) {
            const double difference = std::fabs(static_cast<double>(output[row * width + static_cast<int64_t>(j)]) - exact[j]);
            largest = std::max(largest, std::fabs(exact[j]));
            deviation = difference <= deviation ? deviation : difference; /* NaN comes through, and stays */
            if (std::isnan(deviation))
                return deviation;
        }
    }
    return deviation / largest;
}

std::unique_ptr<Work> make_work(const Shape &shape) {
    switch (shape.kind) {
    case gemm:
    case gemm_transposed:
        return std::make_unique<Gemm>(shape);
    case gemm_blocks:
        return std::make_unique<BlockGemm>(shape);
    case softmax:
        return std::make_unique<Softmax>(shape);
    case attention:
        return std::make_unique<Attention>(shape);
    }
    throw std::logic_error("no such kind of work");
}

} // namespace peers
