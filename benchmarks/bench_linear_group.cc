/* heed_linear_group, the experts of a mixture: each has a few rows of its own and packed weights.  Its price is the time over that
 * of heed_linear for one after another.  Both must have the bits of heed_linear by the scalar kernels, which bench_linear.cc
 * compares with the exact result. */
#include <cstring>
#include <vector>

#include "bench.h"

namespace bench {
namespace {

struct GroupShape {
    int64_t experts, rows, outputs, inputs;
    heed_type type;
};

class Group : public Work {
  public:
    Group(const GroupShape &shape, bool apart);
    heed_status call(const heed_exec &exec) override {
        if (!apart_)
            return heed_linear_group(linears_.data(), static_cast<int64_t>(linears_.size()), &exec);
        heed_status status = HEED_OK;
        for (size_t i = 0; i < linears_.size() && status == HEED_OK; i++)
            status = heed_linear(&linears_[i], &exec);
        return status;
    }
    std::string check() override;

  private:
    const bool apart_;
    Buffer input_, output_;
    std::vector<std::unique_ptr<Buffer>> packed_;
    std::vector<struct heed_linear> linears_;
};

std::unique_ptr<Buffer> pack(const GroupShape &shape, uint64_t seed, heed_weights &weights) {
    const int64_t floats = shape.outputs * shape.inputs;
    Buffer data(floats), blocks(floats);
    data.fill(1, seed);
    struct heed_convert convert = {};
    convert.rows = shape.outputs, convert.columns = shape.inputs;
    convert.input.data = data.data(), convert.output.data = blocks.data();
    convert.input.token_stride = convert.output.token_stride = shape.inputs, convert.output.type = shape.type;
    weights.outputs = shape.outputs, weights.inputs = weights.stride = shape.inputs;
    weights.data = blocks.data(), weights.type = shape.type;
    std::unique_ptr<Buffer> packed;
    const int64_t bytes = heed_packed_bytes(&weights);
    if (heed_convert(&convert, nullptr) == HEED_OK && bytes > 0) {
        packed = std::make_unique<Buffer>((bytes + 3) / 4);
        heed_pack_weights(&weights, packed->data(), nullptr);
        weights.packed = packed->data();
    }
    weights.data = nullptr;
    return packed;
}

Group::Group(const GroupShape &shape, bool apart)
    : apart_(apart), input_(shape.experts * shape.rows * shape.inputs), output_(shape.experts * shape.rows * shape.outputs) {
    input_.fill(1, 1);
    for (int64_t i = 0; i < shape.experts; i++) {
        struct heed_linear linear = {};
        packed_.push_back(pack(shape, static_cast<uint64_t>(2 + i), linear.weights));
        linear.rows = shape.rows;
        linear.compute = shape.type == HEED_F32 ? HEED_COMPUTE_F32 : HEED_COMPUTE_I8;
        linear.input.data = input_.data() + i * shape.rows * shape.inputs, linear.input.token_stride = shape.inputs;
        linear.output.data = output_.data() + i * shape.rows * shape.outputs, linear.output.token_stride = shape.outputs;
        linears_.push_back(linear);
    }
}

std::string Group::check() {
    for (size_t i = 0; i < linears_.size(); i += linears_.size() / 2 + 1) {
        struct heed_linear one = linears_[i];
        const auto *got = static_cast<const float *>(one.output.data);
        std::vector<float> scalar(static_cast<size_t>(one.rows * one.weights.outputs));
        one.output.data = scalar.data();
        if (heed_linear(&one, &scalar_exec) != HEED_OK)
            return heed_error_message();
        if (std::memcmp(got, scalar.data(), scalar.size() * sizeof *got) != 0)
            return "expert " + std::to_string(i) + " has other bits than heed_linear by the scalar kernels";
    }
    return "";
}

void add_shape(const GroupShape &shape, const std::string &isa, int threads) {
    Request request;
    request.group = "linear_group";
    request.dtype = shape.type == HEED_F32 ? "f32" : "f32xq4_0_i8";
    request.shape = std::to_string(shape.experts) + "_experts_" + std::to_string(shape.rows) + "x" + std::to_string(shape.outputs) +
                    "x" + std::to_string(shape.inputs);
    const auto weights = static_cast<double>(shape.experts * shape.outputs * shape.inputs);
    const auto elements = static_cast<double>(shape.experts * shape.rows * (shape.inputs + shape.outputs));
    request.flops = 2 * static_cast<double>(shape.rows) * weights;
    request.bytes = (shape.type == HEED_F32 ? 4 : 18 / 32.0) * weights + 4 * elements;
    if (shape.rows == 1)
        request.figure = Figure::bytes;
    request.make = [shape] { return std::make_unique<Group>(shape, false); };
    request.make_plain = [shape] { return std::make_unique<Group>(shape, true); };
    add(request, isa, threads);
}

} // namespace

void add_linear_group(const Plan &plan) {
    const std::vector<GroupShape> brief = {{5, 2, 70, 64, HEED_F32}, {5, 1, 70, 64, HEED_Q4_0}},
                                  shapes = {{8, 1, 768, 2048, HEED_F32},
                                            {8, 1, 768, 2048, HEED_Q4_0},
                                            {8, 1, 2048, 768, HEED_Q4_0},
                                            {64, 4, 768, 2048, HEED_Q4_0}};
    for (int threads : plan.threads)
        for (const std::string &isa : plan.isas_on(threads))
            if (plan.brief || !is_scalar(isa))
                for (const GroupShape &shape : plan.brief ? brief : shapes)
                    if (shape.type == HEED_F32 || computes(isa, HEED_COMPUTE_I8))
                        add_shape(shape, isa, threads);
}

} // namespace bench
