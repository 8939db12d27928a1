/// \file
/// Text and JSON of a diagnosis: one page.
#pragma once

#include <string>

#include "sim/forecast/diagnosis.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

std::string diagnosis_page(const std::string& scenario, const Diagnosis& diagnosis, const TextStyle& style);
std::string diagnosis_json(const std::string& scenario, const Diagnosis& diagnosis);

}  // namespace tracecast
