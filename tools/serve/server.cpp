/// tracecast-server: the program behind `tracecast serve`. It is separate, so that tracecast does not link an HTTP
/// library.
///
///   tracecast-server HOST PORT WORKERS SECONDS    serves; port 0: any; seconds 0: until a signal
///   tracecast-server --worker                     answers one request per line (tools/what_if.hpp)
///
/// It serves two pages and two API paths. It never serves files of the machine.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "sim/base/sanitized.hpp"
#include "sim/forecast/schedule_runs.hpp"
#include "sim/report/page_sources.hpp"
#include "sim/report/schedule_view.hpp"
#include "tools/build_info.hpp"
#include "tools/environment.hpp"
#include "tools/freed_memory.hpp"
#include "tools/serve/worker_pool.hpp"
#include "tools/what_if.hpp"

namespace tracecast::serve {
namespace {

constexpr std::size_t kMaxRequestBytes = std::size_t{64} << 10;
constexpr std::size_t kConnections = 128;  ///< concurrent ones; each has a thread
constexpr int kWaitingClients = 4096;      ///< that are not accepted yet; the system may allow fewer
constexpr int kClientTimeout = 5;          ///< seconds for a client to send, take or ask again
constexpr const char* kJson = "application/json";
constexpr rlim_t kWorkerMemory = rlim_t{4} << 30;

/// Limits the memory of a worker, so that a large request ends only its worker.
void limit_memory() {
#ifndef TRACECAST_SANITIZED  // the sanitizers' shadow memory is larger
  const rlimit memory{kWorkerMemory, kWorkerMemory};
  setrlimit(RLIMIT_AS, &memory);
#endif
}

/// Changes to a folder that is already removed, so that no name in a request matches a file of the current folder.
bool enter_removed_folder() {
  std::string folder = (std::filesystem::temp_directory_path() / "tracecast-XXXXXX").string();
  return mkdtemp(folder.data()) != nullptr && chdir(folder.c_str()) == 0 && rmdir(folder.c_str()) == 0;
}

/// The answer without the absolute path of the shipped data.
std::string without_path(std::string answer, const std::filesystem::path& shipped) {
  const std::string path = shipped.parent_path().string() + "/";
  for (std::size_t at = 0; (at = answer.find(path, at)) != std::string::npos;) answer.erase(at, path.size());
  return answer;
}

/// For the next request: asking the system for memory again takes a sixth of the time of an answer.
constexpr KeptMemory kKept{.largest_block = 256 << 20, .most = 512 << 20, .step = 64 << 20};

int work() {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  limit_memory();
  keep_freed_memory(kKept);
  const Result<DataPaths> data = cli::data_paths();
  if (!data) {
    std::fputs((to_string(data.error()) + "\n").c_str(), stderr);
    return 2;
  }
  if (!enter_removed_folder()) return 2;
  cli::RecentSteps recent;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << without_path(cli::answer_what_if(line, *data, recent), data->scenarios) << "\n" << std::flush;
  }
  return 0;
}

std::string error_json(const std::string& sentence) {
  return nlohmann::json{{"ok", false}, {"errors", {sentence}}}.dump();
}

/// The content as it is. httplib compresses what set_content() gets, with brotli at its slowest: of an answer to this machine
/// that takes longer than all else.
void set_plain_content(httplib::Response& response, std::string content, const char* type) {
  const auto shared = std::make_shared<const std::string>(std::move(content));
  response.set_content_provider(shared->size(), type,
                                [shared](std::size_t offset, std::size_t length, httplib::DataSink& sink) {
                                  return sink.write(shared->data() + offset, length);
                                });
}

void respond_error(httplib::Response& response, int status, const std::string& sentence) {
  response.status = status;
  set_plain_content(response, error_json(sentence), kJson);
}

bool is_address(std::string host) {
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  in6_addr unused;
  return inet_pton(AF_INET, host.c_str(), &unused) == 1 || inet_pton(AF_INET6, host.c_str(), &unused) == 1;
}

bool is_this_machine(const std::string& host) {
  char name[256] = {};
  return gethostname(name, sizeof name - 1) == 0 && (host == name || host.starts_with(name + std::string(".")));
}

/// DNS-rebinding check: the Host header must name this server. If it listens on all addresses, by any of them or by the name of
/// the machine.
bool own_name(const std::string& host_and_port, const std::string& own) {
  const std::size_t bracket = host_and_port.find(']');
  const std::size_t colon = host_and_port.rfind(':');
  const bool has_port = colon != std::string::npos && (bracket == std::string::npos || colon > bracket);
  const std::string host = has_port ? host_and_port.substr(0, colon) : host_and_port;
  if (host == own || host == "localhost" || host == "127.0.0.1" || host == "[::1]") return true;
  return (own == "0.0.0.0" || own == "[::]") && (is_address(host) || is_this_machine(host));
}

/// Rejects requests by their header, before the body is read. True: rejected.
bool reject(const httplib::Request& request, httplib::Response& response, const std::string& own) {
  response.set_header("X-Content-Type-Options", "nosniff");
  response.set_header("Cache-Control", "no-store");
  response.set_header("Content-Security-Policy",
                      "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; connect-src 'self'; "
                      "base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  if (!own_name(request.get_header_value("Host"), own)) {
    respond_error(response, 403, "the Host header must name this server");
    return true;
  }
  if (request.method == "GET" || request.method == "HEAD") return false;
  if (request.method != "POST") {
    respond_error(response, 405, fmt::format("{}: unknown method (allowed: GET POST)", request.method));
    return true;
  }
  if (request.get_header_value("Content-Type").rfind(kJson, 0) != 0 || request.has_header("Content-Encoding")) {
    respond_error(response, 415, "Content-Type: must be application/json, without an encoding");
    return true;
  }
  if (!request.has_header("Content-Length") || request.has_header("Transfer-Encoding")) {
    respond_error(response, 411, "Content-Length: is missing");
    return true;
  }
  return false;
}

void give(httplib::Response& response, const Reply& reply) {
  switch (reply.outcome) {
    case Outcome::answered:
      set_plain_content(response, reply.line, kJson);
      return;
    case Outcome::busy:
      return respond_error(response, 503, "too many requests are waiting; try again");
    case Outcome::slow:
      return respond_error(response, 503, "the request takes too long for a page; use the command line");
    case Outcome::crashed:
      return respond_error(response, 500, "the simulator crashed or ran out of memory");
  }
}

void explain(const httplib::Request& request, httplib::Response& response) {
  if (response.has_header("Content-Type")) return;
  switch (response.status) {
    case 404:
      return respond_error(response, 404, fmt::format("{}: not found", request.path.substr(0, 200)));
    case 413:
      return respond_error(response, 413, fmt::format("the request is larger than {} bytes", kMaxRequestBytes));
    default:
      return respond_error(response, response.status, "the request is malformed");
  }
}

/// The page of schedules with its sliders and exercises.
std::string default_schedule_page() {
  std::vector<ScheduleView> views;
  for (const char* name : {"1f1b", "zb-h1"}) {
    ScheduleView view;
    view.schedule = *make_schedule(name, {.ranks = 4, .microbatches = 8});
    view.run = *run_schedule(view.schedule, uniform_times(view.schedule, {}));
    view.forward = view.backward_input = view.backward_weight = {1};
    views.push_back(std::move(view));
  }
  return schedule_page(views, {"tracecast schedule --schedule 1f1b --stages 4 --microbatches 8 --compare zb-h1",
                               "tracecast " + cli::version()});
}

void route(httplib::Server& server, WorkerPool& pool, const std::string& host) {
  server.set_payload_max_length(kMaxRequestBytes);
  server.set_read_timeout(kClientTimeout);
  server.set_write_timeout(kClientTimeout);
  server.set_keep_alive_timeout(kClientTimeout);
  server.set_keep_alive_max_count(10'000);
  server.set_tcp_nodelay(true);
  server.new_task_queue = [] { return new httplib::ThreadPool(kConnections); };
  server.set_pre_routing_handler([host](const httplib::Request& request, httplib::Response& response) {
    return reject(request, response, host) ? httplib::Server::HandlerResponse::Handled
                                           : httplib::Server::HandlerResponse::Unhandled;
  });
  server.set_error_handler(
      [](const httplib::Request& request, httplib::Response& response) { explain(request, response); });
  server.Get("/", [](const httplib::Request&, httplib::Response& response) {
    set_plain_content(response, std::string(kServePage), "text/html; charset=utf-8");
  });
  server.Get("/schedule", [page = default_schedule_page()](const httplib::Request&, httplib::Response& response) {
    set_plain_content(response, page, "text/html; charset=utf-8");
  });
  server.Get("/api/catalog", [&pool](const httplib::Request&, httplib::Response& response) {
    give(response, pool.ask(R"({"what":"catalog"})"));
  });
  server.Post("/api/forecast", [&pool](const httplib::Request& request, httplib::Response& response) {
    std::string line = request.body;
    std::ranges::replace_if(
        line, [](char c) { return c == '\n' || c == '\r'; }, ' ');
    give(response, pool.ask(line));
  });
}

/// Stops the server on SIGINT, SIGTERM or at the end of its time limit. The signals are blocked in all threads.
/// `ended`: it does not listen any more.
void stop_when_told(httplib::Server& server, const sigset_t& signals, int seconds, const std::atomic<bool>& ended) {
  const timespec step{seconds > 0 ? seconds : 3600, 0};
  while (sigtimedwait(&signals, nullptr, &step) < 0) {
    if (errno == EAGAIN && seconds > 0) break;
  }
  // A server that does not run yet ignores stop().
  while (!ended && !server.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  server.stop();
}

int serve(const std::string& host, int port, int workers, int seconds) {
  sigset_t signals;
  sigemptyset(&signals);
  for (const int each : {SIGINT, SIGTERM, SIGHUP}) sigaddset(&signals, each);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  WorkerPool pool({std::filesystem::read_symlink("/proc/self/exe").string(), "--worker"}, workers, {});
  httplib::Server server;
  int listening = -1;
  // Without SO_REUSEPORT, by which a second server would get a share of the requests.
  server.set_socket_options([&listening](socket_t socket) {
    listening = socket;
    const int yes = 1;
    setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  });
  route(server, pool, host.find(':') == std::string::npos ? host : "[" + host + "]");
  const int bound = port == 0 ? server.bind_to_any_port(host) : server.bind_to_port(host, port) ? port : -1;
  if (bound < 0) {
    std::fputs(fmt::format("{}:{}: cannot listen (is the port in use?)\n", host, port).c_str(), stderr);
    return 2;
  }
  // The library lets 5 clients wait to be accepted; of more that come at once, the kernel resets some.
  listen(listening, kWaitingClients);
  fmt::print("The page is at http://{}:{}/   (Ctrl-C ends it)\n",
             host.find(':') == std::string::npos ? host : "[" + host + "]", bound);
  std::fflush(stdout);
  std::atomic<bool> ended = false;
  std::thread watcher([&] { stop_when_told(server, signals, seconds, ended); });
  const bool listened = server.listen_after_bind();
  ended = true;
  if (!listened) kill(getpid(), SIGTERM);
  watcher.join();
  return listened ? 0 : 2;
}

}  // namespace
}  // namespace tracecast::serve

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "--worker") return tracecast::serve::work();
  if (argc != 5) {
    std::fputs("tracecast-server is started by `tracecast serve`\n", stderr);
    return 2;
  }
  return tracecast::serve::serve(argv[1], std::atoi(argv[2]), std::atoi(argv[3]), std::atoi(argv[4]));
}
