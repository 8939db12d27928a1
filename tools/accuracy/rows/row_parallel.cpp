#include <algorithm>
#include <cctype>
#include <numeric>
#include <optional>

#include <fmt/format.h>

#include "sim/base/words.hpp"
#include "sim/import/launchers/megatron_words.hpp"
#include "sim/io/json_document.hpp"
#include "sim/schedule/schedule.hpp"
#include "tools/accuracy/rows/row_part.hpp"

namespace tracecast::accuracy {
namespace {

/// A word of a table, without separators, and the name used here, where it is another.
struct Word {
  const char* in_table;
  const char* name;
};
constexpr Word kSchedules[] = {{"zb1p", "zb-auto-1p"},
                               {"zb2p", "zb-auto-2p"},
                               {"zbvformatted", "zb-v"},
                               {"zerobubble", "zb-h1"},
                               {"interleavedzerobubble", "interleaved-zb"},
                               {"interleaved", "interleaved-1f1b"},
                               {"1f1binterleaved", "interleaved-1f1b"},
                               {"vpp", "interleaved-1f1b"},
                               {"zerobubblev", "zb-v"},
                               {"afab", "gpipe"}};

/// The schedule of that name or alias, however its parts are separated: "DualPipe-V", "zb_h1"; nullptr: there is none.
const ScheduleVariant* schedule_named(const std::string& letters) {
  const auto same = [&](std::string_view name) { return letters_and_digits(name) == letters; };
  const auto variants = schedule_variants();
  const auto found = std::ranges::find_if(
      variants, [&](const ScheduleVariant& v) { return same(v.name) || std::ranges::any_of(v.aliases, same); });
  return found == variants.end() ? nullptr : &*found;
}

class ParallelReader : RowPart {
 public:
  explicit ParallelReader(RowReading& row) : RowPart(row) {}

  void read() {
    Parallel& p = result_.scenario.parallel;
    if (stack_ != nullptr) p = stack_->parallel;
    if (!read_degrees(p)) return;
    use_racks(result_.scenario.cluster, p, 0);
    read_data_parallel(p, result_.scenario.cluster.world_size / (p.tp * p.pp * p.cp));
    p.sequence_parallel = p.tp > 1 && divides_sequences(p);
    if (!read_sharding(p)) return;
    if (p.cp > 1 && is_named("ulysses")) {
      p.cp_comm_type = ContextExchange::a2a;
      assume("Ulysses: context ranks exchange heads for sequence");
    }
    if (p.tp == 1 || p.sequence_parallel) p.scatter_gather_p2p = false;
    const bool overlaps = noted({"async TP", "asynchronous tensor parallel"}).value_or(p.tp_comm_overlap);
    p.tp_comm_overlap = p.tp > 1 && p.sequence_parallel && flag("tp_comm_overlap", overlaps);
    if (mentions("order tp-cp-pp-dp")) p.rank_order = "tp-cp-ep-pp-dp";
    if (p.zero_stage == 0 && is_ddp()) {
      p.data_parallel = DataParallelKind::ddp;
      p.overlap_grad_reduce = true;
      p.ddp_bucket_size = 0;
    } else {
      set_buckets(p);
    }
    const bool megatron_fsdp = is_bridge() || runs("megatron-core") || runs("megatron-moe");
    p.gathers_in_place = p.gathers_in_place || (p.zero_stage == 3 && megatron_fsdp);
    read_stages(p);
    add_shard_overhead(p);
  }

 private:
  /// NeMo 2 and Megatron-Bridge set them; NeMo 1 leaves them to Megatron-Core, which does not count context ranks.
  /// Source: docs/references.md#bucket-elements
  void set_buckets(Parallel& p) const {
    if (framework_.starts_with("NeMo 24"))
      p.ddp_bucket_size =
          std::max<std::int64_t>(40'000'000, 1'000'000LL * p.replicas_on(result_.scenario.cluster.world_size));
    else if (is_bridge() || runs("megatron-core"))
      p.ddp_bucket_size = 128 << 20;
  }

  /// False, and an error, if they do not divide the GPUs.
  bool read_degrees(Parallel& p) {
    const int world = result_.scenario.cluster.world_size;
    p.tp = std::max(1, fields_.small_count("tp", 1));
    p.pp = std::max(1, fields_.small_count("pp", 1));
    p.cp = std::max(1, fields_.small_count("cp", 1));
    p.ep = std::max(1, fields_.small_count("ep", 1));
    // All runs of NVIDIA's recipes of 2025 and later that report it do not split experts.
    const bool unsplit = has_nvidia_recipes() && stack_->released >= 2025 && (p.ep > 1 || !reported("ep"));
    p.etp = result_.scenario.model.moe ? fields_.small_count("etp", unsplit ? 1 : 0) : 0;
    if (result_.scenario.model.moe && !reported("ep")) guess_expert_ranks(p);
    read_dispatcher(p);
    p.vpp = std::max(1, fields_.small_count("vp", chunks_in_schedule()));
    if (std::int64_t{p.tp} * p.pp * p.cp <= world && world % (p.tp * p.pp * p.cp) == 0) return true;
    add_error("gpu_count", fmt::format("is not a multiple of tp x pp x cp = {}", p.tp * p.pp * p.cp));
    return false;
  }

  /// The number before "virtual" or "chunks", or behind "vp", "vpp" or "v": "interleaved 1f1b (5 virtual stages)"; 1: there is none.
  int chunks_in_schedule() const {
    const std::string small = lower_case(text("schedule"));
    const std::vector<std::string_view> words = split_words(small, " (),:=");
    const auto number_at = [&](std::size_t i) {
      const int count = i < words.size() ? parse_number<int>(words[i]).value_or(0) : 0;
      return count > 1 && count < 1000 ? count : 0;
    };
    for (std::size_t i = 0; i < words.size(); ++i) {
      const bool behind = words[i] == "vp" || words[i] == "vpp" || words[i] == "v";
      const bool before = words[i] == "virtual" || words[i].starts_with("chunk");
      const int count = behind ? number_at(i + 1) : before && i > 0 ? number_at(i - 1) : 0;
      if (count > 0) return count;
    }
    return 1;
  }

  /// Megatron-Core's recipes divide experts over as many ranks as NVLink connects, those that divide each expert among them; other
  /// software leaves experts whole.
  void guess_expert_ranks(Parallel& p) {
    result_.guessed_layout = true;
    const int each = p.expert_tensor_ranks();
    const int ranks = result_.scenario.cluster.world_size / std::max(1, p.pp);
    const int domain = std::min(result_.scenario.cluster.node.gpus, ranks) / each;
    const int experts = result_.scenario.model.moe->experts;
    for (int ep = is_megatron_core() ? domain : 1; ep >= 1; --ep) {
      if (ranks % (ep * each) != 0 || experts % ep != 0) continue;
      p.ep = ep;
      break;
    }
    if (p.ep == 1 && !reported("etp")) p.etp = 0;  // the tensor ranks divide them
    assume(fmt::format("expert-parallel degree not reported: {}", p.ep));
  }

  /// The other degrees determine it: what some sources call so counts context ranks, or copies of a sharded model.
  void read_data_parallel(Parallel& p, int ranks) {
    p.dp = fields_.small_count("dp", 0);
    if (p.dp == 0 || p.dp == ranks) return;
    assume(fmt::format("dp of {}: {}, as the GPUs and the other degrees say", p.dp, ranks));
    p.dp = ranks;
  }

  /// ZeRO's stage and the ranks that divide a copy of the model. False, and an error: an unknown stage.
  bool read_sharding(Parallel& p) {
    read_zero_stage(p);
    if (p.zero_stage > 3) {
      add_error("zero_stage", "unknown ZeRO stage (allowed: 0 to 3)");
      return false;
    }
    if (p.zero_stage == 2 && stack_ != nullptr && stack_->parallel.zero_stage == 3) {  // FSDP's SHARD_GRAD_OP
      p.zero_stage = 3;
      p.reshard_after_forward = false;
    }
    if (is_bridge() && is_llama_3("70b") && p.tp == 1 && p.pp == 1 && !is_fine_tuning() &&
        p.zero_stage < 3) {  // docs/references.md#bridge-fsdp
      p.zero_stage = 3;
      assume("ZeRO-3: Megatron-Bridge's recipes of Llama 3 70B without a pipeline use Megatron-FSDP");
    }
    const int ranks = ranks_of_stage(p);
    p.shard_group = fields_.small_count("fsdp_shard_size", shards_on_host(ranks));
    if (p.zero_stage == 0 || p.shard_group >= ranks || (p.shard_group > 0 && ranks % p.shard_group != 0))
      p.shard_group = 0;
    return true;
  }

  int ranks_of_stage(const Parallel& p) const { return result_.scenario.cluster.world_size / (p.tp * p.pp); }

  /// The profile counts its overhead per rank of the job, the stack per rank of the shard group.
  void add_shard_overhead(const Parallel& p) {
    if (stack_ == nullptr || p.zero_stage == 0) return;
    const int group = p.shard_group > 0 ? p.shard_group : ranks_of_stage(p);
    if (group == 1) return;
    Scenario& s = result_.scenario;
    s.profile.host.step_overhead_per_rank += seconds(stack_->shard_rank_overhead) * group / s.cluster.world_size;
  }

  /// PyTorch's DistributedDataParallel, by the framework's name, a tag or a note.
  bool is_ddp() const {
    const std::string small = lower_case(text("framework"));
    const bool named = small.find("ddp") != std::string::npos && small.find("fsdp") == std::string::npos;
    return named || has_tag("ddp") || noted({"torch DDP", "PyTorch DDP", "DistributedDataParallel"}).value_or(false);
  }

  /// Megatron-Core's recipes divide sequences wherever they divide tensors, and with experts it must
  /// (docs/references.md#sequence-parallel-recipes).
  bool divides_sequences(const Parallel& p) {
    if (truth_in(text("seq_parallel")) || !is_megatron_core() || p.sequence_parallel)
      return flag("seq_parallel", p.sequence_parallel || has_tag("sp"));
    assume("sequence parallelism not reported: on, as in recipes of Megatron-Core");
    return true;
  }

  /// HYBRID_SHARD divides a copy over the GPUs of a host, if nothing else is said. 0: it divides it over all ranks.
  int shards_on_host(int ranks) {
    const int host = result_.scenario.cluster.node.gpus_per_host;
    bool hybrid = false;
    for (const char* column : {"zero_stage", "parallel_style", "framework"})
      for (const char* word : {"hybrid_shard", "hsdp"}) hybrid |= affirms(text(column), word);
    if (!hybrid || reported("fsdp_shard_size") || host >= ranks) return 0;
    assume(fmt::format("size of shard groups not reported: the {} GPUs of a host", host));
    return host;
  }

  /// One of the tags in parallel_style, "tp+pp+sp+zero1".
  bool has_tag(std::string_view tag) const {
    const std::string small = lower_case(text("parallel_style"));
    const std::vector<std::string_view> tags = split_words(small, "+, /");
    return std::find(tags.begin(), tags.end(), tag) != tags.end();
  }

  /// The stage, else whether the optimizer is distributed, else what tags or the framework's name say.
  void read_zero_stage(Parallel& p) {
    const std::optional<int> named = named_zero_stage(fields_);
    if (reported("zero_stage")) {
      p.zero_stage = named ? *named : fields_.small_count("zero_stage", 0);
    } else if (reported("distributed_optimizer")) {
      p.zero_stage =
          flag("distributed_optimizer", p.zero_stage > 0 || is_megatron_core()) ? std::max(1, p.zero_stage) : 0;
    } else if (named) {
      p.zero_stage = *named;
    } else if (is_ddp()) {
      p.zero_stage = 0;
    } else if (is_megatron_core() && p.zero_stage == 0) {
      p.zero_stage = 1;
      assume("optimizer not reported: distributed, as in recipes of Megatron-Core");
    } else {
      result_.highest_zero_stage = highest_zero_stage(p);
    }
  }

  /// Megatron-LM of 2021 had no distributed optimizer; DeepSpeed refuses stages above 1 with its pipelines, Megatron has none.
  int highest_zero_stage(const Parallel& p) const {
    if (runs("megatron-lm-2021")) return 0;
    return p.pp > 1 || (stack_ != nullptr && stack_->name.starts_with("megatron-lm")) ? 1 : 3;
  }

  /// The dispatcher of experts, of a column or of the words of the source, else that of its release's recipes.
  void read_dispatcher(Parallel& p) {
    if (!result_.scenario.model.moe) {
      p.moe_dispatcher = Parallel{}.moe_dispatcher;
    } else if (drops_tokens()) {
      p.moe_dispatcher = MoeDispatcher::alltoall;
      assume("tokens are dropped: experts by all-to-all, which does not overlap with other micro-batches");
    } else if (const std::string named = lower_case(text("moe_dispatcher")); !named.empty()) {
      p.moe_dispatcher = dispatcher_of(named);
    } else if (const std::optional<MoeDispatcher> noted = noted_dispatcher()) {
      p.moe_dispatcher = *noted;
    } else if (precedes_hybridep_on_nodes()) {
      p.moe_dispatcher =
          result_.scenario.model.moe->routing_groups > 0 ? MoeDispatcher::deepep : MoeDispatcher::alltoall;
      assume(fmt::format("dispatcher of experts not reported: {}, as in recipes of that release",
                         to_string(p.moe_dispatcher)));
    } else if (framework_.starts_with("NeMo 25") && is_deepseek() && !has_racks()) {
      p.moe_dispatcher = MoeDispatcher::deepep;  // docs/references.md#nemo-deepep
      assume("dispatcher of experts not reported: deepep, as in NeMo's recipe");
    } else if (is_megatron_core() && !is_bridge() && p.ep > 1) {
      if (p.moe_dispatcher == MoeDispatcher::deepep && has_racks() && !precedes_hybridep_in_megatron()) {
        p.moe_dispatcher = MoeDispatcher::hybridep;
        return assume("dispatcher of experts not reported: hybridep, as in NVIDIA's recipes for racks");
      }
      assume(fmt::format("dispatcher of experts not reported: {}, as the stack's", to_string(p.moe_dispatcher)));
    }
    if (is_bridge() && has_racks() && p.moe_dispatcher == MoeDispatcher::deepep) {
      p.moe_dispatcher = MoeDispatcher::alltoall;  // docs/references.md#bridge-dispatchers
      assume("DeepEP on racks: experts by all-to-all, to which Megatron-Bridge falls back");
    }
    // The provider of DeepSeek's models has it, and only other dispatchers and overlapped exchanges turn it off.
    if (is_bridge() && is_deepseek() && p.moe_dispatcher == MoeDispatcher::alltoall && !overlaps_exchanges())
      p.moe_shared_overlap = result_.scenario.model.moe && result_.scenario.model.moe->shared_ffn_hidden > 0;
  }

  /// As the name of the run or a note says. One that is only denied is replaced by all-to-all.
  std::optional<MoeDispatcher> noted_dispatcher() {
    struct Noted {
      const char* words;
      MoeDispatcher dispatcher;
    };
    constexpr Noted kNoted[] = {{"Hybrid-EP", MoeDispatcher::hybridep},
                                {"Deep-EP", MoeDispatcher::deepep},
                                {"all-to-all", MoeDispatcher::alltoall},
                                {"all2all", MoeDispatcher::alltoall},
                                {"A2A dispatcher", MoeDispatcher::alltoall}};
    for (const Noted& each : kNoted)
      if (mentions(each.words)) return each.dispatcher;
    if (mentions("allgather dispatcher")) return dispatcher_of("allgather");
    for (const char* words : {"Hybrid-EP", "Deep-EP"}) {
      if (noted({words}) != false) continue;
      assume(fmt::format("a note denies {}: experts by all-to-all", words));
      return MoeDispatcher::alltoall;
    }
    return std::nullopt;
  }

  /// "hybrid-ep", "deep_ep", "all-to-all"; libraries with the interface of DeepEP count as it.
  MoeDispatcher dispatcher_of(const std::string& named) {
    std::string letters;
    for (const char c : named)
      if (std::isalpha(static_cast<unsigned char>(c)) != 0) letters += c;
    const auto has = [&](const char* word) { return letters.find(word) != std::string::npos; };
    if (has("hybridep")) return MoeDispatcher::hybridep;
    if (has("deepep")) return MoeDispatcher::deepep;
    if (has("alltoall") || named.find("a2a") != std::string::npos) return MoeDispatcher::alltoall;
    const bool alike = has("uccl") || has("mori") || has("flex");
    assume(fmt::format("dispatcher '{}': as {}", shortened(named), alike ? "DeepEP" : "all-to-all"));
    return alike ? MoeDispatcher::deepep : MoeDispatcher::alltoall;
  }

  /// Megatron-Bridge's recipes before release 26.04 choose HybridEP on racks only: docs/references.md#bridge-dispatchers
  bool precedes_hybridep_on_nodes() const { return is_bridge() && !is_bridge_since(2026.25) && !has_racks(); }

  /// Megatron-Core has HybridEP since version 0.15: docs/references.md#bridge-dispatchers
  bool precedes_hybridep_in_megatron() const {
    const double year = year_of_megatron(framework_, fields_);
    return year > 0 && year < 2025.85;
  }

  void read_stages(Parallel& p) {
    if (p.pp == 1) {
      p.vpp = 1;
      if (overlaps_experts(p)) p.pp_schedule = "combined-1f1b";
      return;
    }
    read_schedule(p);
    // Megatron-Core overlaps pipeline messages only where it interleaves.
    result_.guessed_schedule = !reported("schedule") && !reported("vp") && has_nvidia_recipes() && p.overlap_p2p;
    if (result_.guessed_schedule) p.pp_schedule = "interleaved-1f1b";
    if (p.vpp == 1 && interleaves(p.pp_schedule)) guess_chunks(p);
    if (p.vpp > 1 && p.pp_schedule == "1f1b") p.pp_schedule = default_schedule(p.vpp);
    fix_chunks(p);
    if (overlaps_experts(p)) p.pp_schedule = "combined-1f1b";
    if (!read_layout(p)) divide_layers(p);
  }

  void read_schedule(Parallel& p) {
    const std::string& said = text("schedule");
    const auto in_table = [](const std::string& letters) {
      return std::ranges::find_if(kSchedules, [&](const Word& w) { return letters == w.in_table; });
    };
    std::string name = letters_and_digits(said);
    if (in_table(name) == std::end(kSchedules) && schedule_named(name) == nullptr)
      name = letters_and_digits(said.substr(0, said.find('(')));  // "interleaved 1f1b (5 virtual stages)"
    const auto word = in_table(name);
    if (word != std::end(kSchedules)) {
      p.pp_schedule = word->name;
    } else if (const ScheduleVariant* known = schedule_named(name); known != nullptr) {
      p.pp_schedule = std::string(known->name);
    } else if (chunks_in_schedule() > 1) {
      p.pp_schedule = "interleaved-1f1b";  // "VPP=5"
    } else if (!name.empty() && name != "none") {
      assume(fmt::format("schedule '{}' is not known: 1F1B", shortened(said)));
    }
  }

  /// Most schedules have a number of chunks of their own. DualPipe's two are of its two copies of the model.
  void fix_chunks(Parallel& p) {
    const ScheduleVariant* schedule = find_schedule(p.pp_schedule);
    if (schedule == nullptr || schedule->any_chunks || schedule->default_chunks == p.vpp) return;
    if (reported("vp") && p.vpp > 1)
      assume(fmt::format("{} virtual stages: {}, as {} has", p.vpp, schedule->default_chunks, p.pp_schedule));
    p.vpp = schedule->default_chunks;
  }

  /// True for schedules of any number of virtual stages that have several.
  static bool interleaves(const std::string& schedule) {
    const ScheduleVariant* variant = find_schedule(schedule);
    return variant != nullptr && variant->any_chunks && variant->default_chunks > 1;
  }

  /// Interleaved with an unknown number of virtual stages: one layer each.
  void guess_chunks(Parallel& p) {
    const bool as_layers = text("pipeline_split") == "embedding_and_head_count_as_layers";
    const int layers = result_.scenario.model.num_layers + (as_layers ? 2 : 0);
    p.vpp = layers % p.pp == 0 ? layers / p.pp : 1;
    if (p.vpp == 1 && p.pp_schedule == "interleaved-1f1b") p.pp_schedule = default_schedule(1);
    result_.guessed_layout = result_.guessed_chunks = true;
    assume("virtual stages not reported: one layer each where layers divide, else none");
  }

  /// On Megatron's own schedules.
  bool overlaps_experts(const Parallel& p) {
    const bool own = p.pp == 1 || p.pp_schedule == "1f1b" || p.pp_schedule == "interleaved-1f1b";
    return own && p.ep > 1 && result_.scenario.model.moe && !drops_tokens() && overlaps_exchanges();
  }

  /// "18,20,21,21", "[18, 20, 21, 21]", "18-20-21-21"; empty: other words.
  static std::optional<std::vector<int>> layers_of_stages(std::string_view list) {
    std::vector<int> layers;
    for (const std::string_view word : split_words(list, " ,-/;[]")) {
      const std::optional<int> count = parse_number<int>(word);
      if (!count || *count < 0 || *count > 100'000) return std::nullopt;
      layers.push_back(*count);
    }
    return layers.size() < 2 ? std::nullopt : std::optional(layers);
  }

  /// The layers of each virtual stage: in the launcher's own form, "Et*4|(t*4|)*14tmL", whose layers of multi-token prediction stand
  /// on the last stage, or as numbers. Also in pipeline_split.
  bool read_layout(Parallel& p) {
    std::string layout = text("pp_layout");
    while (!layout.empty() && (layout.back() == ';' || layout.back() == ' ')) layout.pop_back();
    if (layout.empty() && layers_of_stages(text("pipeline_split"))) layout = text("pipeline_split");
    const bool named = !layout.empty();
    if (!named) layout = layout_of_recipe(p);
    if (layout.empty()) return false;
    std::optional<std::vector<int>> stages = layers_of_stages(layout);
    if (!stages) stages = parse_pipeline_layout(layout);
    const int layers = result_.scenario.model.num_layers;
    if (!stages || static_cast<int>(stages->size()) != p.pp * p.vpp ||
        std::accumulate(stages->begin(), stages->end(), 0) != layers) {
      if (named)
        assume(fmt::format("layout '{}' is not one of {} layers on {} virtual stages: as if it were empty",
                           shortened(layout), layers, p.pp * p.vpp));
      return false;
    }
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
    if (layers % stages == 0)
      return assume(
          fmt::format("embedding and loss do not divide as layers: {} on each virtual stage", layers / stages));
    p.pp_layout.assign(static_cast<std::size_t>(stages), layers / stages);
    for (int extra = 0; extra < layers % stages; ++extra) ++p.pp_layout[static_cast<std::size_t>((extra + 1) % stages)];
    assume(fmt::format("layers do not divide: {} stages of {}, the others of {}", layers % stages, layers / stages + 1,
                       layers / stages));
  }
};

}  // namespace

void read_row_parallel(RowReading& row) { ParallelReader(row).read(); }

}  // namespace tracecast::accuracy
