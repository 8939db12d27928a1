/// The process group of a search under mpirun. Loaded by tools/process_group.cpp.
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>

#include "sim/search/shared_rounds.hpp"

namespace tracecast {
namespace {

/// MPI aborts the whole job if a call fails (MPI_ERRORS_ARE_FATAL is the default), so return codes are not checked.
class MpiProcessGroup final : public ProcessGroup {
 public:
  MpiProcessGroup() {
    MPI_Init(nullptr, nullptr);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiProcessGroup() override { MPI_Finalize(); }
  MpiProcessGroup(const MpiProcessGroup&) = delete;
  MpiProcessGroup& operator=(const MpiProcessGroup&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  std::string broadcast(std::string text) override {
    int length = static_cast<int>(text.size());
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    text.resize(static_cast<std::size_t>(length));
    MPI_Bcast(text.data(), length, MPI_BYTE, 0, MPI_COMM_WORLD);
    return text;
  }

  std::vector<std::string> gather(const std::string& text) override {
    const int own = static_cast<int>(text.size());
    std::vector<int> lengths(static_cast<std::size_t>(size_));
    MPI_Gather(&own, 1, MPI_INT, lengths.data(), 1, MPI_INT, 0, MPI_COMM_WORLD);
    std::vector<int> offsets;
    int total = 0;
    for (const int length : lengths) {
      offsets.push_back(total);
      total += length;
    }
    std::string all(static_cast<std::size_t>(total), '\0');
    MPI_Gatherv(text.data(), own, MPI_BYTE, all.data(), lengths.data(), offsets.data(), MPI_BYTE, 0, MPI_COMM_WORLD);
    std::vector<std::string> parts;
    for (std::size_t i = 0; rank_ == 0 && i < lengths.size(); ++i)
      parts.push_back(all.substr(static_cast<std::size_t>(offsets[i]), static_cast<std::size_t>(lengths[i])));
    return parts;
  }

 private:
  int rank_ = 0;
  int size_ = 1;
};

}  // namespace
}  // namespace tracecast

/// The caller owns it.
extern "C" tracecast::ProcessGroup* tracecast_mpi_process_group() {
  return std::make_unique<tracecast::MpiProcessGroup>().release();
}
