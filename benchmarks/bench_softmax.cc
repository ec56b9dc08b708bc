/* Row softmax: a block of attention scores in cache, one out of it, and a vocabulary's worth of logits, of one token and of 512.
 *
 * A softmax reads and writes every element once: 8 bytes of it count.  The limit is the rate of copies within a working set as
 * large as input and output together; in cache, where copies are fast, 1 is out of reach, for the exponential is what counts. */
#include "bench.h"

extern "C" {
#include "reference/reference.h"
}

namespace bench {
namespace {

struct Shape {
    int64_t rows, columns;
};
const Shape all_shapes[] = {{512, 512}, {4096, 4096}, {1, 32000}, {512, 32000}};
const Shape scalar_shapes[] = {{512, 512}, {1, 32000}};
const Shape brief_shapes[] = {{64, 500}, {1, 3000}};

const float amplitude = 8; /* of the inputs */

/* With u = 2^-24: the exponents are products of rounded differences, together of up to 2 * 8, and a rounded log2(e), so off by at
 * most 3 u * 16 * 1.45 = 70 u in base 2, which changes a weight by 49 u; the two powers are off by 2 u each.  That goes for the
 * weight and for the sum, whose additions are at most 16 + 4 + 4 + columns / 1024 deep; the reciprocal and two products add 3 u. */
Tolerance tolerance(int64_t columns) { return {0, (2 * 53 + 24 + static_cast<double>(columns) / 1024 + 4) * 1.01 / 16777216.0}; }

/* Of one element, for the roofline alone: the maximum, its difference, the factor, exp2 (two for the fraction, six multiply-adds,
 * the power of two), the sum, and the product with its reciprocal. */
const double flops = 20;

class Softmax : public Work {
  public:
    explicit Softmax(Shape shape) : input_(shape.rows * shape.columns), output_(shape.rows * shape.columns), softmax_{} {
        input_.fill(amplitude, 1);
        softmax_.rows = shape.rows, softmax_.columns = shape.columns;
        softmax_.input = input_.data(), softmax_.input_stride = shape.columns;
        softmax_.output = output_.data(), softmax_.output_stride = shape.columns;
    }
    heed_status call(const heed_exec &exec) override { return heed_softmax(&softmax_, &exec); }
    std::string check() override;

  private:
    Buffer input_, output_;
    struct heed_softmax softmax_;
};

std::string Softmax::check() {
    std::vector<float> scalar(static_cast<size_t>(softmax_.columns));
    std::vector<double> exact(static_cast<size_t>(softmax_.columns));
    for (int64_t row : rows_to_check(softmax_.rows, 20 * softmax_.columns)) {
        struct heed_softmax one = softmax_;
        one.rows = 1;
        one.input = softmax_.input + row * softmax_.input_stride;
        one.output = scalar.data();
        if (heed_softmax(&one, &scalar_exec) != HEED_OK)
            return heed_error_message();
        ref_softmax(&one, exact.data());
        std::string wrong = compare_row(row, softmax_.output + row * softmax_.output_stride, scalar, exact, tolerance(one.columns));
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

void add_shape(const Shape &shape, const std::string &isa, int threads) {
    Request request;
    request.group = "softmax";
    request.shape = std::to_string(shape.rows) + "x" + std::to_string(shape.columns);
    request.flops = flops * static_cast<double>(shape.rows * shape.columns);
    request.bytes = 8.0 * static_cast<double>(shape.rows * shape.columns);
    request.figure = Figure::bytes;
    request.copies = true;
    request.label = "softmax " + request.shape;
    request.make = [shape] { return std::make_unique<Softmax>(shape); };
    add(request, isa, threads);
}

template <size_t n> std::vector<Shape> list(const Shape (&shapes)[n]) { return {shapes, shapes + n}; }

} // namespace

void add_softmax(const Plan &plan) {
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads))
            for (const Shape &shape : plan.brief ? list(brief_shapes) : is_scalar(isa) ? list(scalar_shapes) : list(all_shapes))
                add_shape(shape, isa, threads);
}

} // namespace bench
