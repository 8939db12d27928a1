#include "tools/accuracy/row_scenario.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/cost/attention.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "tools/accuracy/row_machine.hpp"
#include "tools/accuracy/table_fields.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::int64_t kDefaultVocabulary = 51'200;
constexpr std::int64_t kPackedSpan =
    400;  ///< tokens that a packed token attends to, docs/references.md#packed-sequences

/// Models with latent attention and so many experts limit the groups of a token: docs/references.md#deepseek-v3
constexpr int kDeepSeekExperts = 256;

/// A word of a table and the name used here.
struct Word {
  const char* in_table;
  const char* name;
};
constexpr std::array kSchedules{Word{"1f1b", "1f1b"},          Word{"interleaved_1f1b", "interleaved-1f1b"},
                                Word{"zb_1p", "zb-auto-1p"},   Word{"zb_2p", "zb-auto-2p"},
                                Word{"v_half", "v-half"},      Word{"v_min", "v-min"},
                                Word{"zbv_formatted", "zb-v"}, Word{"zero_bubble", "zb-h1"},
                                Word{"dualpipe", "dualpipe"},  Word{"dualpipev", "dualpipev"},
                                Word{"gpipe", "gpipe"}};

/// True if `word` is in the text as a whole word: "moe" is in "layernorm, moe" and not in "moe_act".
bool has_word(const std::string& text, const std::string& word) {
  const auto ends = [&](std::size_t at) {
    return at >= text.size() || (std::isalnum(static_cast<unsigned char>(text[at])) == 0 && text[at] != '_');
  };
  for (std::size_t at = text.find(word); at != std::string::npos; at = text.find(word, at + 1))
    if ((at == 0 || ends(at - 1)) && ends(at + word.size())) return true;
  return false;
}

class RowReader {
 public:
  RowReader(const CsvTable& table, std::size_t row, const RowLibrary& library)
      : fields_(table, row), library_(&library) {}

  Result<RowScenario> read() {
    result_.row = fields_.row();
    stack_ = find_stack(library_->stacks(), text("framework"), text("source"),
                        [this](const std::string& column) { return text(column.c_str()); });
    result_.stack = stack_ != nullptr ? stack_->name : "";
    if (stack_ != nullptr) result_.memory_report = stack_->memory_report;
    if (stack_ == nullptr) assume("unknown software stack: general defaults");
    read_model();
    read_machine();
    if (!failed()) read_parallel();
    if (!failed()) read_training();
    if (!failed()) pad_vocabulary();
    if (!failed()) validate_model();
    if (failed()) return fail(*fields_.problem());
    Scenario& s = result_.scenario;
    s.name = text("id").empty() ? fmt::format("row {}", fields_.line()) : text("id");
    s.source = text("source");
    if (const double time = fields_.number("step_time_s", 0); time > 0) s.measured = Measured{time, text("source")};
    return std::move(result_);
  }

 private:
  const std::string& text(const char* column) const { return fields_.text(column); }
  bool reported(const char* column) const { return fields_.reported(column); }
  bool flag(const char* column, bool otherwise) const { return fields_.flag(column, otherwise); }
  bool failed() const { return fields_.problem().has_value(); }
  void add_error(const char* column, std::string message) { fields_.add_error(column, std::move(message)); }
  void assume(std::string sentence) { result_.assumptions.push_back(std::move(sentence)); }

  void read_model() {
    Model& m = result_.scenario.model;
    if (std::optional<Model> shipped = reported("layers") ? std::nullopt : library_->model(text("model_name"))) {
      m = std::move(*shipped);
      assume(fmt::format("the shipped model {}, whose shape the row leaves out", m.name));
      return;
    }
    m.name = text("model_name");
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
    if (text("attention_kind") == "mla") {
      m.latent_attention = LatentAttention{1536, 512, 128, 64, 128};
      m.head_dim = 0;
      m.num_query_groups = 0;
      assume("latent attention with DeepSeek-V3's ranks and head sizes");
    }
    if (text("arch") == "moe" || reported("moe_experts")) read_experts(m);
    if (text("model_name").starts_with("GPT-OSS")) complete_gpt_oss(m);
    m.qk_norm = text("model_name").starts_with("Qwen3");
    if (predicts_two_tokens()) {
      m.mtp_layers = 1;
      assume("one layer of multi-token prediction");
    }
    if (text("task") == "sft") {
      m.sliding_window = kPackedSpan;
      assume(fmt::format("packed fine-tuning: a token attends to {} others", kPackedSpan));
    }
  }

  /// A launcher's layout names layers of multi-token prediction; without one, the row says whether there is such a layer.
  bool predicts_two_tokens() const {
    const auto said = [&](const char* column) { return text(column).find("MTP layer") != std::string::npos; };
    if (reported("pp_layout")) return text("pp_layout").find('m') != std::string::npos;
    return said("notes") || said("assumptions");
  }

  /// Blocks with a gated MLP are Llama's, others GPT's, but for Nemotron's: docs/references.md#families
  void set_family(Model& m) {
    if (flag("gated_mlp", true)) return;
    const bool nemotron = text("model_name").starts_with("Nemotron");
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
  }

  void read_machine() {
    Scenario& s = result_.scenario;
    const ReportedMachine reported_machine{text("gpu"),
                                           fields_.number("gpu_mem_gb", 0),
                                           fields_.small_count("gpus_per_node", 0),
                                           text("intra_node_link"),
                                           text("inter_node_link"),
                                           text("framework")};
    const std::int64_t ranks = fields_.required_size("gpu_count");
    const MachineClass* machine = find_machine(reported_machine);
    if (machine == nullptr) add_error("gpu", "unknown GPU: no machine has it");
    if (failed()) return;
    Result<Cluster> cluster = library_->topology(machine->topology);
    if (!cluster) return add_error("gpu", "the topology of its machine cannot be read");
    s.topology = machine->topology;
    s.cluster = std::move(*cluster);
    s.profile_name = machine->profile;
    Result<Profile> profile = library_->profile(s.profile_name.empty() ? s.cluster.gpu : s.profile_name);
    if (!profile) return add_error("gpu", "its profile cannot be read");
    s.profile = std::move(*profile);
    s.cluster.world_size = static_cast<int>(std::min<std::int64_t>(ranks, 16'777'216));
    s.cluster.max_nodes = 0;  // a machine of this kind, of any size
    set_pcie_rate(s.cluster.node, s.profile);
    if (std::string changed = adapt_node(s.cluster, reported_machine, machine->by_network); !changed.empty())
      assume(std::move(changed));
    if (s.cluster.node.nics == 0 && s.cluster.world_size > s.cluster.node.gpus)
      return add_error("inter_node_link",
                       fmt::format("must say how nodes of {} GPUs are connected", s.cluster.node.gpus));
    const std::string& network = text("inter_node_link");
    if (!machine->by_network && (network.empty() || network.find("not printed") != std::string::npos))
      assume(fmt::format("network between nodes not reported: {}", machine->topology));
    prepare(s);
  }

  /// The release in a framework's name, "NeMo 24.07", dates the stack.
  void prepare(Scenario& s) {
    s.gpu_spread = kGpuSpread;
    std::optional<Stack> stack;
    if (stack_ != nullptr) stack = *stack_;
    if (const double year = year_of_release(text("framework")); stack && stack->released > 0 && year > 0)
      stack->released = year;
    prepare_profile(s.profile, stack ? &*stack : nullptr, s.model.moe.has_value(), std::max(1, s.cluster.world_size),
                    s.gpu_spread);
  }

  void read_parallel() {
    Parallel& p = result_.scenario.parallel;
    if (stack_ != nullptr) p = stack_->parallel;
    read_dispatcher(p);
    const int world = result_.scenario.cluster.world_size;
    p.tp = std::max(1, fields_.small_count("tp", 1));
    p.pp = std::max(1, fields_.small_count("pp", 1));
    p.cp = std::max(1, fields_.small_count("cp", 1));
    p.ep = std::max(1, fields_.small_count("ep", 1));
    // All runs of Megatron-Core's stacks of 2025 and later that report it do not split experts.
    const bool unsplit = stack_ != nullptr && stack_->training.transformer_engine && stack_->released >= 2025;
    p.etp = result_.scenario.model.moe ? fields_.small_count("etp", unsplit && p.ep > 1 ? 1 : 0) : 0;
    p.vpp = std::max(1, fields_.small_count("vp", 1));
    if (std::int64_t{p.tp} * p.pp * p.cp > world || world % (p.tp * p.pp * p.cp) != 0)
      return add_error("gpu_count", fmt::format("is not a multiple of tp x pp x cp = {}", p.tp * p.pp * p.cp));
    use_racks(result_.scenario.cluster, p, 0);
    p.dp = fields_.small_count("dp", 0);
    p.sequence_parallel = p.tp > 1 && flag("seq_parallel", p.sequence_parallel);
    if (reported("zero_stage"))
      p.zero_stage = fields_.small_count("zero_stage", 0);
    else if (reported("distributed_optimizer"))
      p.zero_stage = flag("distributed_optimizer", false) ? std::max(1, p.zero_stage) : 0;
    if (p.zero_stage > 3) return add_error("zero_stage", "unknown ZeRO stage (allowed: 0 to 3)");
    p.shard_group = fields_.small_count("fsdp_shard_size", 0);
    const int ranks = world / (p.tp * p.pp);
    if (p.zero_stage == 0 || p.shard_group >= ranks || (p.shard_group > 0 && ranks % p.shard_group != 0))
      p.shard_group = 0;
    if (p.tp == 1) p.scatter_gather_p2p = false;
    if (p.sequence_parallel) p.scatter_gather_p2p = false;
    p.tp_comm_overlap = p.tp > 1 && p.sequence_parallel && flag("tp_comm_overlap", p.tp_comm_overlap);
    if (mentions("order tp-cp-pp-dp")) p.rank_order = "tp-cp-ep-pp-dp";
    if (mentions("torch DDP")) {
      p.data_parallel = DataParallelKind::ddp;
      p.overlap_grad_reduce = true;
    }
    read_stages(p);
    if (stack_ != nullptr && p.zero_stage >= 1) {
      const int group = p.shard_group > 0 ? p.shard_group : ranks;
      // The profile counts its overhead per rank of the job, the stack per rank of the shard group.
      if (group > 1)
        result_.scenario.profile.host.step_overhead_per_rank += seconds(stack_->shard_rank_overhead) * group / world;
    }
  }

  bool is_deepseek() const { return text("model_name").starts_with("DeepSeek"); }
  bool is_bridge() const { return text("framework").starts_with("Megatron-Bridge"); }
  /// A release of Megatron-Bridge from that year on, or one without a date.
  bool is_bridge_since(double year) const {
    const double released = year_of_release(text("framework"));
    return is_bridge() && (released == 0 || released >= year);
  }

  /// True if the name of the run or a note has these words.
  bool mentions(const char* words) const {
    return text("source_detail").find(words) != std::string::npos || text("notes").find(words) != std::string::npos;
  }

  /// The dispatcher of experts, of a column or of the words of the source, else that of its release's recipes.
  void read_dispatcher(Parallel& p) {
    if (!result_.scenario.model.moe) {
      p.moe_dispatcher = Parallel{}.moe_dispatcher;
    } else if (drops_tokens()) {
      p.moe_dispatcher = MoeDispatcher::alltoall;
      assume("tokens are dropped: experts by all-to-all, which does not overlap with other micro-batches");
    } else if (const std::string& named = text("moe_dispatcher"); !named.empty()) {
      p.moe_dispatcher = named == "hybridep" ? MoeDispatcher::hybridep
                         : named == "deepep" ? MoeDispatcher::deepep
                                             : MoeDispatcher::alltoall;
    } else if (mentions("HybridEP")) {
      p.moe_dispatcher = MoeDispatcher::hybridep;
    } else if (mentions("DeepEP")) {
      p.moe_dispatcher = MoeDispatcher::deepep;
    } else if (mentions("all-to-all")) {
      p.moe_dispatcher = MoeDispatcher::alltoall;
    } else if (precedes_hybridep_on_nodes()) {
      p.moe_dispatcher =
          result_.scenario.model.moe->routing_groups > 0 ? MoeDispatcher::deepep : MoeDispatcher::alltoall;
      assume(fmt::format("dispatcher of experts not reported: {}, as in recipes of that release",
                         to_string(p.moe_dispatcher)));
    }
    // The provider of DeepSeek's models has it, and only other dispatchers and overlapped exchanges turn it off.
    if (is_bridge() && is_deepseek() && p.moe_dispatcher == MoeDispatcher::alltoall && !flag("moe_a2a_overlap", false))
      p.moe_shared_overlap = result_.scenario.model.moe && result_.scenario.model.moe->shared_ffn_hidden > 0;
  }

  /// Experts take at most their capacity, which Megatron-Core allowed with its all-to-all only, and recipes that drop tokens
  /// do not overlap exchanges. docs/references.md#token-drop
  bool drops_tokens() const { return result_.scenario.model.moe && mentions("token drop"); }

  /// Megatron-Bridge's recipes before release 26.04 choose HybridEP on racks only: docs/references.md#bridge-dispatchers
  bool precedes_hybridep_on_nodes() const { return is_bridge() && !is_bridge_since(2026.25) && !has_racks(); }

  /// True if NVLink connects several hosts.
  bool has_racks() const {
    const NodeSpec& node = result_.scenario.cluster.node;
    return node.gpus > node.gpus_per_host;
  }

  void read_stages(Parallel& p) {
    if (p.pp == 1) {
      p.vpp = 1;
      if (overlaps_experts(p)) p.pp_schedule = "combined-1f1b";
      return;
    }
    const std::string& schedule = text("schedule");
    const auto word =
        std::find_if(kSchedules.begin(), kSchedules.end(), [&](const Word& w) { return schedule == w.in_table; });
    if (word != kSchedules.end()) p.pp_schedule = word->name;
    // Megatron-Core overlaps pipeline messages only where it interleaves.
    result_.guessed_schedule = schedule.empty() && !reported("vp") && stack_ != nullptr && p.overlap_p2p;
    if (result_.guessed_schedule) p.pp_schedule = "interleaved-1f1b";
    if (p.vpp == 1 && p.pp_schedule == "interleaved-1f1b") guess_chunks(p);
    for (const char* two_chunks : {"v-half", "v-min", "zb-v"})
      if (p.pp_schedule == two_chunks) p.vpp = 2;
    if (p.vpp > 1 && p.pp_schedule == "1f1b") p.pp_schedule = default_schedule(p.vpp);
    if (overlaps_experts(p)) p.pp_schedule = "combined-1f1b";
    if (!read_layout(p)) divide_layers(p);
  }

  /// Interleaved with an unknown number of virtual stages: one layer each.
  void guess_chunks(Parallel& p) {
    const bool as_layers = text("pipeline_split") == "embedding_and_head_count_as_layers";
    const int layers = result_.scenario.model.num_layers + (as_layers ? 2 : 0);
    p.vpp = layers % p.pp == 0 ? layers / p.pp : 1;
    if (p.vpp == 1) p.pp_schedule = default_schedule(1);
    result_.guessed_layout = true;
    assume("virtual stages not reported: one layer each where layers divide, else none");
  }

  /// Megatron's overlap_moe_expert_parallel_comm, on its own schedules.
  bool overlaps_experts(const Parallel& p) const {
    const bool own = p.pp == 1 || p.pp_schedule == "1f1b" || p.pp_schedule == "interleaved-1f1b";
    return own && p.ep > 1 && result_.scenario.model.moe && !drops_tokens() && flag("moe_a2a_overlap", false);
  }

  /// The launcher's own layout, "Et*4|(t*4|)*14tmL". Layers of multi-token prediction stand on the last stage.
  bool read_layout(Parallel& p) {
    std::string layout = text("pp_layout");
    while (!layout.empty() && (layout.back() == ';' || layout.back() == ' ')) layout.pop_back();
    if (layout.empty()) layout = layout_of_recipe(p);
    if (layout.empty()) return false;
    const std::optional<std::vector<int>> stages = parse_pipeline_layout(layout);
    const int layers = result_.scenario.model.num_layers;
    if (!stages || static_cast<int>(stages->size()) != p.pp * p.vpp ||
        std::accumulate(stages->begin(), stages->end(), 0) != layers)
      return false;
    p.pp_layout = *stages;
    return true;
  }

  /// Of DeepSeek-V3 and Kimi K2, as NeMo and Megatron-Bridge divide them, with fewer layers where the loss is; for other
  /// software, too, of which no division is known. docs/references.md#deepseek-recipes
  std::string layout_of_recipe(const Parallel& p) {
    const Model& m = result_.scenario.model;
    if (!m.latent_attention || !m.moe || m.num_layers != 61) return {};
    const int stages = p.pp * p.vpp;
    const char* layout = stages == 4    ? "Et*16|(t*16|)*2t*13mL"
                         : stages == 8  ? "Et*8|(t*8|)*6t*5mL"
                         : stages == 16 ? "Et*4|(t*4|)*14tmL"
                         : stages == 32 ? "Et|(tt|)*30mL"
                                        : "";
    if (*layout != '\0') assume(fmt::format("layers divided as in NVIDIA's recipes: {}", layout));
    return layout;
  }

  void divide_layers(Parallel& p) {
    const int layers = result_.scenario.model.num_layers;
    const int stages = p.pp * p.vpp;
    const bool as_layers = text("pipeline_split") == "embedding_and_head_count_as_layers";
    if (layers % stages == 0 && !as_layers) return;
    if ((layers + 2) % stages == 0) {
      p.account_for_embedding = p.account_for_loss = true;
      if (!as_layers && text("pipeline_split") != "first_and_last_stage_one_layer_less")
        assume("layers do not divide: embedding and loss count as a layer each");
      return;
    }
    p.pp_layout.assign(static_cast<std::size_t>(stages), layers / stages);
    for (int extra = 0; extra < layers % stages; ++extra) ++p.pp_layout[static_cast<std::size_t>((extra + 1) % stages)];
    assume(fmt::format("layers do not divide: {} stages of {}, the others of {}", layers % stages, layers / stages + 1,
                       layers / stages));
  }

  void read_training() {
    Scenario& s = result_.scenario;
    Training& t = s.training;
    if (stack_ != nullptr) t = stack_->training;
    t.seq_length = fields_.required_size("seq_len");
    t.global_batch_size = global_batch();
    read_precision(t);
    const int dp =
        s.parallel.dp > 0 ? s.parallel.dp : s.cluster.world_size / (s.parallel.tp * s.parallel.pp * s.parallel.cp);
    result_.steps_overlap = stack_ != nullptr && stack_->steps_overlap && dp == 1;
    read_micro_batch(t, dp);
    t.flash_attention = flag("flash_attention", t.flash_attention);
    const std::string& compiled = text("compiled");
    if (compiled == "torch.compile") t.compiled = true;
    read_graphs(t);
    read_narrow_recipe(t);
    t.offload_layers = fields_.small_count("cpu_offload_layers", 0);
    t.offload_activations = t.offload_layers > 0 || mentions("activation offload");
    if (mentions("Muon optimizer")) use_muon();
    read_routing(t);
    read_recompute(t);
    if (t.recompute == Recompute::full) t.recompute_modules.clear();  // a stack's
  }

  /// Megatron-Bridge's recipes of experts in MXFP8 that capture whole steps, of release 26.06 and later: experts in one kernel
  /// (docs/references.md#fused-experts), attention and the output layer in 8 bits (#fp8-attention, #fp8-output-layer).
  void read_narrow_recipe(Training& t) {
    const Scenario& s = result_.scenario;
    const bool whole_step = t.fused_experts && (!is_bridge() || is_bridge_since(2026.4));
    const bool mxfp8 = s.model.moe && t.dtype == Precision::mxfp8;
    t.fused_experts = mxfp8 && (whole_step || mentions("fused grouped MLP"));
    const bool gpt_oss = text("model_name").starts_with("GPT-OSS");
    t.fp8_attention = t.fused_experts && !(is_deepseek() && text("gpu") == "GB200") && t.flash_attention &&
                      has_attention_in(s.profile, t.attention_kernel, t.dtype);
    t.fp8_output_layer = mxfp8 && whole_step && is_bridge_since(2026.4) && (gpt_oss || (is_deepseek() && has_racks()));
    // Transformer Engine 2.12 multiplies unpadded tokens: docs/references.md#expert-padding
    if (is_bridge_since(2026.25)) t.padded_experts = false;
    if (is_bridge_since(2026.4) && mxfp8) t.separate_expert_casts = false;  // docs/references.md#expert-casts
  }

  /// Megatron-Core's distributed Muon: states of whole matrices, and no quantised parameters. docs/references.md#kimi-recipe
  void use_muon() {
    Scenario& s = result_.scenario;
    s.training.optimizer = OptimizerKind::muon;
    s.training.fp8_param_gather = s.parallel.overlap_param_gather = false;
    assume("Muon: parameters gathered in 16 bits after the step");
  }

  /// Balanced unless the row says that the model's own router ran. docs/references.md#expert-routing
  void read_routing(Training& t) {
    const std::string& routing = text("routing");
    if (!routing.empty() && routing != "forced" && routing != "real")
      return add_error("routing", "unknown routing (allowed: forced real)");
    if (routing != "real" || !result_.scenario.model.moe) return;
    t.expert_routing = ExpertRouting::skewed;
    assume(fmt::format("the load of experts not reported: spread {} as in one published pair", t.expert_skew));
  }

  /// What CUDA graphs launch: whole steps, or parts of layers. Dropless experts have no fixed shapes, so that graphs of an
  /// unknown scope leave them eager; those filled up to a capacity have. docs/references.md#dispatcher-work
  void read_graphs(Training& t) {
    const std::string& graph = text("cuda_graph");
    const bool experts = result_.scenario.model.moe.has_value();
    const bool some = text("compiled") == "cuda_graph" || mentions("CUDA graphs");
    if (drops_tokens()) t.expert_capacity_factor = 1;
    if (some && graph.empty() && (!experts || t.expert_capacity_factor > 0)) {
      t.cuda_graphs = true;
    } else if (!graph.empty() && !graph.starts_with("none")) {
      t.cuda_graphs = has_word(graph, "full_iteration");
      for (const auto& each : EnumNames<GraphModule>::table)
        if (!t.cuda_graphs && has_word(graph, each.name)) t.cuda_graph_modules.emplace_back(each.name);
    } else if (graph.empty() && experts && (some || guesses_graphs())) {
      t.cuda_graph_modules = {"attn", "moe_router"};
    }
    t.fused_experts = has_word(graph, "full_iteration") && !graph.starts_with("none");
  }

  /// Megatron-Bridge's recipes of experts since 25.11 capture attention and router on racks (docs/references.md#rack-graphs); a row
  /// that reports the exchange reports graphs, too.
  bool guesses_graphs() {
    if (!is_bridge_since(2025.85) || !has_racks()) return false;
    if (reported("recipe") || reported("moe_dispatcher") || reported("moe_a2a_overlap")) return false;
    assume("CUDA graphs not reported: of attention and router, as in recipes for racks");
    return true;
  }

  /// As reported, else micro-batch x micro-batches x dp.
  std::int64_t global_batch() {
    const std::int64_t size = fields_.small_count("micro_batch", 0),
                       rounds = fields_.small_count("num_microbatches", 0);
    if (reported("global_batch_seqs") || size == 0 || rounds == 0) return fields_.required_size("global_batch_seqs");
    const Scenario& s = result_.scenario;
    const int dp =
        s.parallel.dp > 0 ? s.parallel.dp : s.cluster.world_size / (s.parallel.tp * s.parallel.pp * s.parallel.cp);
    assume("global batch not reported: micro-batch x micro-batches x dp");
    return size * rounds * dp;
  }

  void read_precision(Training& t) {
    const std::string name = lower_case(text("precision"));
    const std::optional<Precision> precision = name.empty() ? Precision::bf16 : parse_enum<Precision>(name);
    if (!precision) return add_error("precision", "unknown precision");
    t.dtype = *precision;
    if (t.dtype == Precision::fp16) t.grad_reduce_dtype = Precision::fp16;
    if (text("precision_detail").find("fp32 grad") != std::string::npos) t.grad_reduce_dtype = Precision::fp32;
    // torchao's enable_fsdp_float8_all_gather
    if (text("precision_detail").find("fp8 all-gather") != std::string::npos) t.fp8_param_gather = true;
    t.row_scales = t.dtype == Precision::fp8 && text("precision_detail").find("rowwise") != std::string::npos;
    if (!reported("precision")) assume("precision not reported: bf16");
    if (stack_ != nullptr) drop_unfit_precision(*stack_, t);
    const bool early_qwen = is_bridge() && !is_bridge_since(2026) && text("model_name").starts_with("Qwen3");
    if (!reported("tp_comm_overlap") && !early_qwen && !recipes_overlap_tensor_ranks(result_.scenario.model, t))
      result_.scenario.parallel.tp_comm_overlap = false;
  }

  void read_micro_batch(Training& t, int dp) {
    t.micro_batch_size = fields_.count("micro_batch", 0);
    if (t.micro_batch_size > 0) return;
    const std::int64_t rounds = fields_.count("num_microbatches", 0);
    t.micro_batch_size = rounds > 0 ? std::max<std::int64_t>(1, t.global_batch_size / (rounds * std::max(1, dp))) : 1;
    if (rounds > 0) return;
    result_.guessed_layout = true;
    assume("micro-batch not reported: 1");
  }

  void read_recompute(Training& t) {
    const std::string& recompute = text("recompute");
    const std::string& detail = text("recompute_detail");
    t.recompute = Recompute::none;
    if (recompute.empty() && reported("recipe")) return read_recipe(t);
    if (recompute == "full") {
      t.recompute = Recompute::full;
    } else if (recompute == "selective_attention") {
      t.recompute = Recompute::selective;
    } else if (detail.starts_with("op-level")) {
      t.recompute = Recompute::selective_op;
    } else if (detail == "every 2nd layer") {
      t.recompute = Recompute::full;
      t.recompute_num_layers = std::max(
          1, result_.scenario.model.num_layers / (2 * result_.scenario.parallel.pp * result_.scenario.parallel.vpp));
    } else if (recompute == "selective_other" && read_modules(t, detail)) {
      return;
    } else if (const int layers = layers_in(detail); recompute == "partial_layers" && layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (recompute.starts_with("selective") || recompute == "partial_layers") {
      assume(fmt::format("recomputation of '{}' is left out of the time", detail.empty() ? recompute : detail));
    } else if (recompute.empty()) {
      result_.guess_recompute = true;
    }
  }

  /// "full on 5 layers of each stage", or of all layers where there is one stage; 0: the text says something else.
  int layers_in(const std::string& detail) const {
    constexpr std::string_view kBeginning = "full on ";
    const Parallel& p = result_.scenario.parallel;
    const bool each = p.pp * p.vpp == 1 || detail.find("each stage") != std::string::npos;
    if (!each || !detail.starts_with(kBeginning)) return 0;
    return static_cast<int>(std::clamp(std::strtol(detail.c_str() + kBeginning.size(), nullptr, 10), 0L, 100'000L));
  }

  /// What the launcher's recipe recomputes: modules, or all of some layers of every virtual stage.
  void read_recipe(Training& t) {
    if (const int layers = fields_.small_count("recompute_full_block_layers", 0); layers > 0) {
      t.recompute = Recompute::full;
      t.recompute_num_layers = layers;
    } else if (const std::string& modules = text("recompute_modules"); !modules.empty() && modules != "[]") {
      read_modules(t, modules);
    }
  }

  /// Megatron-Core's --recompute-modules that are modelled. False: there is none.
  bool read_modules(Training& t, const std::string& detail) {
    const bool attention = has_word(detail, "core_attn");
    if (attention) t.recompute = Recompute::selective;
    t.recompute_modules.clear();  // a stack's
    for (const auto& [word, module] : {Word{"norm", "norm"}, Word{"act", "activation"}, Word{"up_proj", "mla_up"}})
      if (detail.find(word) != std::string::npos) t.recompute_modules.emplace_back(module);
    if (has_word(detail, "moe")) t.recompute_modules.emplace_back("moe");
    if (t.recompute_modules.empty()) return attention;
    assume(fmt::format("recomputation of '{}': norms, activations, up-projections and experts of it", detail));
    return true;
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

  TableFields fields_;
  const RowLibrary* library_;
  const Stack* stack_ = nullptr;
  RowScenario result_;
};

}  // namespace

double year_of_release(const std::string& framework) {
  for (const std::string_view word : split_words(framework, " ()/:,")) {
    const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '9'; };
    if (!digit(0) || !digit(1) || word.size() < 5 || word[2] != '.' || !digit(3) || !digit(4)) continue;
    const int year = 10 * (word[0] - '0') + word[1] - '0', month = 10 * (word[3] - '0') + word[4] - '0';
    if (year >= 18 && month >= 1 && month <= 12) return 2000 + year + (month - 0.5) / 12;
  }
  return 0;
}

Result<RowScenario> scenario_of_row(const CsvTable& table, std::size_t row, const RowLibrary& library) {
  return RowReader(table, row, library).read();
}

}  // namespace tracecast::accuracy
