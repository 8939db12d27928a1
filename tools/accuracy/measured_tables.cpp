#include "tools/accuracy/measured_tables.hpp"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <set>
#include <system_error>
#include <tuple>

#include <fmt/format.h>

#include "sim/base/quantile.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/network/network_model.hpp"
#include "tools/accuracy/collective_tables.hpp"
#include "tools/accuracy/kernel_tables.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::int64_t kLargeMessage = 1 << 20;
constexpr std::int64_t kLargeSide = 1024;

bool is_large(const Operator& op) {
  if (const auto* gemm = std::get_if<GemmShape>(&op.shape)) return std::min({gemm->m, gemm->n, gemm->k}) >= kLargeSide;
  if (const auto* attention = std::get_if<AttentionShape>(&op.shape)) return attention->q_len >= kLargeSide;
  return true;
}

/// The name of an operator's in-training factor in a profile (docs/formats/profile.md).
std::string factor_of(const Operator& op) {
  if (op.kind == OperatorKind::attention) return "attention";
  if (!is_multiplication(op.kind)) return "memory";
  const std::string pass = op.pass == Pass::wgrad ? " x weight_gradient" : "";
  switch (op.precision) {
    case Precision::fp8:
    case Precision::mxfp8:
      return "gemm_fp8" + pass;
    case Precision::fp8_block:
      return "gemm_fp8_block" + pass;
    case Precision::nvfp4:
      return "gemm_fp4" + pass;
    default:
      return "gemm" + pass;
  }
}

/// Costs with and without in-training factors, by profile and attention kernel.
class CostsByProfile {
 public:
  explicit CostsByProfile(const RowLibrary& library) : library_(&library) {}

  struct Pair {
    Costs isolated;
    Costs in_training;
    std::string kernel;                ///< the attention kernel that is used
    std::map<GemmLoop, Costs> looped;  ///< `isolated` in the loops that were used so far
  };
  /// nullptr: unknown profile. For an unknown attention kernel the first of the profile is used.
  Pair* find(const std::string& profile_name, const std::string& kernel) {
    const std::string key = profile_name + " " + kernel;
    if (const auto found = pairs_.find(key); found != pairs_.end()) return &found->second;
    if (missing_.contains(profile_name)) return nullptr;
    Result<Profile> profile = library_->profile(profile_name);
    if (!profile) {
      missing_.insert(profile_name);
      return nullptr;
    }
    const std::vector<std::string> kernels = attention_kernels(*profile);
    const bool known = std::find(kernels.begin(), kernels.end(), kernel) != kernels.end();
    const std::string used = known || kernels.empty() ? kernel : kernels.front();
    Profile isolated = *profile;
    isolated.in_training = InTraining{};
    isolated.in_training.fit = profile->in_training.fit;
    Pair pair{
        Costs(std::move(isolated), known ? kernel : ""), Costs(std::move(*profile), known ? kernel : ""), used, {}};
    return &pairs_.emplace(key, std::move(pair)).first->second;
  }

 private:
  const RowLibrary* library_;
  std::map<std::string, Pair> pairs_;
  std::set<std::string> missing_;
};

/// Seconds of a GEMM in a benchmark, whose kernel alone takes `kernel_s`: with the quantisation of the left operand
/// where the measurement includes it, and the kernel choices of the library that the profile was fitted to.
double benchmark_seconds(const Profile& profile, const MeasuredKernel& measured, double kernel_s) {
  const auto model = profile.gemm.find(measured.op.precision);
  if (measured.loop.right == 0 || model == profile.gemm.end()) return kernel_s;
  const GemmShape& shape = std::get<GemmShape>(measured.op.shape);
  const GpuPeak bandwidth_only{0, profile.memory_bandwidth, profile.sms};
  if (measured.quantises)
    kernel_s += quantisation_seconds(model->second, bandwidth_only, shape, gemm_elements(measured.op.precision));
  return kernel_s * choice_factor(model->second, shape);
}

std::string group_of(const MeasuredKernel& measured, const std::string& profile, const std::string& kernel) {
  const Operator& op = measured.op;
  std::string group = profile + " " + to_string(op.kind);
  if (op.kind == OperatorKind::attention) group += " " + kernel;
  if (op.kind == OperatorKind::attention && is_narrow(op.precision))
    group += std::string(" ") + to_string(op.precision);
  if (is_multiplication(op.kind)) group += std::string(" ") + to_string(op.precision);
  if (op.pass != Pass::forward) group += std::string(" ") + to_string(op.pass);
  return group;
}

/// Costs of an isolated operator in the loop that timed it.
const Costs& looped(CostsByProfile::Pair& costs, GemmLoop loop) {
  if (loop == GemmLoop{}) return costs.isolated;
  const auto known = costs.looped.find(loop);
  if (known != costs.looped.end()) return known->second;
  return costs.looped.emplace(loop, looped_costs(costs.isolated.profile(), "", loop)).first->second;
}

MeasuredSample forecast_sample(const MeasuredKernel& measured, const std::string& profile,
                               CostsByProfile::Pair& costs) {
  MeasuredSample sample;
  sample.group = group_of(measured, profile, costs.kernel);
  const Costs& used = measured.in_training ? costs.in_training : looped(costs, measured.loop);
  sample.predicted_s = seconds(used.of(measured.op).duration);
  sample.predicted_s = benchmark_seconds(used.profile(), measured, sample.predicted_s);
  sample.factor = factor_of(measured.op);
  sample.in_training =
      seconds(costs.in_training.of(measured.op).duration) / seconds(costs.isolated.of(measured.op).duration);
  sample.with_factor = measured.in_training;
  sample.large = is_large(measured.op);
  sample.held_out = measured.held_out;
  sample.excluded = measured.excluded;
  return sample;
}

/// An attention kernel that is named in a table in the project's own form must exist.
std::optional<Diagnostic> missing_kernel(const CsvTable& table, const MeasuredKernel& measured,
                                         const CostsByProfile::Pair& costs) {
  if (measured.kernel.empty() || measured.kernel == costs.kernel) return std::nullopt;
  return table.error_at(measured.row, "kernel", "unknown attention kernel of the profile");
}

/// The networks of the machines in a table, each made once.
class Machines {
 public:
  explicit Machines(const RowLibrary& library) : library_(&library) {}

  struct Machine {
    Cluster cluster;
    std::string architecture;
    GroupPlacement group;  ///< of all ranks
    std::unique_ptr<NetworkModel> network;
    std::string problem;  ///< why it cannot be used; "": it can
    std::string column;   ///< of the field that the problem is in
  };
  const Machine& find(const CollectiveSample& sample) {
    const auto [found, is_new] =
        machines_.try_emplace({sample.topology, sample.ranks, sample.ranks_per_domain, sample.nodes});
    if (is_new) make(found->second, sample);
    return found->second;
  }

 private:
  void make(Machine& machine, const CollectiveSample& sample) const {
    const auto set_problem = [&machine](const char* column, const char* why) {
      machine.column = column;
      machine.problem = why;
    };
    Result<Cluster> cluster = library_->topology(sample.topology);
    if (!cluster) return set_problem("topology", "unknown topology");
    if (sample.ranks_per_domain > cluster->node.gpus)
      return set_problem("ranks_per_domain", "is more than a scale-up domain has");
    if (sample.nodes > 0 && sample.ranks / sample.nodes > cluster->node.gpus_per_host)
      return set_problem("nodes", "is too few hosts for so many ranks");
    const std::vector<int> members = ranks_of_group(*cluster, sample);
    cluster->world_size = members.back() + 1;
    const std::int64_t most =
        cluster->max_nodes > 0 ? std::int64_t{cluster->max_nodes} * cluster->node.gpus : std::int64_t{1} << 20;
    if (cluster->world_size > most) return set_problem("ranks", "is more than the machine has");
    const Result<Profile> profile = library_->profile(cluster->gpu);
    if (!profile) return set_problem("topology", "has a GPU without a profile");
    machine.group = place(*cluster, members, 1);
    machine.architecture = profile->architecture;
    machine.network = make_analytic_network(*cluster, profile->architecture);
    machine.cluster = std::move(*cluster);
  }

  const RowLibrary* library_;
  std::map<std::tuple<std::string, int, int, int>, Machine> machines_;
};

void add_to(SampleErrors& errors, const MeasuredSample& sample, std::vector<double>& absolute) {
  absolute.push_back(std::abs(sample.error()));
  errors.bias += sample.error();
  errors.in_training += sample.in_training;
  if (errors.samples++ == 0) {
    errors.factor = sample.factor;
    errors.with_factor = sample.with_factor;
  } else if (errors.factor != sample.factor) {
    errors.factor.clear();
  }
}

MeanError mean_of(const std::vector<const MeasuredSample*>& samples, bool held_out, bool large) {
  MeanError error;
  for (const MeasuredSample* sample : samples) {
    if ((held_out && !sample->held_out) || (large && !sample->large)) continue;
    error.mean += std::abs(sample->error());
    ++error.samples;
  }
  if (error.samples > 0) error.mean /= error.samples;
  return error;
}

SampleErrors errors_of(const std::string& group, const std::string& excluded,
                       const std::vector<const MeasuredSample*>& samples) {
  SampleErrors errors;
  errors.group = group;
  errors.excluded = excluded;
  std::vector<double> absolute;
  for (const MeasuredSample* sample : samples) add_to(errors, *sample, absolute);
  errors.bias /= errors.samples;
  errors.in_training /= errors.samples;
  errors.mean = std::accumulate(absolute.begin(), absolute.end(), 0.0) / errors.samples;
  errors.median = median(std::move(absolute));
  errors.held_out = mean_of(samples, true, false);
  errors.large = mean_of(samples, errors.held_out.samples > 0, true);
  return errors;
}

/// A file beside the table if there is one, as of a scenario; else in the working directory.
std::string beside(const CsvTable& table, const std::string& file) {
  const std::filesystem::path path = std::filesystem::path(table.file()).parent_path() / file;
  std::error_code ignored;
  return std::filesystem::exists(path, ignored) ? path.string() : file;
}

}  // namespace

Result<std::vector<MeasuredSample>> validate_kernels(const CsvTable& table, const RowLibrary& library) {
  const Result<std::vector<MeasuredKernel>> measured = read_kernels(table);
  if (!measured) return tl::unexpected(measured.error());
  const bool own_form = table.has("profile");
  CostsByProfile costs_by_profile(library);
  std::vector<MeasuredSample> samples;
  for (const MeasuredKernel& kernel : *measured) {
    const bool is_file = own_form && kernel.gpu.ends_with(".json");
    std::string profile = is_file ? beside(table, kernel.gpu) : kernel.gpu;
    CostsByProfile::Pair* costs = own_form ? costs_by_profile.find(profile, kernel.kernel) : nullptr;
    if (costs == nullptr && !is_file) {
      profile = profile_of_gpu(kernel.gpu);
      costs = costs_by_profile.find(profile, kernel.kernel);
    }
    if (is_file && costs == nullptr) return tl::unexpected(library.profile(profile).error());
    if (own_form && costs == nullptr) return fail(table.error_at(kernel.row, "profile", "unknown profile"));
    MeasuredSample sample;
    if (costs == nullptr)
      sample.skipped = "no profile of " + kernel.gpu;
    else
      sample = forecast_sample(kernel, profile, *costs);
    if (own_form)
      if (const std::optional<Diagnostic> problem = missing_kernel(table, kernel, *costs)) return fail(*problem);
    sample.line = table.line(kernel.row);
    sample.measured_s = kernel.seconds;
    samples.push_back(std::move(sample));
  }
  return samples;
}

Result<std::vector<MeasuredSample>> validate_collectives(const CsvTable& table, const RowLibrary& library) {
  const Result<std::vector<CollectiveSample>> measured = read_collectives(table);
  if (!measured) return tl::unexpected(measured.error());
  const bool own_form = table.has("topology");
  Machines machines(library);
  std::vector<MeasuredSample> samples;
  for (const CollectiveSample& curve : *measured) {
    MeasuredSample sample;
    sample.line = table.line(curve.row);
    sample.measured_s = curve.seconds;
    sample.large = curve.call.size.count > kLargeMessage;
    sample.group = fmt::format("{} {}", curve.system, to_string(curve.call.collective));
    sample.excluded = curve.excluded;
    if (sample.excluded.empty() && curve.guessed) sample.excluded = "machines of which only the GPU is known";
    samples.push_back(std::move(sample));
    if (curve.topology.empty()) {
      samples.back().skipped = fmt::format("no topology for {}", curve.system);
      continue;
    }
    const Machines::Machine& machine = machines.find(curve);
    if (own_form && !machine.problem.empty()) return fail(table.error_at(curve.row, machine.column, machine.problem));
    samples.back().skipped = machine.problem.empty()
                                 ? unsupported_reason(machine.cluster, machine.architecture, curve.call, machine.group)
                                 : machine.column + ": " + machine.problem;
    if (samples.back().skipped.empty())
      samples.back().predicted_s = seconds(machine.network->cost(curve.call, machine.group).duration);
  }
  return samples;
}

std::vector<SampleErrors> sample_errors(const std::vector<MeasuredSample>& samples, bool large_only) {
  std::map<std::pair<std::string, std::string>, std::vector<const MeasuredSample*>> groups;  // by excluded and name
  for (const MeasuredSample& sample : samples) {
    if (!sample.skipped.empty() || (large_only && !sample.large)) continue;
    if (sample.excluded.empty()) groups[{"", ""}].push_back(&sample);
    groups[{sample.excluded, sample.group}].push_back(&sample);
  }
  std::vector<SampleErrors> out;
  for (const auto& [key, members] : groups)
    out.push_back(errors_of(key.second.empty() ? "all" : key.second, key.first, members));
  return out;
}

}  // namespace tracecast::accuracy
