// Importers of measured collectives: nccl-tests, NCCL's inspector.

#include <cstdint>

#include <fmt/format.h>

#include "sim/io/collective_measurements.hpp"
#include "tools/import_formats.hpp"

namespace tracecast::cli {

Result<ExitCode> import_measurements(const ImportOptions& options, const std::string& content, const Context& context) {
  const bool table = options.format == "nccl-tests";
  const Result<CollectiveMeasurements> read =
      table ? read_nccl_tests(content, options.file) : read_nccl_inspector(content, options.file);
  if (!read) return tl::unexpected(read.error());
  std::string summary =
      fmt::format("{}: {}\n  {:<28} {:>8}\n", options.file, read->format, "calls measured", read->calls.size());
  if (!read->gpu.empty()) summary += fmt::format("  GPU {}\n", read->gpu);
  for (const std::string& note : read->notes) summary += paragraph("note: ", note, context.style);
  return deliver(options, to_csv(*read), summary);
}

}  // namespace tracecast::cli
