/* heed_linear, the gated half of a feed-forward layer: output = silu(input weights^T) * gate, weights packed.  Its price is the
 * time over that of heed_gemm and heed_activate one after the other, which have the same bits. */
#include <cmath>
#include <vector>

#include "bench.h"

namespace bench {
namespace {

struct LinearShape {
    int64_t rows, outputs, inputs;
};

class Linear : public Work {
  public:
    Linear(const LinearShape &shape, bool apart)
        : apart_(apart), input_(shape.rows * shape.inputs), weights_(shape.outputs * shape.inputs),
          gate_(shape.rows * shape.outputs), output_(shape.rows * shape.outputs) {
        input_.fill(1, 1);
        weights_.fill(1, 2);
        gate_.fill(1, 3);
        linear_.rows = shape.rows, linear_.activation = HEED_SILU;
        linear_.weights.outputs = shape.outputs, linear_.weights.inputs = linear_.weights.stride = shape.inputs;
        linear_.weights.data = weights_.data();
        linear_.input.data = input_.data(), linear_.input.token_stride = shape.inputs;
        linear_.gate.data = gate_.data(), linear_.gate.token_stride = shape.outputs;
        linear_.output.data = output_.data(), linear_.output.token_stride = shape.outputs;
        packed_ = std::make_unique<Buffer>(heed_packed_bytes(&linear_.weights) / 4);
        heed_pack_weights(&linear_.weights, packed_->data(), nullptr);
        linear_.weights.packed = packed_->data();
        describe_parts(shape);
    }
    heed_status call(const heed_exec &exec) override {
        if (!apart_)
            return heed_linear(&linear_, &exec);
        const heed_status status = heed_gemm(&gemm_, &exec);
        return status ? status : heed_activate(&activate_, &exec);
    }
    std::string check() override;

  private:
    void describe_parts(const LinearShape &shape);
    double exact(int64_t row, int64_t column) const;

    const bool apart_;
    Buffer input_, weights_, gate_, output_;
    std::unique_ptr<Buffer> packed_;
    struct heed_linear linear_ = {};
    struct heed_gemm gemm_ = {};
    struct heed_activate activate_ = {};
};

void Linear::describe_parts(const LinearShape &shape) {
    gemm_.m = shape.rows, gemm_.n = shape.outputs, gemm_.k = gemm_.lda = shape.inputs, gemm_.ldc = shape.outputs;
    gemm_.alpha = 1, gemm_.transpose_b = true;
    gemm_.a = input_.data(), gemm_.packed_b = packed_->data(), gemm_.c = output_.data();
    activate_.rows = shape.rows, activate_.columns = shape.outputs, activate_.activation = HEED_SILU;
    activate_.input.data = output_.data(), activate_.input.token_stride = shape.outputs;
    activate_.gate = linear_.gate, activate_.output = linear_.output;
}

double Linear::exact(int64_t row, int64_t column) const {
    const int64_t k = linear_.weights.inputs;
    double sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += static_cast<double>(input_.data()[row * k + p]) * static_cast<double>(weights_.data()[column * k + p]);
    return sum / (1 + std::exp(-sum)) * static_cast<double>(gate_.data()[row * linear_.weights.outputs + column]);
}

/* The chain is off by at most k^2 u, factors being below 1, which silu, of slope 1.1 at most, and a gate below 1 make no larger;
 * for what they add themselves see tests/test_activate.c. */
std::string Linear::check() {
    const int64_t n = linear_.weights.outputs, k = linear_.weights.inputs;
    const double u = 1 / 16777216.0, terms = static_cast<double>(k);
    std::vector<float> scalar(static_cast<size_t>(n));
    std::vector<double> want(static_cast<size_t>(n));
    for (int64_t row : rows_to_check(linear_.rows, 2 * n * k)) {
        struct heed_linear one = linear_;
        one.rows = 1;
        one.input.data = input_.data() + row * k, one.gate.data = gate_.data() + row * n, one.output.data = scalar.data();
        if (heed_linear(&one, &scalar_exec) != HEED_OK)
            return heed_error_message();
        for (int64_t j = 0; j < n; j++)
            want[static_cast<size_t>(j)] = exact(row, j);
        const std::string wrong =
            compare_row(row, output_.data() + row * n, scalar, want, {1.2 * terms * terms * u, (64 + 3 * 50) * u});
        if (!wrong.empty())
            return wrong;
    }
    return "";
}

void add_shape(const LinearShape &shape, const std::string &isa, int threads) {
    Request request;
    request.group = "linear";
    request.shape =
        "swiglu_" + std::to_string(shape.rows) + "x" + std::to_string(shape.outputs) + "x" + std::to_string(shape.inputs);
    request.flops = 2.0 * static_cast<double>(shape.rows * shape.outputs * shape.inputs);
    request.bytes =
        4.0 * static_cast<double>(shape.rows * shape.inputs + shape.outputs * shape.inputs + 2 * shape.rows * shape.outputs);
    if (shape.rows == 1)
        request.figure = Figure::bytes;
    request.make = [shape] { return std::make_unique<Linear>(shape, false); };
    request.make_plain = [shape] { return std::make_unique<Linear>(shape, true); };
    add(request, isa, threads);
}

} // namespace

void add_linear(const Plan &plan) {
    const std::vector<LinearShape> brief = {{3, 70, 64}},
                                   shapes = {{1, 4096, 4096}, {16, 3072, 768}, {128, 3072, 768}, {512, 3072, 768}};
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads))
            if (plan.brief || !is_scalar(isa))
                for (const LinearShape &shape : plan.brief ? brief : shapes)
                    add_shape(shape, isa, threads);
}

} // namespace bench
