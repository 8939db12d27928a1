/// A reader of Chrome traces written from the format's description alone, and the properties that any trace must have.
/// It shares no code with the writer.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>

namespace tracecast {

/// Times in nanoseconds.
struct TraceSlice {
  std::string name;
  std::string category;
  std::int64_t start = 0;
  std::int64_t end = 0;
  nlohmann::json args = {};
};

struct TraceArrow {
  std::pair<int, int> from{-1, -1};  ///< process and thread
  std::pair<int, int> to{-1, -1};
  std::int64_t start = -1;
  std::int64_t end = -1;
};

struct ReadTrace {
  std::map<std::pair<int, int>, std::vector<TraceSlice>> threads;  ///< by process and thread, by start
  std::map<std::pair<int, int>, std::string> thread_names;
  std::map<int, std::string> processes;
  std::map<std::int64_t, TraceArrow> arrows;
  std::map<int, std::vector<std::pair<std::int64_t, double>>> memory;  ///< by process: time and GiB

  std::vector<TraceSlice> thread(int process, const std::string& name) const {
    for (const auto& [id, slices] : threads)
      if (id.first == process && thread_names.at(id) == name) return slices;
    return {};
  }
};

/// As Perfetto's importer reads microseconds (docs/references.md#format-perfetto): the fraction of a nanosecond is dropped.
inline std::int64_t trace_time(const nlohmann::json& event, const char* key) {
  return static_cast<std::int64_t>(event.at(key).get<double>() * 1000);
}

/// Fails the test when `text` is no JSON, or an event is none of those that a viewer knows.
inline ReadTrace read_trace(const std::string& text) {
  const nlohmann::json document = nlohmann::json::parse(text);
  ReadTrace trace;
  for (const nlohmann::json& event : document.at("traceEvents")) {
    const auto phase = event.at("ph").get<std::string>();
    const int process = event.at("pid").get<int>();
    const std::pair<int, int> thread{process, event.value("tid", -1)};
    if (phase == "X") {
      const std::int64_t start = trace_time(event, "ts");
      trace.threads[thread].push_back({event.at("name"), event.at("cat"), start, start + trace_time(event, "dur"),
                                       event.value("args", nlohmann::json::object())});
    } else if (phase == "M") {
      if (event.at("name") == "process_name") trace.processes[process] = event.at("args").at("name");
      if (event.at("name") == "thread_name") trace.thread_names[thread] = event.at("args").at("name");
    } else if (phase == "C") {
      trace.memory[process].emplace_back(trace_time(event, "ts"), event.at("args").at("GiB").get<double>());
    } else if (phase == "s" || phase == "f") {
      TraceArrow& arrow = trace.arrows[event.at("id").get<std::int64_t>()];
      (phase == "s" ? arrow.from : arrow.to) = thread;
      (phase == "s" ? arrow.start : arrow.end) = trace_time(event, "ts");
    } else {
      CHECK(phase == "I");
    }
  }
  return trace;
}

inline bool begins_a_slice(const ReadTrace& trace, std::pair<int, int> thread, std::int64_t time) {
  const auto found = trace.threads.find(thread);
  if (found == trace.threads.end()) return false;
  for (const TraceSlice& slice : found->second)
    if (slice.start == time && slice.end > slice.start) return true;
  return false;
}

/// No overlap within a thread; everything inside the step; arrows have two ends, on slices, and point forward in time;
/// every thread and process has a name; memory is never negative and its points come in order.
inline void check_trace(const ReadTrace& trace, std::int64_t step_ns) {
  for (const auto& [id, slices] : trace.threads) {
    CAPTURE(id.first, id.second);
    CHECK(trace.processes.contains(id.first));
    CHECK(trace.thread_names.contains(id));
    std::int64_t end = 0;
    std::size_t overlaps = 0;
    for (const TraceSlice& slice : slices) {
      if (slice.start < end || slice.end < slice.start) ++overlaps;
      end = slice.end;
    }
    CHECK(overlaps == 0);
    CHECK(end <= step_ns);
  }
  std::size_t backward = 0;
  std::size_t loose = 0;
  for (const auto& [id, arrow] : trace.arrows) {
    if (arrow.start < 0 || arrow.end < arrow.start) ++backward;
    if (!begins_a_slice(trace, arrow.from, arrow.start) || !begins_a_slice(trace, arrow.to, arrow.end)) ++loose;
  }
  CHECK(backward == 0);
  CHECK(loose == 0);
  for (const auto& [process, points] : trace.memory) {
    CAPTURE(process);
    CHECK(std::is_sorted(points.begin(), points.end(), [](const auto& a, const auto& b) { return a.first < b.first; }));
    for (const auto& point : points) CHECK(point.second >= 0);
  }
}

}  // namespace tracecast
