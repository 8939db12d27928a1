#include "sim/engine/compiled_graph.hpp"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast::engine {
namespace {

std::int32_t size32(std::size_t n) { return static_cast<std::int32_t>(n); }

/// True if `op` can be summed into the run that ends with `previous`.
bool continues_run(const Op& previous, const Op& op) {
  return previous.type == OpType::compute && op.type == OpType::compute && previous.records.none() && op.waits.empty();
}

/// Which events only the compute stream records.
class ComputeEvents {
 public:
  explicit ComputeEvents(const StepGraph& graph) : locals_(static_cast<std::size_t>(graph.local_events)) {
    for (const Template& each : graph.templates)
      for (const Op& op : each.ops) {
        if (op.records.none() || op.records.local()) continue;
        bool& by_compute = rank_events_.try_emplace({op.records.base, op.records.stride}, true).first->second;
        by_compute &= op.stream == kComputeStream;
      }
  }

  /// Local events are those of this template from now on.
  void begin(const Template& source) {
    std::fill(locals_.begin(), locals_.end(), true);
    for (const Op& op : source.ops)
      if (!op.records.none() && op.records.local() && op.stream != kComputeStream)
        locals_[static_cast<std::size_t>(op.records.base)] = false;
  }

  bool contain(EventRef ref) const {
    if (ref.local()) return locals_[static_cast<std::size_t>(ref.base)];
    const auto found = rank_events_.find({ref.base, ref.stride});
    return found != rank_events_.end() && found->second;
  }

 private:
  std::map<std::pair<std::int32_t, std::int32_t>, bool> rank_events_;  // (base, stride)
  std::vector<bool> locals_;
};

class TemplateCompiler {
 public:
  /// `partition`: the fused runs of the template; null: none.
  TemplateCompiler(CompiledGraph& out, const StepGraph& graph, const Template& source, const LocalStreams& streams,
                   TemplatePartition* partition, const ComputeEvents* compute_events)
      : out_(out),
        graph_(graph),
        source_(source),
        streams_(streams),
        partition_(partition),
        compute_events_(compute_events),
        writer_(out.fused_runs) {}

  /// `lockstep`: a partition that contains Lockstep::stream, for lockstep runs; null: none.
  CompiledTemplate compile(TemplatePartition* lockstep) {
    result_.issue.resize(source_.ops.size());
    std::int64_t host = 0;
    for (std::size_t i = 0; i < source_.ops.size(); ++i) {
      TRACECAST_ASSERT(source_.ops[i].stream < out_.streams, "an operation is on a stream of the graph");
      host += source_.ops[i].host.picoseconds;
      result_.issue[i] = host;
      result_.varies |= source_.ops[i].type == OpType::compute && graph_.varying.row(source_.ops[i].payload) >= 0;
      if (source_.ops[i].type == OpType::host_sync) {
        TRACECAST_ASSERT(i + 1 == source_.ops.size(), "a host_sync ends its template");
        result_.sync_op = size32(i);
      }
    }
    result_.host_total = host;
    sort_by_stream();
    for (std::size_t stream = 0; stream < out_.streams; ++stream) {
      out_.first_stream_ops.push_back(size32(out_.stream_ops.size()));
      if (partition_ != nullptr && stream == kComputeStream)
        add_fused_runs();
      else if (partition_ == nullptr || !streams_.local[stream])
        add_stream(stream);
      if (size32(out_.stream_ops.size()) > out_.first_stream_ops.back()) result_.streams.push_back(size32(stream));
    }
    out_.first_stream_ops.push_back(size32(out_.stream_ops.size()));
    if (lockstep != nullptr) add_lockstep_runs(*lockstep);
    return std::move(result_);
  }

 private:
  /// Most templates use few of the streams, of which each chunk of a stage has four.
  void sort_by_stream() {
    ends_.assign(out_.streams, 0);
    for (const Op& op : source_.ops) ++ends_[op.stream];
    std::exclusive_scan(ends_.begin(), ends_.end(), ends_.begin(), std::size_t{0});
    by_stream_.resize(source_.ops.size());
    for (std::size_t i = 0; i < source_.ops.size(); ++i) by_stream_[ends_[source_.ops[i].stream]++] = i;
  }

  void add_stream(std::size_t stream) {
    const Op* previous = nullptr;
    for (std::size_t at = stream == 0 ? 0 : ends_[stream - 1]; at < ends_[stream]; ++at) {
      const std::size_t i = by_stream_[at];
      const Op& op = source_.ops[i];
      if (op.type == OpType::host_sync) continue;
      if (previous != nullptr && continues_run(*previous, op)) {
        extend(out_.stream_ops.back(), i);
      } else {
        begin(i);
      }
      add_work(i);
      previous = &op;
    }
  }

  void add_work(std::size_t index) {
    const Op& op = source_.ops[index];
    if (compute_events_ == nullptr || op.stream != kComputeStream) return;
    const GpuUse use = op.payload < 0 ? GpuUse{} : use_of(graph_.operators[static_cast<std::size_t>(op.payload)]);
    out_.work.push_back({op.duration.picoseconds, result_.issue[index], use, graph_.varying.row(op.payload)});
  }

  // ---- Fused runs --------------------------------------------------------------------------------------------------

  void add_fused_runs() {
    part_of_.assign(source_.ops.size(), -1);
    std::int32_t run = -1;
    const Op* previous = nullptr;
    for (const std::size_t i : partition_->order(source_)) {
      const Op& op = source_.ops[i];
      const bool first = partition_->run_of(i) != run;
      if (first) {
        if (run >= 0) finish_fused_run();
        run = partition_->run_of(i);
        writer_.begin();
        begin(i);
        add_part(i, {});
      } else if (continues_run(*previous, op)) {
        extend_part(i);
      } else {
        add_inner_part(i);
      }
      part_of_[i] = writer_.count() - 1;
      previous = &op;
    }
    if (run >= 0) finish_fused_run();
  }

  void add_inner_part(std::size_t index) {
    waits_.clear();
    for (const EventRef ref : source_.ops[index].waits)
      waits_.push_back(part_of_[static_cast<std::size_t>(partition_->recorder(ref))]);
    out_.stream_ops.back().member_count += 1;
    add_part(index, waits_);
  }

  void add_part(std::size_t index, std::span<const std::int32_t> waits) {
    const Op& op = source_.ops[index];
    RunPart part;
    part.stream = op.stream;
    part.total = op.duration.picoseconds;
    part.issued = result_.issue[index];
    if (part.computes()) {
      part.issued += part.total;
      part.first_work = size32(out_.work.size());
      part.work_count = 1;
      add_work(index);
    } else {
      part.traffic = graph_.collectives[static_cast<std::size_t>(op.payload)].traffic;
      part.collective = op.payload;
    }
    if (partition_->visible_outside(index)) part.records = op.records;
    writer_.add(part, waits);
  }

  void extend_part(std::size_t index) {
    const Op& op = source_.ops[index];
    RunPart& part = writer_.last();
    part.total += op.duration.picoseconds;
    part.issued = std::max(part.issued, result_.issue[index]) + op.duration.picoseconds;
    part.work_count += 1;
    add_work(index);
    if (partition_->visible_outside(index)) part.records = op.records;
    out_.stream_ops.back().member_count += 1;
  }

  /// A single part is a plain StreamOp.
  void finish_fused_run() {
    StreamOp& stream_op = out_.stream_ops.back();
    if (writer_.count() > 1) {
      stream_op.fused_run = writer_.finish();
      stream_op.records = {};
      return;
    }
    const RunPart run = writer_.take();
    stream_op.total = run.total;
    stream_op.lag = run.issued;
    stream_op.records = run.records;
  }

  // ---- Lockstep runs -----------------------------------------------------------------------------------------------

  /// Finds the lockstep runs of a template whose streams are compiled.
  void add_lockstep_runs(TemplatePartition& partition) {
    partition_ = &partition;
    std::int32_t compute = first_of(kComputeStream);
    std::int32_t transfer = first_of(out_.lockstep.stream);
    for (const StreamOp& fused : fused_runs_only()) {
      const std::int32_t first = compute;
      LockstepRun run{fused.fused_run, 0, transfer, 0, 0};
      const std::int32_t number = partition.run_of(static_cast<std::size_t>(fused.first_op));
      run.end = compute = end_of_run(number, compute, first_of(kComputeStream + 1), run);
      run.end_transfers = transfer = end_of_run(number, transfer, first_of(out_.lockstep.stream + 1), run);
      if (run.first_transfer == run.end_transfers || !needs_all_members_first(run)) continue;
      for (const std::int32_t begin : {first, run.first_transfer})
        out_.stream_ops[static_cast<std::size_t>(begin)].lockstep_run = size32(out_.lockstep_runs.size());
      out_.lockstep_runs.push_back(run);
    }
  }

  /// Of this template.
  std::int32_t first_of(std::size_t stream) const {
    return out_.first_stream_ops[out_.first_stream_ops.size() - out_.streams - 1 + stream];
  }

  /// The operations of the compute stream if it were fused: their fused runs stay, they themselves do not.
  std::vector<StreamOp> fused_runs_only() {
    const auto ops = static_cast<std::ptrdiff_t>(out_.stream_ops.size());
    const std::size_t waits = out_.waits.size();
    const std::size_t known = out_.waits_for_compute.size();
    const std::size_t members = out_.members.size();
    add_fused_runs();
    std::vector<StreamOp> fused(out_.stream_ops.begin() + ops, out_.stream_ops.end());
    out_.stream_ops.resize(static_cast<std::size_t>(ops));
    out_.waits.resize(waits);
    out_.waits_for_compute.resize(known);
    out_.members.resize(members);
    return fused;
  }

  /// Counts the operations from `at` on that belong to the fused run with this number; returns the index of the next one.
  std::int32_t end_of_run(std::int32_t number, std::int32_t at, std::int32_t end, LockstepRun& run) const {
    for (; at < end; ++at) {
      const StreamOp& op = out_.stream_ops[static_cast<std::size_t>(at)];
      if (partition_->run_of(static_cast<std::size_t>(op.first_op)) != number) break;
      run.operations += op.member_count;
    }
    return at;
  }

  /// True if compute waits for a collective before it records anything that is seen outside.
  bool needs_all_members_first(const LockstepRun& run) const {
    const FusedRuns& runs = out_.fused_runs;
    if (run.fused_run < 0) return false;
    const std::span<const RunPart> parts = runs.all[static_cast<std::size_t>(run.fused_run)].parts.of(runs.parts);
    for (const RunPart& part : parts) {
      if (!part.computes()) continue;
      for (const std::int32_t wait : Range{part.first_wait, part.wait_count}.of(runs.waits))
        if (!parts[static_cast<std::size_t>(wait)].computes()) return true;
      if (!part.records.none()) return false;
    }
    return false;
  }

  // ---- Stream operations -------------------------------------------------------------------------------------------

  void begin(std::size_t index) {
    const Op& op = source_.ops[index];
    StreamOp stream_op;
    stream_op.type = op.type;
    stream_op.optimizer = source_.phase == Phase::optimizer;
    set_endpoint(stream_op, op.payload);
    stream_op.first_op = size32(index);
    stream_op.first_wait = size32(out_.waits.size());
    stream_op.wait_count = size32(op.waits.size());
    stream_op.first_member = size32(out_.members.size());
    stream_op.member_count = 1;
    stream_op.first_work = size32(out_.work.size());
    stream_op.records = op.records;
    stream_op.total = op.duration.picoseconds;
    stream_op.issue = result_.issue[index];
    stream_op.lag = stream_op.issue + stream_op.total;
    out_.waits.insert(out_.waits.end(), op.waits.begin(), op.waits.end());
    if (compute_events_ != nullptr)
      for (const EventRef ref : op.waits) out_.waits_for_compute.push_back(compute_events_->contain(ref));
    out_.members.push_back(size32(index));
    out_.stream_ops.push_back(stream_op);
  }

  void set_endpoint(StreamOp& stream_op, std::int32_t payload) const {
    if (stream_op.type == OpType::compute) return;
    const auto index = static_cast<std::size_t>(payload);
    if (stream_op.type == OpType::collective) {
      stream_op.traffic = graph_.collectives[index].traffic;
      stream_op.slot_or_channel = graph_.collectives[index].slot;
    } else {
      stream_op.slot_or_channel = graph_.messages[index].channel;
      stream_op.eager = graph_.messages[index].eager;
    }
  }

  void extend(StreamOp& stream_op, std::size_t index) {
    const Op& op = source_.ops[index];
    const std::int64_t duration = op.duration.picoseconds;
    stream_op.member_count += 1;
    stream_op.total += duration;
    stream_op.lag = std::max(stream_op.lag, result_.issue[index]) + duration;
    stream_op.records = op.records;
    out_.members.push_back(size32(index));
  }

  CompiledGraph& out_;
  const StepGraph& graph_;
  const Template& source_;
  const LocalStreams& streams_;
  TemplatePartition* partition_;
  const ComputeEvents* const compute_events_;  ///< null: transfers do not slow compute
  FusedRunWriter writer_;
  std::vector<std::size_t> by_stream_;  ///< operations, those of a stream in order
  std::vector<std::size_t> ends_;       ///< [stream] of its operations in by_stream_
  std::vector<std::int32_t> part_of_;   ///< [operation] its index within its run
  std::vector<std::int32_t> waits_;     ///< of the part that is added
  CompiledTemplate result_;
};

/// `first_template`: index into CompiledGraph::templates of the first template of the graph.
CompiledProgram compile_program(const CompiledGraph& compiled, const std::vector<ProgramItem>& items,
                                std::int32_t first_template) {
  CompiledProgram program;
  program.streams.resize(compiled.streams);
  program.items.reserve(items.size());
  std::int64_t host = 0;
  for (std::size_t item = 0; item < items.size(); ++item) {
    const std::int32_t index = items[item].template_index;
    const CompiledTemplate& used = compiled.templates[static_cast<std::size_t>(first_template + index)];
    program.items.push_back(
        {index, first_template + index, items[item].microbatch, size32(program.syncs.size()), host});
    host += used.host_total;
    if (used.sync_op >= 0) {
      program.syncs.push_back(size32(item));
      host = 0;
    }
    for (const std::int32_t stream : used.streams)
      program.streams[static_cast<std::size_t>(stream)].push_back(size32(item));
  }
  for (std::vector<std::int32_t>& own : program.streams) own.push_back(-1);
  return program;
}

/// Compiles all templates and programs; what is fused if `fused`, else what is in lockstep.
void compile_all(const StepGraph& graph, const LocalStreams& streams, bool fused, bool keep_work, CompiledGraph& out) {
  const bool in_lockstep = !fused && out.lockstep.slot >= 0;
  const LocalStreams none;
  const LocalStreams partitioned = in_lockstep ? streams_of(out.lockstep, out.streams) : streams;
  TemplatePartition partition(graph, partitioned);
  std::optional<ComputeEvents> compute_events;
  if (keep_work) compute_events.emplace(graph);
  const std::int32_t first = size32(out.templates.size());
  for (const Template& source : graph.templates) {
    if (compute_events) compute_events->begin(source);
    const bool fits = (fused || in_lockstep) && partition.assign(source);
    TRACECAST_ASSERT(fits || !fused, "local streams are local in every template");
    TemplateCompiler compiler(out, graph, source, fused ? streams : none, fused ? &partition : nullptr,
                              compute_events ? &*compute_events : nullptr);
    out.templates.push_back(compiler.compile(in_lockstep && fits ? &partition : nullptr));
  }
  for (const auto& items : graph.programs) out.programs.push_back(compile_program(out, items, first));
}

/// [rank] True if its operations can be fused: it is alone in its group, and at the speed of the templates, or else its
/// operations are timed one by one, as compute beside transfers is.
std::vector<bool> ranks_that_fuse(const StepGraph& graph, const Lockstep& lockstep, bool keep_work) {
  const auto fuses = [&](const Rank& rank) {
    if (rank.first_batch >= 0 || (rank.slowdown != kNoSlowdown && !keep_work)) return false;
    if (lockstep.slot < 0) return true;
    const auto slot = static_cast<std::size_t>(lockstep.slot);
    const std::int32_t group = slot < rank.communicators.size() ? rank.communicators[slot] : -1;
    return group >= 0 && lockstep.members[static_cast<std::size_t>(group)] == 1;
  };
  std::vector<bool> result;
  for (const Rank& rank : graph.ranks) result.push_back(fuses(rank));
  return result;
}

}  // namespace

CompiledGraph compile(const StepGraph& graph, const LocalStreams& streams, bool keep_work, Lockstep lockstep) {
  CompiledGraph compiled;
  compiled.streams = graph.streams.size();
  compiled.lockstep = std::move(lockstep);
  compiled.fuses.assign(graph.ranks.size(), false);
  if (streams.fuses) compiled.fuses = ranks_that_fuse(graph, compiled.lockstep, keep_work);
  std::int32_t first_program[] = {0, 0};  // not fused, fused
  for (const bool fused : {false, true}) {
    if (std::find(compiled.fuses.begin(), compiled.fuses.end(), fused) == compiled.fuses.end()) continue;
    first_program[fused ? 1 : 0] = size32(compiled.programs.size());
    compile_all(graph, streams, fused, keep_work, compiled);
  }
  for (std::size_t rank = 0; rank < graph.ranks.size(); ++rank)
    compiled.program_of.push_back(first_program[compiled.fuses[rank] ? 1 : 0] + graph.ranks[rank].program);
  return compiled;
}

void append_runs(const StepGraph& graph, const CompiledGraph& compiled, const CompiledItem& item, const Rank& rank,
                 std::vector<RunDuration>& runs) {
  const Template& source = graph.templates[static_cast<std::size_t>(item.template_index)];
  const CompiledTemplate& used = compiled.templates[static_cast<std::size_t>(item.compiled_template)];
  const std::int32_t end = compiled.first_stream_op(item.compiled_template, kComputeStream + 1);
  for (std::int32_t at = compiled.first_stream_op(item.compiled_template, kComputeStream); at < end; ++at) {
    const StreamOp& stream_op = compiled.stream_ops[static_cast<std::size_t>(at)];
    RunDuration& run = runs.emplace_back();
    if (stream_op.type != OpType::compute) continue;
    for (const std::int32_t op : compiled.members_of(stream_op)) {
      const auto index = static_cast<std::size_t>(op);
      const std::int64_t duration = graph.duration_of(rank, source.ops[index], item.microbatch).picoseconds;
      run.total += duration;
      run.lag = std::max(run.lag, used.issue[index]) + duration;
    }
  }
}

}  // namespace tracecast::engine
