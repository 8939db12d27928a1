#include "sim/import/launchers/megatron_pipeline.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "sim/import/launchers/megatron_words.hpp"
#include "sim/io/fields.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

constexpr std::int64_t kMaxStages = 10'000;

/// --pipeline-model-parallel-layout: Et*2|(tt|)*5t|tmL
void import_written_layout(RunImport& run, Name key, const std::string& text, std::int64_t pp) {
  const std::optional<std::vector<int>> stages = parse_pipeline_layout(text);
  if (!stages) return run.error(key, "is not a pipeline layout (allowed: E t m L | and *n, as in Et*2|(tt|)*5t|tmL)");
  if (stages->size() % static_cast<std::size_t>(pp) != 0)
    return run.error(key, fmt::format("has {} stages, no multiple of {} pipeline ranks", stages->size(), pp));
  run.put("parallel.vpp", static_cast<std::int64_t>(stages->size()) / pp, key);
  run.put("parallel.pp_layout", node_of(*stages), key);
  const std::size_t prediction = text.find('m');
  if (prediction != std::string::npos && text.find('|', prediction) != std::string::npos)
    run.assume(fmt::format("{}: the prediction layer m is computed on the last virtual stage, with the loss", key));
}

/// The layers of the first and last pipeline rank; the others have equal shares of the rest.
void import_uneven_ends(RunImport& run, std::int64_t layers, std::int64_t pp) {
  const Name first_key = run.first_of({"decoder-first-pipeline-num-layers", "num-layers-in-first-pipeline-stage"});
  const Name last_key = run.first_of({"decoder-last-pipeline-num-layers", "num-layers-in-last-pipeline-stage"});
  const auto first = run.count(first_key);
  const auto last = run.count(last_key);
  if (!first && !last) return;
  const Name from = first ? first_key : last_key;
  const std::int64_t vpp = std::clamp<std::int64_t>(run.given_count("parallel.vpp", 1), 1, kMaxStages);
  const std::int64_t between = pp - (first ? 1 : 0) - (last ? 1 : 0);
  const std::int64_t rest = layers - first.value_or(0) - last.value_or(0);
  if (rest < 0 || (between > 0 ? rest % between != 0 : rest != 0) || layers > kMaxStages * kMaxStages)
    return run.error(from, fmt::format("leaves {} layers, which do not divide over {} stages", rest, between));
  std::vector<int> stages;
  for (std::int64_t chunk = 0; chunk < vpp; ++chunk)
    for (std::int64_t rank = 0; rank < pp; ++rank) {
      const std::int64_t of_rank = first && rank == 0       ? *first
                                   : last && rank == pp - 1 ? *last
                                                            : rest / std::max<std::int64_t>(between, 1);
      if (of_rank % vpp != 0) return run.error(from, fmt::format("does not divide over {} chunks", vpp));
      stages.push_back(static_cast<int>(of_rank / vpp));
    }
  run.put("parallel.pp_layout", node_of(stages), from);
}

/// Megatron-Bridge lists the layers of each stage: [[embedding, decoder], [decoder, loss]] is Et|tL. "?": none of these
/// words.
std::string listed_layout(const JsonNode& stages) {
  constexpr std::pair<Name, char> kLetters[] = {{"embedding", 'E'}, {"decoder", 't'}, {"mtp", 'm'}, {"loss", 'L'}};
  std::string text;
  for (const JsonNode& stage : stages.items) {
    if (&stage != &stages.items.front()) text += '|';
    for (const JsonNode& layer : stage.items) {
      const auto* const letter = std::ranges::find(kLetters, Name(layer.string), &std::pair<Name, char>::first);
      text += letter == std::end(kLetters) ? '?' : letter->second;
    }
  }
  return text;
}

void import_layout(RunImport& run, std::int64_t layers) {
  constexpr Name kLayout = "pipeline-model-parallel-layout";
  const std::int64_t pp = std::clamp<std::int64_t>(run.given_count("parallel.pp", 1), 1, kMaxStages);
  if (const JsonNode* const layout = run.find(kLayout); layout != nullptr)
    import_written_layout(run, kLayout, layout->items.empty() ? run.word(kLayout) : listed_layout(*layout), pp);
  else
    import_uneven_ends(run, layers, pp);
  constexpr Name kOverlap = "overlap-moe-expert-parallel-comm";
  if (run.flag(kOverlap).value_or(false)) run.put("parallel.pp_schedule", "combined-1f1b", kOverlap);
}

constexpr const char* kChunks = "parallel.vpp";

/// Megatron-LM divides the layers by pipeline ranks first, embedding and loss counted as asked, and then by this
/// number.
void import_layers_of_chunk(RunImport& run, std::int64_t layers) {
  constexpr Name kLayers = "num-layers-per-virtual-pipeline-stage";
  if (run.is_overridden(kChunks)) return run.take(kLayers);
  const auto per_stage = run.count(kLayers, kChunks);
  if (!per_stage) return;
  const std::int64_t pp = std::max<std::int64_t>(run.given_count("parallel.pp", 1), 1);
  const std::int64_t items = run.pipeline_items(layers);
  if (items % pp != 0)
    return run.error(kLayers, fmt::format("cuts {} layers{}, which do not divide over {} pipeline ranks", items,
                                          items == layers ? "" : " (with embedding and loss as asked)", pp));
  if (*per_stage < 1 || items / pp % *per_stage != 0)
    return run.error(kLayers, fmt::format("does not divide the {} layers of a pipeline rank", items / pp));
  run.put("parallel.vpp", items / pp / *per_stage, kLayers);
}

void import_chunks(RunImport& run, std::int64_t layers) {
  const Name chunks = run.first_of({"num-virtual-stages-per-pipeline-rank", "virtual-pipeline-model-parallel-size"});
  if (const auto count = run.count(chunks, kChunks)) run.put(kChunks, *count, chunks);
  import_layers_of_chunk(run, layers);
}

}  // namespace

void import_megatron_pipeline(RunImport& run, std::int64_t layers) {
  import_chunks(run, layers);
  import_layout(run, layers);
}

}  // namespace tracecast
