/// \file
/// The measurements of a long recording on disk, one per line, so that an interrupted recording can continue.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tracecast {

/// Seconds of repeated launches; empty, with the reason, for work that could not be run.
struct Measurement {
  std::vector<double> seconds;
  std::string skipped;
  bool operator==(const Measurement&) const = default;
};

class MeasurementLog {
 public:
  /// Continues a file that begins with `key`; any other file is overwritten. A truncated last line is ignored.
  MeasurementLog(std::filesystem::path path, const std::string& key);

  /// nullptr: not measured yet.
  const Measurement* find(const std::string& label) const;
  /// False: the file cannot be written. The measurement counts nevertheless.
  bool add(const std::string& label, const Measurement& measurement);
  std::size_t size() const { return measurements_.size(); }
  void remove() const;

 private:
  std::filesystem::path path_;
  std::map<std::string, Measurement> measurements_;
};

}  // namespace tracecast
