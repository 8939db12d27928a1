#include "sim/import/nccl_tests_programs.hpp"

#include <cctype>

#include <fmt/format.h>

namespace tracecast {
namespace {

constexpr NcclTestsProgram kPrograms[] = {{"all_reduce_perf", "AllReduce", Collective::all_reduce},
                                          {"all_gather_perf", "AllGather", Collective::all_gather},
                                          {"reduce_scatter_perf", "ReduceScatter", Collective::reduce_scatter},
                                          {"alltoall_perf", "AlltoAll", Collective::all_to_all},
                                          {"broadcast_perf", "Broadcast", Collective::broadcast},
                                          {"sendrecv_perf", "SendRecv", Collective::send_recv},
                                          {"reduce_perf", "Reduce", std::nullopt},
                                          {"gather_perf", "Gather", std::nullopt},
                                          {"scatter_perf", "Scatter", std::nullopt},
                                          {"hypercube_perf", "HyperCube", std::nullopt},
                                          {"alltoallv_perf", "AlltoAllv", std::nullopt}};

}  // namespace

const NcclTestsProgram* nccl_tests_program(std::string_view text) {
  const auto is_word = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; };
  const auto stands_in = [&](std::string_view name, bool may_go_on) {
    for (std::size_t at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
      const std::size_t end = at + name.size();
      if ((at == 0 || !is_word(text[at - 1])) && (may_go_on || end == text.size() || !is_word(text[end]))) return true;
    }
    return false;
  };
  for (const NcclTestsProgram& each : kPrograms)  // all_reduce_perf_mpi is all_reduce_perf
    if (stands_in(each.program, true) || stands_in(each.title, false)) return &each;
  return nullptr;
}

std::string note_of_groups(int groups) {
  return fmt::format(
      "{} groups of ranks ran at the same time; the table is of the first, and its times include what the others sent",
      groups);
}

}  // namespace tracecast
