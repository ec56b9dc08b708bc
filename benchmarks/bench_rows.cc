/* Functions of rows in a layer: normalisation, activation, rotary embedding and the embedding of tokens, in cache and out of it.
 *
 * Each reads and writes an element once, whatever it does with it: the limit is the rate of copies within as large a working set.
 * In cache, where copies are fast, 1 is out of reach for what computes more than a sum. */
#include <cmath>

#include "bench.h"

extern "C" {
#include "reference/reference.h"
}

namespace bench {
namespace {

struct Shape {
    int64_t rows, columns;
};
const Shape in_cache = {64, 768}, out_of_cache = {16384, 768}, brief_shape = {16, 200};

const double u = 1 / 16777216.0;

/* A function over `rows` rows, which can also be asked for a single one. */
class Rows : public Work {
  public:
    explicit Rows(Shape shape, Tolerance tolerance) : shape_(shape), tolerance_(tolerance), output_(shape.rows * shape.columns) {}
    heed_status call(const heed_exec &exec) override { return of(0, shape_.rows, output_.data(), exec); }
    std::string check() override;

  protected:
    virtual heed_status of(int64_t first, int64_t rows, float *output, const heed_exec &exec) = 0;
    virtual void exact(int64_t row, double *output) = 0;
    const Shape shape_;

  private:
    const Tolerance tolerance_;
    Buffer output_;
};

std::string Rows::check() {
    std::vector<float> scalar(static_cast<size_t>(shape_.columns));
    std::vector<double> want(static_cast<size_t>(shape_.columns));
    for (int64_t row : rows_to_check(shape_.rows, 64 * shape_.columns)) {
        if (of(row, 1, scalar.data(), scalar_exec) != HEED_OK)
            return heed_error_message();
        exact(row, want.data());
        std::string wrong = compare_row(row, output_.data() + row * shape_.columns, scalar, want, tolerance_);
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

/* Sums are 16 + columns / 256 + 5 roundings deep.  Inputs are below 1, and their root mean square is 0.58: so results are at most
 * 1.74, the mean is off by half of the sums' roundings, and the reciprocal root, relatively, by half of them and 6 of its own. */
double norm_error(int64_t columns) { return 1.74 * (16 + static_cast<double>(columns) / 256 + 5 + 6) * 1.01 * u; }

class Norm : public Rows {
  public:
    Norm(Shape shape, bool centers)
        : Rows(shape, {norm_error(shape.columns), 0}), centers_(centers), input_(shape.rows * shape.columns) {
        input_.fill(1, 1);
    }

  private:
    struct heed_norm request(int64_t first, int64_t rows, float *output) {
        struct heed_norm norm = {};
        norm.rows = rows, norm.columns = shape_.columns, norm.epsilon = 1e-12f;
        norm.input.data = input_.data() + first * shape_.columns, norm.input.token_stride = shape_.columns;
        norm.output.data = output, norm.output.token_stride = shape_.columns;
        return norm;
    }
    heed_status of(int64_t first, int64_t rows, float *output, const heed_exec &exec) override {
        const struct heed_norm norm = request(first, rows, output);
        return (centers_ ? heed_layer_norm : heed_rms_norm)(&norm, &exec);
    }
    void exact(int64_t row, double *output) override {
        const struct heed_norm norm = request(row, 1, nullptr);
        ref_norm(&norm, centers_, output);
    }
    const bool centers_;
    Buffer input_;
};

/* All roundings of an activation are below 64 u of it, by the bounds that the tests derive, a gate's too; but GELU by tanh rounds
 * its exponent three times, which at -8 is 50. */
const double activation_error = (64 + 3 * 50) * u;

class Activate : public Rows {
  public:
    Activate(Shape shape, heed_activation activation, bool gated)
        : Rows(shape, {0, activation_error}), activation_(activation), gated_(gated), input_(shape.rows * shape.columns),
          gate_(gated ? shape.rows * shape.columns : 0) {
        input_.fill(8, 1);
        gate_.fill(1, 2);
    }

  private:
    struct heed_activate request(int64_t first, int64_t rows, float *output) {
        struct heed_activate activate = {};
        activate.rows = rows, activate.columns = shape_.columns, activate.activation = activation_;
        activate.input.data = input_.data() + first * shape_.columns, activate.input.token_stride = shape_.columns;
        activate.gate.data = gated_ ? gate_.data() + first * shape_.columns : nullptr, activate.gate.token_stride = shape_.columns;
        activate.output.data = output, activate.output.token_stride = shape_.columns;
        return activate;
    }
    heed_status of(int64_t first, int64_t rows, float *output, const heed_exec &exec) override {
        const struct heed_activate activate = request(first, rows, output);
        return heed_activate(&activate, &exec);
    }
    void exact(int64_t row, double *output) override {
        const struct heed_activate activate = request(row, 1, nullptr);
        ref_activate(&activate, output);
    }
    const heed_activation activation_;
    const bool gated_;
    Buffer input_, gate_;
};

/* Tokens of a row's columns in heads of 64 or fewer; the product is rounded, and the sum of two below 1.42. */
class Rope : public Rows {
  public:
    explicit Rope(Shape shape)
        : Rows(shape, {2.5 * u, 0}), width_(shape.columns % 64 ? 8 : 64), input_(shape.rows * shape.columns),
          cos_(shape.rows * width_ / 2), sin_(shape.rows * width_ / 2) {
        struct heed_rope_fill fill = {};
        fill.pairs = fill.table_stride = width_ / 2, fill.positions = shape.rows, fill.base = 10000;
        fill.cos = cos_.data(), fill.sin = sin_.data();
        heed_rope_fill(&fill, nullptr);
        input_.fill(1, 1);
    }

  private:
    heed_status of(int64_t first, int64_t rows, float *output, const heed_exec &exec) override {
        struct heed_rope rope = {};
        rope.batch = 1, rope.num_heads = shape_.columns / width_, rope.tokens = rows, rope.head_dim = width_;
        rope.positions = &first;
        rope.tables = {width_ / 2, cos_.data(), sin_.data(), width_ / 2, shape_.rows, false};
        rope.input = {input_.data() + first * shape_.columns, 0, width_, shape_.columns, HEED_F32};
        rope.output = {output, 0, width_, shape_.columns, HEED_F32};
        return heed_rope(&rope, &exec);
    }
    void exact(int64_t row, double *output) override {
        const float *x = input_.data() + row * shape_.columns;
        for (int64_t d = 0; d < shape_.columns; d++) {
            const int64_t half = width_ / 2, i = d % half, a = d / width_ * width_ + i;
            const double c = static_cast<double>(cos_.data()[row * half + i]), s = static_cast<double>(sin_.data()[row * half + i]);
            const double first = static_cast<double>(x[a]), second = static_cast<double>(x[a + half]);
            output[d] = d == a ? first * c - second * s : second * c + first * s;
        }
    }
    const int64_t width_;
    Buffer input_, cos_, sin_;
};

/* Words anywhere in a table of BERT's size, positions one after another, one token type; three sums below 3. */
class Embedding : public Rows {
  public:
    explicit Embedding(Shape shape)
        : Rows(shape, {9 * u, 0}), words_(vocabulary * shape.columns), positions_(512 * shape.columns), type_(shape.columns) {
        words_.fill(1, 1);
        positions_.fill(1, 2);
        type_.fill(1, 3);
        for (int64_t i = 0; i < shape.rows; i++) {
            ids_[0].push_back(static_cast<int32_t>(i * 7919 % vocabulary));
            ids_[1].push_back(static_cast<int32_t>(i % 512));
            ids_[2].push_back(0);
        }
    }

  private:
    heed_status of(int64_t first, int64_t rows, float *output, const heed_exec &exec) override {
        struct heed_lookup lookup[3] = {};
        struct heed_embedding embedding = {};
        const float *const tables[] = {words_.data(), positions_.data(), type_.data()};
        const int64_t sizes[] = {vocabulary, 512, 1};
        for (int i = 0; i < 3; i++) {
            lookup[i].data = tables[i], lookup[i].rows = sizes[i], lookup[i].stride = shape_.columns;
            lookup[i].ids = ids_[i].data() + first;
        }
        embedding.rows = rows, embedding.columns = shape_.columns, embedding.tables = 3, embedding.lookup = lookup;
        embedding.output.data = output, embedding.output.token_stride = shape_.columns;
        return heed_embedding(&embedding, &exec);
    }
    void exact(int64_t row, double *output) override {
        const size_t at = static_cast<size_t>(row);
        for (int64_t d = 0; d < shape_.columns; d++)
            output[d] = static_cast<double>(words_.data()[ids_[0][at] * shape_.columns + d]) +
                        static_cast<double>(positions_.data()[ids_[1][at] * shape_.columns + d]) +
                        static_cast<double>(type_.data()[d]);
    }
    static const int64_t vocabulary = 30522;
    Buffer words_, positions_, type_;
    std::vector<int32_t> ids_[3];
};

/* bytes: of one element, read and written. */
void add_kind(const std::string &group, Shape shape, double bytes, const Maker &make, const std::string &isa, int threads) {
    Request request;
    request.group = group;
    request.shape = std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
    request.bytes = bytes * static_cast<double>(shape.rows * shape.columns);
    request.figure = Figure::bytes;
    request.copies = true;
    request.make = make;
    add(request, isa, threads);
}

void add_shape(Shape s, const std::string &isa, int threads) {
    const auto add_one = [&](const std::string &group, double bytes, const Maker &make) {
        add_kind(group, s, bytes, make, isa, threads);
    };
    add_one("layer_norm", 8, [s] { return std::make_unique<Norm>(s, true); });
    add_one("rms_norm", 8, [s] { return std::make_unique<Norm>(s, false); });
    add_one("gelu", 8, [s] { return std::make_unique<Activate>(s, HEED_GELU, false); });
    add_one("gelu_tanh", 8, [s] { return std::make_unique<Activate>(s, HEED_GELU_TANH, false); });
    add_one("swiglu", 12, [s] { return std::make_unique<Activate>(s, HEED_SILU, true); });
    add_one("rope", 8, [s] { return std::make_unique<Rope>(s); });
    add_one("embedding", 8, [s] { return std::make_unique<Embedding>(s); });
}

} // namespace

void add_rows(const Plan &plan) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads)) {
            add_shape(plan.brief ? brief_shape : in_cache, isa, threads);
            if (!plan.brief && !is_scalar(isa))
                add_shape(out_of_cache, isa, threads);
        }
}

} // namespace bench
