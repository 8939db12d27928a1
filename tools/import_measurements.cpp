// Importers of measured collectives: nccl-tests, NCCL's inspector.

#include <filesystem>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "sim/import/collective_measurements.hpp"
#include "sim/io/files.hpp"
#include "tools/import_formats.hpp"
#include "tools/named_files.hpp"

namespace tracecast::cli {
namespace {

/// The profile of `options.into` with the measurements of one host added.
Result<ProfileWithCollectives> put_into_profile(const ImportOptions& options, const CollectiveMeasurements& measured) {
  Result<Profile> base = named_profile(options.into);
  if (!base) return tl::unexpected(base.error());
  const std::string name = std::filesystem::path(options.file).filename().string();
  base->source = fmt::format("collectives measured: {} ({}); all else: {}", name, measured.format, base->source);
  if (!options.output.empty()) base->name = std::filesystem::path(options.output).stem().string();
  base->kind = "recorded";
  ProfileWithCollectives result = with_collectives(std::move(*base), measured);
  if (result.taken == 0)
    return fail({options.file, 0, "", "",
                 "has no collective of one host, and a profile has no others (allowed: up to one node)"});
  return result;
}

}  // namespace

Result<ExitCode> import_measurements(const ImportOptions& options, const std::string& content, const Context& context) {
  const bool table = options.format == "nccl-tests";
  const Result<CollectiveMeasurements> read =
      table ? read_nccl_tests(content, options.file) : read_nccl_inspector(content, options.file);
  if (!read) return tl::unexpected(read.error());
  std::string summary =
      fmt::format("{}: {}\n  {:<28} {:>8}\n", options.file, read->format, "calls measured", read->calls.size());
  if (!read->gpu.empty()) summary += fmt::format("  GPU {}\n", read->gpu);
  for (const std::string& note : read->notes) summary += paragraph("note: ", note, context.style);
  if (options.into.empty()) return deliver(options, to_csv(*read), summary);
  const Result<ProfileWithCollectives> made = put_into_profile(options, *read);
  if (!made) return tl::unexpected(made.error());
  summary += fmt::format(
      "  put into {}: {} of one host; {} across hosts are left to the network model\n  written to {}; use it "
      "with --set cluster.profile={}\n",
      options.into, made->taken, made->across_hosts, options.output, options.output);
  return deliver(options, to_json(made->profile), summary);
}

}  // namespace tracecast::cli
