#include "sim/engine/compiled_graph.hpp"

#include <algorithm>
#include <utility>

#include "sim/base/result.hpp"

namespace tracecast::engine {
namespace {

std::int32_t size32(std::size_t n) { return static_cast<std::int32_t>(n); }

/// Whether `op` can be summed into the run that ends with `previous`.
bool continues_run(const Op& previous, const Op& op) {
  return previous.type == OpType::compute && op.type == OpType::compute && previous.records.none() && op.waits.empty();
}

class TemplateCompiler {
 public:
  /// `reading`: how the template falls into segments; null: into none.
  TemplateCompiler(CompiledGraph& out, const StepGraph& graph, const Template& source, const OwnStreams& streams,
                   const TemplateReading* reading)
      : out_(out), graph_(graph), source_(source), streams_(streams), reading_(reading), writer_(out.segments) {}

  CompiledTemplate compile() {
    result_.issue.resize(source_.ops.size());
    std::int64_t host = 0;
    for (std::size_t i = 0; i < source_.ops.size(); ++i) {
      TRACECAST_ASSERT(source_.ops[i].stream < out_.streams, "operations name a stream of the graph");
      host += source_.ops[i].host.picoseconds;
      result_.issue[i] = host;
      if (source_.ops[i].type == OpType::host_sync) {
        TRACECAST_ASSERT(i + 1 == source_.ops.size(), "a host_sync ends its template");
        result_.sync_op = size32(i);
      }
    }
    result_.host_total = host;
    for (std::size_t stream = 0; stream < out_.streams; ++stream) {
      out_.first_steps.push_back(size32(out_.steps.size()));
      if (reading_ != nullptr && stream == kComputeStream)
        add_segments();
      else if (reading_ == nullptr || !streams_.own[stream])
        add_stream(stream);
    }
    out_.first_steps.push_back(size32(out_.steps.size()));
    return std::move(result_);
  }

 private:
  void add_stream(std::size_t stream) {
    const Op* previous = nullptr;
    for (std::size_t i = 0; i < source_.ops.size(); ++i) {
      const Op& op = source_.ops[i];
      if (op.stream != stream || op.type == OpType::host_sync) continue;
      if (previous != nullptr && continues_run(*previous, op)) {
        extend(out_.steps.back(), i);
      } else {
        begin(i);
      }
      previous = &op;
    }
  }

  // ---- Segments ----------------------------------------------------------------------------------------------------

  void add_segments() {
    part_of_.assign(source_.ops.size(), -1);
    std::int32_t segment = -1;
    const Op* previous = nullptr;
    for (std::size_t i = 0; i < source_.ops.size(); ++i) {
      if (reading_->segment_of(i) < 0) continue;
      const Op& op = source_.ops[i];
      const bool first = reading_->segment_of(i) != segment;
      if (first) {
        if (segment >= 0) finish_segment();
        segment = reading_->segment_of(i);
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
    if (segment >= 0) finish_segment();
  }

  void add_inner_part(std::size_t index) {
    std::vector<std::int32_t> waits;
    for (const EventRef ref : source_.ops[index].waits)
      waits.push_back(part_of_[static_cast<std::size_t>(reading_->recorder(ref))]);
    out_.steps.back().member_count += 1;
    add_part(index, waits);
  }

  void add_part(std::size_t index, std::span<const std::int32_t> waits) {
    const Op& op = source_.ops[index];
    Part part;
    part.stream = op.stream;
    part.total = op.duration.picoseconds;
    part.issued = result_.issue[index];
    if (part.computes())
      part.issued += part.total;
    else
      part.traffic = graph_.collectives[static_cast<std::size_t>(op.payload)].traffic;
    if (reading_->heard_outside(index)) part.records = op.records;
    writer_.add(part, waits);
  }

  void extend_part(std::size_t index) {
    const Op& op = source_.ops[index];
    Part& part = writer_.last();
    part.total += op.duration.picoseconds;
    part.issued = std::max(part.issued, result_.issue[index]) + op.duration.picoseconds;
    if (reading_->heard_outside(index)) part.records = op.records;
    out_.steps.back().member_count += 1;
  }

  /// A lone run of compute is a step as any other.
  void finish_segment() {
    Step& step = out_.steps.back();
    if (writer_.count() > 1) {
      step.segment = writer_.finish();
      step.records = {};
      return;
    }
    const Part run = writer_.take();
    step.total = run.total;
    step.lag = run.issued;
    step.records = run.records;
  }

  // ---- Steps -------------------------------------------------------------------------------------------------------

  void begin(std::size_t index) {
    const Op& op = source_.ops[index];
    Step step;
    step.type = op.type;
    step.optimizer = source_.phase == Phase::optimizer;
    name_place(step, op.payload);
    step.first_op = size32(index);
    step.first_wait = size32(out_.waits.size());
    step.wait_count = size32(op.waits.size());
    step.first_member = size32(out_.members.size());
    step.member_count = 1;
    step.records = op.records;
    step.total = op.duration.picoseconds;
    step.issue = result_.issue[index];
    step.lag = step.issue + step.total;
    out_.waits.insert(out_.waits.end(), op.waits.begin(), op.waits.end());
    out_.members.push_back(size32(index));
    out_.steps.push_back(step);
  }

  void name_place(Step& step, std::int32_t payload) const {
    if (step.type == OpType::compute) return;
    const auto index = static_cast<std::size_t>(payload);
    if (step.type == OpType::collective) {
      step.traffic = graph_.collectives[index].traffic;
      step.where = graph_.collectives[index].slot;
    } else {
      step.where = graph_.messages[index].channel;
      step.eager = graph_.messages[index].eager;
    }
  }

  void extend(Step& step, std::size_t index) {
    const Op& op = source_.ops[index];
    const std::int64_t duration = op.duration.picoseconds;
    step.member_count += 1;
    step.total += duration;
    step.lag = std::max(step.lag, result_.issue[index]) + duration;
    step.records = op.records;
    out_.members.push_back(size32(index));
  }

  CompiledGraph& out_;
  const StepGraph& graph_;
  const Template& source_;
  const OwnStreams& streams_;
  const TemplateReading* const reading_;
  SegmentWriter writer_;
  std::vector<std::int32_t> part_of_;  ///< [operation] its number within its segment
  CompiledTemplate result_;
};

/// Where the compute stream's steps of each template begin in the table of slowed_runs; -1: not used.
std::int32_t first_run(const CompiledGraph& compiled, CompiledProgram& program, std::vector<std::int32_t>& known,
                       std::int32_t template_index) {
  std::int32_t& first = known[static_cast<std::size_t>(template_index)];
  if (first >= 0) return first;
  first = program.runs;
  program.templates.push_back(template_index);
  program.runs +=
      compiled.first_step(template_index, kComputeStream + 1) - compiled.first_step(template_index, kComputeStream);
  return first;
}

CompiledProgram compile_program(const CompiledGraph& compiled, const std::vector<ProgramItem>& items) {
  CompiledProgram program;
  program.streams.resize(compiled.streams);
  program.items.reserve(items.size());
  std::vector<std::int32_t> first_runs(compiled.templates.size(), -1);
  std::int64_t host = 0;
  for (std::size_t item = 0; item < items.size(); ++item) {
    const std::int32_t index = items[item].template_index;
    const CompiledTemplate& used = compiled.templates[static_cast<std::size_t>(index)];
    program.items.push_back({index, items[item].microbatch, size32(program.syncs.size()),
                             first_run(compiled, program, first_runs, index), host});
    host += used.host_total;
    if (used.sync_op >= 0) {
      program.syncs.push_back(size32(item));
      host = 0;
    }
    for (std::size_t stream = 0; stream < compiled.streams; ++stream)
      if (compiled.first_step(index, stream) != compiled.first_step(index, stream + 1))
        program.streams[stream].push_back(size32(item));
  }
  return program;
}

Run slowed_run(const Template& source, const CompiledTemplate& used, std::span<const std::int32_t> members,
               std::int32_t slowness) {
  Run run;
  for (const std::int32_t op : members) {
    const auto index = static_cast<std::size_t>(op);
    const std::int64_t duration = slowed(source.ops[index].duration, slowness).picoseconds;
    run.total += duration;
    run.lag = std::max(run.lag, used.issue[index]) + duration;
  }
  return run;
}

}  // namespace

CompiledGraph compile(const StepGraph& graph, const OwnStreams& streams) {
  CompiledGraph compiled;
  compiled.streams = graph.streams.size();
  compiled.templates.reserve(graph.templates.size());
  TemplateReading reading(graph, streams);
  for (const Template& source : graph.templates) {
    const TemplateReading* segments = nullptr;
    if (streams.segments) {
      const bool fits = reading.read(source);
      TRACECAST_ASSERT(fits, "the streams are own ones in every template");
      segments = &reading;
    }
    compiled.templates.push_back(TemplateCompiler(compiled, graph, source, streams, segments).compile());
  }
  compiled.programs.reserve(graph.programs.size());
  for (const auto& items : graph.programs) compiled.programs.push_back(compile_program(compiled, items));
  return compiled;
}

std::vector<Run> slowed_runs(const StepGraph& graph, const CompiledGraph& compiled, const CompiledProgram& program,
                             std::int32_t slowness) {
  std::vector<Run> runs;
  runs.reserve(static_cast<std::size_t>(program.runs));
  for (const std::int32_t index : program.templates) {
    const Template& source = graph.templates[static_cast<std::size_t>(index)];
    const CompiledTemplate& used = compiled.templates[static_cast<std::size_t>(index)];
    const std::int32_t end = compiled.first_step(index, kComputeStream + 1);
    for (std::int32_t at = compiled.first_step(index, kComputeStream); at < end; ++at) {
      const Step& step = compiled.steps[static_cast<std::size_t>(at)];
      runs.push_back(step.type == OpType::compute ? slowed_run(source, used, compiled.members_of(step), slowness)
                                                  : Run{});
    }
  }
  return runs;
}

}  // namespace tracecast::engine
