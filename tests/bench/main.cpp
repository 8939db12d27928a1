/// Runs the benchmarks with the memory settings of the program.
#include <benchmark/benchmark.h>

#include "tools/freed_memory.hpp"

int main(int argc, char** argv) {
  tracecast::keep_freed_memory();
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
}
