#include "kernels/recording.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "sim/base/quantile.hpp"
#include "sim/base/result.hpp"
#include "sim/base/words.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/costs.hpp"
#include "sim/cost/plausible.hpp"

namespace tracecast {
namespace {

double rate(const MeasuredOperator& each) { return flops(each.op).count / each.seconds; }
double byte_rate(const MeasuredOperator& each) {
  return static_cast<double>(std::get<ElementwiseShape>(each.op.shape).traffic.count) / each.seconds;
}

/// Efficiencies relative to the best rate seen, by class of operator.
class Models {
 public:
  explicit Models(const std::vector<MeasuredOperator>& measured) {
    for (const MeasuredOperator& each : measured) {
      if (std::holds_alternative<GemmShape>(each.op.shape))
        dense_.push_back(rate(each));
      else if (each.op.kind == OperatorKind::attention)
        attention_[each.op.pass != Pass::forward].push_back(rate(each));
      else
        bytes_[{each.op.kind, each.op.pass}].push_back(byte_rate(each));
    }
    TRACECAST_ASSERT(!dense_.empty(), "the suite must have multiplications");
    peak_ = *std::max_element(dense_.begin(), dense_.end());
    for (const auto& [kind, rates] : bytes_) bandwidth_ = std::max(bandwidth_, median(rates));
  }

  void write(Profile& profile, const std::string& data) const {
    profile.peak_flops[Precision::fp32] = peak_;
    profile.memory_bandwidth = std::round(bandwidth_);
    GemmModel gemm;
    gemm.efficiency = median(dense_) / peak_;
    gemm.wave_weight = 0;
    gemm.fit = {data, static_cast<int>(dense_.size()), 0};
    profile.gemm[Precision::fp32] = gemm;
    profile.grouped_gemm = gemm;
    for (const auto& [kind_and_pass, rates] : bytes_)
      profile.memory_bound[kind_and_pass] = {0, median(rates) / bandwidth_, {data, static_cast<int>(rates.size()), 0}};
    write_attention(profile, data);
  }

 private:
  void write_attention(Profile& profile, const std::string& data) const {
    const auto forward = attention_.find(false);
    const auto backward = attention_.find(true);
    if (forward == attention_.end() || backward == attention_.end()) return;
    AttentionModel model;
    model.kernel = "tiled";
    model.head_dim = 64;
    model.forward_efficiency = median(forward->second) / peak_;
    model.backward_efficiency = median(backward->second) / peak_;
    model.fit = {data, static_cast<int>(forward->second.size() + backward->second.size()), 0};
    profile.attention.push_back(model);
  }

  std::vector<double> dense_;
  std::map<bool, std::vector<double>> attention_;  // [backward]
  std::map<std::pair<OperatorKind, Pass>, std::vector<double>> bytes_;
  double peak_ = 0;
  double bandwidth_ = 1;
};

void set_residual(Profile& profile, double residual) {
  for (auto& [precision, model] : profile.gemm) model.fit.residual = residual;
  profile.grouped_gemm.fit.residual = residual;
  for (AttentionModel& model : profile.attention) model.fit.residual = residual;
  for (auto& [kind, model] : profile.memory_bound) model.fit.residual = residual;
}

bool contains(std::string_view text, std::string_view part) {
  return lower_case(text).find(lower_case(part)) != std::string::npos;
}

/// The rated memory may be some per cent more than what a driver reports. Drivers name a card or a pair of cards as such, and a module
/// need not be named.
bool describes(const ShippedGpu& shipped, const std::string& gpu, Bytes memory) {
  constexpr double kTolerance = 0.05;
  const std::string model = gpu_model(gpu);
  const double ratio = static_cast<double>(memory.count) / static_cast<double>(shipped.memory.count);
  const auto same_form = [&](const char* form) { return contains(gpu, form) == contains(shipped.gpu, form); };
  return !model.empty() && model == gpu_model(shipped.gpu) && may_be_same_gpu(gpu, shipped.gpu) &&
         std::abs(ratio - 1) <= kTolerance && same_form("PCIe") && same_form("NVL");
}

std::size_t shared_words(const std::string& profile, const std::string& gpu) {
  const std::vector<std::string_view> words = split_words(profile);
  return static_cast<std::size_t>(
      std::ranges::count_if(words, [&](std::string_view word) { return contains(gpu, word); }));
}

}  // namespace

Profile recorded_cpu_profile(const Suite& suite, const SuiteSamples& samples, const RecordedOn& where) {
  TRACECAST_ASSERT(samples.operators.size() == suite.operators.size(), "every operator of the suite must be timed");
  Profile profile;
  profile.name = "recorded";
  profile.gpu = where.device;
  profile.kind = "recorded";
  profile.source = where.source;
  profile.architecture = "CPU";
  profile.sms = 1;
  profile.memory = where.memory;
  profile.overlap = false;
  profile.in_training.fit.data = "recorded as steps run: operands cold, all ranks busy";
  profile.host.fit.data = "operators are called, not launched";
  for (std::size_t i = 0; i < suite.operators.size(); ++i)
    profile.measured.push_back({suite.operators[i].op, samples.operators[i].lower_quartile, samples.operators[i].spread,
                                samples.operators[i].count});
  for (std::size_t i = 0; i < samples.collectives.size(); ++i) {
    const CollectiveCall& call = suite.collectives[i];
    profile.measured_collectives.push_back({call.collective, where.ranks, call.size,
                                            samples.collectives[i].lower_quartile, samples.collectives[i].spread,
                                            samples.collectives[i].count});
  }
  Models(profile.measured).write(profile, "recorded: " + where.device);
  set_residual(profile, leave_one_out_residual(profile));
  return profile;
}

Profile recorded_gpu_profile(Profile base, std::vector<MeasuredOperator> operators,
                             std::vector<MeasuredCollective> collectives, const RecordedOn& where) {
  base.name = "recorded";
  base.gpu = where.device;
  base.kind = "recorded";
  base.source = where.source;
  base.memory = where.memory;
  base.in_training = {};
  base.in_training.fit.data = "recorded as steps run: hot, operands cold, kernels one behind the other";
  base.measured = std::move(operators);
  base.measured_collectives = std::move(collectives);
  return base;
}

std::vector<std::string> remove_impossible(const Profile& base, std::vector<MeasuredOperator>& operators,
                                           std::vector<MeasuredCollective>& collectives) {
  std::vector<std::string> removed;
  std::erase_if(operators, [&](const MeasuredOperator& each) {
    const auto why = why_impossible(base, each);
    if (why)
      removed.push_back(
          fmt::format("{} {} {}: {}", to_string(each.op.kind), each.op.name, to_string(each.op.pass), *why));
    return why.has_value();
  });
  std::erase_if(collectives, [&](const MeasuredCollective& each) {
    const auto why = why_impossible(base, each);
    if (why) removed.push_back(fmt::format("{} of {} bytes: {}", to_string(each.collective), each.size.count, *why));
    return why.has_value();
  });
  return removed;
}

std::vector<std::string> shipped_profiles_of(const std::string& gpu, Bytes memory,
                                             const std::vector<ShippedGpu>& shipped) {
  if (gpu.find("MIG ") != std::string::npos) return {};  // a slice of a GPU: no shipped profile describes one
  std::vector<std::string> names;
  std::size_t most = 0;
  for (const ShippedGpu& each : shipped) {
    if (!describes(each, gpu, memory)) continue;
    const std::size_t words = shared_words(each.gpu, gpu);
    if (words > most) names.clear();
    if (words >= most) names.push_back(each.profile);
    most = std::max(most, words);
  }
  return names;
}

double leave_one_out_residual(const Profile& profile) {
  double sum = 0;
  for (std::size_t i = 0; i < profile.measured.size(); ++i) {
    Profile others = profile;
    others.measured.erase(others.measured.begin() + static_cast<std::ptrdiff_t>(i));
    const MeasuredOperator& left_out = profile.measured[i];
    sum += std::abs(std::log(seconds(Costs(std::move(others)).of(left_out.op).duration) / left_out.seconds));
  }
  return profile.measured.empty() ? 0 : sum / static_cast<double>(profile.measured.size());
}

}  // namespace tracecast
