#include "sim/engine/compiled_graph.hpp"

#include <algorithm>

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
  TemplateCompiler(CompiledGraph& out, const Template& source, std::size_t streams)
      : out_(out), source_(source), streams_(streams) {}

  CompiledTemplate compile() {
    result_.issue.resize(source_.ops.size());
    std::int64_t host = 0;
    for (std::size_t i = 0; i < source_.ops.size(); ++i) {
      TRACECAST_ASSERT(source_.ops[i].stream < streams_, "operations name a stream of the graph");
      host += source_.ops[i].host.picoseconds;
      result_.issue[i] = host;
      if (source_.ops[i].type == OpType::host_sync) {
        TRACECAST_ASSERT(i + 1 == source_.ops.size(), "a host_sync ends its template");
        result_.sync_op = size32(i);
      }
    }
    result_.host_total = host;
    for (std::size_t stream = 0; stream < streams_; ++stream) add_stream(stream);
    result_.first_step.push_back(size32(out_.steps.size()));
    return std::move(result_);
  }

 private:
  void add_stream(std::size_t stream) {
    result_.first_step.push_back(size32(out_.steps.size()));
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
    step.payload = op.payload;
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
  const Template& source_;
  std::size_t streams_;
  CompiledTemplate result_;
};

CompiledProgram compile_program(const CompiledGraph& compiled, const std::vector<ProgramItem>& items,
                                std::size_t streams) {
  CompiledProgram program;
  program.streams.resize(streams);
  program.host_base.reserve(items.size() + 1);
  std::int64_t host = 0;
  for (std::size_t item = 0; item < items.size(); ++item) {
    const CompiledTemplate& used = compiled.templates[static_cast<std::size_t>(items[item].template_index)];
    program.host_base.push_back(host);
    host += used.host_total;
    program.has_sync |= used.sync_op >= 0;
    for (std::size_t stream = 0; stream < streams; ++stream)
      if (used.first_step[stream] != used.first_step[stream + 1]) program.streams[stream].items.push_back(size32(item));
  }
  program.host_base.push_back(host);
  return program;
}

}  // namespace

CompiledGraph compile(const StepGraph& graph) {
  CompiledGraph compiled;
  compiled.templates.reserve(graph.templates.size());
  for (const Template& source : graph.templates)
    compiled.templates.push_back(TemplateCompiler(compiled, source, graph.streams.size()).compile());
  for (const auto& items : graph.programs)
    compiled.programs.push_back(compile_program(compiled, items, graph.streams.size()));
  return compiled;
}

}  // namespace tracecast::engine
