/// \file
/// Version of the loaded NVIDIA driver. Header only, since the injected recorder links nothing.
#pragma once

#include <fstream>
#include <sstream>
#include <string>

namespace tracecast {

/// The version in the text of /proc/driver/nvidia/version ("NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.159.04  …"): the
/// first word of digits and dots. "": none.
inline std::string driver_version_in(const std::string& text) {
  std::istringstream words(text);
  for (std::string word; words >> word;)
    if (word.find('.') != std::string::npos && word.find_first_not_of("0123456789.") == std::string::npos) return word;
  return "";
}

/// "580.159.04"; "" without a driver, or where the system does not tell.
inline std::string nvidia_driver_version() {
  std::ifstream file("/proc/driver/nvidia/version");
  std::string line;
  return std::getline(file, line) ? driver_version_in(line) : "";
}

}  // namespace tracecast
