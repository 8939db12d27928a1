/// `tracecast import nccl-log`: what NCCL chose, as a table.
#include <string>

#include <fmt/format.h>

#include "sim/import/nccl_log.hpp"
#include "tools/import_formats.hpp"

namespace tracecast::cli {
namespace {

/// NCCL's choices, one line per size; then the bandwidths and latencies that NCCL assumed.
std::string table_of(const NcclLog& log) {
  std::string text = fmt::format("{} collectives begun, {} ranks in the largest communicator\n", log.calls, log.ranks);
  if (!log.choices.empty())
    text += fmt::format("\n{:<16} {:>14}  {:<16} {:<8} {:>8} {:>12} {:>8}\n", "collective", "bytes", "algorithm",
                        "protocol", "channels", "time us", "lines");
  for (const NcclChoice& c : log.choices)
    text += fmt::format("{:<16} {:>14}  {:<16} {:<8} {:>8} {:>12} {:>8}\n", to_string(c.collective), c.bytes,
                        to_string(c.algorithm), to_string(c.protocol), c.channels > 0 ? std::to_string(c.channels) : "",
                        c.time_us > 0 ? fmt::format("{:.3f}", c.time_us) : "", c.seen);
  if (!log.table.empty())
    text += fmt::format("\n{:<16} {:<16} {:<8} {:>12} {:>12}\n", "collective", "algorithm", "protocol", "latency us",
                        "GB/s");
  for (const NcclTableCell& c : log.table)
    text += fmt::format("{:<16} {:<16} {:<8} {:>12.1f} {:>12.1f}\n", to_string(c.collective), to_string(c.algorithm),
                        to_string(c.protocol), c.latency_us, c.bandwidth_gb_s);
  return text;
}

}  // namespace

Result<ExitCode> import_nccl_log(const ImportOptions& options, const std::string& content, const Context&) {
  const Result<NcclLog> log = read_nccl_log(content, options.file);
  if (!log) return tl::unexpected(log.error());
  return deliver(options, table_of(*log),
                 fmt::format("{}: log of NCCL\n  {:<28} {:>8}\n  {:<28} {:>8}\n", options.file, "collectives begun",
                             log->calls, "sizes with a choice", log->choices.size()));
}

}  // namespace tracecast::cli
