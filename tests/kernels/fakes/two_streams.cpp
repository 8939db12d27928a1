// Multiplies and attends on two streams, twice on each.

#include <cuda_runtime_api.h>

#include "kernels/cuda/attention.hpp"
#include "kernels/cuda/gemm.hpp"

using namespace tracecast;

int main() {
  const Operator op{OperatorKind::gemm, Pass::forward, Precision::bf16, "two streams", GemmShape{64, 64, 64, 1, false}};
  const Result<cuda::GemmProblem> problem = cuda::gemm_problem(op);
  cudaStream_t streams[2];
  for (cudaStream_t& stream : streams) cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cuda::Gemm gemm;
  cuda::Attention attention;
  for (const int stream : {0, 1, 0, 1}) {
    gemm.run(*problem, nullptr, nullptr, nullptr, streams[stream]);
    attention.run({1, 128, 128, 2, 2, 64, 64, true, 0}, true, {}, streams[stream]);
  }
}
