#include "sim/validation/measured_tables.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "sim/cost/attention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/network/network_model.hpp"
#include "sim/reliability/goodput.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kLarge = 1 << 20;

/// Fields of one row; the first mistake is kept.
class Fields {
 public:
  Fields(const CsvTable& table, std::size_t row) : table_(&table), row_(row) {}
  const std::string& text(const char* column) const { return table_->text(row_, column); }
  std::int64_t size(const char* column, std::int64_t otherwise) {
    if (text(column).empty() && otherwise > 0) return otherwise;
    const std::optional<double> value = table_->number(row_, column);
    if (value && *value >= 1 && *value <= 1e15 && *value == std::trunc(*value))
      return static_cast<std::int64_t>(*value);
    refuse(column, "is not a whole number of at least 1");
    return 1;
  }
  double time_s() {
    const std::optional<double> value = table_->number(row_, "time_us");
    if (value && *value > 0) return *value * 1e-6;
    refuse("time_us", "is not a positive number");
    return 1;
  }
  template <class T>
  T word(const char* column, const std::vector<std::pair<std::string, T>>& words, T otherwise) {
    if (text(column).empty()) return otherwise;
    for (const auto& [name, value] : words)
      if (text(column) == name) return value;
    std::string allowed;
    for (const auto& [name, value] : words) allowed += " " + name;
    refuse(column, "is unknown (allowed:" + allowed + ")");
    return otherwise;
  }
  void refuse(const char* column, std::string message) {
    if (!problem_) problem_ = table_->wrong(row_, column, std::move(message));
  }
  const std::optional<Diagnostic>& problem() const { return problem_; }

 private:
  const CsvTable* table_;
  std::size_t row_;
  std::optional<Diagnostic> problem_;
};

const std::vector<std::pair<std::string, Precision>> kPrecisions{
    {"fp32", Precision::fp32},  {"fp16", Precision::fp16},           {"bf16", Precision::bf16},
    {"fp8", Precision::fp8},    {"fp8_block", Precision::fp8_block}, {"mxfp8", Precision::mxfp8},
    {"nvfp4", Precision::nvfp4}};
const std::vector<std::pair<std::string, Pass>> kPasses{
    {"forward", Pass::forward}, {"dgrad", Pass::dgrad}, {"wgrad", Pass::wgrad}, {"backward", Pass::backward}};
const std::vector<std::pair<std::string, OperatorKind>> kOperators{{"gemm", OperatorKind::gemm},
                                                                   {"attention", OperatorKind::attention}};
const std::vector<std::pair<std::string, Collective>> kCollectives{
    {"all_reduce", Collective::all_reduce},         {"all_gather", Collective::all_gather},
    {"reduce_scatter", Collective::reduce_scatter}, {"all_to_all", Collective::all_to_all},
    {"broadcast", Collective::broadcast},           {"send_recv", Collective::send_recv}};

Operator operator_of(Fields& fields) {
  Operator op;
  op.kind = fields.word("op", kOperators, OperatorKind::gemm);
  op.precision = fields.word("precision", kPrecisions, Precision::bf16);
  op.pass = fields.word("pass", kPasses, Pass::forward);
  if (op.kind == OperatorKind::gemm) {
    op.shape = GemmShape{fields.size("m", 0), fields.size("n", 0), fields.size("k", 0), fields.size("batch", 1), false};
    return op;
  }
  const std::int64_t length = fields.size("seq", 0), heads = fields.size("heads", 0),
                     width = fields.size("head_dim", 128);
  op.shape =
      AttentionShape{fields.size("batch", 1),      length, length, heads, fields.size("kv_heads", heads), width, width,
                     fields.text("causal") != "0", 0};
  return op;
}

}  // namespace

Result<std::vector<MeasuredSample>> validate_kernels(const CsvTable& table, const RowLibrary& library) {
  std::map<std::string, Costs> costs;  // by profile and kernel
  std::vector<MeasuredSample> samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Fields fields(table, row);
    MeasuredSample sample;
    sample.row = row;
    sample.measured_s = fields.time_s();
    const Operator op = operator_of(fields);
    if (fields.problem()) return fail(*fields.problem());
    const std::string kernel = fields.text("kernel");
    const std::string key = fields.text("profile") + " " + kernel;
    auto known = costs.find(key);
    if (known == costs.end()) {
      Result<Profile> profile = library.profile(fields.text("profile"));
      if (!profile) return fail(table.wrong(row, "profile", "is no profile that can be read"));
      const std::vector<std::string> kernels = attention_kernels(*profile);
      if (!kernel.empty() && std::find(kernels.begin(), kernels.end(), kernel) == kernels.end())
        return fail(table.wrong(row, "kernel", "is no attention kernel of the profile"));
      const Fit fit = profile->in_training.fit;
      profile->in_training = InTraining{};
      profile->in_training.fit = fit;
      known = costs.emplace(key, Costs(std::move(*profile), kernel)).first;
    }
    sample.group = fields.text("profile") + " " + to_string(op.kind) + " " + to_string(op.precision);
    sample.predicted_s = seconds(known->second.of(op).duration);
    samples.push_back(std::move(sample));
  }
  return samples;
}

Result<std::vector<MeasuredSample>> validate_collectives(const CsvTable& table, const RowLibrary& library) {
  std::vector<MeasuredSample> samples;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    Fields fields(table, row);
    MeasuredSample sample;
    sample.row = row;
    sample.measured_s = fields.time_s();
    const CollectiveCall call{fields.word("collective", kCollectives, Collective::all_reduce),
                              {fields.size("bytes", 0)}};
    const std::int64_t ranks = fields.size("ranks", 0);
    if (fields.problem()) return fail(*fields.problem());
    Result<Cluster> cluster = library.topology(fields.text("topology"));
    if (!cluster) return fail(table.wrong(row, "topology", "is no topology that can be read"));
    const std::int64_t most =
        cluster->max_nodes > 0 ? std::int64_t{cluster->max_nodes} * cluster->node.gpus : std::int64_t{1} << 20;
    if (ranks > most) return fail(table.wrong(row, "ranks", "is more than the machine has"));
    cluster->world_size = static_cast<int>(ranks);
    const Result<Profile> profile = library.profile(cluster->gpu);
    if (!profile) return fail(table.wrong(row, "topology", "has a GPU without a profile"));
    std::vector<int> members(static_cast<std::size_t>(ranks));
    std::iota(members.begin(), members.end(), 0);
    const GroupPlacement group = place(*cluster, members, 1);
    sample.group = fields.text("topology") + " " + to_string(call.collective);
    sample.large = call.size.count > kLarge;
    sample.skipped = refusal(*cluster, profile->architecture, call, group);
    if (sample.skipped.empty())
      sample.predicted_s = seconds(make_analytic_network(*cluster, profile->architecture)->cost(call, group).duration);
    samples.push_back(std::move(sample));
  }
  return samples;
}

std::vector<SampleErrors> sample_errors(const std::vector<MeasuredSample>& samples, bool large_only) {
  std::map<std::string, std::vector<double>> groups;
  for (const MeasuredSample& sample : samples) {
    if (!sample.skipped.empty() || (large_only && !sample.large)) continue;
    groups[""].push_back(sample.error());
    groups[sample.group].push_back(sample.error());
  }
  std::vector<SampleErrors> out;
  for (const auto& [name, errors] : groups) {
    SampleErrors e{name.empty() ? "all" : name, static_cast<int>(errors.size()), 0, 0, 0};
    std::vector<double> absolute;
    for (const double error : errors) {
      absolute.push_back(std::abs(error));
      e.mean += absolute.back() / e.samples;
      e.bias += error / e.samples;
    }
    e.median = quantile(std::move(absolute), 0.5);
    out.push_back(e);
  }
  return out;
}

}  // namespace tracecast
