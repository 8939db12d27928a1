#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/model/parameters.hpp"
#include "tools/accuracy/row_part.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::int64_t kDefaultVocabulary = 51'200;
constexpr std::int64_t kPackedSpan =
    400;  ///< tokens that a packed token attends to, docs/references.md#packed-sequences

/// Models with latent attention and so many experts limit the groups of a token: docs/references.md#deepseek-v3
constexpr int kDeepSeekExperts = 256;

class ModelReader : RowPart {
 public:
  explicit ModelReader(RowReading& row) : RowPart(row) {}

  void read() {
    Model& m = result_.scenario.model;
    if (std::optional<Model> shipped = shipped_model()) {
      m = std::move(*shipped);
      if (m.position == Position::learned) m.max_position_embeddings = fields_.count("seq_len", 2048);
      if (stack_ != nullptr && !m.gated()) m.dropout = stack_->dropout;
      assume(fmt::format("the shipped model {}, whose shape the row {}", m.name,
                         reported("layers") ? "cannot express" : "leaves out"));
    } else {
      read_shape(m);
    }
    if (predicts_two_tokens() && m.mtp_layers == 0) {
      m.mtp_layers = 1;
      assume("one layer of multi-token prediction");
    }
    if (is_fine_tuning() && (is_megatron_core() || is_packed())) {
      m.sliding_window = kPackedSpan;
      assume(fmt::format("packed fine-tuning: a token attends to {} others", kPackedSpan));
    }
  }

  /// Megatron's --make-vocab-size-divisible-by 128.
  void pad_vocabulary() {
    std::int64_t& vocabulary = result_.scenario.model.vocab_size;
    const std::int64_t tp = result_.scenario.parallel.tp;
    if (vocabulary % tp == 0) return;
    const std::int64_t block = 128 * tp;
    const std::int64_t padded = round_up(vocabulary, block);
    assume(fmt::format("vocabulary of {} padded to a multiple of 128 tp", vocabulary));
    vocabulary = padded;
  }

  void validate_model() {
    Result<Model> model = validated(result_.scenario.model);
    if (!model)
      return add_error("layers", "describes an invalid model: " + to_string(model.error().diagnostics.front()));
    result_.scenario.model = std::move(*model);
  }

 private:
  /// The shipped model of that name: of a row without layers, or of a hybrid, for whose layers tables have no columns.
  std::optional<Model> shipped_model() const {
    std::optional<Model> shipped = library_.model(text("model_name"));
    const bool hybrid = shipped && shipped->linear_attention.has_value();
    return reported("layers") && !hybrid ? std::nullopt : shipped;
  }

  void read_shape(Model& m) {
    m.name = text("model_name");
    if (!reported("layers"))
      return add_error("layers",
                       "is not reported, and no shipped model has the row's model_name (tracecast list models)");
    m.num_layers = static_cast<int>(std::min<std::int64_t>(fields_.required_size("layers"), 100'000));
    m.hidden_size = fields_.required_size("hidden");
    m.num_attention_heads = static_cast<int>(std::min<std::int64_t>(fields_.required_size("heads"), 1'000'000));
    m.num_query_groups = fields_.small_count("kv_heads", m.num_attention_heads);
    m.head_dim = fields_.count("head_dim", 0);
    m.ffn_hidden_size = fields_.count("ffn_hidden", 4 * m.hidden_size);
    m.vocab_size = fields_.count("vocab", 0);
    if (m.vocab_size == 0) {
      m.vocab_size = stack_ != nullptr && stack_->vocabulary > 0 ? stack_->vocabulary : kDefaultVocabulary;
      assume(fmt::format("vocabulary not reported: {}", m.vocab_size));
    }
    m.tied_embeddings = flag("tied_embeddings", false);
    set_family(m);
    const std::string kind = lower_case(text("attention_kind"));
    const bool latent = is_of("deepseek-v3") || is_of("deepseek-v2") || is_of("kimi-k2") || is_of("moonlight");
    const bool says_so = kind.find("mla") != std::string::npos || kind.find("latent") != std::string::npos;
    if (says_so || (kind.empty() && latent)) {
      const bool whole_query = is_of("deepseek-v2-lite") || is_of("moonlight");
      m.latent_attention = LatentAttention{whole_query ? 0 : 1536, 512, 128, 64, 128};
      m.head_dim = 0;
      m.num_query_groups = 0;
      assume("latent attention with DeepSeek-V3's ranks and head sizes");
    }
    if (reports_experts(fields_)) read_experts(m);
    if (is_of("gpt-oss")) complete_gpt_oss(m);
    m.qk_norm = is_of("qwen3");
    m.parallel_residual = mentions("parallel transformer block") || has_parallel_residual();
    set_window(m);
  }

  /// docs/references.md#parallel-residual
  bool has_parallel_residual() const {
    constexpr std::array kFamilies{"gpt-neox", "gpt-j", "pythia", "palm", "falcon", "command-r"};
    return std::ranges::any_of(kFamilies, [&](const char* family) { return is_of(family); });
  }

  /// Local layers of families: docs/references.md#families
  void set_window(Model& m) {
    struct Family {
      const char* name;
      int window, global_every;
    };
    for (const Family& family : {Family{"gemma-2", 4096, 2}, Family{"gemma2", 4096, 2}, Family{"gemma-3", 1024, 6},
                                 Family{"gemma3", 1024, 6}}) {
      if (!is_of(family.name)) continue;
      m.sliding_window = family.window;
      m.global_layer_interval = family.global_every;
      assume(
          fmt::format("Gemma: a window of {} tokens, but for every layer of {}", family.window, family.global_every));
      return;
    }
  }

  bool is_packed() const {
    for (const char* word : {"packed", "packing", "padding-free", "SQuAD"})
      if (mentions(word)) return true;
    return false;
  }

  /// A launcher's layout names layers of multi-token prediction; without one, the row says whether there is such a layer.
  bool predicts_two_tokens() const {
    if (reported("pp_layout")) return text("pp_layout").find('m') != std::string::npos;
    for (const char* words : {"MTP layer", "MTP depth", "with MTP", "multi-token prediction", "MTP=1", "MTP: 1",
                              "MTP on", "MTP enabled", "MTP is", "mtp_num_layers"})
      if (affirms(text("notes"), words) || affirms(text("assumptions"), words)) return true;
    return false;
  }

  /// As reported, else as the number of parameters says: a gated MLP has three matrices, another one two.
  bool is_gated(Model m) {
    if (reported("gated_mlp")) return flag("gated_mlp", true);
    constexpr std::array kPlain{"gpt-2", "gpt2",  "gpt-3",  "gpt3", "gpt-neox", "gpt-j",
                                "opt-",  "bloom", "pythia", "mpt-", "falcon",   "mt-nlg"};
    if (std::ranges::any_of(kPlain, [&](const char* family) { return is_of(family); })) {
      assume("feed-forward layers that are not gated, as those of this family");
      return false;
    }
    const double reported_parameters = 1e9 * fields_.number("params_b", 0);
    if (reported_parameters <= 0 || reports_experts(fields_)) return true;
    const auto miss = [&](Activation activation) {
      m.activation = activation;
      const Result<Model> complete = validated(m);
      return complete ? std::abs(static_cast<double>(parameter_count(*complete).total()) / reported_parameters - 1) : 1;
    };
    constexpr double kNear = 0.05, kFar = 0.1;
    if (miss(Activation::gelu) > kNear || miss(Model{}.activation) < kFar) return true;
    assume("feed-forward layers that are not gated, as the number of parameters says");
    return false;
  }

  /// Blocks with a gated MLP are Llama's, others GPT's, but for Nemotron's: docs/references.md#families
  void set_family(Model& m) {
    if (is_gated(m)) return;
    const bool nemotron = is_of("nemotron");
    m.activation = nemotron ? Activation::relu : Activation::gelu;
    m.norm = Norm::layer_norm;
    m.position = nemotron ? Position::rope : Position::learned;
    m.qkv_bias = m.attention_output_bias = m.mlp_bias = !nemotron;
    m.norm_bias = true;
    m.max_position_embeddings = nemotron ? 0 : fields_.count("seq_len", 2048);
    if (stack_ != nullptr) m.dropout = stack_->dropout;
  }

  /// Tables print no more than its sizes. docs/references.md#families
  void complete_gpt_oss(Model& m) {
    m.sliding_window = 128;
    m.global_layer_interval = 2;
    m.attention_sinks = m.qkv_bias = m.attention_output_bias = true;
    if (m.moe) m.moe->router_bias = m.moe->expert_bias = true;
    assume("GPT-OSS: a window of 128 tokens in every second layer, sinks, biases");
  }

  void read_experts(Model& m) {
    MixtureOfExperts moe;
    moe.experts = static_cast<int>(std::min<std::int64_t>(fields_.required_size("moe_experts"), 1'000'000));
    moe.topk = static_cast<int>(std::min<std::int64_t>(fields_.required_size("moe_topk"), 1'000'000));
    moe.ffn_hidden = fields_.required_size("moe_ffn_hidden");
    moe.shared_ffn_hidden = fields_.count("moe_shared_ffn_hidden", 0);
    moe.leading_dense_layers = fields_.small_count("moe_dense_layers", 0);
    if (m.latent_attention && moe.experts == kDeepSeekExperts) {
      moe.routing_groups = 8;
      moe.routing_group_limit = 4;
      assume("tokens routed to 4 of 8 groups of experts, as DeepSeek-V3's");
    }
    m.moe = moe;
    if (has_experts_in_every_second_layer(m)) {
      m.moe->layer_interval = 2;
      assume("experts in every second layer, as the number of parameters says");
    }
  }

  /// Tables have no column for it; with experts in all layers, Llama 4 Maverick would have 1.9 times its parameters.
  bool has_experts_in_every_second_layer(Model m) const {
    const double reported = 1e9 * fields_.number("params_b", 0);
    const auto parameters = [&](int interval) {
      m.moe->layer_interval = interval;
      return static_cast<double>(parameter_count(m).total());
    };
    constexpr double kMore = 1.5, kNear = 0.1;
    return reported > 0 && m.moe->leading_dense_layers == 0 && parameters(1) > kMore * reported &&
           std::abs(parameters(2) / reported - 1) < kNear;
  }
};

}  // namespace

void read_model(RowReading& row) { ModelReader(row).read(); }

void complete_model(RowReading& row) {
  ModelReader reader(row);
  reader.pad_vocabulary();
  reader.validate_model();
}

}  // namespace tracecast::accuracy
