#include <cmath>
#include <vector>

#include "kernels/cpu.hpp"

namespace tracecast::cpu {
namespace {

constexpr double kBase = 10'000;

}  // namespace

void rope(std::int64_t rows, std::int64_t width, std::int64_t heads, std::int64_t positions, bool backward,
          const float* x, float* y) {
  const std::int64_t pairs = width / 2;
  std::vector<float> cosines(static_cast<std::size_t>(pairs));
  std::vector<float> sines(static_cast<std::size_t>(pairs));
  std::int64_t known = -1;
  for (std::int64_t r = 0; r < rows; ++r, x += width, y += width) {
    const std::int64_t position = r / heads % positions;
    if (position != known) {
      for (std::int64_t i = 0; i < pairs; ++i) {
        const double angle =
            static_cast<double>(position) * std::pow(kBase, -2.0 * static_cast<double>(i) / static_cast<double>(width));
        cosines[static_cast<std::size_t>(i)] = static_cast<float>(std::cos(angle));
        sines[static_cast<std::size_t>(i)] = static_cast<float>(backward ? -std::sin(angle) : std::sin(angle));
      }
      known = position;
    }
    for (std::int64_t i = 0; i < pairs; ++i) {
      const float c = cosines[static_cast<std::size_t>(i)];
      const float s = sines[static_cast<std::size_t>(i)];
      y[2 * i] = x[2 * i] * c - x[2 * i + 1] * s;
      y[2 * i + 1] = x[2 * i] * s + x[2 * i + 1] * c;
    }
    if (width % 2 != 0) y[width - 1] = x[width - 1];
  }
}

}  // namespace tracecast::cpu
