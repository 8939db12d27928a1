#include "sim/import/launchers/unread_launchers.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/import/recognise.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

/// Keys that a YAML file of the launcher has, each at the start of a line.
struct Yaml {
  Name launcher;
  std::array<Name, 2> keys;
};
constexpr Yaml kYaml[] = {
    {"GPT-NeoX", {"pipe-parallel-size", "model-parallel-size"}},
    {"GPT-NeoX", {"pipe_parallel_size", "model_parallel_size"}},
    {"Axolotl", {"base_model", "sequence_len"}},
    {"LLaMA-Factory", {"model_name_or_path", "finetuning_type"}},
    {"llm-foundry", {"max_seq_len", "train_loader"}},
    {"Nanotron", {"parallelism", "tokens"}},
};

/// Words of a Python file, and what its program can write.
struct Python {
  Name word;
  Name message;
};
constexpr Python kPython[] = {
    {"megatron.bridge",
     "is a recipe of Megatron-Bridge in Python: give what it makes, which its "
     "ConfigContainer.to_yaml(\"run_config.yaml\") writes (checkpoints have it too)"},
    {"torchtitan",
     "is a configuration of torchtitan in Python: give the JSON that a run saves with --debug.save_config_file"},
    {"nemo_run", "is a recipe of NeMo in Python: give the YAML of what it makes, which NeMo-Run writes with --to-yaml"},
    {"nemo.collections",
     "is a recipe of NeMo in Python: give the YAML of what it makes, which NeMo-Run writes with --to-yaml"},
};

/// Words may be quoted, as JSON has them.
bool has_line_of(Name content, Name key) {
  for (const char* quote : {"", "\""}) {
    const std::string word = fmt::format("{0}{1}{0}:", quote, key);
    for (const Name before : {"\n", "\n  "})
      if (content.starts_with(word) || head_contains(content, std::string(before) + word)) return true;
  }
  return false;
}

}  // namespace

std::string unread_launcher(Name content, Name file) {
  if (file.ends_with(".py")) {
    const auto* const found =
        std::ranges::find_if(kPython, [&](const Python& each) { return head_contains(content, each.word); });
    return found == std::end(kPython) ? "" : std::string(found->message);
  }
  if (!file.ends_with(".yaml") && !file.ends_with(".yml")) return "";
  const auto* const found = std::ranges::find_if(kYaml, [&](const Yaml& each) {
    return std::ranges::all_of(each.keys, [&](Name key) { return has_line_of(content, key); });
  });
  if (found == std::end(kYaml)) return "";
  return fmt::format(
      "is a configuration of {}, which is not read: import the model's config.json (hugging-face) or the file of "
      "DeepSpeed (deepspeed), and give the rest with --set",
      found->launcher);
}

}  // namespace tracecast
