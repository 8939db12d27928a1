#include "tools/accuracy/rows/zero_stage.hpp"

#include <algorithm>
#include <string>

#include "sim/base/words.hpp"
#include "tools/accuracy/rows/cell_words.hpp"

namespace tracecast::accuracy {

std::optional<int> zero_stage_in(std::string_view text) {
  constexpr const char* kSeparators = " -_";
  const std::string small = lower_case(text);
  for (const char* name : {"zero", "fsdp"})
    for (std::size_t at = small.find(name); at != std::string::npos; at = small.find(name, at + 1)) {
      std::size_t digit = std::min(small.find_first_not_of(kSeparators, at + 4), small.size());
      if (small.compare(digit, 5, "stage") == 0)
        digit = std::min(small.find_first_not_of(kSeparators, digit + 5), small.size());
      const bool zero = *name == 'z';
      const bool apart = digit + 1 >= small.size() || (!is_digit(small[digit + 1]) && small[digit + 1] != '.');
      // The tag "fsdp2" is a stage; "FSDP2" is PyTorch's second FSDP, which divides everything.
      if (!zero && text[at] == 'F' && digit < small.size() && apart && small[digit] == '2') return 3;
      if (digit < small.size() && apart && small[digit] >= (zero ? '0' : '2') && small[digit] <= '3')
        return small[digit] - '0';
    }
  for (const char* all : {"zero++", "full_shard", "hybrid_shard", "hsdp"})
    if (contains(small, all)) return 3;
  if (contains(small, "shard_grad_op")) return 2;
  if (contains(small, "no_shard")) return 0;
  return affirms(small, "fsdp") ? std::optional(3) : std::nullopt;
}

std::optional<int> named_zero_stage(const TableFields& fields) {
  const std::string& stage = fields.text("zero_stage");
  if (truth(stage) == false) return 0;
  if (fields.reported("zero_stage")) {
    const std::string small = lower_case(stage);
    if (small == "ddp") return 0;
    const std::size_t number = small.starts_with("stage") ? small.find_first_not_of(" -_", 5) : 0;
    const std::optional<int> digit = parse_number<int>(stage.substr(std::min(number, stage.size())));
    return digit ? digit : zero_stage_in(stage);
  }
  if (const std::optional<int> tagged = zero_stage_in(fields.text("parallel_style"))) return tagged;
  const std::string framework = lower_case(fields.text("framework"));
  for (const char* with_parameters : {"ulysses", "infinity", "gemini"})
    if (contains(framework, with_parameters)) return 3;
  return zero_stage_in(fields.text("framework"));
}

}  // namespace tracecast::accuracy
