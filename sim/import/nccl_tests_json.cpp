#include <cmath>
#include <set>

#include <fmt/format.h>

#include "sim/import/measurement_sums.hpp"
#include "sim/import/nccl_tests_programs.hpp"
#include "sim/io/json_document.hpp"
#include "sim/network/network_model.hpp"

namespace tracecast {
namespace {

/// The number at `key`, or 0 if there is none. Errors: something that is not a number.
Result<double> number_at(const JsonNode* object, const char* key, const char* object_name, const std::string& file) {
  const JsonNode* const node = object == nullptr ? nullptr : object->find(key);
  if (node == nullptr || node->kind == JsonNode::Kind::null) return 0.0;
  if (node->kind == JsonNode::Kind::integer || node->kind == JsonNode::Kind::number) return node->number;
  return fail({file, node->line, fmt::format("{}.{}", object_name, key), node->text(), "is not a number"});
}

std::string_view string(const JsonNode* node) {
  return node != nullptr && node->kind == JsonNode::Kind::string ? std::string_view(node->string) : std::string_view{};
}

/// The ranks of the table.
struct Members {
  int ranks = 0;
  std::set<std::string_view> hosts;
  std::set<std::string> groups;  ///< of all ranks, by their number
};

/// NCCL_TESTS_SPLIT_MASK divides the ranks into groups; rank 0, the first device, writes the results. Errors: a device without a host.
Result<Members> members_of(const JsonNode& devices, const std::string& file) {
  const auto group_of = [](const JsonNode& device) {
    const JsonNode* const group = device.find("group");
    return group == nullptr ? std::string() : group->text();
  };
  Members members;
  for (const JsonNode& device : devices.items) {
    const std::string_view host = string(device.find("hostname"));
    if (host.empty()) return fail({file, device.line, "devices.hostname", "", "is missing, or not a name"});
    members.groups.insert(group_of(device));
    if (group_of(device) != group_of(devices.items[0])) continue;
    ++members.ranks;
    members.hosts.insert(host);
  }
  return members;
}

struct JsonRow {
  Collective collective = Collective::all_reduce;
  double time_us = 0;
  double algbw = 0;
  double busbw = 0;
  double wrong = 0;
  double bytes = 0;
  bool has_time() const {
    return time_us > 0 && time_us < kMaxNcclTestsSeconds && bytes >= 1 &&
           bytes < static_cast<double>(kMaxCollectiveBytes);
  }
};

/// Errors: an unknown collective, a time of the host, something that is not a number, a result that was wrong.
Result<JsonRow> read_row(const JsonNode& row, const std::string& file) {
  const std::string_view name = string(row.find("experiment_name"));
  const NcclTestsProgram* const program = nccl_tests_program(name);
  if (program == nullptr || !program->collective)
    return fail({file, row.line, "results.experiment_name", shortened(name), "unknown collective of nccl-tests"});
  const JsonNode* place = row.find("out_of_place");
  if (place != nullptr && place->find("cpu_time") != nullptr)
    return fail({file, row.line, "results.out_of_place.cpu_time", "",
                 "is a time of the host (-C 1), which is not that of the collective"});
  const Result<double> time = number_at(place, "time", "results.out_of_place", file);
  const Result<double> algbw = number_at(place, "alg_bw", "results.out_of_place", file);
  const Result<double> busbw = number_at(place, "bus_bw", "results.out_of_place", file);
  const Result<double> wrong = number_at(place, "nwrong", "results.out_of_place", file);
  const Result<double> bytes = number_at(&row, "size", "results", file);
  for (const Result<double>& each : {time, algbw, busbw, wrong, bytes})
    if (!each) return tl::unexpected(each.error());
  if (row.find("size") == nullptr) return fail({file, row.line, "results.size", "", "is missing"});
  if (*wrong > kMaxWrong)
    return fail({file, row.line, "results.out_of_place.nwrong", fmt::format("{}", *wrong), std::string(kWrongResult)});
  return JsonRow{*program->collective, *time, *algbw, *busbw, *wrong, *bytes};
}

/// Bandwidths, size and time say the same thing. Printed digits are few.
Result<void> check_bandwidths(const JsonRow& row, int ranks, int line, const std::string& file) {
  const double rate = row.bytes / row.time_us * 1e-3;
  const auto check = [&](const char* key, double found, double expected, const std::string& of) -> Result<void> {
    if (found <= 0.1 || std::abs(found / expected - 1) <= 0.02 + 0.01 / row.time_us) return {};
    return fail({file, line, fmt::format("results.out_of_place.{}", key), fmt::format("{:.3f}", found),
                 fmt::format("contradicts size and time, which are {:.3f} GB/s{}", expected, of)});
  };
  if (const auto ok = check("alg_bw", row.algbw, rate, ""); !ok || ranks < 2) return ok;
  const double on_bus = bus_bandwidth(row.collective, ranks, Bytes{static_cast<std::int64_t>(row.bytes)},
                                      from_seconds(row.time_us * 1e-6)) *
                        1e-9;
  return check("bus_bw", row.busbw, on_bus, fmt::format(" for {} over {} ranks", to_string(row.collective), ranks));
}

}  // namespace

Result<CollectiveMeasurements> read_nccl_tests_json(std::string_view text, const std::string& file) {
  const Result<JsonDocument> document = parse_json(std::string(text), file);
  if (!document) return tl::unexpected(document.error());
  const JsonNode* devices = document->root.find("devices");
  const JsonNode* results = document->root.find("results");
  if (devices == nullptr || results == nullptr || devices->items.empty())
    return fail({file, 0, "", "", "has no \"devices\" and \"results\" of nccl-tests"});
  const Result<Members> members = members_of(*devices, file);
  if (!members) return tl::unexpected(members.error());
  CollectiveMeasurements out;
  out.format = "nccl-tests (JSON)";
  out.gpu = shortened(string(devices->items[0].find("device_info")));
  MeasurementSums sums;
  std::int64_t without_time = 0;
  for (const JsonNode& node : results->items) {
    const Result<JsonRow> row = read_row(node, file);
    if (!row) return tl::unexpected(row.error());
    if (!row->has_time()) {
      ++without_time;
      continue;
    }
    if (const Result<void> agrees = check_bandwidths(*row, members->ranks, node.line, file); !agrees)
      return tl::unexpected(agrees.error());
    sums.add(row->collective, members->ranks, static_cast<int>(members->hosts.size()),
             static_cast<std::int64_t>(row->bytes), row->time_us * 1e-6);
  }
  if (members->groups.size() > 1) out.notes.push_back(note_of_groups(static_cast<int>(members->groups.size())));
  if (without_time > 0)
    out.notes.push_back(fmt::format("{} rows without an out-of-place time were left out", without_time));
  if (sums.empty()) return fail({file, results->line, "results", "", "has no size with a time"});
  out.calls = sums.calls();
  return out;
}

}  // namespace tracecast
