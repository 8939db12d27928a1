#include "sim/import/launchers/unread_launchers.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/recognise.hpp"

namespace tracecast {
namespace {

using Name = std::string_view;

constexpr Name kOfModel =
    "import the model's config.json (hugging-face) or the file of DeepSpeed (deepspeed), and give the rest with --set";

/// Keys that a YAML file of the launcher has, each at the start of a line (with a blank: inside other keys), and what to give instead.
struct Yaml {
  Name launcher;
  std::array<Name, 2> keys;
  Name instead = kOfModel;
};
constexpr Yaml kYaml[] = {
    {"GPT-NeoX", {"pipe-parallel-size", "model-parallel-size"}},
    {"GPT-NeoX", {"pipe_parallel_size", "model_parallel_size"}},
    {"Axolotl", {"base_model", "sequence_len"}},
    {"LLaMA-Factory", {"model_name_or_path", "finetuning_type"}},
    {"llm-foundry", {"max_seq_len", "train_loader"}},
    {"Nanotron", {"parallelism", "tokens"}},
    {"Primus",
     {"modules", " framework"},
     "its own files set the rest: give all settings of the run as arguments of Megatron-LM (megatron), with --bf16 and "
     "what its pre_trainer.yaml has, or as the TOML of torchtitan"},
};

/// Whether a command is one of a program's.
struct Command {
  bool (*is_of)(std::span<const std::string> words, const std::function<bool(Name)>& has);
  Name message;
};

bool has_words(std::span<const std::string> words, Name first, std::initializer_list<Name> next) {
  const auto found = std::ranges::find(words, first);
  return found != words.end() && found + 1 != words.end() && std::ranges::find(next, Name(*(found + 1))) != next.end();
}

bool has_end(std::span<const std::string> words, std::initializer_list<Name> ends) {
  return std::ranges::any_of(
      words, [&](Name word) { return std::ranges::any_of(ends, [&](Name end) { return word.ends_with(end); }); });
}

constexpr Command kCommands[] = {
    {[](std::span<const std::string> words, const std::function<bool(Name)>&) {
       return has_words(words, "megatron", {"sft", "pt", "rlhf"}) ||
              has_end(words, {"_megatron/sft.py", "_megatron/pt.py", "_megatron/rlhf.py", "swift.cli._megatron.sft",
                              "swift.cli._megatron.pt", "swift.cli._megatron.rlhf"});
     },
     "starts ms-swift, whose defaults are not Megatron-LM's: give its settings as arguments of Megatron-LM, with "
     "--bf16, --use-distributed-optimizer and --recompute-granularity selective, unless it has others"},
    {[](std::span<const std::string> words, const std::function<bool(Name)>& has) {
       return has("job.config-file") || has_end(words, {"torchtitan.train", "torchtitan/train.py"});
     },
     "starts torchtitan: import the job's TOML, or the JSON that it saves (torchtitan)"},
    {[](std::span<const std::string> words, const std::function<bool(Name)>& has) {
       return has_end(words, {"run_script.py", "setup_experiment.py", "run_recipe.py"}) &&
              (has("model-name") || has("model-family-name") || has("model-recipe-name") || has("recipe"));
     },
     "starts a recipe of Megatron-Bridge: import the run_config.yaml that it saves (megatron-bridge)"},
    {[](std::span<const std::string> words, const std::function<bool(Name)>& has) {
       return has_words(words, "accelerate", {"launch"}) && !has("num-layers") && !has("tensor-model-parallel-size");
     },
     "starts a program with Accelerate: import the file of --config_file (accelerate), and give the rest with --set"},
    {[](std::span<const std::string>, const std::function<bool(Name)>& has) {
       return has("per-device-train-batch-size");
     },
     "starts Hugging Face's Trainer: import the file of accelerate launch (accelerate), of DeepSpeed (deepspeed) or "
     "the model's config.json (hugging-face), and give the rest with --set"},
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
bool has_line_of(Name head, Name key) {
  for (const char* quote : {"", "\""}) {
    const std::string word = fmt::format("{0}{1}{0}:", quote, trim(key));
    for (std::size_t at = head.find(word); at != Name::npos; at = head.find(word, at + 1)) {
      const std::size_t before = head.substr(0, at).find_last_not_of(' ');
      const std::size_t begin = before == Name::npos ? 0 : before + 1;
      const bool begins = begin == 0 || head[begin - 1] == '\n';
      if (begins && (key.starts_with(' ') ? at > begin : at - begin <= 2)) return true;
    }
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
  constexpr std::size_t kHead = 64 * 1024;
  const Name head = content.substr(0, kHead);
  const auto* const found = std::ranges::find_if(kYaml, [&](const Yaml& each) {
    return std::ranges::all_of(each.keys, [&](Name key) { return has_line_of(head, key); });
  });
  if (found == std::end(kYaml)) return "";
  return fmt::format("is a configuration of {}, which is not read: {}", found->launcher, found->instead);
}

std::string unread_command(std::span<const std::string> words, const std::function<bool(Name)>& has) {
  const auto* const found =
      std::ranges::find_if(kCommands, [&](const Command& each) { return each.is_of(words, has); });
  return found == std::end(kCommands) ? "" : std::string(found->message);
}

}  // namespace tracecast
