/// \file
/// The names that sources have for a model, in one spelling.
#pragma once

#include <string>
#include <string_view>

namespace tracecast::accuracy {

/// A model's name in one spelling, small letters with hyphens for blanks and brackets, without owner and maker, the version behind the
/// name: "nvidia/Meta-Llama-3 (8B)" is "llama3-8b"; of a distilled model that of the smaller one.
std::string family_name(std::string_view model);

/// The same without kind of tuning and precision, and with the sizes of a family that has only one model: "qwen3-next-80b-a3b" of
/// "Qwen/Qwen3-Next-Instruct". Files of scenarios/models have such names.
std::string shipped_name(std::string_view model);

}  // namespace tracecast::accuracy
