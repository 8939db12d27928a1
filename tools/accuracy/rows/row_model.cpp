#include <algorithm>
#include <cmath>
#include <utility>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/model/parameters.hpp"
#include "tools/accuracy/rows/attention_words.hpp"
#include "tools/accuracy/rows/model_families.hpp"
#include "tools/accuracy/rows/row_part.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::int64_t kDefaultVocabulary = 51'200;
constexpr std::int64_t kPackedSpan =
    400;  ///< tokens that a packed token attends to, docs/references.md#packed-sequences

/// Models with latent attention and so many experts limit the groups of a token: docs/references.md#deepseek-v3
constexpr int kDeepSeekExperts = 256;

// What params_b, a number of two or three digits, tells of a shape: how far the parameters of a guess may be off, and how far those of
// the other guess must be. Chosen.
constexpr double kNearHeadSize = 0.015;
constexpr double kFarHeadSize = 0.05;
constexpr double kNearMlp = 0.05;
constexpr double kFarMlp = 0.1;
constexpr double kNearGuessedMlp = 0.1;  // where the vocabulary or the width is a guess, too
constexpr double kFarGuessedMlp = 0.15;
constexpr double kNearInterval = 0.1;
constexpr double kMoreByInterval = 1.5;
// A model that has more or less than so many times its reported parameters is told, or refused.
constexpr double kSaid = 1.15;
constexpr double kRefused = 1.5;

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
    if (is_fine_tuning() && is_packed().value_or(is_megatron_core())) {
      m.sliding_window = kPackedSpan;
      m.global_layer_interval = 0;
      m.chunked_attention = false;
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

  /// The keys that an indexer chooses may be anywhere, so ranks of a context gather all.
  void gather_sparse_context() {
    Parallel& p = result_.scenario.parallel;
    if (!result_.scenario.model.sparse_attention || p.cp == 1 || p.cp_comm_type == ContextExchange::all_gather) return;
    p.cp_comm_type = ContextExchange::all_gather;
    assume("ranks of a context gather all keys, of which sparse attention chooses some");
  }

  void validate_model() {
    Result<Model> model = validated(result_.scenario.model);
    if (!model)
      return add_error("layers", "describes an invalid model: " + to_string(model.error().diagnostics.front()));
    result_.scenario.model = std::move(*model);
    compare_parameters(result_.scenario.model);
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
    if (const std::string_view layers = unmodelled(); !layers.empty())
      return add_error(
          "model_name",
          fmt::format("has {}, for which tables have no columns, and is not a shipped hybrid (tracecast list models)",
                      layers));
    if (!reported("layers"))
      return add_error("layers",
                       "is not reported, and no shipped model has the row's model_name (tracecast list models)");
    m.num_layers = static_cast<int>(std::min<std::int64_t>(fields_.required_size("layers"), 100'000));
    m.hidden_size = fields_.required_size("hidden");
    m.num_attention_heads = static_cast<int>(std::min<std::int64_t>(fields_.required_size("heads"), 1'000'000));
    named_ = shipped_of_same_width(fields_, library_).value_or(Model{});
    m.num_query_groups = static_cast<int>(size_or_shipped("kv_heads", named_.num_query_groups, m.num_attention_heads));
    const bool only_experts =
        named_.moe && named_.moe->leading_dense_layers == 0;  // whose width has a column of its own
    m.ffn_hidden_size = size_or_shipped("ffn_hidden", only_experts ? 0 : named_.ffn_hidden_size, 4 * m.hidden_size);
    read_vocabulary(m);
    set_latent_attention(m);
    if (!m.latent_attention) set_head_size(m);
    set_family(m);
    if (has_experts_) read_experts(m);
    if (!has_experts_ && !reported("moe_experts") && !reported("arch") && is_named_for_experts(family_))
      assume(fmt::format("{}, and the row reports none: a dense model",
                         has_known_experts(family_)
                             ? shortened(text("model_name")) + " has experts, but not with this width"
                             : "the name says experts, which are not known here"));
    if (is_of("gpt-oss")) complete_gpt_oss(m);
    set_norms(m);
    m.parallel_residual = mentions("parallel transformer block") || has_parallel_residual(family_);
    set_window(m);
    say_what_is_unknown(m);
    if (m.head_dim == 0 && !m.latent_attention) m.head_dim = head_size_by_parameters(m);
  }

  /// What columns cannot express: of a family, or of a row that calls its model a hybrid.
  std::string_view unmodelled() const {
    if (const std::string_view layers = unmodelled_layers(family_); !layers.empty()) return layers;
    const std::string arch = lower_case(text("arch")), attention = lower_case(text("attention_kind"));
    for (const char* word : {"hybrid", "mamba", "ssm", "rwkv", "diffusion", "dit"})
      if (has_word(arch, word) && affirms(arch, word)) return "other layers than attention";
    if (attention == "linear" || affirms(attention, "linear attention")) return "linear attention";
    return affirms(arch, "encoder-decoder") || affirms(arch, "seq2seq") ? "an encoder" : "";
  }

  /// A size that the row leaves out is that of the shipped model of its name, if it has one.
  std::int64_t size_or_shipped(const char* column, std::int64_t shipped, std::int64_t otherwise) {
    if (reported(column) || shipped == 0) return fields_.count(column, otherwise);
    assume(fmt::format("{} not reported: {}, of the shipped model {}", column, shipped, named_.name));
    return shipped;
  }

  /// Of the shipped model, else of the family's tokenizer, else of the stack's.
  void read_vocabulary(Model& m) {
    const VocabularyFamily* family = vocabulary_of(family_);
    const bool shipped = named_.vocab_size > 0;
    m.tied_embeddings = flag("tied_embeddings", shipped ? named_.tied_embeddings : family != nullptr && family->tied);
    if (!shipped && family != nullptr && family->tied && !reported("tied_embeddings"))
      assume("embeddings not reported: tied, as of the model's family");
    m.vocab_size = size_or_shipped("vocab", named_.vocab_size, 0);
    if (m.vocab_size > 0) return;
    m.vocab_size = family != nullptr                             ? family->words
                   : stack_ != nullptr && stack_->vocabulary > 0 ? stack_->vocabulary
                                                                 : kDefaultVocabulary;
    assume(
        fmt::format("vocabulary not reported: {}{}", m.vocab_size, family != nullptr ? ", of the model's family" : ""));
  }

  void set_head_size(Model& m) {
    const bool shipped = named_.head_dim > 0 && !named_.latent_attention;
    m.head_dim = fields_.count("head_dim", shipped ? named_.head_dim : head_size_of(family_));
    if (!reported("head_dim") && m.head_dim > 0 && m.head_dim * m.num_attention_heads != m.hidden_size)
      assume(fmt::format("head_dim not reported: {}, of its family", m.head_dim));
  }

  /// 0: not known.
  double reported_parameters() const { return 1e9 * fields_.number("params_b", 0); }

  /// Parameters of `m` over those that the row reports; 0 of a model that is not valid.   Requires reported_parameters() > 0
  double share_of_reported(const Model& m) const {
    const Result<Model> complete = validated(m);
    return complete ? static_cast<double>(parameter_count(*complete).total()) / reported_parameters() : 0;
  }

  /// That with which the model has the parameters of `params_b`, if hidden / heads gives it too few. 0: none.
  std::int64_t head_size_by_parameters(Model m) {
    const auto missing = [&](std::int64_t size) {
      m.head_dim = size;
      return 1 - share_of_reported(m);
    };
    if (reported_parameters() <= 0 || reported("head_dim") || !reported("vocab") || missing(0) < kFarHeadSize) return 0;
    for (const std::int64_t size : {128, 256}) {
      if (size * m.num_attention_heads <= m.hidden_size || std::abs(missing(size)) > kNearHeadSize) continue;
      assume(fmt::format("head_dim not reported: {}, as the number of parameters says", size));
      return size;
    }
    return 0;
  }

  /// By the attention that the row names, else by the family. docs/references.md#families
  void set_latent_attention(Model& m) {
    const std::string kind = lower_case(text("attention_kind"));
    const LatentFamily* family = latent_family(family_);
    const bool sparse = contains(kind, "dsa") || (family != nullptr && contains(kind, "sparse"));
    const bool named = sparse || affirms(kind, "mla") || affirms(kind, "latent");
    if (!named && (family == nullptr || denies_latent_attention(m, *family))) return;
    m.latent_attention = family != nullptr ? family->sizes : latent_family("deepseek-v3")->sizes;
    m.num_query_groups = 0;
    const int index_heads = family != nullptr && family->index_heads > 0 ? family->index_heads
                            : sparse                                     ? latent_family("deepseek-v3.2")->index_heads
                                                                         : 0;
    if (index_heads > 0) m.sparse_attention = sparse_attention(index_heads);
    assume(fmt::format("latent attention with the ranks and head sizes of {}{}",
                       family != nullptr ? family->family : "deepseek-v3",
                       index_heads > 0 ? ", which attends to the keys that an indexer chooses" : ""));
  }

  /// Words for any kind of attention, as "full" or "mha", do not deny a family's. Fewer heads of keys do, which it does not have.
  bool denies_latent_attention(const Model& m, const LatentFamily& family) {
    const std::string kind = lower_case(text("attention_kind"));
    const bool grouped = contains(kind, "gqa") || contains(kind, "mqa") || contains(kind, "group");
    const bool fewer = grouped && reported("kv_heads") && m.num_query_groups < m.num_attention_heads;
    const bool denied = mentioned(kind, "mla") == false || mentioned(kind, "latent") == false;
    if (!fewer && !denied) return false;
    assume(fmt::format("attention '{}': not the latent attention of {}", shortened(kind), family.family));
    return true;
  }

  void set_norms(Model& m) {
    m.qk_norm = has_qk_norm(family_) && !m.latent_attention;
    if (has_four_norms(family_)) assume("norms behind attention and feed-forward, which this family has, are left out");
  }

  /// As reported, else of the family. docs/references.md#families
  void set_window(Model& m) {
    const std::string kind = lower_case(text("attention_kind"));
    const std::optional<ReportedWindow> reported = reported_window(kind);
    const AttentionWindow* family = window_of(family_);
    if (family != nullptr && family->of_checkpoint && !reads_checkpoints()) family = nullptr;
    if (reported && reported->denied) {
      if (family != nullptr)
        assume(fmt::format("attention '{}': without the windows of {}", shortened(kind), family->name));
      return;
    }
    if (family == nullptr && !reported) return;
    const std::string source = reported ? fmt::format("attention '{}'", shortened(kind)) : std::string(family->name);
    const ReportedWindow said = reported.value_or(ReportedWindow{});
    m.sliding_window = said.tokens.value_or(family != nullptr ? family->tokens : 0);
    if (m.sliding_window == 0) return assume(source + ": the window is not read");
    m.global_layer_interval = said.global_every.value_or(family != nullptr ? family->global_every : 0);
    m.chunked_attention = said.chunked || (family != nullptr && family->chunked);
    assume(fmt::format("{}: {}{}", source,
                       window_in_words(m.sliding_window, m.global_layer_interval, m.chunked_attention),
                       said.unread_layers ? "; the layers that it names are not read" : ""));
  }

  /// Megatron-LM and others have flags for what these take from a checkpoint's config.json or write beside the model's other sizes.
  bool reads_checkpoints() const {
    return stack_ != nullptr &&
           (stack_->name.starts_with("nemo") || is_bridge() || runs("hugging-face") || runs("deepspeed"));
  }

  /// Words of arch and attention_kind that change nothing.
  void say_what_is_unknown(const Model& m) {
    const std::string arch = lower_case(text("arch")), kind = lower_case(text("attention_kind"));
    constexpr std::string_view kArchs[] = {"",      "dense", "moe", "decoder", "decoder-only", "transformer",
                                           "llama", "gpt"};
    if (std::ranges::find(kArchs, arch) == std::end(kArchs) && !contains(arch, "moe") && !contains(arch, "dense"))
      assume(fmt::format("arch '{}': as a decoder with causal attention", shortened(arch)));
    if (reported_window(kind)) return;
    constexpr const char* kKinds[] = {"mha",  "gqa",    "mqa",   "mla",     "latent", "dsa",
                                      "full", "causal", "multi", "grouped", "group"};
    if (!kind.empty() && std::ranges::none_of(kKinds, [&](const char* known) { return contains(kind, known); }) &&
        !m.sparse_attention)
      assume(fmt::format("attention '{}' is not known: {}", shortened(kind),
                         m.sliding_window == 0 ? "every token attends to all before it" : "that of the family"));
  }

  /// Empty: the row does not say.
  std::optional<bool> is_packed() const {
    if (const std::optional<bool> packed = noted({"packed", "packing", "padding-free", "SQuAD"})) return packed;
    return mentions("unpacked") ? std::optional(false) : std::nullopt;
  }

  /// A launcher's layout names layers of multi-token prediction; without one, the row says whether there is such a layer.
  bool predicts_two_tokens() const {
    if (reported("pp_layout")) return text("pp_layout").find('m') != std::string::npos;
    for (const char* words : {"MTP layer", "MTP depth", "with MTP", "multi-token prediction", "MTP=1", "MTP: 1",
                              "MTP on", "MTP enabled", "MTP is", "mtp_num_layers"})
      if (affirms(text("notes"), words) || affirms(text("assumptions"), words)) return true;
    return false;
  }

  /// True if the row names a model or family with a gate: all with a vocabulary or head size here, but for those of is_ungated.
  bool is_named_for_gate() const {
    return vocabulary_of(family_) != nullptr || head_size_of(family_) > 0 || (named_.hidden_size > 0 && named_.gated());
  }

  /// As reported, else as the number of parameters says: a gated MLP has three matrices, another one two. Where sizes are guessed,
  /// too, the number must say it more clearly, and does not contradict the name.
  bool is_gated(Model m) {
    if (reported("gated_mlp")) return flag("gated_mlp", true);
    if (is_ungated(family_)) {
      assume("feed-forward layers that are not gated, as those of this family");
      return false;
    }
    const bool guessed = !reported("vocab") || !reported("ffn_hidden");
    if (reported_parameters() <= 0 || has_experts_ || (guessed && is_named_for_gate())) return true;
    const auto miss = [&](Activation activation) {
      m.activation = activation;
      return std::abs(share_of_reported(m) - 1);
    };
    const double near = guessed ? kNearGuessedMlp : kNearMlp, far = guessed ? kFarGuessedMlp : kFarMlp;
    if (miss(Activation::gelu) > near || miss(Model{}.activation) < far) return true;
    assume("feed-forward layers that are not gated, as the number of parameters says");
    return false;
  }

  /// Blocks with a gated MLP are Llama's, others GPT's, but for those of some families: docs/references.md#families
  void set_family(Model& m) {
    if (is_gated(m)) return;
    const UngatedFamily& family = ungated_family(family_);
    m.activation = family.activation;
    m.norm = family.norm;
    m.position = family.position;
    m.qkv_bias = m.attention_output_bias = m.mlp_bias = family.biases;
    m.norm_bias = family.norm == Norm::layer_norm;
    m.max_position_embeddings = family.position == Position::learned ? fields_.count("seq_len", 2048) : 0;
    if (stack_ != nullptr) m.dropout = stack_->dropout;
  }

  /// Tables print no more than its sizes. docs/references.md#families
  void complete_gpt_oss(Model& m) {
    m.attention_sinks = m.yarn = m.qkv_bias = m.attention_output_bias = true;
    if (m.moe) m.moe->router_bias = m.moe->expert_bias = m.moe->clamped_activation = true;
    assume("GPT-OSS: sinks, biases, rotary positions of YaRN, clamped activations");
  }

  void read_experts(Model& m) {
    constexpr std::int64_t kMost = 1'000'000;
    MixtureOfExperts known = known_experts(fields_, library_).value_or(MixtureOfExperts{});
    MixtureOfExperts moe;
    moe.experts = static_cast<int>(std::min(size_or_known("moe_experts", known.experts), kMost));
    if (moe.experts != known.experts) known = {};  // another model of that name
    moe.topk = static_cast<int>(std::min(size_or_known("moe_topk", known.topk), kMost));
    moe.ffn_hidden = width_of_experts(known.ffn_hidden);
    moe.shared_ffn_hidden = count_or_known("moe_shared_ffn_hidden", known.shared_ffn_hidden);
    moe.leading_dense_layers =
        static_cast<int>(std::min(count_or_known("moe_dense_layers", known.leading_dense_layers), kMost));
    if (m.latent_attention && moe.experts == kDeepSeekExperts && (is_deepseek() || latent_family(family_) == nullptr)) {
      moe.routing_groups = 8;
      moe.routing_group_limit = 4;
      assume("tokens routed to 4 of 8 groups of experts, as DeepSeek-V3's");
    }
    m.moe = moe;
    if (runs("hugging-face") || runs("deepspeed"))  // docs/references.md#hugging-face
      assume(
          "experts in one grouped multiplication, as since Transformers 5; the loop of older ones takes the host "
          "longer");
    if (alternates_experts(family_) && moe.leading_dense_layers == 0) {
      m.moe->layer_interval = 2;
      assume("experts in every second layer, as in Llama 4 Maverick");
    } else if (has_experts_in_every_second_layer(m)) {
      m.moe->layer_interval = 2;
      assume("experts in every second layer, as the number of parameters says");
    }
  }

  /// Of experts: as reported, else of the model or family that the row names; 0 for none.
  std::int64_t count_or_known(const char* column, std::int64_t known) {
    if (reported(column) || known == 0) return fields_.count(column, 0);
    assume(fmt::format("{} not reported: {}, of {}", column, known,
                       named_.moe ? "the shipped model " + named_.name : "the model's family"));
    return known;
  }
  std::int64_t size_or_known(const char* column, std::int64_t known) {
    return reported(column) || known == 0 ? fields_.required_size(column) : count_or_known(column, known);
  }

  /// Without a column of their own, that of the feed-forward: config.json of Mixtral, GPT-OSS, Llama 4 … has only one.
  std::int64_t width_of_experts(std::int64_t known) {
    const char* column = "moe_ffn_hidden";
    if (reported(column) || known > 0 || !reported("ffn_hidden")) return size_or_known(column, known);
    assume("width of an expert not reported: ffn_hidden");
    return fields_.required_size("ffn_hidden");
  }

  /// Says where the model has another number of parameters than `params_b`, and refuses one that is far off. The number may be that of
  /// the parameters that a token passes, or leave out the embeddings.
  void compare_parameters(const Model& m) {
    if (reported_parameters() <= 0) return;
    const ParameterCount count = parameter_count(m);
    double ratio = 0;
    for (const std::int64_t parameters :
         {count.total(), count.total() - count.embedding - count.output, active_parameters(m)}) {
      const double quotient = static_cast<double>(parameters) / reported_parameters();
      ratio = ratio == 0 || std::abs(std::log(quotient)) < std::abs(std::log(ratio)) ? quotient : ratio;
    }
    if (ratio < kSaid && ratio > 1 / kSaid) return;
    const std::string what =
        fmt::format("the model as it is read has {:.3g} billion parameters", static_cast<double>(count.total()) / 1e9);
    if (ratio > kRefused || ratio < 1 / kRefused)
      return add_error("params_b", what + ": the row lacks or misstates something of its shape");
    assume(fmt::format("params_b = {}, but {}", text("params_b"), what));
  }

  /// Tables have no column for it; with experts in all layers, Llama 4 Maverick would have 1.9 times its parameters.
  bool has_experts_in_every_second_layer(Model m) const {
    const double reported = reported_parameters();
    const auto parameters = [&](int interval) {
      m.moe->layer_interval = interval;
      return static_cast<double>(parameter_count(m).total());
    };
    return reported > 0 && m.moe->leading_dense_layers == 0 && parameters(1) > kMoreByInterval * reported &&
           std::abs(parameters(2) / reported - 1) < kNearInterval;
  }

  Model named_;  ///< shipped, of the same name and width; without sizes if there is none
};

}  // namespace

std::optional<Model> shipped_of_same_width(TableFields fields, const RowLibrary& library) {
  std::optional<Model> named = library.model(fields.text("model_name"));
  const bool same = named && named->hidden_size == fields.count("hidden", 0) &&
                    named->num_attention_heads == fields.count("heads", 0);
  return same ? named : std::nullopt;
}

std::optional<MixtureOfExperts> known_experts(TableFields fields, const RowLibrary& library) {
  if (const std::optional<Model> named = shipped_of_same_width(fields, library)) return named->moe;
  const ExpertFamily* family = experts_of(family_name(fields.text("model_name")), fields.count("hidden", 0));
  if (family == nullptr) return std::nullopt;
  MixtureOfExperts moe;
  moe.experts = family->experts;
  moe.topk = family->topk;
  moe.ffn_hidden = family->ffn_hidden;
  moe.shared_ffn_hidden = family->shared_ffn_hidden;
  moe.leading_dense_layers = family->leading_dense_layers;
  return moe;
}

void read_row_model(RowReading& row) { ModelReader(row).read(); }

void complete_row_model(RowReading& row) {
  ModelReader reader(row);
  reader.pad_vocabulary();
  reader.gather_sparse_context();
  reader.validate_model();
}

}  // namespace tracecast::accuracy
