// Hand-made CUPTI records through the seam into a trace: no GPU, no CUPTI library.

#include "tracer/cupti_records.hpp"

#include <algorithm>
#include <functional>

#include <catch2/catch.hpp>

#include "sim/io/trace_reader.hpp"
#include "tests/support/temporary_folder.hpp"

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
  CHECK(kRecordedKindCount == 8);
  CHECK(std::find(kRecordedKinds, kRecordedKinds + kRecordedKindCount, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL) !=
        kRecordedKinds + kRecordedKindCount);
}

TEST_CASE("cupti records: work without times is counted, not written", "[tracer]") {
  CUpti_ActivityKernel10 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  CUpti_ActivityMemcpyPtoP4 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  copy.start = 5;
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.start = 10;
  overhead.end = 30;
  const Trace trace = trace_of([&](TraceWriter& writer) {
    write_record(plain(kernel), writer);
    write_record(plain(copy), writer);
    for (const auto kind :
         {CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH, CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING}) {
      overhead.overheadKind = kind;
      write_record(plain(overhead), writer);
    }
  });
  CHECK(trace.kernels.empty());
  CHECK(trace.copies.empty());
  CHECK(trace.dropped == 2);
  CHECK(trace.overhead_ns == 20);  // loading a module is the program's own
}

TEST_CASE("cupti records: a device says what it is", "[tracer]") {
  CUpti_ActivityDevice5 device{};
  device.kind = CUPTI_ACTIVITY_KIND_DEVICE;
  device.id = 3;
  device.name = "NVIDIA H100 80GB HBM3 MIG 1g.10gb";
  device.computeCapabilityMajor = 9;
  device.numMultiprocessors = 16;
  device.globalMemorySize = 10'000;
  device.isMigEnabled = 1;
  const Trace trace = trace_of([&](TraceWriter& writer) { write_record(plain(device), writer); });
  CHECK(trace.devices == std::vector<TraceDevice>{{3, device.name, "9.0", 16, 10'000, true}});
  CHECK(trace.header.gpu == device.name);
}

TEST_CASE("cupti records: calls are chosen by their names", "[tracer]") {
  for (const char* name : {"cudaLaunchKernel_v7000", "cudaLaunchKernelExC_v11060", "cuLaunchKernelEx",
                           "cudaGraphLaunch_v10000", "cudaMemcpyAsync_v3020", "cuMemsetD32Async",
                           "cudaStreamSynchronize_v3020", "cuCtxSynchronize", "__cudaLaunchKernel_v13000"})
    CHECK(is_recorded_call(name));
  for (const char* name : {"cudaGetDevice_v3020", "cudaEventQuery_v3020", "cudaLaunchHostFunc_v10000",
                           "cuGraphAddMemcpyNode", "cudaStreamIsCapturing_v10000", "cuGetProcAddress_v2"})
    CHECK_FALSE(is_recorded_call(name));
}
