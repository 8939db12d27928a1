/// \file
/// What a long recording has measured so far, on disk, a line each: an interrupted one goes on where it was.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tracecast {

/// Seconds of repeated launches; none, and why, for work that could not be run.
struct Measurement {
  std::vector<double> seconds;
  std::string skipped;
  bool operator==(const Measurement&) const = default;
};

class MeasurementLog {
 public:
  /// Takes up a file that begins with `key`; any other is begun anew. A last line that was cut off is left out.
  MeasurementLog(std::filesystem::path path, const std::string& key);

  /// nullptr: not measured yet.
  const Measurement* find(const std::string& label) const;
  void add(const std::string& label, const Measurement& measurement);
  std::size_t size() const { return measurements_.size(); }
  void remove() const;

 private:
  std::filesystem::path path_;
  std::map<std::string, Measurement> measurements_;
};

}  // namespace tracecast
