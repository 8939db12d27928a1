// A lecture's table of strategies (docs/references.md#case-studies), generated from step graphs.
#include "sim/forecast/strategies.hpp"

#include <algorithm>

#include <catch2/catch.hpp>

#include "sim/report/strategies_text.hpp"
#include "tests/support/shipped.hpp"

using namespace tracecast;

namespace {

Scenario base() { return shipped_scenario("strategies"); }

const std::vector<StrategyRow>& table() {
  static const std::vector<StrategyRow> rows = strategy_table(base(), 4).value();
  return rows;
}

const StrategyRow& row(const std::string& name) {
  const auto found =
      std::find_if(table().begin(), table().end(), [&](const StrategyRow& each) { return each.name == name; });
  REQUIRE(found != table().end());
  return *found;
}

/// "gradients: all_reduce per step"
std::vector<std::string> traffic(const std::string& name) {
  std::vector<std::string> text;
  for (const StrategyTraffic& each : row(name).traffic)
    text.push_back(each.what + ": " + to_string(each.collective) + " " + how_often(each));
  std::sort(text.begin(), text.end());
  return text;
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("DP divides data, keeps the model, all-reduces gradients once in a step",
          "[row-1-17][requirements][report]") {
  CHECK(divided(row("dp")) == Words{"tokens"});
  CHECK(whole(row("dp")) == Words{"weights", "gradients", "optimizer", "activations"});
  CHECK(traffic("dp") == Words{"gradients: all_reduce per step"});
  CHECK(row("dp").same_operators);             // easy: the model runs as it is
  CHECK(row("dp").traffic.front().calls > 1);  // in several buckets
  CHECK(row("dp").hidden > 0.5);
  CHECK(row("dp").limit.empty());  // nothing stops it but the batch, which grows with the ranks
}

TEST_CASE("pros and cons: DP and ZeRO grow the batch, DP keeps the model whole, PP waits, TP sends in every layer",
          "[row-1-17][row-1-18][row-1-19][row-1-20][requirements][report]") {
  const auto has = [](const Words& list, const std::string& begin) {
    return std::ranges::any_of(list, [&](const std::string& each) { return each.starts_with(begin); });
  };
  CHECK(has(pros(row("dp")), "the model's code stays that of one GPU"));
  CHECK(has(cons(row("dp")), "large batch: it grows with the ranks, 4 times here"));
  CHECK(has(cons(row("dp")), "memory: every rank keeps all weights, gradients, optimizer"));
  CHECK(has(cons(row("zero-3")), "large batch"));
  CHECK_FALSE(has(cons(row("zero-3")), "memory"));
  CHECK(has(pros(row("zero-3")), "each rank keeps a part of weights, gradients, optimizer"));
  CHECK(has(cons(row("zero-1")), "memory: every rank keeps all weights, gradients"));
  CHECK(has(pros(row("pp")), "the global batch stays as it is"));
  CHECK(has(cons(row("pp")), "bubble"));
  CHECK(has(cons(row("pp")), "no more than 16 ranks"));
  CHECK_FALSE(has(cons(row("pp")), "large batch"));
  CHECK(has(cons(row("tp")), "traffic in every layer and micro-batch"));
  CHECK(has(cons(row("tp")), "the step waits for most of the communication"));
  CHECK(has(cons(row("tp")), "every layer has to be rewritten"));
}

TEST_CASE("the global batch grows with the data-parallel ranks, and the table says so",
          "[row-1-22][row-1-35][requirements][report]") {
  const std::vector<StrategyRow> eight = strategy_table(base(), 8).value();
  for (std::size_t i = 0; i < eight.size(); ++i) {
    CAPTURE(eight[i].name);
    if (eight[i].traffic.empty()) continue;
    const bool by_data = eight[i].share.at("tokens") < 0.9 && eight[i].name != "cp";
    CHECK(table()[i].global_batch == (by_data ? 4 * 4 : 4));
    CHECK(eight[i].global_batch == (by_data ? 8 * 4 : 4));
  }
  const std::string page = strategies_terminal(eight, base(), {.width = 100});
  CHECK(page.find("32 sequences, 8 times that of one GPU") != std::string::npos);
  CHECK(page.find("4 sequences, as on one GPU") != std::string::npos);
}

TEST_CASE("ZeRO-3 divides the model between uses, gathers weights and scatters gradients layer by layer",
          "[row-1-18][row-3-2][requirements][report]") {
  CHECK(divided(row("zero-3")) == Words{"tokens", "weights", "gradients", "optimizer"});
  CHECK(traffic("zero-3") ==
        Words{"gradients: reduce_scatter per layer and micro-batch", "weights: all_gather per layer and micro-batch"});
  CHECK(row("zero-3").same_operators);
  CHECK(divided(row("zero-1")) == Words{"tokens", "optimizer"});
  CHECK(divided(row("zero-2")) == Words{"tokens", "gradients", "optimizer"});
  CHECK(traffic("zero-1") == Words{"gradients: reduce_scatter per step", "weights: all_gather per step"});
  CHECK(traffic("zero-2") == Words{"gradients: reduce_scatter per micro-batch", "weights: all_gather per step"});
  CHECK(traffic("hsdp") == Words{"gradients: all_reduce per layer and micro-batch",
                                 "gradients: reduce_scatter per layer and micro-batch",
                                 "weights: all_gather per layer and micro-batch"});
}

TEST_CASE("PP divides the model and sends activations between neighbours", "[row-1-19][requirements][report]") {
  // Every stage sees all tokens; 1F1B keeps four micro-batches of a quarter of the layers on the first
  // rank, without the logits.
  CHECK(divided(row("pp")) == Words{"weights", "gradients", "optimizer"});
  CHECK(row("pp").share.at("activations") == Approx(0.83).margin(0.05));
  CHECK(traffic("pp") == Words{"activations: send_recv per micro-batch"});
  CHECK(row("pp").traffic.front().calls == 2 * 4);  // one each way for each of four micro-batches
  CHECK(row("pp").same_operators);
  CHECK(row("pp").bubble > 0.2);
  CHECK(row("pp").largest == 16);  // layers
}

TEST_CASE("TP divides the model inside its layers, four all-reduces per layer, none hidden",
          "[row-1-20][row-1-32][row-3-19][row-3-20][requirements][report]") {
  CHECK(divided(row("tp")) == Words{"weights", "gradients", "optimizer", "activations"});
  REQUIRE(row("tp").traffic.size() == 1);
  CHECK(traffic("tp") == Words{"activations: all_reduce per layer and micro-batch"});
  CHECK_FALSE(row("tp").same_operators);
  CHECK(row("tp").hidden < 0.5);
  CHECK(row("tp").largest == 16);  // heads
}

TEST_CASE("gathering every layer takes twice the collectives of cutting by columns and then by rows",
          "[row-4-14][requirements][report]") {
  const std::vector<std::string> forward_and_backward{"activations: all_gather per layer and micro-batch",
                                                      "activations: all_reduce per layer and micro-batch"};
  CHECK(traffic("tp-gather") == forward_and_backward);
  const auto in_layers = [](const std::string& name, Collective what) {
    std::int64_t calls = 0;
    for (const StrategyTraffic& each : row(name).traffic)
      if (each.collective == what) calls += each.calls;
    return calls;
  };
  // Two blocks per layer. By columns and rows: one all-reduce each way and block. Gathered: two gathers forward, two
  // all-reduces of input gradients backward. Both ends of the model are the same.
  const Scenario scenario = base();
  const std::int64_t blocks = std::int64_t{2} * scenario.model.num_layers * 4;
  const std::int64_t ends = in_layers("tp", Collective::all_reduce) - 2 * blocks;
  CHECK(ends >= 0);
  CHECK(in_layers("tp-gather", Collective::all_gather) == 2 * blocks);
  CHECK(in_layers("tp-gather", Collective::all_reduce) - ends == 2 * blocks);
  const auto sent = [](const std::string& name) {
    double bytes = 0;
    for (const StrategyTraffic& each : row(name).traffic) bytes += each.sent_bytes;
    return bytes;
  };
  CHECK(sent("tp-gather") > 1.5 * sent("tp"));
  // The weights are divided alike; what is gathered is kept whole by every rank.
  CHECK(row("tp-gather").share.at("weights") == row("tp").share.at("weights"));
  CHECK(row("tp-gather").share.at("activations") > row("tp").share.at("activations"));
}

TEST_CASE("strategies: what a strategy divides does not depend on the number of ranks", "[requirements][report]") {
  for (const int ranks : {2, 8}) {
    const std::vector<StrategyRow> rows = strategy_table(base(), ranks).value();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      CAPTURE(ranks, rows[i].name);
      // Half of two ranks is one; a pipeline with more stages than micro-batches keeps fewer of them than stages.
      if ((rows[i].name == "hsdp" && ranks == 2) || (rows[i].name == "pp" && ranks == 8)) continue;
      CHECK(divided(rows[i]) == divided(table()[i]));
    }
  }
}

TEST_CASE("a parameter server takes gradients and gives weights once in a step", "[row-2-3][requirements][report]") {
  CHECK(divided(row("ps")) == Words{"tokens", "optimizer"});
  CHECK(traffic("ps") == Words{"gradients: send_recv per step", "weights: send_recv per step"});
}

TEST_CASE("strategies: context and expert parallelism divide tokens and exchange inside layers",
          "[requirements][report]") {
  CHECK(row("cp").share.at("tokens") == 0.25);
  REQUIRE_FALSE(row("cp").traffic.empty());
  CHECK(std::any_of(row("cp").traffic.begin(), row("cp").traffic.end(), [](const StrategyTraffic& each) {
    return each.what == "keys and values" && each.per_layer && each.per_microbatch;
  }));
  CHECK(std::any_of(row("ep").traffic.begin(), row("ep").traffic.end(), [](const StrategyTraffic& each) {
    return each.what == "tokens" && each.collective == Collective::all_to_all && each.per_layer;
  }));
}

TEST_CASE("strategies: the page, the Markdown table and the JSON have every row", "[report]") {
  const std::string page = strategies_terminal(table(), base(), {.width = 100});
  CHECK(page.starts_with(base().model.name + ", "));
  CHECK(page.find(" layers, on 4 GPUs of " + base().cluster.name + ". Each data-parallel rank has 4 micro-batches") !=
        std::string::npos);
  CHECK(page.find("the model has no experts: each FFN is replaced by 64 of its size, 2 for a token") !=
        std::string::npos);
  const std::string markdown = strategies_markdown(table());
  const std::string json = strategies_json(table());
  for (const StrategyRow& each : table()) {
    CHECK(page.find(each.title) != std::string::npos);
    CHECK(markdown.find("| " + each.title + " |") != std::string::npos);
    CHECK(json.find("\"" + each.name + "\"") != std::string::npos);
  }
  CHECK(markdown.find("gradients: all_reduce per step (") != std::string::npos);
}

TEST_CASE("strategies: a strategy that the model does not allow names the key", "[report]") {
  Scenario odd = base();
  odd.model.num_layers = 126;
  const std::vector<StrategyRow> rows = strategy_table(odd, 4).value();
  const auto pp = std::ranges::find(rows, "pp", &StrategyRow::name);
  CHECK(pp->limit.starts_with("parallel.pp: does not divide model.num_layers = 126"));
}
