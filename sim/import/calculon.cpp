#include <fmt/format.h>

#include "sim/import/importers.hpp"
#include "sim/import/recognise.hpp"
#include "sim/io/json_document.hpp"

namespace tracecast {
namespace {

constexpr std::int64_t kMax = 1'000'000'000;

/// Source: docs/references.md#format-calculon
class CalculonReader {
 public:
  CalculonReader(const JsonDocument& document)
      : root_(document.root), reader_(document.root, document.file, "", errors_) {}

  Result<CalculonInput> read() {
    if (root_.find("hidden") != nullptr)
      application();
    else if (root_.find("tensor_par") != nullptr)
      execution();
    else
      return fail_unknown();
    if (!errors_.empty()) return tl::unexpected(in_file_order(std::move(errors_)));
    return std::move(out_);
  }

 private:
  tl::unexpected<Error> fail_unknown() {
    if (root_.find("matrix") != nullptr)
      return fail(
          {reader_.file(), 0, "", "",
           "is a system of Calculon: efficiency curves of a processor, where a profile and a topology stand here (see "
           "kernels/profiles and topologies)"});
    if (root_.find("block_fw_flops") != nullptr)
      return fail({reader_.file(), 0, "", "", "is a result of Calculon, not one of its inputs"});
    return fail(
        {reader_.file(), 0, "", "", "is not an application (hidden …) or execution (tensor_par …) of Calculon"});
  }

  std::int64_t number(const char* key) {
    std::int64_t value = 0;
    reader_.require(key, value, std::int64_t{1}, kMax);
    return value;
  }

  /// GPT as Calculon reckons it: GeLU, multi-head attention, no embeddings.
  void application() {
    Model model;
    model.hidden_size = number("hidden");
    model.ffn_hidden_size = number("feedforward");
    model.max_position_embeddings = number("seq_size");
    model.num_attention_heads = static_cast<int>(number("attn_heads"));
    model.num_query_groups = model.num_attention_heads;
    model.head_dim = number("attn_size");
    model.num_layers = static_cast<int>(number("num_blocks"));
    model.vocab_size = 51'200;
    model.activation = Activation::gelu;
    model.norm = Norm::layer_norm;
    model.position = Position::learned;
    model.tied_embeddings = true;
    model.qkv_bias = model.attention_output_bias = model.mlp_bias = model.norm_bias = true;
    reader_.finish();
    out_.model = model;
    out_.notes = {
        "Calculon leaves embeddings and loss out of a step: the vocabulary of 51200 is that of its count of parameters",
        fmt::format("the sequence length goes to the scenario: training.seq_length={}", model.max_position_embeddings)};
  }

  template <class T>
  void set(const char* key, const T& value) {
    out_.settings.push_back(fmt::format("{}={}", key, value));
  }

  void execution() {
    set("cluster.world_size", number("num_procs"));
    set("parallel.tp", number("tensor_par"));
    set("parallel.pp", number("pipeline_par"));
    set("parallel.dp", number("data_par"));
    set("parallel.vpp", number("pipeline_interleaving"));
    set("training.global_batch_size", number("batch_size"));
    set("training.micro_batch_size", number("microbatch_size"));
    bool flag = false;
    if (reader_.get("optimizer_sharding", flag)) set("parallel.zero_stage", flag ? 1 : 0);
    flag = false;
    if (reader_.get("data_par_overlap", flag)) set("parallel.overlap_grad_reduce", flag);
    flag = false;
    if (reader_.get("optimizer_offload", flag)) set("training.offload_optimizer", flag);
    std::string word = "float16";
    reader_.get("datatype", word, {{"float16", "fp16"}, {"bfloat16", "bf16"}, {"float32", "fp32"}, {"float8", "fp8"}});
    set("training.dtype", word == "float16" ? "fp16" : word);
    word = "none";
    reader_.get("activation_recompute", word, {{"none", "none"}, {"attn_only", "selective"}, {"full", "full"}});
    set("training.recompute", word);
    word = "ar";
    reader_.get("tensor_par_comm_type", word, {{"ar", "ar"}, {"p2p_rs_ag", "p2p_rs_ag"}, {"rs_ag", "rs_ag"}});
    set("parallel.sequence_parallel", word == "rs_ag");
    if (word == "p2p_rs_ag") set("parallel.scatter_gather_p2p", true);
    word = "none";
    reader_.get("tensor_par_overlap", word, {{"none", "none"}, {"ring", "ring"}, {"pipe", "pipe"}});
    set("parallel.tp_comm_overlap", word != "none");
    for (const char* key : {"weight_offload", "activations_offload", "seq_par_ag_redo", "fused_activation"}) {
      flag = false;
      if (reader_.get(key, flag) && flag)
        out_.notes.push_back(fmt::format("{} has no counterpart and was left out", key));
    }
    word = "multihead";
    reader_.get("attention_type", word, {{"multihead", "multihead"}, {"multiquery", "multiquery"}});
    if (word == "multiquery") set("model.num_query_groups", 1);
    bool training = true;
    if (reader_.get("training", training) && !training)
      reader_.error("training", "is inference, which is not forecast");
    for (const char* key : {"tensor_par_net", "pipeline_par_net", "data_par_net"}) reader_.ignore(key);
    reader_.finish();
  }

  const JsonNode& root_;
  std::vector<Diagnostic> errors_;
  ObjectReader reader_;
  CalculonInput out_;
};

}  // namespace

Result<CalculonInput> read_calculon(std::string_view text, const std::string& file) {
  const Result<JsonDocument> document = parse_json(std::string(text), file);
  if (!document) return tl::unexpected(document.error());
  return CalculonReader(*document).read();
}

namespace {

bool is_calculon(std::string_view content, std::string_view) {
  return (has_key(content, "hidden") && has_key(content, "attn_heads")) || has_key(content, "tensor_par") ||
         has_key(content, "block_fw_flops") || (has_key(content, "matrix") && has_key(content, "vector"));
}

}  // namespace

const Importer kCalculon{"calculon", "application (a model) or execution (settings) of Calculon (JSON)", "steps.md",
                         is_calculon, read_calculon};

}  // namespace tracecast
