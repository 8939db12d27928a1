#include "tools/accuracy/row_scenario.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <optional>

#include <fmt/format.h>

#include "sim/base/integers.hpp"
#include "sim/base/words.hpp"
#include "sim/cost/slowest_rank.hpp"
#include "tools/accuracy/row_machine.hpp"

namespace tracecast::accuracy {
namespace {

constexpr std::int64_t kUsualVocabulary = 51'200;
constexpr std::int64_t kPackedSpan = 400;  ///< tokens that one attends to, docs/references.md#packed-sequences

/// Multiplications in fp8 with a scale for each row, in PyTorch, relative to one scale for the tensor: Llama 3 8B on 8 H100 runs
/// 6,420 tokens/s with the one and 7,190 with the other (torchtitan, commit 7a04053), 12 % of a step of which these
/// multiplications are 40 %.
constexpr double kScalesByRow = 1.3;

/// A word of a table and ours.
struct Word {
  const char* in_table;
  const char* ours;
};
constexpr std::array kSchedules{Word{"1f1b", "1f1b"},          Word{"interleaved_1f1b", "interleaved-1f1b"},
                                Word{"zb_1p", "zb-h1"},        Word{"zb_2p", "zb-h2"},
                                Word{"v_half", "v-half"},      Word{"v_min", "v-min"},
                                Word{"zbv_formatted", "zb-v"}, Word{"zero_bubble", "zb-h1"},
                                Word{"dualpipe", "dualpipe"},  Word{"gpipe", "gpipe"}};

/// "moe" is in "layernorm, moe" and not in "moe_act".
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
      : table_(&table), row_(row), library_(&library) {}

  Result<RowScenario> read() {
    stack_ = find_stack(library_->stacks(), text("framework"), text("source"),
                        [this](const std::string& column) { return text(column); });
    result_.stack = stack_ != nullptr ? stack_->name : "";
    if (stack_ != nullptr) result_.stack_spread = stack_->spread;
    if (stack_ != nullptr) result_.memory_report = stack_->memory_report;
    if (stack_ == nullptr) assume("no software stack is known by this name: general defaults");
    read_model();
    read_machine();
    if (!problem_) read_parallel();
    if (!problem_) read_training();
    if (!problem_) pad_vocabulary();
    if (!problem_) validate_model();
    if (problem_) return fail(*problem_);
    Scenario& s = result_.scenario;
    s.name = text("id").empty() ? fmt::format("row {}", table_->line(row_)) : text("id");
    s.source = text("source");
    if (const double time = number("step_time_s", 0); time > 0) s.measured = Measured{time, text("source")};
    return std::move(result_);
  }

 private:
  const std::string& text(const std::string& column) const { return table_->text(row_, column); }
  bool printed(const std::string& column) const { return !text(column).empty(); }
  void assume(std::string sentence) { result_.assumptions.push_back(std::move(sentence)); }
  void refuse(const std::string& column, std::string message) {
    if (!problem_) problem_ = table_->wrong(row_, column, std::move(message));
  }

  double number(const std::string& column, double otherwise) {
    if (!printed(column)) return otherwise;
    const std::optional<double> value = table_->number(row_, column);
    if (!value || *value < 0) refuse(column, "is not a number of at least 0");
    return value.value_or(otherwise);
  }
  std::int64_t count(const std::string& column, std::int64_t otherwise) {
    const double value = number(column, static_cast<double>(otherwise));
    if (value != std::trunc(value) || value > 1e15) {
      refuse(column, "is not a whole number");
      return otherwise;
    }
    return static_cast<std::int64_t>(value);
  }
  int small(const std::string& column, int otherwise) {
    const std::int64_t value = count(column, otherwise);
    if (value > 16'777'216) refuse(column, "is too large");
    return value > 16'777'216 ? otherwise : static_cast<int>(value);
  }
  std::int64_t needed(const std::string& column) {
    if (!printed(column)) refuse(column, "is not printed");
    const std::int64_t value = count(column, 0);
    if (value < 1) refuse(column, "is not at least 1");
    return value;
  }
  bool flag(const std::string& column, bool otherwise) { return printed(column) ? text(column) == "1" : otherwise; }

  void read_model() {
    Model& m = result_.scenario.model;
    m.name = text("model_name");
    m.num_layers = static_cast<int>(std::min<std::int64_t>(needed("layers"), 100'000));
    m.hidden_size = needed("hidden");
    m.num_attention_heads = static_cast<int>(std::min<std::int64_t>(needed("heads"), 1'000'000));
    m.num_query_groups = small("kv_heads", m.num_attention_heads);
    m.head_dim = count("head_dim", 0);
    m.ffn_hidden_size = count("ffn_hidden", 4 * m.hidden_size);
    m.vocab_size = count("vocab", 0);
    if (m.vocab_size == 0) {
      m.vocab_size = stack_ != nullptr && stack_->vocabulary > 0 ? stack_->vocabulary : kUsualVocabulary;
      assume(fmt::format("vocabulary not printed: {}", m.vocab_size));
    }
    m.tied_embeddings = flag("tied_embeddings", false);
    set_family(m);
    if (text("attention_kind") == "mla") {
      m.latent_attention = LatentAttention{1536, 512, 128, 64, 128};
      m.head_dim = 0;
      m.num_query_groups = 0;
      assume("latent attention with DeepSeek-V3's ranks and head sizes");
    }
    if (text("arch") == "moe" || printed("moe_experts")) read_experts(m);
    if (text("task") == "sft") {
      m.sliding_window = kPackedSpan;
      assume(fmt::format("packed fine-tuning: a token attends to {} others", kPackedSpan));
    }
  }

  /// Two kinds of block: gated ones as Llama's, others as GPT's; MPT has neither biases nor a table of positions.
  void set_family(Model& m) {
    if (flag("gated_mlp", true)) return;
    const bool mpt = text("framework").starts_with("Composer");
    m.activation = Activation::gelu;
    m.norm = Norm::layer_norm;
    m.position = mpt ? Position::alibi : Position::learned;
    m.qkv_bias = m.attention_output_bias = m.mlp_bias = m.norm_bias = !mpt;
    m.max_position_embeddings = mpt ? 0 : count("seq_len", 2048);
    if (stack_ != nullptr) m.dropout = stack_->dropout;
  }

  void read_experts(Model& m) {
    MixtureOfExperts moe;
    moe.experts = static_cast<int>(std::min<std::int64_t>(needed("moe_experts"), 1'000'000));
    moe.topk = static_cast<int>(std::min<std::int64_t>(needed("moe_topk"), 1'000'000));
    moe.ffn_hidden = needed("moe_ffn_hidden");
    moe.shared_ffn_hidden = count("moe_shared_ffn_hidden", 0);
    moe.leading_dense_layers = small("moe_dense_layers", 0);
    m.moe = moe;
  }

  void read_machine() {
    Scenario& s = result_.scenario;
    const PrintedMachine printed{text("gpu"),
                                 number("gpu_mem_gb", 0),
                                 small("gpus_per_node", 0),
                                 text("intra_node_link"),
                                 text("inter_node_link"),
                                 text("framework")};
    const std::int64_t ranks = needed("gpu_count");
    const MachineClass* machine = find_machine(printed);
    if (machine == nullptr) refuse("gpu", "is no GPU that a machine is known for");
    if (problem_) return;
    Result<Cluster> cluster = library_->topology(machine->topology);
    if (!cluster) return refuse("gpu", "names a machine whose topology cannot be read");
    s.topology = machine->topology;
    s.cluster = std::move(*cluster);
    s.profile_name = machine->profile;
    Result<Profile> profile = library_->profile(s.profile_name.empty() ? s.cluster.gpu : s.profile_name);
    if (!profile) return refuse("gpu", "names a GPU whose profile cannot be read");
    s.profile = std::move(*profile);
    s.cluster.world_size = static_cast<int>(std::min<std::int64_t>(ranks, 16'777'216));
    s.cluster.max_nodes = 0;  // the machine's class, not its size
    plug_in(s.cluster.node, s.profile);
    if (std::string changed = fit_node(s.cluster, printed); !changed.empty()) assume(std::move(changed));
    if (s.cluster.node.nics == 0 && s.cluster.world_size > s.cluster.node.gpus)
      return refuse("inter_node_link",
                    fmt::format("does not say how nodes of {} GPUs are connected", s.cluster.node.gpus));
    leave_idle(s.cluster);
    const std::string& network = text("inter_node_link");
    if (!machine->by_network && (network.empty() || network.find("not printed") != std::string::npos))
      assume(fmt::format("network between nodes not printed: {}", machine->topology));
    prepare(s);
  }

  /// The stack's age is that of its release where the framework is called by one: "NeMo 24.07".
  void prepare(Scenario& s) {
    s.gpu_spread = kGpuSpread;
    std::optional<Stack> stack;
    if (stack_ != nullptr) stack = *stack_;
    if (const double year = year_of_release(text("framework")); stack && year > 0) stack->released = year;
    prepare_profile(s.profile, stack ? &*stack : nullptr, s.model.moe.has_value(), std::max(1, s.cluster.world_size),
                    s.gpu_spread);
  }

  /// Of a name with a word that begins with a year and a month, "NeMo 26.02.01": the middle of the month; 0: none.
  static double year_of_release(const std::string& framework) {
    for (const std::string_view word : split_words(framework, " ()/:,")) {
      const auto digit = [&](std::size_t at) { return at < word.size() && word[at] >= '0' && word[at] <= '9'; };
      if (!digit(0) || !digit(1) || word.size() < 5 || word[2] != '.' || !digit(3) || !digit(4)) continue;
      const int year = 10 * (word[0] - '0') + word[1] - '0', month = 10 * (word[3] - '0') + word[4] - '0';
      if (year >= 18 && month >= 1 && month <= 12) return 2000 + year + (month - 0.5) / 12;
    }
    return 0;
  }

  /// Groups of 32 or 64 ranks would straddle racks of 72 GPUs: jobs leave the trays idle that do not divide.
  static void leave_idle(Cluster& cluster) {
    const int host = cluster.node.gpus_per_host;
    for (int gpus = cluster.node.gpus; 2 * gpus > cluster.node.gpus && gpus >= host; gpus -= host)
      if (cluster.world_size >= gpus && cluster.world_size % gpus == 0) {
        cluster.node.gpus = gpus;
        return;
      }
  }

  void read_parallel() {
    Parallel& p = result_.scenario.parallel;
    if (stack_ != nullptr) p = stack_->parallel;
    read_dispatcher(p);
    const int world = result_.scenario.cluster.world_size;
    p.tp = std::max(1, small("tp", 1));
    p.pp = std::max(1, small("pp", 1));
    p.cp = std::max(1, small("cp", 1));
    p.ep = std::max(1, small("ep", 1));
    // Every run of Megatron-Core's stacks that prints it leaves experts uncut.
    const bool uncut = stack_ != nullptr && (stack_->name == "megatron-core" || stack_->name == "megatron-bridge");
    p.etp = result_.scenario.model.moe ? small("etp", uncut && p.ep > 1 ? 1 : 0) : 0;
    p.vpp = std::max(1, small("vp", 1));
    if (std::int64_t{p.tp} * p.pp * p.cp > world || world % (p.tp * p.pp * p.cp) != 0)
      return refuse("gpu_count", fmt::format("is not a multiple of tp x pp x cp = {}", p.tp * p.pp * p.cp));
    p.dp = small("dp", 0);
    p.sequence_parallel = p.tp > 1 && flag("seq_parallel", p.sequence_parallel);
    if (printed("zero_stage"))
      p.zero_stage = small("zero_stage", 0);
    else if (printed("distributed_optimizer"))
      p.zero_stage = flag("distributed_optimizer", false) ? std::max(1, p.zero_stage) : 0;
    if (p.zero_stage > 3) return refuse("zero_stage", "is no stage of ZeRO (allowed: 0 to 3)");
    p.shard_group = small("fsdp_shard_size", 0);
    const int ranks = world / (p.tp * p.pp);
    if (p.zero_stage == 0 || p.shard_group >= ranks || (p.shard_group > 0 && ranks % p.shard_group != 0))
      p.shard_group = 0;
    if (p.tp == 1) p.scatter_gather_p2p = false;
    if (p.sequence_parallel) p.scatter_gather_p2p = false;
    p.tp_comm_overlap = p.tp > 1 && p.sequence_parallel && flag("tp_comm_overlap", p.tp_comm_overlap);
    read_stages(p);
    if (stack_ != nullptr && p.zero_stage >= 1) {
      const int group = p.shard_group > 0 ? p.shard_group : ranks;
      // The profile's overhead is per rank of the job, the stack's per rank of the shard group.
      if (group > 1)
        result_.scenario.profile.host.step_overhead_per_rank += seconds(stack_->shard_rank_overhead) * group / world;
    }
  }

  /// Did the source say so, in what it calls the run or in a note?
  bool says(const char* words) const {
    return text("source_detail").find(words) != std::string::npos || text("notes").find(words) != std::string::npos;
  }

  /// The dispatcher of experts, by its name: DeepEP and HybridEP send a token once to each rank or node.
  void read_dispatcher(Parallel& p) {
    if (!result_.scenario.model.moe) {
      p.moe_dispatcher = Parallel{}.moe_dispatcher;
    } else if (says("DeepEP") || says("HybridEP")) {
      p.moe_dispatcher = MoeDispatcher::deepep;
    } else if (says("all-to-all")) {
      p.moe_dispatcher = MoeDispatcher::alltoall;
    }
  }

  void read_stages(Parallel& p) {
    if (p.pp == 1) {
      p.vpp = 1;
      return;
    }
    const std::string& schedule = text("schedule");
    const auto word =
        std::find_if(kSchedules.begin(), kSchedules.end(), [&](const Word& w) { return schedule == w.in_table; });
    if (word != kSchedules.end()) p.pp_schedule = word->ours;
    // Megatron-Core overlaps pipeline messages only where it interleaves.
    if (schedule.empty() && !printed("vp") && stack_ != nullptr && p.overlap_p2p) p.pp_schedule = "interleaved-1f1b";
    if (p.vpp == 1 && p.pp_schedule == "interleaved-1f1b") guess_chunks(p);
    for (const char* two_chunks : {"v-half", "v-min", "zb-v"})
      if (p.pp_schedule == two_chunks) p.vpp = 2;
    if (p.vpp > 1 && p.pp_schedule == "1f1b") p.pp_schedule = default_schedule(p.vpp);
    cut_layers(p);
  }

  /// Interleaved, and nobody says how finely: as many virtual stages as there are layers for.
  void guess_chunks(Parallel& p) {
    const bool as_layers = text("pipeline_split") == "embedding_and_head_count_as_layers";
    const int layers = result_.scenario.model.num_layers + (as_layers ? 2 : 0);
    p.vpp = layers % p.pp == 0 ? layers / p.pp : 1;
    if (p.vpp == 1) p.pp_schedule = default_schedule(1);
    result_.guessed_layout = true;
    assume("virtual stages not printed: one layer each where layers divide, else none");
  }

  void cut_layers(Parallel& p) {
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
    t.seq_length = needed("seq_len");
    t.global_batch_size = global_batch();
    read_precision(t);
    const int dp =
        s.parallel.dp > 0 ? s.parallel.dp : s.cluster.world_size / (s.parallel.tp * s.parallel.pp * s.parallel.cp);
    result_.steps_overlap = stack_ != nullptr && stack_->steps_overlap && dp == 1;
    read_micro_batch(t, dp);
    t.flash_attention = flag("flash_attention", t.flash_attention);
    const std::string& compiled = text("compiled");
    if (compiled == "torch.compile") {
      t.compiled = true;
      t.unfused_elementwise = false;
    }
    if (compiled == "cuda_graph" || says("CUDA graphs")) t.cuda_graphs = true;
    if (says("activation offload")) t.offload_activations = true;
    read_recompute(t);
  }

  /// As printed, else what the micro-batches make.
  std::int64_t global_batch() {
    const std::int64_t size = small("micro_batch", 0), rounds = small("num_microbatches", 0);
    if (printed("global_batch_seqs") || size == 0 || rounds == 0) return needed("global_batch_seqs");
    const Scenario& s = result_.scenario;
    const int dp =
        s.parallel.dp > 0 ? s.parallel.dp : s.cluster.world_size / (s.parallel.tp * s.parallel.pp * s.parallel.cp);
    assume("global batch not printed: micro-batch x micro-batches x dp");
    return size * rounds * dp;
  }

  void read_precision(Training& t) {
    const std::string name = lower_case(text("precision"));
    const std::optional<Precision> precision = name.empty() ? Precision::bf16 : parse_enum<Precision>(name);
    if (!precision) return refuse("precision", "is no precision that is known");
    t.dtype = *precision;
    if (t.dtype == Precision::fp16) t.grad_reduce_dtype = Precision::fp16;
    if (text("precision_detail").find("fp32 grad") != std::string::npos) t.grad_reduce_dtype = Precision::fp32;
    if (text("precision_detail").find("rowwise") != std::string::npos)
      result_.scenario.profile.in_training.gemm_fp8 *= kScalesByRow;
    if (!printed("precision")) assume("precision not printed: bf16");
    if (stack_ != nullptr) drop_unfit_precision(*stack_, t);
  }

  void read_micro_batch(Training& t, int dp) {
    t.micro_batch_size = count("micro_batch", 0);
    if (t.micro_batch_size > 0) return;
    const std::int64_t rounds = count("num_microbatches", 0);
    t.micro_batch_size = rounds > 0 ? std::max<std::int64_t>(1, t.global_batch_size / (rounds * std::max(1, dp))) : 1;
    if (rounds > 0) return;
    result_.guessed_layout = result_.guess_micro_batch = true;
    assume("micro-batch not printed: of 1, 2, 4 and 8 the one that is forecast to be fastest, of those that fit");
  }

  void read_recompute(Training& t) {
    const std::string& recompute = text("recompute");
    const std::string& detail = text("recompute_detail");
    t.recompute = Recompute::none;
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
    } else if (recompute.starts_with("selective") || recompute == "partial_layers") {
      assume(fmt::format("recomputation of '{}' is left out of the time", detail.empty() ? recompute : detail));
    } else if (recompute.empty()) {
      result_.guess_recompute = true;
    }
  }

  /// Megatron-Core's --recompute-modules, as far as they are cheap work; true when there are some.
  bool read_modules(Training& t, const std::string& detail) {
    for (const auto& [word, module] : {Word{"norm", "norm"}, Word{"act", "activation"}, Word{"up_proj", "mla_up"}})
      if (detail.find(word) != std::string::npos) t.recompute_modules.emplace_back(module);
    if (has_word(detail, "moe")) t.recompute_modules.emplace_back("moe");
    if (t.recompute_modules.empty()) return false;
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
    if (!model) return refuse("layers", "gives no possible model: " + to_string(model.error().diagnostics.front()));
    result_.scenario.model = std::move(*model);
  }

  const CsvTable* table_;
  std::size_t row_;
  const RowLibrary* library_;
  const Stack* stack_ = nullptr;
  std::optional<Diagnostic> problem_;
  RowScenario result_;
};

}  // namespace

Result<RowLibrary> RowLibrary::open(const DataPaths& data) {
  Result<std::vector<Stack>> stacks = read_stacks(data.scenarios / "stacks");
  if (!stacks) return tl::unexpected(stacks.error());
  RowLibrary library;
  library.data_ = data;
  library.stacks_ = std::move(*stacks);
  return library;
}

Result<Cluster> RowLibrary::topology(const std::string& name) const {
  const std::lock_guard lock(cache_->mutex);
  const auto found = cache_->topologies.find(name);
  if (found != cache_->topologies.end()) return found->second;
  return cache_->topologies.emplace(name, read_topology(data_.topologies / (name + ".json"))).first->second;
}

Result<Profile> RowLibrary::profile(const std::string& name) const {
  const std::lock_guard lock(cache_->mutex);
  const auto found = cache_->profiles.find(name);
  if (found != cache_->profiles.end()) return found->second;
  return cache_->profiles.emplace(name, read_profile(data_.profiles / (name + ".json"))).first->second;
}

Result<RowScenario> scenario_of_row(const CsvTable& table, std::size_t row, const RowLibrary& library) {
  return RowReader(table, row, library).read();
}

}  // namespace tracecast::accuracy
