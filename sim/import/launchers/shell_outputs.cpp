#include "sim/import/launchers/shell_outputs.hpp"

#include <algorithm>
#include <array>
#include <utility>

namespace tracecast {
namespace {

/// Programs whose words are text.
constexpr std::array<std::string_view, 4> kWriters{"echo", "printf", "cat", "tee"};
/// Programs that run the text that they are given.
constexpr std::array<std::string_view, 9> kShells{"bash", "sh",   "zsh",  "ssh",  "sbatch",
                                                  "srun", "qsub", "bsub", "xargs"};

}  // namespace

std::string shell_file_name(std::string_view word) {
  std::string name(word.substr(word.rfind('/') + 1));
  std::erase_if(name, [](char c) { return c == '{' || c == '}'; });
  return name;
}

bool ShellOutputs::Output::writes() const { return std::ranges::find(kWriters, program) != kWriters.end(); }

void ShellOutputs::begin_command(const std::string& program, int document) {
  command_ = outputs_.size();
  outputs_.push_back({program, document});
  const std::optional<std::size_t> before = std::exchange(feeding_, std::nullopt);
  if (before) outputs_[*before].feeds = std::ranges::find(kShells, program) != kShells.end();
  if (before && program == "tee") feeding_ = before;
}

void ShellOutputs::add_word(std::string_view word) {
  const Output& own = outputs_[*command_];
  if (!own.writes()) mentioned_.insert(shell_file_name(word));
  if (own.program != "tee" || word.starts_with("-")) return;
  write_to(word);
  if (feeding_) outputs_[*feeding_].file = own.file;
}

void ShellOutputs::write_to(std::string_view file) {
  if (command_) outputs_[*command_].file = shell_file_name(file);
}

void ShellOutputs::give_document(int document) {
  if (command_) documents_[document] = *command_;
}

void ShellOutputs::end_command(bool pipes) {
  feeding_ = pipes ? command_ : std::nullopt;
  command_.reset();
}

bool ShellOutputs::is_shown(int document) const {
  const auto found = documents_.find(document);
  if (found == documents_.end()) return false;
  const Output& output = outputs_[found->second];
  return output.writes() && output.file.empty() && !output.feeds;
}

std::vector<bool> ShellOutputs::texts() const {
  std::vector<bool> texts;
  for (const Output& output : outputs_) {
    const bool runs = output.feeds || (!output.file.empty() && mentioned_.contains(output.file));
    const auto given = documents_.find(output.document);
    const bool inside = given != documents_.end() && given->second < texts.size() && texts[given->second];
    texts.push_back((output.writes() && !runs) || inside);
  }
  return texts;
}

}  // namespace tracecast
