#include "sim/io/nearest_profiles.hpp"

#include <algorithm>

#include "sim/base/words.hpp"

namespace tracecast {
namespace {

struct Generation {
  std::string_view names;  ///< of GPUs, and what importers call one that they know by its architecture alone
  std::string_view nearest;
};

constexpr Generation kGenerations[] = {
    {"sm-60 sm-61 p100 p40 p4 titan-xp gtx-1080", "v100-16gb"},
    {"sm-70 titan-v", "v100-16gb or v100"},
    {"sm-75 t4 rtx-2080 quadro-rtx-6000 quadro-rtx-8000", "v100-16gb"},
    {"sm-80 a30 a800 a800-80gb-pcie a100-sxm-64gb", "a100-pcie or a100"},
    {"a100-pcie-40gb a800-sxm4-40gb", "a100-40gb"},
    {"sm-86 a10 a10g a16 a2 rtx-3090 rtx-3080 rtx-a6000 rtx-a5000", "a40 or a100-pcie"},
    {"sm-89 l40 l20 rtx-4080 rtx-6000-ada", "l40s or rtx-4090"},
    {"sm-90 h800-pcie", "h100-pcie or h100"},
    {"h20-3e", "h20"},
    {"gh200-144g-hbm3e", "gh200"},
    {"sm-120 sm-121 rtx-5090 rtx-5080 rtx-pro-5000 rtx-pro-4500", "rtx-pro-6000"},
    {"sm-100", "b200 or gb200"},
    {"sm-103", "b300 or gb300"},
    {"rubin vera-rubin r100 r200", "vr200"},
    {"gfx908 gfx90a mi100 mi250", "mi250x"},
    {"gfx942 mi300a mi308x", "mi300x"},
    {"gfx950 mi350x", "mi350x"}};

}  // namespace

std::string nearest_profiles(std::string_view gpu) {
  std::string name = lower_case(gpu);
  std::ranges::replace(name, ' ', '-');
  for (const std::string_view maker : {"nvidia-", "amd-", "geforce-", "instinct-", "tesla-"})
    if (name.starts_with(maker)) name.erase(0, maker.size());
  for (const Generation& each : kGenerations) {
    const auto names = split_words(each.names);
    if (std::ranges::find(names, name) != names.end()) return std::string(each.nearest);
  }
  return "";
}

}  // namespace tracecast
