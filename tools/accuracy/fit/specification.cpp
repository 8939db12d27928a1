#include "tools/accuracy/fit/specification.hpp"

#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "tools/accuracy/rows/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

std::optional<std::size_t> row_of(const CsvTable& table, const std::string& name) {
  for (std::size_t row = 0; row < table.rows(); ++row)
    if (table.text(row, "name") == name) return row;
  return std::nullopt;
}

}  // namespace

bool has_row(const CsvTable& table, const std::string& row) { return row_of(table, row).has_value(); }

Result<Profile> read_specification(const CsvTable& table, const std::string& row_name, const std::string& architecture,
                                   double usable_gib) {
  // The columns of dense peaks in TFLOP/s, and the precisions that run at them.
  constexpr std::array<std::pair<const char*, Precision>, 7> kPeaks{{{"fp32", Precision::fp32},
                                                                     {"fp16", Precision::fp16},
                                                                     {"bf16", Precision::bf16},
                                                                     {"fp8", Precision::fp8},
                                                                     {"fp8", Precision::fp8_block},
                                                                     {"fp8", Precision::mxfp8},
                                                                     {"fp4", Precision::nvfp4}}};
  if (const std::optional<std::size_t> row = row_of(table, row_name)) {
    const TableFields fields(table, *row);
    const auto number = [&](const char* column) { return fields.number_or_zero(column); };
    Profile profile;
    profile.gpu = row_name;
    profile.kind = "specification";
    profile.source = "docs/references.md#gpu-data-sheets, " + row_name;
    profile.architecture = architecture;
    profile.sms = static_cast<int>(number("sm"));
    for (const auto& [column, precision] : kPeaks)
      if (number(column) > 0) profile.peak_flops[precision] = number(column) * 1e12;
    // GPUs that apply scales of small blocks themselves also have 4-bit arithmetic.
    if (!profile.peak_flops.contains(Precision::nvfp4)) profile.peak_flops.erase(Precision::mxfp8);
    profile.memory_bandwidth = number("mem_GBps") * 1e9;
    profile.memory = Bytes{std::llround(usable_gib * 1024) << 20};
    if (number("pcie_GBps_dir") > 0) profile.host_bandwidth = number("pcie_GBps_dir") * 1e9;
    return profile;
  }
  return fail({table.file(), 0, "", row_name, "is not a row of the table"});
}

double l2_cache(const CsvTable& table, const std::string& row_name) {
  const std::optional<std::size_t> row = row_of(table, row_name);
  TRACECAST_ASSERT(row, "the row was read before");
  return TableFields(table, *row).number_or_zero("l2_MB") * 1e6;
}

GpuPeak peak_of(const Profile& profile, Precision precision) {
  return {profile.peak_flops.at(precision), profile.memory_bandwidth, profile.sms};
}

}  // namespace tracecast::accuracy
