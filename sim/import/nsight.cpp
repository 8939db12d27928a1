// Nsight Systems' SQLite export. Tables are there only when they have rows, and columns differ between releases: each is
// asked for before it is read. The tables of environment, command line, host and user are never opened.

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include <fmt/format.h>

#include "sim/base/sqlite.hpp"
#include "sim/import/importers.hpp"
#include "sim/import/kernel_names.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMaxRows = 50'000'000;
constexpr int kThreadBits = 24;  ///< of globalTid: thread below, process above
constexpr std::int64_t kProcessMask = (std::int64_t{1} << kThreadBits) - 1;
constexpr const char* kGraphTable = "CUPTI_ACTIVITY_KIND_GRAPH_TRACE";

class NsightReader {
 public:
  NsightReader(std::string_view content, std::string file) : database_(content), file_(std::move(file)) {}

  Result<ImportedTrace> read() {
    if (!database_.good()) return damaged();
    read_tables();
    if (!tables_.contains("StringIds") ||
        (!tables_.contains("CUPTI_ACTIVITY_KIND_KERNEL") && !tables_.contains(kGraphTable)))
      return no_gpu_work();
    read_strings();
    read_header();
    read_gpus();
    read_kernels();
    read_graphs();
    read_copies("MEMCPY", "copyKind");
    read_copies("MEMSET", "");
    read_calls();
    read_ranges();
    if (!good_) return damaged();
    if (trace_.kernels.empty()) return no_gpu_work();
    return finish();
  }

 private:
  tl::unexpected<Error> damaged() const {
    return fail({file_, 0, "", "", fmt::format("is a damaged SQLite file: {}", shortened(database_.error()))});
  }
  tl::unexpected<Error> no_gpu_work() const {
    return fail({file_, 0, "CUPTI_ACTIVITY_KIND_KERNEL", "",
                 "is missing or empty: expected an SQLite export of nsys with CUDA activity (nsys profile "
                 "--trace=cuda,nvtx; nsys "
                 "export --type sqlite)"});
  }

  /// Real tables only: a view could be endless.
  void read_tables() {
    std::vector<std::string> names;
    SqliteStatement rows(database_,
                         "SELECT name FROM sqlite_master WHERE type = 'table' AND sql NOT LIKE 'CREATE VIRTUAL%'");
    while (rows.next()) names.push_back(rows.text(0));
    good_ = good_ && rows.good();
    for (const std::string& name : names) {
      if (name.find_first_of("'\"") != std::string::npos) continue;
      SqliteStatement columns(database_, fmt::format("PRAGMA table_info('{}')", name));
      while (columns.next()) tables_[name].insert(columns.text(1));
    }
  }

  bool has(const std::string& table, const std::string& column) const {
    const auto found = tables_.find(table);
    return found != tables_.end() && found->second.contains(column);
  }

  /// The columns of a table in this order; those that it lacks are NULL. Nothing when one of the `required` first is missing.
  template <class Take>
  void each(const std::string& table, std::vector<std::string> columns, std::size_t required, const Take& take) {
    if (!tables_.contains(table)) return;
    for (std::size_t i = 0; i < columns.size(); ++i) {
      if (has(table, columns[i]))
        columns[i] = '"' + columns[i] + '"';
      else if (i < required)
        return notes_.push_back(fmt::format("table {} has no column {} and was left out", table, columns[i]));
      else
        columns[i] = "NULL";
    }
    SqliteStatement rows(database_, fmt::format("SELECT {} FROM \"{}\"", fmt::join(columns, ", "), table));
    for (std::int64_t row = 0; row < kMaxRows && rows.next(); ++row) take(rows);
    good_ = good_ && rows.good();
  }

  void read_strings() {
    each("StringIds", {"id", "value"}, 2, [this](const SqliteStatement& r) { strings_[r.integer(0)] = r.text(1); });
  }
  std::string string(std::int64_t id) const {
    const auto found = strings_.find(id);
    return found == strings_.end() ? "" : found->second;
  }

  void read_header() {
    TraceHeader& h = trace_.header;
    h.recorder = "nsight systems";
    h.clock = "nsight nanoseconds";
    each("META_DATA_EXPORT", {"name", "value"}, 2, [&h](const SqliteStatement& r) {
      if (r.text(0) == "EXPORT_SCHEMA_VERSION") h.recorder = "nsight systems, schema " + r.text(1).substr(0, 20);
    });
  }

  void read_gpus() {
    each("TARGET_INFO_GPU", {"name", "id"}, 1,
         [this](const SqliteStatement& r) { gpu_names_.try_emplace(r.integer(1), r.text(0)); });
    each("TARGET_INFO_CUDA_DEVICE", {"pid", "cudaId", "gpuId"}, 3, [this](const SqliteStatement& r) {
      if (!r.null(2)) gpu_of_[{r.integer(0) & kProcessMask, r.integer(1)}] = r.integer(2);
    });
  }

  /// A process counts the GPUs that it sees from 0. Where the file does not say which they are, equal numbers of two processes
  /// are two GPUs.
  std::int64_t device(std::int64_t id, std::int64_t global) {
    const std::pair<std::int64_t, std::int64_t> seen{(global >> kThreadBits) & kProcessMask, id};
    const auto gpu = gpu_of_.find(seen);
    const auto [number, added] = devices_.try_emplace(seen, gpu == gpu_of_.end() ? id : gpu->second);
    if (!added) return number->second;
    if (gpu == gpu_of_.end()) {
      const auto taken = [&](std::int64_t device) {
        return std::any_of(devices_.begin(), devices_.end(),
                           [&](const auto& each) { return each.first != seen && each.second == device; });
      };
      if (taken(id)) ++shared_numbers_;
      while (taken(number->second)) ++number->second;
    }
    if (gpu_names_.empty()) return number->second;
    const auto named = gpu_names_.find(number->second);
    const std::string& name = (named == gpu_names_.end() ? gpu_names_.begin() : named)->second;
    if (trace_.header.gpu.empty()) trace_.header.gpu = name;
    if (trace_.header.gpu != name) other_gpu_ = name;
    return number->second;
  }

  /// Correlation ids count in each process anew: those of the second and later processes are moved up.
  std::int64_t correlation(std::int64_t id, std::int64_t global) {
    const std::int64_t process = global >> kThreadBits;
    const auto number = processes_.try_emplace(process, static_cast<std::int64_t>(processes_.size())).first->second;
    return id + (number << 40);
  }

  bool ordered(std::int64_t start, std::int64_t end) {
    if (start >= 0 && end >= start && end < (std::int64_t{1} << 62)) return true;
    ++backwards_;
    return false;
  }

  void read_kernels() {
    each("CUPTI_ACTIVITY_KIND_KERNEL",
         {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "demangledName", "shortName", "gridX",
          "gridY", "gridZ", "blockX", "blockY", "blockZ"},
         4, [this](const SqliteStatement& r) {
           if (!ordered(r.integer(0), r.integer(1))) return;
           const auto small = [&r](int column) { return std::clamp<std::int64_t>(r.integer(column), 0, 1 << 20); };
           const std::string full = string(r.integer(6));
           trace_.kernels.push_back({full.empty() ? string(r.integer(7)) : full, device(r.integer(2), r.integer(5)),
                                     r.integer(3), correlation(r.integer(4), r.integer(5)), r.integer(0), r.integer(1),
                                     small(8) * small(9) * small(10), small(11) * small(12) * small(13)});
         });
  }

  /// Graphs that were recorded as a whole, nsys's default: one entry for a launch, which says nothing of its kernels.
  void read_graphs() {
    each(kGraphTable, {"start", "end", "deviceId", "streamId", "correlationId", "globalPid"}, 3,
         [this](const SqliteStatement& r) {
           if (!ordered(r.integer(0), r.integer(1))) return;
           ++graphs_;
           trace_.kernels.push_back({kWholeGraph, device(r.integer(2), r.integer(5)), r.integer(3),
                                     correlation(r.integer(4), r.integer(5)), r.integer(0), r.integer(1), 0, 0});
         });
  }

  static const char* copy_kind(std::int64_t kind) {
    switch (kind) {
      case 1:
        return "host to device";
      case 2:
        return "device to host";
      case 8:
        return "device to device";
      case 10:
        return "device to other device";
      default:
        return "other copy";
    }
  }

  void read_copies(const std::string& table, const std::string& kind) {
    each("CUPTI_ACTIVITY_KIND_" + table,
         {"start", "end", "deviceId", "streamId", "correlationId", "globalPid", "bytes", kind}, 4,
         [&](const SqliteStatement& r) {
           if (!ordered(r.integer(0), r.integer(1))) return;
           trace_.copies.push_back({kind.empty() ? "memset" : copy_kind(r.integer(7)),
                                    device(r.integer(2), r.integer(5)), r.integer(3),
                                    correlation(r.integer(4), r.integer(5)), std::max<std::int64_t>(0, r.integer(6)),
                                    r.integer(0), r.integer(1)});
         });
  }

  void read_calls() {
    each("CUPTI_ACTIVITY_KIND_RUNTIME", {"start", "end", "globalTid", "correlationId", "nameId"}, 4,
         [this](const SqliteStatement& r) {
           if (!ordered(r.integer(0), r.integer(1))) return;
           std::string name = string(r.integer(4));
           name = name.substr(0, name.rfind("_v"));  // cudaLaunchKernel_v7000
           trace_.calls.push_back(
               {r.integer(2), correlation(r.integer(3), r.integer(2)), r.integer(0), r.integer(1), std::move(name)});
         });
  }

  /// Push/pop and start/end ranges; 75 names a domain.
  void read_ranges() {
    std::map<std::int64_t, std::string> domains;
    each("NVTX_EVENTS", {"eventType", "domainId", "text", "textId"}, 3, [&](const SqliteStatement& r) {
      if (r.integer(0) == 75) domains[r.integer(1)] = r.text(2).empty() ? string(r.integer(3)) : r.text(2);
    });
    each("NVTX_EVENTS", {"eventType", "start", "end", "globalTid", "domainId", "text", "textId"}, 3,
         [&](const SqliteStatement& r) {
           if ((r.integer(0) != 59 && r.integer(0) != 60) || r.null(2) || !ordered(r.integer(1), r.integer(2))) return;
           const auto domain = domains.find(r.integer(4));
           trace_.ranges.push_back({r.text(5).empty() ? string(r.integer(6)) : r.text(5),
                                    domain == domains.end() ? "NVTX" : domain->second, r.integer(3),
                                    static_cast<std::int64_t>(trace_.ranges.size()), r.integer(1), r.integer(2)});
         });
  }

  ImportedTrace finish() {
    ImportedTrace result;
    result.format = "Nsight Systems (SQLite)";
    result.found = {{"kernels", static_cast<std::int64_t>(trace_.kernels.size())},
                    {"copies and memsets", static_cast<std::int64_t>(trace_.copies.size())},
                    {"calls", static_cast<std::int64_t>(trace_.calls.size())},
                    {"ranges", static_cast<std::int64_t>(trace_.ranges.size())},
                    {"processes", static_cast<std::int64_t>(processes_.size())}};
    trace_.records = static_cast<std::int64_t>(trace_.kernels.size() + trace_.copies.size() + trace_.calls.size() +
                                               trace_.ranges.size());
    trace_.complete = true;
    result.trace = std::move(trace_);
    result.notes = std::move(notes_);
    if (graphs_ > 0)
      result.notes.push_back(
          fmt::format("{} launches of CUDA graphs were recorded as a whole, their kernels are unknown "
                      "(nsys profile --cuda-graph-trace=node records them)",
                      graphs_));
    if (shared_numbers_ > 0)
      result.notes.push_back(
          fmt::format("{} GPUs have a number that another process uses too; each is taken as a GPU of "
                      "its own",
                      shared_numbers_));
    if (!other_gpu_.empty())
      result.notes.push_back(fmt::format("GPUs of two kinds were used, {} and {}; the first is named",
                                         result.trace.header.gpu, other_gpu_));
    if (backwards_ > 0)
      result.notes.push_back(fmt::format("{} rows that end before they begin were left out", backwards_));
    return result;
  }

  SqliteDatabase database_;
  std::string file_;
  bool good_ = true;
  std::map<std::string, std::set<std::string>> tables_;
  std::map<std::int64_t, std::string> strings_;
  std::map<std::int64_t, std::int64_t> processes_;
  std::map<std::int64_t, std::string> gpu_names_;                          ///< [id of the GPU]
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> gpu_of_;   ///< [process, its number] id of the GPU
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> devices_;  ///< [process, its number] of the trace
  std::int64_t shared_numbers_ = 0;
  std::string other_gpu_;
  std::int64_t graphs_ = 0;
  std::int64_t backwards_ = 0;
  Trace trace_;
  std::vector<std::string> notes_;
};

Result<ImportedTrace> read_nsight(std::string_view content, const std::string& file) {
  return NsightReader(content, file).read();
}

bool is_sqlite(std::string_view content, std::string_view) {
  constexpr std::string_view kMagic{"SQLite format 3\0", 16};
  return content.starts_with(kMagic);
}

}  // namespace

const Importer kNsight{"nsight", "SQLite file of `nsys export` (Nsight Systems)", "recordings.md", is_sqlite,
                       read_nsight};

}  // namespace tracecast
