/// \file
/// What the words of a cell say, whatever its column: yes and no, denials, placeholders.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "sim/base/words.hpp"

namespace tracecast::accuracy {

bool is_letter_or_digit(char c);

/// The number behind `words` in a text, at most 100,000; 0: there is none.
int number_after(const std::string& text, std::string_view words);

/// "1", "1.0", "true", "yes", "on", "enabled" and their opposites in any case, "none"; empty: another word.
std::optional<bool> truth(std::string_view word);

/// The same of a cell that names what is used: "yes (FA2)", "cuDNN", "SwiGLU", "inductor"; or not: "eager", "GELU", "no fused attention".
std::optional<bool> truth_in(const std::string& cell);

/// In small letters, without anything else: "llama318b" of "Llama-3.1-8B".
std::string letters_and_digits(std::string_view text);

/// A cell in the word of docs/formats/runs.md: of `task` "Pre-training" is "pretrain", of `outcome` "OOM" is "oom"; others in small
/// letters.
std::string usual_word(std::string_view column, std::string_view cell);

/// True if a cell says that the source reports nothing: "-", "n/a", "not printed", "unknown", "auto".
bool is_placeholder(std::string_view cell);

/// True if `text` has these words somewhere without a denial ("no", "not", "instead of" before them; "off", ": none", "are not used"
/// behind, also behind the rest of a word: "token dropping disabled" denies "token drop"); false if every place denies them; empty if it
/// has none. In any case, and with any separators: "all-to-all" is "AlltoAll", too.
std::optional<bool> mentioned(const std::string& text, std::string_view words);

/// True if `text` has these words somewhere undenied.
bool affirms(const std::string& text, std::string_view words);

/// True if a whole cell, in small letters, begins or ends with a denial: "no recomputation", "recomputation: off". One that begins
/// with "not" need not: "not printed".
bool denies(std::string_view cell);

/// True if `word` is in the text as a whole word: "moe" is in "layernorm, moe" and not in "moe_act".
bool has_word(std::string_view text, std::string_view word);

}  // namespace tracecast::accuracy
