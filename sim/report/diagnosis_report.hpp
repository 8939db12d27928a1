/// \file
/// Text, JSON and picture of a diagnosis: one page.
#pragma once

#include <string>

#include "sim/forecast/diagnosis.hpp"
#include "sim/report/text.hpp"

namespace tracecast {

std::string diagnosis_page(const std::string& scenario, const Diagnosis& diagnosis, const TextStyle& style);
std::string diagnosis_json(const std::string& scenario, const Diagnosis& diagnosis);
/// A bar for each cause that the page shows: how likely it is.
std::string diagnosis_svg(const std::string& scenario, const Diagnosis& diagnosis);

}  // namespace tracecast
