// Hand-made CUPTI records through the seam into a trace: no GPU, no CUPTI library.

#include "tracer/cupti_records.hpp"

#include <algorithm>
#include <functional>

#include <catch2/catch.hpp>

#include "sim/io/trace_reader.hpp"
#include "tests/io/temporary_folder.hpp"

using namespace tracecast;

namespace {

template <class Record>
const CUpti_Activity& plain(const Record& record) {
  return reinterpret_cast<const CUpti_Activity&>(record);
}

Trace trace_of(const std::function<void(TraceWriter&)>& write) {
  const TemporaryFolder folder;
  const std::string path = (folder.path() / "run.trace").string();
  TraceWriter writer(path, {});
  write(writer);
  writer.finish();
  return read_trace(path).value();
}

}  // namespace

TEST_CASE("cupti records: a kernel with its grid, stream and correlation", "[tracer]") {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.name = "sm90_gemm";
  kernel.deviceId = 2;
  kernel.streamId = 7;
  kernel.correlationId = 4242;
  kernel.start = 1'000;
  kernel.end = 3'500;
  kernel.gridX = 4;
  kernel.gridY = 3;
  kernel.gridZ = 2;
  kernel.blockX = 128;
  kernel.blockY = 2;
  kernel.blockZ = 1;
  const Trace trace = trace_of([&](TraceWriter& writer) {
    write_record(plain(kernel), writer);
    kernel.name = nullptr;
    write_record(plain(kernel), writer);
  });
  REQUIRE(trace.kernels.size() == 2);
  CHECK(trace.kernels[0] == TraceKernel{"sm90_gemm", 2, 7, 4242, 1'000, 3'500, 24, 256});
  CHECK(trace.kernels[1].name.empty());
}

TEST_CASE("cupti records: copies and memsets with their bytes", "[tracer]") {
  CUpti_ActivityMemcpy6 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.bytes = 1 << 20;
  copy.deviceId = 1;
  copy.streamId = 9;
  copy.correlationId = 5;
  copy.start = 10;
  copy.end = 30;
  CUpti_ActivityMemset4 memset{};
  memset.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  memset.bytes = 64;
  memset.correlationId = 6;
  memset.start = 40;
  memset.end = 41;
  const Trace trace = trace_of([&](TraceWriter& writer) {
    write_record(plain(copy), writer);
    write_record(plain(memset), writer);
  });
  CHECK(trace.copies ==
        std::vector<TraceCopy>{{"device to host", 1, 9, 5, 1 << 20, 10, 30}, {"memset", 0, 0, 6, 64, 40, 41}});
}

TEST_CASE("cupti records: calls, external ids, and ranges from pairs of markers", "[tracer]") {
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.threadId = 77;
  call.correlationId = 5;
  call.start = 90;
  call.end = 95;
  CUpti_ActivityAPI wait = call;
  wait.cbid = CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020;
  wait.correlationId = 6;
  CUpti_ActivityExternalCorrelation external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = 123456789012;
  external.correlationId = 5;
  CUpti_ActivityMarker2 begin{};
  begin.kind = CUPTI_ACTIVITY_KIND_MARKER;
  begin.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  begin.timestamp = 80;
  begin.id = 31;
  begin.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  begin.objectId.pt.threadId = 77;
  begin.name = "aten::mm";
  begin.domain = "NVTX";
  CUpti_ActivityMarker2 end = begin;
  end.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  end.timestamp = 100;
  end.name = nullptr;
  CUpti_ActivityMarker2 mark = begin;
  mark.flags = CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS;
  CUpti_ActivityOverhead3 other{};
  other.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  const Trace trace = trace_of([&](TraceWriter& writer) {
    for (const CUpti_Activity* record :
         {&plain(call), &plain(wait), &plain(external), &plain(begin), &plain(mark), &plain(other), &plain(end)})
      write_record(*record, writer);
  });
  CHECK(trace.calls == std::vector<TraceCall>{{77, 5, 90, 95, ""}, {77, 6, 90, 95, "cudaStreamSynchronize"}});
  CHECK(trace.externals == std::vector<TraceExternal>{{CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0, 123456789012, 5}});
  CHECK(trace.ranges == std::vector<TraceRange>{{"aten::mm", "NVTX", 77, 31, 80, 100}});
  CHECK(trace.records == 5);  // the single mark and the overhead are passed over
}

TEST_CASE("cupti records: every kind that is enabled is taken", "[tracer]") {
  CHECK(kRecordedKindCount == 7);
  CHECK(std::find(kRecordedKinds, kRecordedKinds + kRecordedKindCount, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) !=
        kRecordedKinds + kRecordedKindCount);
}
