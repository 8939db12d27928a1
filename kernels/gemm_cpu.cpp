#include <cblas.h>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {
namespace {

int narrow(std::int64_t size) { return static_cast<int>(size); }

}  // namespace

void gemm(GemmLayout layout, const GemmShape& shape, const float* a, const float* b, float* c) {
  const int m = narrow(shape.m);
  const int n = narrow(shape.n);
  const int k = narrow(shape.k);
  const bool a_transposed = layout == GemmLayout::transposed_normal;
  const bool b_transposed = layout == GemmLayout::normal_transposed;
  for (std::int64_t i = 0; i < shape.batch; ++i)
    cblas_sgemm(CblasRowMajor, a_transposed ? CblasTrans : CblasNoTrans, b_transposed ? CblasTrans : CblasNoTrans, m, n,
                k, 1.0F, a + i * shape.m * shape.k, a_transposed ? m : k, b + i * shape.k * shape.n,
                b_transposed ? k : n, shape.accumulate_fp32 ? 1.0F : 0.0F, c + i * shape.m * shape.n, n);
}

}  // namespace tracecast::cpu
