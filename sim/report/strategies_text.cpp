#include "sim/report/strategies_text.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include "sim/base/markup.hpp"

namespace tracecast {
namespace {

using Json = nlohmann::ordered_json;

std::string list(const std::vector<std::string>& words) {
  return words.empty() ? "nothing" : fmt::format("{}", fmt::join(words, ", "));
}

std::string traffic_text(const StrategyTraffic& traffic) {
  return fmt::format("{}: {} {} ({})", traffic.what, to_string(traffic.collective), how_often(traffic), traffic.calls);
}

std::string limit_text(const StrategyRow& row) {
  if (row.limit.empty()) return "no limit found";
  return row.largest > 0 ? fmt::format("{} ranks; then {}", row.largest, row.limit) : row.limit;
}

/// "16 sequences, 4 times that of one GPU".
std::string batch_text(const StrategyRow& row) {
  const std::string text = fmt::format("{} sequences", row.global_batch);
  const std::int64_t times = row.global_batch / kOneGpuBatch;
  return times > 1 ? text + fmt::format(", {} times that of one GPU", times) : text + ", as on one GPU";
}

std::string code_text(const StrategyRow& row) {
  return row.same_operators ? "the operators of one GPU" : "operators of other shapes than one GPU's";
}

Json traffic_json(const StrategyTraffic& traffic) {
  return {{"what", traffic.what},
          {"collective", to_string(traffic.collective)},
          {"how_often", how_often(traffic)},
          {"calls", traffic.calls},
          {"sent_bytes", traffic.sent_bytes}};
}

}  // namespace

std::string strategies_terminal(const std::vector<StrategyRow>& rows, const Scenario& base, const TextStyle& style) {
  std::string text = paragraph(
      "",
      fmt::format("{}, {} layers, on {} GPUs of {}. Each data-parallel rank has {} micro-batches of one sequence of "
                  "{} tokens. In brackets: calls of one rank in a step.",
                  base.model.name, base.model.num_layers, rows.front().ranks, base.cluster.name, kOneGpuBatch,
                  number(static_cast<double>(base.training.seq_length), 1)),
      style);
  const auto fact = [&](const char* name, const std::string& value) {
    text += paragraph("  " + pad_right(name, 13), value, style);
  };
  for (const StrategyRow& row : rows) {
    text += "\n" + heading(fmt::format("{} ({})", row.title, row.name), style) + "\n";
    if (row.traffic.empty()) {
      fact("not here", row.limit);
      continue;
    }
    if (!row.note.empty()) fact("model", row.note);
    fact("divided", list(divided(row)));
    fact("whole", list(whole(row)));
    for (const StrategyTraffic& traffic : row.traffic) fact("sends", traffic_text(traffic));
    fact("hidden", percent(row.hidden, 0) + " of the communication" +
                       (row.bubble > 0.01 ? ", bubble " + percent(row.bubble, 0) + " of the step" : ""));
    fact("runs", code_text(row));
    fact("up to", limit_text(row));
    fact("global batch", batch_text(row));
    for (const std::string& pro : pros(row)) fact("pro", pro);
    for (const std::string& con : cons(row)) fact("con", con);
  }
  return text;
}

std::string strategies_markdown(const std::vector<StrategyRow>& rows) {
  std::string text =
      "| strategy | divided | whole on every rank | communicates | hidden | runs | up to | pros | cons |\n"
      "| --- | --- | --- | --- | --- | --- | --- | --- | --- |\n";
  for (const StrategyRow& row : rows) {
    std::vector<std::string> traffic;
    for (const StrategyTraffic& each : row.traffic) traffic.push_back(traffic_text(each));
    text += fmt::format("| {} | {} | {} | {} | {} | {} | {} | {} | {} |\n", row.title, list(divided(row)),
                        list(whole(row)), fmt::join(traffic, "; "), percent(row.hidden, 0), code_text(row),
                        limit_text(row), fmt::join(pros(row), "; "), fmt::join(cons(row), "; "));
  }
  return text;
}

std::string strategies_json(const std::vector<StrategyRow>& rows) {
  Json out = Json::array();
  for (const StrategyRow& row : rows) {
    Json traffic = Json::array();
    for (const StrategyTraffic& each : row.traffic) traffic.push_back(traffic_json(each));
    out.push_back({{"name", row.name},
                   {"title", row.title},
                   {"ranks", row.ranks},
                   {"note", row.note},
                   {"share_of_one_rank", Json(row.share)},
                   {"divided", divided(row)},
                   {"whole", whole(row)},
                   {"traffic", traffic},
                   {"hidden", row.hidden},
                   {"bubble_fraction", row.bubble},
                   {"same_operators", row.same_operators},
                   {"largest_ranks", row.largest},
                   {"limit", row.limit},
                   {"global_batch", row.global_batch},
                   {"pros", pros(row)},
                   {"cons", cons(row)}});
  }
  return json_file(Json{{"strategies", out}});
}

}  // namespace tracecast
