#include "tools/serve/worker_pool.hpp"

#include <cerrno>
#include <csignal>
#include <utility>

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

extern char** environ;

namespace tracecast::serve {
namespace {

bool write_all(int file, const std::string& text) {
  for (std::size_t at = 0; at < text.size();) {
    const ssize_t wrote = write(file, text.data() + at, text.size() - at);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote <= 0) return false;
    at += static_cast<std::size_t>(wrote);
  }
  return true;
}

void close_both(const int (&ends)[2]) {
  for (const int end : ends) close(end);
}

constexpr std::chrono::milliseconds kPauseBeforeRetry{200};

}  // namespace

WorkerPool::WorkerPool(std::vector<std::string> command, int count, Limits limits)
    : command_(std::move(command)), limits_(limits), broken_(static_cast<std::size_t>(count)) {
  keeper_ = std::thread([this] { replace_broken(); });
}

WorkerPool::~WorkerPool() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  broke_.notify_all();
  keeper_.join();
  for (Worker& worker : idle_) end(worker);
}

void WorkerPool::replace_broken() {
  std::unique_lock lock(mutex_);
  while (true) {
    broke_.wait(lock, [&] { return closing_ || !broken_.empty(); });
    if (closing_) break;
    Worker worker = broken_.back();
    broken_.pop_back();
    lock.unlock();
    end(worker);
    const std::optional<Worker> started = start();
    lock.lock();
    if (started) {
      idle_.push_back(*started);
      freed_.notify_all();
    } else {  // until then requests find no free worker
      broken_.emplace_back();
      broke_.wait_for(lock, kPauseBeforeRetry, [&] { return closing_; });
    }
  }
  for (Worker& worker : broken_) end(worker);
}

std::optional<WorkerPool::Worker> WorkerPool::start() const {
  int input[2];
  int output[2];
  if (pipe2(input, O_CLOEXEC) != 0) return std::nullopt;
  if (pipe2(output, O_CLOEXEC) != 0) {
    close_both(input);
    return std::nullopt;
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, input[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  sigset_t none;
  sigemptyset(&none);
  posix_spawnattr_setsigmask(&attributes, &none);
  // A separate process group: Ctrl-C in the terminal is for the server.
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETPGROUP);
  std::vector<char*> words;
  for (const std::string& word : command_) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  Worker worker{.process = -1, .to = input[1], .from = output[0]};
  const int failed = posix_spawn(&worker.process, words.front(), &actions, &attributes, words.data(), environ);
  posix_spawnattr_destroy(&attributes);
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    close_both(input);
    close_both(output);
    return std::nullopt;
  }
  close(input[0]);
  close(output[1]);
  return worker;
}

/// Does nothing to one that was not started yet, and collects one that has ended by itself.
void WorkerPool::end(Worker& worker) {
  if (worker.to < 0) return;
  close(worker.to);
  close(worker.from);
  if (worker.process < 0) return;
  kill(worker.process, SIGKILL);
  while (waitpid(worker.process, nullptr, 0) < 0 && errno == EINTR) {
  }
}

/// False if it has ended by itself, for example by a signal from outside.
bool WorkerPool::is_alive(Worker& worker) {
  if (waitpid(worker.process, nullptr, WNOHANG) == 0) return true;
  worker.process = -1;  // collected: the number may be another process's now
  return false;
}

Reply WorkerPool::talk(const Worker& worker, const std::string& line) const {
  const auto deadline = std::chrono::steady_clock::now() + limits_.answer;
  if (!write_all(worker.to, line + "\n")) return {Outcome::crashed, ""};
  Reply reply;
  char buffer[1 << 16];
  while (reply.line.empty() || reply.line.back() != '\n') {
    const auto left =
        std::chrono::duration_cast<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
    if (left.count() <= 0) return {Outcome::slow, ""};
    pollfd ready{.fd = worker.from, .events = POLLIN, .revents = 0};
    const int count = poll(&ready, 1, static_cast<int>(left.count()));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) continue;  // the deadline decides
    const ssize_t got = read(worker.from, buffer, sizeof buffer);
    if (got <= 0) return {Outcome::crashed, ""};
    reply.line.append(buffer, static_cast<std::size_t>(got));
  }
  reply.line.pop_back();
  return reply;
}

Reply WorkerPool::ask(const std::string& line) {
  std::unique_lock lock(mutex_);
  const std::uint64_t ticket = next_ticket_++;
  waiting_.push_back(ticket);
  const auto takes_one = [&] {
    while (waiting_.front() == ticket && !idle_.empty()) {
      if (is_alive(idle_.back())) return true;
      broken_.push_back(idle_.back());
      idle_.pop_back();
      broke_.notify_all();
    }
    return false;
  };
  const bool mine = freed_.wait_for(lock, limits_.queue, takes_one);
  std::erase(waiting_, ticket);
  if (!mine) {
    freed_.notify_all();  // another waiting request may be first now
    return {Outcome::busy, ""};
  }
  const Worker worker = idle_.back();
  idle_.pop_back();
  lock.unlock();
  freed_.notify_all();
  Reply reply = talk(worker, line);
  const bool good = reply.outcome == Outcome::answered;
  lock.lock();
  (good ? idle_ : broken_).push_back(worker);
  lock.unlock();
  (good ? freed_ : broke_).notify_all();
  return reply;
}

}  // namespace tracecast::serve
