/* Attention by oneDNN's graph interface, which makes one kernel of a pattern of operations (its documentation calls this one SDPA).
 *
 * Heads that share keys and values stand as so many rows of queries of one head: the same numbers, and one product for all. */
#include <oneapi/dnnl/dnnl_graph.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "onednn.h"
#include "peers.h"

namespace {

using dnnl::graph::logical_tensor;
using dnnl::graph::op;
using peers::Races;
using peers::Shape;
using Type = logical_tensor::data_type;

/* How keys are hidden from queries: not, by adding a matrix of 0 and -inf, or by comparing indices inside the kernel. */
enum class Causal { no, added, compared };

/* The operations of one attention, the tensors that they take, and the kernel made of them. */
class Sdpa {
  public:
    Sdpa(const Shape &shape, Causal causal, const dnnl::engine &engine);
    void execute(dnnl::stream &stream) { kernel_.execute(stream, inputs_, {output_}); }

  private:
    logical_tensor tensor(Type type, const logical_tensor::dims &dims) {
        return logical_tensor(next_id_++, type, dims, logical_tensor::layout_type::strided);
    }
    logical_tensor input(const logical_tensor::dims &dims, const float *data) {
        given_.emplace_back(tensor(Type::f32, dims), const_cast<float *>(data)); /* oneDNN's interface knows no constant data */
        return given_.back().first;
    }
    op &add(op::kind kind, const std::vector<logical_tensor> &from, const logical_tensor &to) {
        ops_.emplace_back(next_op_++, kind, from, std::vector<logical_tensor>{to}, "");
        return ops_.back();
    }
    logical_tensor hide(const Shape &shape, Causal causal, const logical_tensor &scores);
    void compile(const logical_tensor &output, float *data, const dnnl::engine &engine);

    size_t next_id_ = 0, next_op_ = 0;
    std::vector<op> ops_;
    std::vector<std::pair<logical_tensor, float *>> given_;
    float scale_, hidden_ = -std::numeric_limits<float>::infinity();
    peers::Floats mask_;
    dnnl::graph::compiled_partition kernel_;
    std::vector<dnnl::graph::tensor> inputs_;
    dnnl::graph::tensor output_;
};

Sdpa::Sdpa(const Shape &shape, Causal causal, const dnnl::engine &engine)
    : scale_(1 / std::sqrt(static_cast<float>(shape.head_dim))) {
    const int64_t heads = shape.kv_heads, queries = shape.heads / heads * shape.queries, d = shape.head_dim;
    const logical_tensor::dims rows = {1, heads, queries, d}, square = {1, heads, queries, shape.keys};
    const logical_tensor query = input(rows, shape.input[0]), key = input({1, heads, shape.keys, d}, shape.input[1]);
    const logical_tensor value = input({1, heads, shape.keys, d}, shape.input[2]), scale = input({1}, &scale_);
    const logical_tensor products = tensor(Type::f32, square), scores = tensor(Type::f32, square);
    add(op::kind::MatMul, {query, key}, products).set_attr<bool>(op::attr::transpose_b, true);
    add(op::kind::Multiply, {products, scale}, scores);
    const logical_tensor seen = hide(shape, causal, scores), weights = tensor(Type::f32, square), output = tensor(Type::f32, rows);
    add(op::kind::SoftMax, {seen}, weights).set_attr<int64_t>(op::attr::axis, -1);
    add(op::kind::MatMul, {weights, value}, output);
    compile(output, shape.output, engine);
}

logical_tensor Sdpa::hide(const Shape &shape, Causal causal, const logical_tensor &scores) {
    if (causal == Causal::no)
        return scores;
    const int64_t n = shape.keys;
    const logical_tensor::dims square = {1, shape.heads, n, n};
    const logical_tensor seen = tensor(Type::f32, square);
    if (causal == Causal::added) {
        mask_ = peers::allocate(n * n);
        for (int64_t i = 0; i < n; i++)
            std::fill(&mask_[static_cast<size_t>(i * n + i + 1)], &mask_[static_cast<size_t>(i * n)] + n, hidden_);
        add(op::kind::Add, {scores, input({1, 1, n, n}, mask_.get())}, seen);
        return seen;
    }
    const logical_tensor row = tensor(Type::s32, square), column = tensor(Type::s32, square), see = tensor(Type::boolean, square);
    add(op::kind::GenIndex, {scores}, row).set_attr<int64_t>(op::attr::axis, -2);
    add(op::kind::GenIndex, {scores}, column).set_attr<int64_t>(op::attr::axis, -1);
    add(op::kind::GreaterEqual, {row, column}, see);
    add(op::kind::Select, {see, scores, input({1}, &hidden_)}, seen);
    return seen;
}

void Sdpa::compile(const logical_tensor &output, float *data, const dnnl::engine &engine) {
    dnnl::graph::graph graph(dnnl::engine::kind::cpu);
    for (const op &each : ops_)
        graph.add_op(each);
    graph.finalize();
    const auto partitions = graph.get_partitions();
    if (partitions.size() != 1 || !partitions[0].is_supported())
        throw std::runtime_error("does not take it as one kernel");
    std::vector<logical_tensor> ports;
    for (const logical_tensor &port : partitions[0].get_input_ports())
        for (const auto &[tensor, pointer] : given_)
            if (tensor.get_id() == port.get_id()) {
                ports.push_back(tensor);
                inputs_.emplace_back(tensor, engine, pointer);
            }
    kernel_ = partitions[0].compile(ports, {output}, engine);
    output_ = dnnl::graph::tensor(output, engine, data);
}

void run(Races &races, const Shape &shape) {
    static const dnnl::engine engine = onednn_engine();
    static dnnl::stream stream(engine);
    if (shape.kind != peers::attention || shape.bf16)
        return;
    const auto race = [&](const char *name, Causal causal) {
        try {
            Sdpa sdpa(shape, causal, engine);
            races.race(name, [&] {
                sdpa.execute(stream);
                stream.wait();
            });
        } catch (const std::exception &problem) {
            races.cannot(name, problem.what());
        }
    };
    if (!shape.causal)
        return race("graph", Causal::no);
    race("graph, mask added", Causal::added);
    race("graph, indices compared", Causal::compared);
}

} // namespace

int main(int argc, char **argv) {
    Races races("oneDNN", onednn_version(), argc, argv);
    return run_all(races, run);
}
