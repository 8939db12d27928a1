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
  TemplateCompiler(CompiledGraph& out, const StepGraph& graph, const Template& source)
      : out_(out), graph_(graph), source_(source) {}

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
    for (std::size_t stream = 0; stream < out_.streams; ++stream) add_stream(stream);
    out_.first_steps.push_back(size32(out_.steps.size()));
    return std::move(result_);
  }

 private:
  void add_stream(std::size_t stream) {
    out_.first_steps.push_back(size32(out_.steps.size()));
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

  void begin(std::size_t index) {
    const Op& op = source_.ops[index];
    Step step;
    step.type = op.type;
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

CompiledGraph compile(const StepGraph& graph) {
  CompiledGraph compiled;
  compiled.streams = graph.streams.size();
  compiled.templates.reserve(graph.templates.size());
  for (const Template& source : graph.templates)
    compiled.templates.push_back(TemplateCompiler(compiled, graph, source).compile());
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
