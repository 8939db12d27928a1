#include "kernels/cuda/attention_graph.hpp"

#include <cmath>
#include <limits>
#include <utility>

namespace tracecast::cuda {
namespace {

using Dims = std::array<std::int64_t, 4>;

class Builder {
 public:
  explicit Builder(const AttentionShape& shape, bool masked) : s_(shape), masked_(masked) {}

  AttentionGraph forward() {
    add_inputs(false);
    graph_.ports.out = stored(s_.q_len, s_.heads, s_.v_dim);
    graph_.ports.statistics = row_numbers();
    const int scores = masked(scaled(step(GraphAction::matmul, graph_.ports.q, graph_.ports.k, of_scores())));
    const int largest = reduced(GraphAction::reduce_max, scores);
    const int exponents =
        step(GraphAction::exp, step(GraphAction::subtract, scores, largest, of_scores()), -1, of_scores());
    const int sum = reduced(GraphAction::reduce_sum, exponents);
    const int logarithm = step(GraphAction::log, sum, -1, of_rows());
    into(GraphAction::add, largest, logarithm, graph_.ports.statistics);
    const int shares = step(GraphAction::divide, exponents, sum, narrow(of_scores()));
    into(GraphAction::matmul, shares, graph_.ports.v, graph_.ports.out);
    return std::move(graph_);
  }

  AttentionGraph backward() {
    add_inputs(true);
    AttentionPorts& p = graph_.ports;
    p.out = stored(s_.q_len, s_.heads, s_.v_dim);
    p.d_out = stored(s_.q_len, s_.heads, s_.v_dim);
    p.statistics = row_numbers();
    p.d_q = stored(s_.q_len, s_.heads, s_.qk_dim);
    p.d_k = stored(s_.kv_len, s_.kv_heads, s_.qk_dim);
    p.d_v = stored(s_.kv_len, s_.kv_heads, s_.v_dim);
    const int sums = output_sums();
    const int shares = recomputed_shares();
    gathered(shares, p.d_out, s_.v_dim, p.d_v);
    const int d_scores = score_gradient(shares, sums);
    gathered(d_scores, p.q, s_.qk_dim, p.d_k);
    query_gradient(d_scores);
    return std::move(graph_);
  }

 private:
  int add(GraphTensor tensor) {
    graph_.tensors.push_back(tensor);
    return static_cast<int>(graph_.tensors.size()) - 1;
  }
  /// [b, rows, heads, width] in memory, viewed as [b, heads, rows, width].
  int stored(std::int64_t rows, std::int64_t heads, std::int64_t width) {
    GraphTensor tensor;
    tensor.dims = {s_.batch, heads, rows, width};
    tensor.strides = {rows * heads * width, width, heads * width, 1};
    tensor.type = GraphType::bf16;
    return add(tensor);
  }
  int stored_transposed(std::int64_t rows, std::int64_t heads, std::int64_t width) {
    const int index = stored(rows, heads, width);
    swap_sides(tensor(index));
    return index;
  }
  static void swap_sides(GraphTensor& tensor) {
    std::swap(tensor.dims[2], tensor.dims[3]);
    std::swap(tensor.strides[2], tensor.strides[3]);
  }
  int number(double value) {
    GraphTensor tensor;
    tensor.by_value = true;
    tensor.value = value;
    return add(tensor);
  }
  int whole_number(std::int64_t value) {
    const int index = number(static_cast<double>(value));
    tensor(index).type = GraphType::int32;
    return index;
  }
  GraphTensor& tensor(int index) { return graph_.tensors[static_cast<std::size_t>(index)]; }

  static GraphTensor packed(const Dims& dims) {
    GraphTensor tensor;
    tensor.dims = dims;
    tensor.strides = {dims[1] * dims[2] * dims[3], dims[2] * dims[3], dims[3], 1};
    tensor.is_virtual = true;
    return tensor;
  }
  GraphTensor of_scores() const { return packed({s_.batch, s_.heads, s_.q_len, s_.kv_len}); }
  GraphTensor of_rows() const { return packed({s_.batch, s_.heads, s_.q_len, 1}); }
  static GraphTensor narrow(GraphTensor tensor) {
    tensor.type = GraphType::bf16;
    return tensor;
  }
  int row_numbers() {
    GraphTensor tensor = of_rows();
    tensor.is_virtual = false;
    return add(tensor);
  }

  void into(GraphAction action, int a, int b, int y) { graph_.steps.push_back({action, a, b, -1, y}); }
  int step(GraphAction action, int a, int b, const GraphTensor& y) {
    const int index = add(y);
    into(action, a, b, index);
    return index;
  }
  int reduced(GraphAction action, int x) { return step(action, x, -1, of_rows()); }

  /// In the backward V is transposed too.
  void add_inputs(bool backward) {
    graph_.ports.q = stored(s_.q_len, s_.heads, s_.qk_dim);
    graph_.ports.k = stored_transposed(s_.kv_len, s_.kv_heads, s_.qk_dim);
    graph_.ports.v =
        backward ? stored_transposed(s_.kv_len, s_.kv_heads, s_.v_dim) : stored(s_.kv_len, s_.kv_heads, s_.v_dim);
    scale_ = number(1 / std::sqrt(static_cast<double>(s_.qk_dim)));
  }

  int scaled(int scores) { return step(GraphAction::multiply, scores, scale_, of_scores()); }

  /// Causal: column <= row + kv_len - q_len. Window: column > row + kv_len - q_len - window. Steps and types follow
  /// cudnn-frontend for cuDNN before 9.21 (node/diagonal_band_mask.h), since the engines recognise this pattern: lengths are added to
  /// and subtracted from the row as integers, the window is added to the column in fp32.
  int masked(int scores) {
    if (!masked_ || !s_.causal) return scores;
    scores = not_later(scores);
    return s_.window > 0 && s_.window < s_.kv_len ? not_too_early(scores) : scores;
  }

  GraphTensor of_indices() const {
    GraphTensor index = of_scores();
    index.type = GraphType::int32;
    return index;
  }

  int not_later(int scores) {
    int row = step(GraphAction::row_index, scores, -1, of_indices());
    const int column = step(GraphAction::column_index, scores, -1, of_indices());
    if (s_.kv_len != s_.q_len) {
      row = step(GraphAction::add, row, whole_number(s_.kv_len), of_indices());
      row = step(GraphAction::subtract, row, whole_number(s_.q_len), of_indices());
    }
    return kept(scores, GraphAction::at_least, row, column);
  }

  int not_too_early(int scores) {
    const int row = step(GraphAction::row_index, scores, -1, of_indices());
    int column = step(GraphAction::column_index, scores, -1, of_indices());
    column = step(GraphAction::add, column, number(static_cast<double>(s_.window - s_.kv_len + s_.q_len)), of_scores());
    return kept(scores, GraphAction::above, column, row);
  }

  /// Scores if the comparison holds, otherwise minus infinity.
  int kept(int scores, GraphAction comparison, int left, int right) {
    GraphTensor truth = of_scores();
    truth.type = GraphType::boolean;
    const int condition = step(comparison, left, right, truth);
    const int nothing = number(-std::numeric_limits<double>::infinity());
    const int result = add(of_scores());
    graph_.steps.push_back({GraphAction::select, scores, nothing, condition, result});
    return result;
  }

  /// sum(dO O) of each row, times one: cuDNN writes it with a first kernel and reads it with the second.
  int output_sums() {
    GraphTensor product = packed({s_.batch, s_.heads, s_.q_len, s_.v_dim});
    product.strides = tensor(graph_.ports.out).strides;
    const int products = step(GraphAction::multiply, graph_.ports.d_out, graph_.ports.out, product);
    const int sums = row_numbers();
    graph_.scratch.push_back(sums);
    into(GraphAction::multiply, reduced(GraphAction::reduce_sum, products), number(1), sums);
    return sums;
  }

  int recomputed_shares() {
    const int scores = scaled(step(GraphAction::matmul, graph_.ports.q, graph_.ports.k, of_scores()));
    const int centred = step(GraphAction::subtract, scores, graph_.ports.statistics, of_scores());
    return step(GraphAction::exp, masked(centred), -1, of_scores());
  }

  int score_gradient(int shares, int sums) {
    const int d_shares = step(GraphAction::matmul, graph_.ports.d_out, graph_.ports.v, of_scores());
    const int centred = step(GraphAction::subtract, d_shares, sums, of_scores());
    return scaled(step(GraphAction::multiply, centred, shares, of_scores()));
  }

  /// result = matrix^T right, summed over the query heads that share a head of keys and values.
  void gathered(int matrix, int right, std::int64_t width, int result) {
    GraphTensor turned = narrow(of_scores());
    swap_sides(turned);
    const int transposed = step(GraphAction::reshape, matrix, -1, turned);
    if (s_.heads == s_.kv_heads) return into(GraphAction::matmul, transposed, right, result);
    const GraphTensor all_heads = narrow(packed({s_.batch, s_.heads, s_.kv_len, width}));
    into(GraphAction::reduce_sum, step(GraphAction::matmul, transposed, right, all_heads), -1, result);
  }

  /// dQ is accumulated in fp32 over blocks of keys, then rounded.
  void query_gradient(int d_scores) {
    GraphTensor keys = tensor(graph_.ports.k);
    swap_sides(keys);
    keys.is_virtual = true;
    const int turned = step(GraphAction::reshape, graph_.ports.k, -1, keys);
    GraphTensor sums = packed({s_.batch, s_.heads, s_.q_len, s_.qk_dim});
    sums.is_virtual = false;
    const int gathered = step(GraphAction::matmul, d_scores, turned, sums);
    graph_.scratch.push_back(gathered);
    into(GraphAction::identity, gathered, -1, graph_.ports.d_q);
  }

  AttentionShape s_;
  bool masked_;
  AttentionGraph graph_;
  int scale_ = -1;
};

}  // namespace

AttentionGraph attention_graph(const AttentionShape& shape, bool forward, bool masked) {
  Builder builder(shape, masked);
  return forward ? builder.forward() : builder.backward();
}

}  // namespace tracecast::cuda
