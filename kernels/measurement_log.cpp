#include "kernels/measurement_log.hpp"

#include <algorithm>
#include <fstream>
#include <utility>

#include <nlohmann/json.hpp>

namespace tracecast {
namespace {

bool is_measurement(const nlohmann::json& line) {
  return line.is_object() && line.contains("label") && line["label"].is_string() && line.contains("seconds") &&
         line["seconds"].is_array() &&
         std::ranges::all_of(line["seconds"], [](const nlohmann::json& each) { return each.is_number(); }) &&
         line.contains("skipped") && line["skipped"].is_string();
}

}  // namespace

MeasurementLog::MeasurementLog(std::filesystem::path path, const std::string& key) : path_(std::move(path)) {
  std::ifstream file(path_);
  std::string line;
  if (!std::getline(file, line) || line != key) {
    std::ofstream(path_) << key << '\n';
    return;
  }
  std::string whole = key + '\n';
  while (std::getline(file, line)) {
    const nlohmann::json entry = nlohmann::json::parse(line, nullptr, false);
    if (!is_measurement(entry)) break;
    measurements_[entry["label"]] = {entry["seconds"].get<std::vector<double>>(), entry["skipped"]};
    whole += line + '\n';
  }
  std::ofstream(path_) << whole;
}

const Measurement* MeasurementLog::find(const std::string& label) const {
  const auto found = measurements_.find(label);
  return found == measurements_.end() ? nullptr : &found->second;
}

bool MeasurementLog::add(const std::string& label, const Measurement& measurement) {
  measurements_[label] = measurement;
  const nlohmann::json line{{"label", label}, {"seconds", measurement.seconds}, {"skipped", measurement.skipped}};
  std::ofstream file(path_, std::ios::app);
  file << line.dump() << '\n' << std::flush;
  return file.good();
}

void MeasurementLog::remove() const {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

}  // namespace tracecast
