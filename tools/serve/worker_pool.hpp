/// \file
/// Processes that answer what-if requests. A request that takes too long, uses too much memory or crashes ends only its
/// worker process, not the server; the pool starts a new one.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <sys/types.h>

namespace tracecast::serve {

enum class Outcome {
  answered,
  busy,     ///< no worker was free in time, or none could be started
  slow,     ///< the worker took longer than the limit and was ended
  crashed,  ///< the worker ended by itself
};

struct Reply {
  Outcome outcome = Outcome::answered;
  std::string line;
};

struct Limits {
  std::chrono::milliseconds answer{10'000};
  std::chrono::milliseconds queue{30'000};  ///< limit of the wait for a free worker
};

class WorkerPool {
 public:
  /// Starts `count` processes of `command`, which reads one request per line and writes one answer per line.
  WorkerPool(std::vector<std::string> command, int count, Limits limits);
  ~WorkerPool();
  WorkerPool(const WorkerPool&) = delete;
  WorkerPool& operator=(const WorkerPool&) = delete;

  /// Thread-safe. Requires a line without line breaks.
  Reply ask(const std::string& line);

 private:
  struct Worker {
    pid_t process = -1;
    int to = -1;    ///< its standard input
    int from = -1;  ///< its standard output
  };
  /// nullopt: the system has no files, memory or processes for it now.
  std::optional<Worker> start() const;
  static void end(Worker& worker);
  static bool is_alive(Worker& worker);
  void replace_broken();
  Reply talk(const Worker& worker, const std::string& line) const;

  const std::vector<std::string> command_;
  const Limits limits_;
  std::mutex mutex_;
  std::condition_variable freed_;
  std::condition_variable broke_;
  std::vector<Worker> idle_;
  std::vector<Worker> broken_;  ///< to be ended and replaced
  bool closing_ = false;
  std::deque<std::uint64_t> waiting_;  ///< tickets in order of arrival: first come, first served
  std::uint64_t next_ticket_ = 0;
  /// Starts all workers: Linux can end them with their parent (PR_SET_PDEATHSIG), but by that it means the thread that started
  /// them, and a thread that answers a request may end while other workers are busy.
  std::thread keeper_;
};

}  // namespace tracecast::serve
