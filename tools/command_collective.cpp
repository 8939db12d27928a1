/// `tracecast collective`: how long one collective takes on a machine, and how NCCL would run it.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <CLI/CLI.hpp>
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "sim/base/quantity_text.hpp"
#include "sim/base/words.hpp"
#include "sim/io/files.hpp"
#include "sim/io/scenario.hpp"
#include "sim/network/cluster_links.hpp"
#include "sim/network/fabric.hpp"
#include "sim/network/flow_cost.hpp"
#include "sim/network/nccl_tuning.hpp"
#include "sim/network/network_model.hpp"
#include "sim/report/bandwidth_svg.hpp"
#include "tools/command_rows.hpp"
#include "tools/named_files.hpp"
#include "tools/named_values.hpp"
#include "tools/option_checks.hpp"
#include "tools/renamed.hpp"

namespace tracecast::cli {
namespace {

using Json = nlohmann::ordered_json;

const auto kCollectiveNames = values_by_name<Collective>();
const auto kAlgorithmNames = values_by_name<Algorithm>();
const auto kProtocolNames = values_by_name<Protocol>();
const auto kNetworkNames = values_by_name<NetworkKind>();

const auto kRoutings = values_by_name<RoutingPolicy>();

struct CollectiveOptions {
  std::string topology;
  std::string op = "all_reduce";
  int ranks = 0;
  int stride = 1;
  std::string bytes = "1 GiB";
  std::string algorithm = "automatic";
  std::string protocol = "automatic";
  std::string network = "isolated";
  std::string routing = "even";
  std::optional<std::int64_t> seed;
  bool sweep = false;
  std::string svg;
  bool json = false;
};

/// One line of the answer.
struct Row {
  CollectiveCall call;
  CollectiveCost cost;
};

struct Question {
  Cluster cluster;
  std::string architecture;
  GroupPlacement group;
  CollectiveCall call;
  NetworkKind network = NetworkKind::isolated;
  std::vector<std::vector<int>> siblings;  ///< the group first
};

/// The profile's architecture; for a GPU without a profile it is derived from the name.
std::string architecture_of(const Cluster& cluster) {
  const Result<Profile> profile = named_profile(cluster.gpu);
  return profile ? profile->architecture : std::string(architecture_of_gpu(cluster.gpu));
}

/// The machine, just large enough for the group.
Result<Cluster> sized_cluster(const CollectiveOptions& options) {
  Result<Cluster> cluster = named_topology(options.topology);
  if (!cluster) return cluster;
  const int ranks = options.ranks > 0 ? options.ranks : cluster->node.gpus;
  const std::int64_t world = static_cast<std::int64_t>(ranks - 1) * options.stride + 1;
  const std::int64_t most = cluster->max_nodes > 0 ? static_cast<std::int64_t>(cluster->max_nodes) * cluster->node.gpus
                                                   : std::int64_t{kMostGpus};
  if (world > most)
    return fail_key("--ranks", std::to_string(ranks), fmt::format("{} has {} GPUs", cluster->name, most));
  cluster->world_size = static_cast<int>(std::min(world + options.stride - 1, most));
  use_racks(*cluster, {}, 0);
  cluster->world_size = static_cast<int>(world);
  if (const auto faults = impossible_values(*cluster); !faults.empty())
    return fail_key("--ranks", std::to_string(ranks), faults.front().message);
  cluster->routing = kRoutings.at(options.routing);
  cluster->routing_seed = options.seed.value_or(cluster->routing_seed);
  return cluster;
}

std::vector<int> group_from(const Cluster& cluster, int first, int stride) {
  std::vector<int> ranks;
  for (int rank = first; rank < cluster.world_size; rank += stride) ranks.push_back(rank);
  return ranks;
}

GroupPlacement group_of(const Cluster& cluster, const CollectiveOptions& options) {
  return place(cluster, group_from(cluster, 0, options.stride), std::min(options.stride, cluster.node.gpus));
}

/// The group and its sibling groups, on a machine that is large enough for all of them.
void add_siblings(const CollectiveOptions& options, Question& question) {
  question.cluster.world_size += options.stride - 1;
  for (int first = 0; first < options.stride; ++first)
    question.siblings.push_back(group_from(question.cluster, first, options.stride));
}

Result<Question> read_question(const CollectiveOptions& options) {
  if (options.seed && options.routing != "ecmp")
    return fail_key("--routing-seed", std::to_string(*options.seed), "needs --routing ecmp");
  if (options.routing == "ecmp" && options.network == "isolated")
    return fail_key(
        "--routing", "ecmp",
        "needs single cables, which the isolated network does not model (allowed: --network fluid, --network "
        "simgrid)");
  const Result<Cluster> cluster = sized_cluster(options);
  if (!cluster) return tl::unexpected(cluster.error());
  if (const Result<void> routed = check_routing(*cluster); !routed) return tl::unexpected(routed.error());
  const Result<Bytes> size = parse_bytes(options.bytes);
  if (!size) return fail_key("--bytes", options.bytes, size.error().diagnostics.front().message);
  if (size->count > kMaxCollectiveBytes)
    return fail_key("--bytes", options.bytes, "is more than one call may have (allowed: up to 1024 TiB)");
  Question question{*cluster,
                    architecture_of(*cluster),
                    group_of(*cluster, options),
                    {kCollectiveNames.at(options.op), *size, kAlgorithmNames.at(options.algorithm),
                     kProtocolNames.at(options.protocol)},
                    kNetworkNames.at(options.network),
                    {}};
  if (question.call.collective == Collective::send_recv && question.group.ranks != 2)
    return fail_key("--op", "send_recv", "is between two ranks: --ranks 2");
  if (question.group.ranks == 1) return fail_key("--ranks", "1", "a collective needs at least 2 GPUs");
  const std::string why = unsupported_reason(question.cluster, question.architecture, question.call, question.group);
  if (!why.empty()) return fail(why);
  if (question.network != NetworkKind::isolated) add_siblings(options, question);
  return question;
}

Result<CollectiveCost> cost_of(const Question& question, const NetworkModel& analytic, const CollectiveCall& call) {
  const CollectiveCost alone = analytic.cost(call, question.group);
  if (alone.duration > from_seconds(kSecondsPerDay))
    return fail(
        fmt::format("{} of {} takes more than a day on {} (allowed: up to a day; check the rates and latencies)",
                    to_string(call.collective), to_text(call.size), question.cluster.name));
  if (question.siblings.empty()) return alone;
  return flow_cost(question.network, question.cluster, question.architecture, {call, question.siblings});
}

Result<std::vector<Row>> answer(const Question& question, bool sweep) {
  const auto network = make_analytic_network(question.cluster, question.architecture);
  std::vector<Row> rows;
  for (std::int64_t size = sweep ? 1024 : question.call.size.count; size <= question.call.size.count; size *= 2) {
    CollectiveCall call = question.call;
    call.size = {size};
    const Result<CollectiveCost> cost = cost_of(question, *network, call);
    if (!cost) return tl::unexpected(cost.error());
    rows.push_back({call, *cost});
    if (size == 0) break;
  }
  return rows;
}

double algbw(const Row& row) {
  const double time = seconds(row.cost.duration);
  return time > 0 ? static_cast<double>(row.call.size.count) / time : 0;
}

double busbw(const Row& row, int ranks) {
  return bus_bandwidth(row.call.collective, ranks, row.call.size, row.cost.duration);
}

/// So many digits behind the point as a reader needs: the last of a double differ between machines.
double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

Json json_row(const Row& row, int ranks) {
  return {{"bytes", row.call.size.count},
          {"time_us", rounded(microseconds(row.cost.duration), 6)},
          {"algbw_gb_s", rounded(algbw(row) * 1e-9, 4)},
          {"busbw_gb_s", rounded(busbw(row, ranks) * 1e-9, 4)},
          {"algorithm", to_string(row.cost.algorithm)},
          {"protocol", to_string(row.cost.protocol)},
          {"channels", row.cost.channels},
          {"spread", rounded(row.cost.spread, 4)},
          {"provenance", to_string(row.cost.provenance)}};
}

std::string json_answer(const Question& question, const std::vector<Row>& rows) {
  Json json{{"topology", question.cluster.name},
            {"op", to_string(question.call.collective)},
            {"ranks", question.group.ranks},
            {"nodes", question.group.nodes}};
  if (question.cluster.routing == RoutingPolicy::ecmp)
    json["routing"] = {{"policy", "ecmp"}, {"seed", question.cluster.routing_seed}};
  json["results"] = Json::array();
  for (const Row& row : rows) json["results"].push_back(json_row(row, question.group.ranks));
  return json.dump(2) + "\n";
}

std::string place_text(const Question& question) {
  const GroupPlacement& group = question.group;
  if (group.nodes == 1) return fmt::format("{} ranks in one node of {}", group.ranks, question.cluster.name);
  const int others = group.ranks - group.ranks_per_node * (group.nodes - 1);
  const bool unequal = others > 0 && others < group.ranks_per_node;
  return fmt::format(
      "{} ranks on {} nodes of {}, {}{:g} NICs per node{}", group.ranks, group.nodes, question.cluster.name,
      unequal ? "at least " : "", group.nics,
      unequal ? fmt::format("; unequal: {} ranks per node, {} on the last", group.ranks_per_node, others) : "");
}

std::string page(const Question& question, const Row& row, const TextStyle& style) {
  const std::string paths = path_text(question.cluster);
  return fmt::format(
      "{} of {}\n\n{}{}  time      {} +- {}\n  algbw     {}\n  busbw     {}\n  chosen    {}, "
      "protocol {}, {} "
      "channels\n",
      to_string(row.call.collective), to_text(row.call.size), paragraph("  group     ", place_text(question), style),
      paths.empty() ? "" : "  routing   " + paths + "\n", to_text(row.cost.duration), percent(row.cost.spread, 0),
      to_text(Bandwidth{static_cast<std::int64_t>(algbw(row))}),
      to_text(Bandwidth{static_cast<std::int64_t>(busbw(row, question.group.ranks))}), to_string(row.cost.algorithm),
      to_string(row.cost.protocol), row.cost.channels);
}

/// Lines that begin with "# ".
std::string comment(std::string_view text, TextStyle style) {
  style.width -= 2;
  const std::string wrapped = paragraph("", text, style);
  std::string lines;
  for (const std::string_view line : split_lines(wrapped))
    if (!line.empty()) lines += fmt::format("# {}\n", line);
  return lines;
}

/// The columns of nccl-tests, and the chosen algorithm, protocol and channels; a narrow terminal has no column of channels.
std::string table(const Question& question, const std::vector<Row>& rows, const TextStyle& style) {
  std::string text = comment(to_string(question.call.collective), style) + comment(place_text(question), style);
  if (const std::string paths = path_text(question.cluster); !paths.empty()) text += "# " + paths + "\n";
  text += "#\n";
  const bool wide = style.width >= 80;
  const TextTable table(
      wide ? std::vector<int>{13, 10, 10, 10, -15, -8, 8} : std::vector<int>{10, 10, 7, 7, -13, -8, 0}, 0);
  const auto fixed = [](double value) { return fmt::format("{:.2f}", value); };
  text += "#" + table.row("size", "time", "algbw", "busbw", " algorithm", "protocol", wide ? "channels" : "").substr(1);
  text += "#" + table.row("(B)", "(us)", "(GB/s)", "(GB/s)").substr(1);
  for (const Row& row : rows)
    text += table.row(row.call.size.count, fixed(microseconds(row.cost.duration)), fixed(algbw(row) * 1e-9),
                      fixed(busbw(row, question.group.ranks) * 1e-9), fmt::format(" {}", to_string(row.cost.algorithm)),
                      to_string(row.cost.protocol), wide ? std::to_string(row.cost.channels) : "");
  return text;
}

/// The curve of a sweep.
std::string picture(const Question& question, const std::vector<Row>& rows) {
  std::vector<BandwidthPoint> points;
  for (const Row& row : rows) {
    const std::string chosen = std::string(to_string(row.cost.algorithm)) + " " + to_string(row.cost.protocol);
    points.push_back({row.call.size, busbw(row, question.group.ranks), row.cost.spread, chosen});
  }
  return bandwidth_svg(fmt::format("{}, {}", to_string(question.call.collective), place_text(question)), points);
}

Result<ExitCode> collective(const CollectiveOptions& options, const Context& context) {
  const Result<Question> question = read_question(options);
  if (!question) return tl::unexpected(question.error());
  const Result<std::vector<Row>> rows = answer(*question, options.sweep || !options.svg.empty());
  if (!rows) return tl::unexpected(rows.error());
  if (rows->empty()) return fail_key("--bytes", options.bytes, "is less than 1 KiB, at which a sweep starts");
  if (!options.svg.empty())
    if (const Result<void> ok = write_file(options.svg, picture(*question, *rows)); !ok)
      return tl::unexpected(ok.error());
  fmt::print("{}", options.json                            ? json_answer(*question, *rows)
                   : options.sweep || !options.svg.empty() ? table(*question, *rows, context.style)
                                                           : page(*question, rows->front(), context.style));
  return ExitCode::done;
}

Run add_collective_options(CLI::App& app) {
  auto options = std::make_shared<CollectiveOptions>();
  app.add_option("--topology", options->topology, "a topology file, or the name of one that is shipped")
      ->type_name("MACHINE")
      ->required();
  app.add_option("--op", options->op, "the operation")
      ->check(one_of(names_of(kCollectiveNames)))
      ->capture_default_str();
  app.add_option("--ranks", options->ranks, "number of GPUs; default: one node")->check(in_range(1, kMostGpus));
  app.add_option("--stride", options->stride,
                 "every n-th GPU, while its n-1 sibling groups run the same (8: dp groups of tp 8)")
      ->check(in_range(1, 1 << 20))
      ->capture_default_str();
  app.add_option("--bytes", options->bytes, "size as nccl-tests counts it, e.g. 1GiB; with --sweep the largest")
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--algorithm", options->algorithm, "as NCCL_ALGO")
      ->check(one_of(names_of(kAlgorithmNames)))
      ->capture_default_str();
  app.add_option("--protocol", options->protocol, "as NCCL_PROTO")
      ->check(one_of(names_of(kProtocolNames)))
      ->capture_default_str();
  app.add_option("--network", options->network,
                 "isolated: formulas; fluid and simgrid: flows on links, together with the sibling groups of --stride")
      ->transform(new_network_name)
      ->check(one_of(names_of(kNetworkNames)))
      ->capture_default_str();
  app.add_option(
         "--routing", options->routing,
         "with fluid and simgrid, over equal-cost paths: even splits each flow over all of them; ecmp gives it one, "
         "minimal, by a static hash")
      ->check(one_of(names_of(kRoutings)))
      ->capture_default_str();
  app.add_option("--routing-seed", options->seed, "seed of the ecmp hash, as topology --ecmp; default 1")
      ->check(at_least_zero());
  app.add_flag("--sweep", options->sweep, "all powers of two from 1 KiB, as nccl-tests prints them");
  app.add_option("--svg", options->svg, "with --sweep: also write the curve to this file")->type_name("FILE");
  app.add_flag("--json", options->json, "print one JSON object");
  return [options](const Context& context) { return collective(*options, context); };
}

}  // namespace

const Command kCollectiveCommand{"collective", "time one collective on a machine, as NCCL would run it",
                                 "collective --topology dgx-h100 --op all_reduce --ranks 64 --bytes 1GiB",
                                 add_collective_options};

}  // namespace tracecast::cli
