// libFuzzer's entry. Build and run, ten minutes on the corpus and the broken files:
//   mkdir new-corpus; cmake --preset fuzz && cmake --build build/fuzz --target tracecast_fuzz_readers
//   build/fuzz/tests/fuzz/tracecast_fuzz_readers -max_total_time=600 -dict=tests/fuzz/readers.dict \
//       new-corpus tests/fuzz/corpus tests/data/broken

#include <cstddef>
#include <cstdint>

#include "tests/fuzz/exercise_readers.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  tracecast::exercise_readers({reinterpret_cast<const char*>(data), size});
  return 0;
}
