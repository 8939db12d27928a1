#include "tools/accuracy/validate.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include <fmt/format.h>

#include "sim/base/parallel_for.hpp"
#include "sim/base/words.hpp"
#include "sim/forecast/evidence.hpp"
#include "tools/accuracy/least_recompute.hpp"
#include "tools/accuracy/rows/row_part.hpp"

namespace tracecast::accuracy {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;
/// Relative standard deviations for what is not reported. Micro-batch and virtual stages change a step by 10 to 15 %
/// (docs/references.md#hard-rows, Core r0.8's rows), recomputation that is chosen by memory by a quarter of its 25 %.
constexpr double kUnknownLayout = 0.10;
constexpr double kUnknownRecompute = 0.06;

/// True if the row trains adapters beside the weights.
bool trains_adapters(const TableFields& fields) {
  for (const char* column : {"framework", "parallel_style", "notes"})
    for (const char* method : {"LoRA", "QLoRA", "DoRA"})
      if (affirms(fields.text(column), method)) return true;
  return false;
}

/// Why a row is not scored; "": it is. Columns that the table does not have are not checked.
std::string out_of_scope(const TableFields& fields) {
  const auto among = [&](const char* column, const std::set<std::string>& allowed) {
    return !fields.reported(column) || allowed.contains(usual_word(column, fields.text(column)));
  };
  const auto because = [&](const char* column) {
    return std::string(column) + " = " + fields.text(column) + ": context only";
  };
  if (!among("outcome", {"completed", "oom"})) return because("outcome");
  if (!among("row_class", {"full", "assumed"})) return because("row_class");
  if (!among("task", {"pretrain", "sft"})) return because("task");
  if (trains_adapters(fields)) return "adapters (LoRA): context only";
  if (!among("consistency", {"ok", "plausible_mfu", "ok_tflops_vs_mfu_only", "not_applicable"}))
    return because("consistency");
  return "";
}

/// How the step of one row is simulated, with whatever factors.
class RowSimulation {
 public:
  RowSimulation(const Scenario& scenario, const StepNetwork& network, const ForecastOptions& options)
      : network_(network), engine_(engine_of(scenario, options)) {}

  Timeline with_spans(const StepGraph& graph) const { return run(graph, true); }
  Duration step_time(const StepGraph& graph) const { return run(graph, false).step_time; }

 private:
  Timeline run(const StepGraph& graph, bool spans) const {
    EngineOptions engine = engine_;
    engine.record_spans = spans;
    Result<Timeline> timeline = simulate(graph, network_, engine);
    TRACECAST_ASSERT(timeline.has_value(), "other durations do not deadlock a graph that ran");
    return std::move(*timeline);
  }

  const StepNetwork& network_;
  EngineOptions engine_;
};

/// The relative deviation whose 90 % interval ends where the step ends if its host is slower by kHostSpread. A step
/// that computes just ahead of its host has no host time on its critical path, but waits for a slower host.
/// Derivatives do not show that: intervals by derivatives alone contained 60 % of the 40 runs with 2 to 10 % of host
/// time (docs/validation/accuracy.md).
double host_deviation(const RowSimulation& simulation, const StepGraph& graph, Duration step) {
  CostScales slower = unit_scales();
  slower[static_cast<std::size_t>(CostParameter::host)] = std::exp(kHostSpread);
  return std::log(seconds(simulation.step_time(scaled(graph, slower))) / seconds(step)) / kNinetyPercent;
}

void set_band(RowForecast& out, const RowScenario& row, double host) {
  double variance = row.guessed_layout ? kUnknownLayout * kUnknownLayout : 0;
  if (row.guess_recompute) variance += kUnknownRecompute * kUnknownRecompute;
  out.layout_spread = std::sqrt(variance);
  out.kernel_spread = std::max(out.sensitivities.run_deviation(), host);
  const Novelty novelty = novelty_of(out.architecture, out.stack, out.moe);
  out.band = band_around(out.predicted_s, kRunBand.half_width(novelty, out.deviation()));
}

/// What the row itself reports, before it is forecast.
RowForecast read_reported(const CsvTable& table, std::size_t index) {
  const TableFields fields(table, index);
  RowForecast out;
  out.row = index;
  out.id = table.text(index, "id");
  out.source = table.text(index, "source");
  out.out_of_memory = usual_word("outcome", fields.text("outcome")) == "oom";
  out.measured_s = table.number(index, "step_time_s").value_or(0);
  const double memory = table.number(index, "mem_gb_reported").value_or(0);
  out.measured_memory_gib =
      table.text(index, "mem_kind").find("GiB") != std::string::npos ? memory : memory * 1e9 / kGiB;
  if (table.text(index, "mem_kind").find("sampled") != std::string::npos) out.measured_memory_gib = 0;  // not a peak
  out.skipped = out_of_scope(fields);
  if (out.skipped.empty() && out.measured_s <= 0 && fields.reported("step_time_s"))
    out.skipped = "step_time_s: must be a positive number";
  return out;
}

/// Frameworks report the memory of tensors, or what their allocator has reserved; neither includes the CUDA context
/// and NCCL's buffers. The driver reports the whole device.
Bytes comparable(const MemoryByKind& memory, bool whole_device, MemoryReport report) {
  if (whole_device) return memory.total();
  return report == MemoryReport::reserved ? memory.reserved() : memory.allocated();
}

void set_memory(RowForecast& out, const Forecast& forecast, bool whole_device, MemoryReport report) {
  for (const MemoryByKind& memory : forecast.memory) {
    out.predicted_memory_gib = std::max(out.predicted_memory_gib, gib(memory.total()));
    out.comparable_memory_gib = std::max(out.comparable_memory_gib, gib(comparable(memory, whole_device, report)));
  }
  out.capacity_gib = gib(forecast.memory_capacity);
  out.fits = forecast.fits;
}

/// The time from step to step where a rank begins the next step while others still finish this one: the longest time
/// that a rank works, from its first kernel to its last and its optimizer. No barrier waits for all ranks.
/// Source: Zero Bubble (Qi et al. 2401.10241), 4 (optimizer validated afterwards), 5.3 (cost: the longest time of a
/// stage)
Duration between_overlapping_steps(const StepGraph& graph, const Timeline& timeline) {
  struct Own {
    Duration first = Duration{std::numeric_limits<std::int64_t>::max()}, last, optimizer;
  };
  std::vector<Own> ranks(graph.ranks.size());
  for (const Span& span : timeline.spans) {
    const Template& work = graph.templates[static_cast<std::size_t>(span.template_index)];
    const Op& op = work.ops[static_cast<std::size_t>(span.op)];
    if (op.type != OpType::compute || op.payload < 0) continue;
    Own& own = ranks[static_cast<std::size_t>(span.rank)];
    if (work.phase == Phase::optimizer) {
      own.optimizer += span.end - span.start;
    } else {
      own.first = std::min(own.first, span.start);
      own.last = std::max(own.last, span.end);
    }
  }
  Duration longest;
  for (const Own& own : ranks)
    if (own.last > own.first) longest = std::max(longest, own.last - own.first + own.optimizer);
  return longest > Duration{} ? std::min(longest, timeline.step_time) : timeline.step_time;
}

void set_time(RowForecast& out, const RowScenario& row, const RowSimulation& simulation, const StepGraph& graph,
              const Timeline& timeline, bool bands) {
  out.sensitivities = sensitivities(graph, timeline);
  const Duration step = row.steps_overlap ? between_overlapping_steps(graph, timeline) : timeline.step_time;
  out.predicted_s = seconds(step);
  const double share = out.predicted_s / std::max(1e-12, out.sensitivities.step_s);
  for (std::size_t k = 0; k < kCostParameters; ++k) {
    out.sensitivities.path_s[k] *= share;
    out.sensitivities.spread_s[k] *= share;
  }
  out.sensitivities.step_s = out.predicted_s;
  const bool steps = bands && !timeline.spans.empty() && timeline.step_time > Duration{};
  set_band(out, row, steps ? host_deviation(simulation, graph, timeline.step_time) : 0);
}

/// One forecast for each set of factors; the step is built once.
std::vector<RowForecast> forecast_row(const CsvTable& table, std::size_t index, const RowLibrary& library,
                                      const ValidateOptions& options, const std::vector<FactorsOf>& sets) {
  RowForecast out = read_reported(table, index);
  if (options.wanted && !options.wanted(index)) out.skipped = "not asked for";
  const auto for_all = [&] { return std::vector<RowForecast>(sets.size(), out); };
  if (!out.skipped.empty()) return for_all();
  Result<RowScenario> row = scenario_of_row(table, index, library);
  if (!row) {
    const Diagnostic& why = row.error().diagnostics.front();
    out.skipped = why.key + ": " + why.message;
    return for_all();
  }
  if (options.change) options.change(*row);
  out.stack = row->stack;
  out.architecture = row->scenario.profile.architecture;
  out.moe = row->scenario.model.moe.has_value();
  ForecastOptions how = options.forecast;
  how.record_spans |= row->steps_overlap;  // between_overlapping_steps reads them
  const Result<ForecastRun> run = with_least_recompute(*row, how);
  out.assumptions = row->assumptions;
  if (!run) {
    out.skipped = run.error().diagnostics.front().key + ": " + run.error().diagnostics.front().message;
    return for_all();
  }
  const bool whole_device = table.text(index, "mem_kind").starts_with("max GPU memory");
  out.traits = run_traits(*row);
  set_memory(out, run->forecast, whole_device, row->memory_report);
  const RowSimulation simulation(row->scenario, run->network, how);
  std::vector<RowForecast> all = for_all();
  for (std::size_t i = 0; i < sets.size(); ++i) {
    if (!sets[i]) {
      set_time(all[i], *row, simulation, run->graph, run->timeline, options.bands);
      continue;
    }
    const StepGraph graph = scaled(run->graph, sets[i](*row));
    set_time(all[i], *row, simulation, graph, simulation.with_spans(graph), options.bands);
  }
  return all;
}

/// One letter is missing, added, replaced or exchanged with the next.
bool one_letter_off(const std::string& a, const std::string& b) {
  if (a.size() > b.size()) return one_letter_off(b, a);
  if (b.size() - a.size() > 1 || a == b) return false;
  std::size_t same = 0;
  while (same < a.size() && a[same] == b[same]) ++same;
  const auto rest_is = [&](std::size_t in_a, std::size_t in_b) { return a.substr(in_a) == b.substr(in_b); };
  if (a.size() < b.size()) return rest_is(same, same + 1);
  const bool exchanged = same + 1 < a.size() && a[same] == b[same + 1] && a[same + 1] == b[same];
  return rest_is(same + 1, same + 1) || (exchanged && rest_is(same + 2, same + 2));
}

/// A table may have columns of its own, so a misspelt column would silently be one of them. Errors: a column whose name is one letter off
/// that of a column which sets something in the forecast and which the table lacks.
Result<void> check_columns(const CsvTable& table) {
  static constexpr const char* kSettings[] = {"kv_heads",
                                              "head_dim",
                                              "ffn_hidden",
                                              "gated_mlp",
                                              "vocab",
                                              "tied_embeddings",
                                              "attention_kind",
                                              "moe_experts",
                                              "moe_topk",
                                              "moe_ffn_hidden",
                                              "moe_shared_ffn_hidden",
                                              "moe_dense_layers",
                                              "moe_dispatcher",
                                              "gpu_mem_gb",
                                              "gpus_per_node",
                                              "inter_node_link",
                                              "intra_node_link",
                                              "framework",
                                              "zero_stage",
                                              "distributed_optimizer",
                                              "fsdp_shard_size",
                                              "seq_parallel",
                                              "micro_batch",
                                              "num_microbatches",
                                              "schedule",
                                              "pipeline_split",
                                              "precision",
                                              "precision_detail",
                                              "recompute",
                                              "recompute_detail",
                                              "flash_attention",
                                              "tp_comm_overlap",
                                              "compiled",
                                              "step_time_s",
                                              "outcome",
                                              "mem_gb_reported"};
  for (const std::string& column : table.header())
    for (const char* setting : kSettings)
      if (one_letter_off(column, setting) && !table.has(setting))
        return fail({table.file(), 1, column, "", fmt::format("unknown column (did you mean '{}'?)", setting)});
  return {};
}

}  // namespace

std::vector<std::vector<RowForecast>> validate_each(const CsvTable& table, const RowLibrary& library,
                                                    const std::vector<FactorsOf>& sets,
                                                    const ValidateOptions& options) {
  std::vector<std::vector<RowForecast>> rows(sets.size(), std::vector<RowForecast>(table.rows()));
  const std::thread::id caller = std::this_thread::get_id();
  parallel_for(table.rows(), options.threads, [&](std::size_t i) {
    std::vector<RowForecast> row = forecast_row(table, i, library, options, sets);
    for (std::size_t set = 0; set < sets.size(); ++set) rows[set][i] = std::move(row[set]);
    if (options.progress && std::this_thread::get_id() == caller)
      options.progress(static_cast<int>(i), static_cast<int>(table.rows()));
  });
  return rows;
}

Result<std::vector<RowForecast>> validate(const CsvTable& table, const RowLibrary& library,
                                          const ValidateOptions& options) {
  if (const Result<void> ok = check_columns(table); !ok) return tl::unexpected(ok.error());
  std::vector<const char*> required{"seq_len", "global_batch_seqs", "gpu", "gpu_count"};
  if (!table.has("model_name")) required.insert(required.begin(), {"layers", "hidden", "heads"});
  for (const char* column : required)
    if (!table.has(column))
      return fail({table.file(), 1, column, "", "not a column of the table; runs cannot be forecast without it"});
  return std::move(validate_each(table, library, {options.factors}, options).front());
}

}  // namespace tracecast::accuracy
