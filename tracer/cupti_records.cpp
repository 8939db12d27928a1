#include "tracer/cupti_records.hpp"

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <iterator>

namespace tracecast {
namespace {

// CUPTI defines this cast: the kind of a record says which struct it is.
template <class Record>
const Record& as(const CUpti_Activity& record) {
  return reinterpret_cast<const Record&>(record);
}

std::int64_t signed_time(std::uint64_t time) { return static_cast<std::int64_t>(time); }

const char* copy_kind(std::uint8_t kind) {
  switch (kind) {
    case CUPTI_ACTIVITY_MEMCPY_KIND_HTOD:
      return "host to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOH:
      return "device to host";
    case CUPTI_ACTIVITY_MEMCPY_KIND_DTOD:
      return "device to device";
    case CUPTI_ACTIVITY_MEMCPY_KIND_PTOP:
      return "device to other device";
    default:
      return "other copy";
  }
}

/// The name of a call that blocks the host until the GPU is done; empty for other calls.
const char* waiting_call(const CUpti_ActivityAPI& call) {
  if (call.kind == CUPTI_ACTIVITY_KIND_DRIVER) {
    switch (call.cbid) {
      case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize:
      case CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize_ptsz:
        return "cuStreamSynchronize";
      case CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize:
        return "cuEventSynchronize";
      case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize:
      case CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize_v2:
        return "cuCtxSynchronize";
      default:
        return "";
    }
  }
  switch (call.cbid) {
    case CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020:
    case CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_ptsz_v7000:
      return "cudaStreamSynchronize";
    case CUPTI_RUNTIME_TRACE_CBID_cudaEventSynchronize_v3020:
      return "cudaEventSynchronize";
    case CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020:
      return "cudaDeviceSynchronize";
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_v3020:
    case CUPTI_RUNTIME_TRACE_CBID_cudaMemcpy_ptds_v7000:
      return "cudaMemcpy";
    default:
      return "";
  }
}

/// A record that was handed over before its work ended has none.
template <class Record>
bool has_times(const Record& record) {
  return record.start != CUPTI_TIMESTAMP_UNKNOWN && record.end != CUPTI_TIMESTAMP_UNKNOWN;
}

void kernel(const CUpti_ActivityKernel10& k, TraceWriter& writer) {
  writer.kernel(k.name == nullptr ? "" : k.name, k.deviceId, k.streamId, k.correlationId, signed_time(k.start),
                signed_time(k.end), std::int64_t{k.gridX} * k.gridY * k.gridZ,
                std::int64_t{k.blockX} * k.blockY * k.blockZ);
}

/// A range is a pair of markers with the same id; single marks have no duration.
void marker(const CUpti_ActivityMarker2& m, TraceWriter& writer) {
  const bool begins = (m.flags & CUPTI_ACTIVITY_FLAG_MARKER_START) != 0;
  const bool ends = (m.flags & CUPTI_ACTIVITY_FLAG_MARKER_END) != 0;
  const std::int64_t thread = m.objectKind == CUPTI_ACTIVITY_OBJECT_THREAD ? m.objectId.pt.threadId : 0;
  if (begins)
    writer.range_begin(m.name == nullptr ? "" : m.name, m.domain == nullptr ? "" : m.domain, thread, m.id,
                       signed_time(m.timestamp));
  else if (ends)
    writer.range_end(m.id, signed_time(m.timestamp));
}

}  // namespace

const CUpti_ActivityKind kRecordedKinds[] = {CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL,
                                             CUPTI_ACTIVITY_KIND_MEMCPY,
                                             CUPTI_ACTIVITY_KIND_MEMCPY2,
                                             CUPTI_ACTIVITY_KIND_MEMSET,
                                             CUPTI_ACTIVITY_KIND_DEVICE,
                                             CUPTI_ACTIVITY_KIND_OVERHEAD,
                                             CUPTI_ACTIVITY_KIND_MARKER,
                                             CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION};
const int kRecordedKindCount = static_cast<int>(sizeof kRecordedKinds / sizeof *kRecordedKinds);

void write_record(const CUpti_Activity& record, TraceWriter& writer) {
  switch (record.kind) {
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
    case CUPTI_ACTIVITY_KIND_KERNEL: {
      const auto& k = as<CUpti_ActivityKernel10>(record);
      return has_times(k) ? kernel(k, writer) : writer.dropped(1);
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY: {
      const auto& c = as<CUpti_ActivityMemcpy6>(record);
      if (!has_times(c)) return writer.dropped(1);
      return writer.copy(copy_kind(c.copyKind), c.deviceId, c.streamId, c.correlationId,
                         static_cast<std::int64_t>(c.bytes), signed_time(c.start), signed_time(c.end));
    }
    case CUPTI_ACTIVITY_KIND_MEMCPY2: {
      const auto& c = as<CUpti_ActivityMemcpyPtoP4>(record);
      if (!has_times(c)) return writer.dropped(1);
      return writer.copy(copy_kind(CUPTI_ACTIVITY_MEMCPY_KIND_PTOP), c.deviceId, c.streamId, c.correlationId,
                         static_cast<std::int64_t>(c.bytes), signed_time(c.start), signed_time(c.end));
    }
    case CUPTI_ACTIVITY_KIND_MEMSET: {
      const auto& m = as<CUpti_ActivityMemset4>(record);
      if (!has_times(m)) return writer.dropped(1);
      return writer.copy("memset", m.deviceId, m.streamId, m.correlationId, static_cast<std::int64_t>(m.bytes),
                         signed_time(m.start), signed_time(m.end));
    }
    case CUPTI_ACTIVITY_KIND_RUNTIME:
    case CUPTI_ACTIVITY_KIND_DRIVER: {
      const auto& a = as<CUpti_ActivityAPI>(record);
      if (!has_times(a)) return writer.dropped(1);
      return writer.call(a.threadId, a.correlationId, signed_time(a.start), signed_time(a.end), waiting_call(a));
    }
    case CUPTI_ACTIVITY_KIND_DEVICE: {
      const auto& d = as<CUpti_ActivityDevice5>(record);
      char capability[24];
      std::snprintf(capability, sizeof capability, "%u.%u", d.computeCapabilityMajor, d.computeCapabilityMinor);
      return writer.device({d.id, d.name == nullptr ? "" : d.name, capability, d.numMultiprocessors,
                            static_cast<std::int64_t>(d.globalMemorySize), d.isMigEnabled != 0});
    }
    case CUPTI_ACTIVITY_KIND_OVERHEAD: {
      const auto& o = as<CUpti_ActivityOverhead3>(record);
      const bool of_cupti = o.overheadKind == CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH ||
                            o.overheadKind == CUPTI_ACTIVITY_OVERHEAD_CUPTI_INSTRUMENTATION ||
                            o.overheadKind == CUPTI_ACTIVITY_OVERHEAD_CUPTI_RESOURCE;
      return of_cupti && has_times(o) ? writer.overhead(signed_time(o.end) - signed_time(o.start)) : void();
    }
    case CUPTI_ACTIVITY_KIND_MARKER:
      return marker(as<CUpti_ActivityMarker2>(record), writer);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION: {
      const auto& e = as<CUpti_ActivityExternalCorrelation>(record);
      return writer.external(e.externalKind, static_cast<std::int64_t>(e.externalId), e.correlationId);
    }
    default:
      return;
  }
}

bool is_recorded_call(std::string_view name) {
  constexpr std::string_view kBegins[] = {
      "cudaLaunchKernel", "cudaLaunchCooperative", "__cudaLaunchKernel", "cuLaunchKernel", "cuLaunchCooperative",
      "cudaGraphLaunch",  "cuGraphLaunch",         "cudaMemcpy",         "cuMemcpy",       "cudaMemset",
      "cuMemset"};
  return name.find("Synchronize") != std::string_view::npos ||
         std::any_of(std::begin(kBegins), std::end(kBegins),
                     [name](std::string_view begin) { return name.starts_with(begin); });
}

}  // namespace tracecast
