// `tracecast serve` as a client sees it: sockets by hand, so that broken requests can be sent too.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <arpa/inet.h>
#include <catch2/catch.hpp>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/tcp.h>
#include <nlohmann/json.hpp>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "sim/base/random.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paths.hpp"

#ifdef TRACECAST_SERVER

extern char** environ;

namespace tracecast {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::json;

/// `tracecast serve` on a free port; ended with the value.
class Server {
 public:
  explicit Server(const char* host = "127.0.0.1") {
    int output[2];
    REQUIRE(pipe2(output, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, output[1], STDOUT_FILENO);
    const char* words[] = {tracecast_binary(), "serve", "--port", "0", "--workers", "2", "--host", host, nullptr};
    REQUIRE(posix_spawn(&process_, tracecast_binary(), &actions, nullptr, const_cast<char**>(words), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(output[1]);
    std::string line;
    for (char c = 0; read(output[0], &c, 1) == 1 && c != '\n';) line += c;
    close(output[0]);
    const std::string address = std::string(host) + ":";
    const std::size_t at = line.find(address);
    INFO(line);
    REQUIRE(at != std::string::npos);
    port_ = std::atoi(line.c_str() + at + address.size());
  }
  ~Server() {
    kill(process_, SIGTERM);
    waitpid(process_, &status_, 0);
  }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;
  int port() const { return port_; }
  pid_t process() const { return process_; }
  bool alive() const { return kill(process_, 0) == 0 && waitpid(process_, nullptr, WNOHANG) == 0; }

 private:
  pid_t process_ = -1;
  int status_ = 0;
  int port_ = 0;
};

/// A connection that is kept; what arrives behind an answer belongs to the next.
class Client {
 public:
  explicit Client(int port) {
    socket_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{60, 0};
    setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    const int on = 1;
    setsockopt(socket_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  }
  ~Client() { close(socket_); }
  Client(const Client&) = delete;
  Client& operator=(const Client&) = delete;

  bool send(const std::string& bytes) const {
    for (std::size_t at = 0; at < bytes.size();) {
      const ssize_t sent = ::send(socket_, bytes.data() + at, bytes.size() - at, MSG_NOSIGNAL);
      if (sent <= 0) return false;
      at += static_cast<std::size_t>(sent);
    }
    return connected_;
  }

  struct Answer {
    int status = 0;  ///< 0: the connection ended first
    std::string head;
    std::string body;
  };
  Answer receive() {
    std::size_t end = 0;
    while ((end = held_.find("\r\n\r\n")) == std::string::npos)
      if (!more()) return {};
    Answer answer{std::atoi(held_.c_str() + 9), held_.substr(0, end), ""};
    std::string lower = answer.head;
    std::ranges::transform(lower, lower.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    const std::size_t length = lower.find("content-length: ");
    const std::size_t size = length == std::string::npos ? 0 : std::stoul(lower.substr(length + 16));
    while (held_.size() < end + 4 + size)
      if (!more()) return {};
    answer.body = held_.substr(end + 4, size);
    held_.erase(0, end + 4 + size);
    return answer;
  }
  Answer ask(const std::string& request) {
    if (!send(request)) return {};
    return receive();
  }

 private:
  bool more() {
    char buffer[1 << 14];
    const ssize_t got = recv(socket_, buffer, sizeof buffer, 0);
    if (got <= 0) return false;
    held_.append(buffer, static_cast<std::size_t>(got));
    return true;
  }
  int socket_ = -1;
  bool connected_ = false;
  std::string held_;
};

/// Processes below `process` that answer requests.
std::vector<pid_t> workers_of(pid_t process) {
  std::vector<pid_t> workers;
  const std::string folder = fmt::format("/proc/{}", process);
  std::ifstream words(folder + "/cmdline");
  for (std::string word; std::getline(words, word, '\0');)
    if (word == "--worker") workers.push_back(process);
  for (const auto& thread : std::filesystem::directory_iterator(folder + "/task")) {
    std::ifstream children(thread.path() / "children");
    for (pid_t child = 0; children >> child;) {
      const std::vector<pid_t> below = workers_of(child);
      workers.insert(workers.end(), below.begin(), below.end());
    }
  }
  return workers;
}

/// As browsers ask; a compressed answer would not be read.
constexpr const char* kBrowser = "\r\nAccept-Encoding: gzip, deflate, br";

std::string get(const std::string& path) {
  return "GET " + path + " HTTP/1.1\r\nHost: localhost" + kBrowser + "\r\n\r\n";
}

std::string post(const std::string& body, const std::string& type = "application/json") {
  return std::string("POST /api/forecast HTTP/1.1\r\nHost: 127.0.0.1") + kBrowser + "\r\nContent-Type: " + type +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

std::string teaching_question() { return post(R"({"what":"forecast","scenario":"pipeline-1f1b"})"); }

std::string slider_move(int batch) {
  return post(R"({"what":"forecast","moving":true,"scenario":"llama3-405b-16k","set":{"training.global_batch_size":)" +
              std::to_string(batch) + R"(},"failures":{"model":"llama3-54-days"}})");
}

/// How long answers to moves of one slider take, one after the other, milliseconds, ascending.
std::vector<double> latencies(int port, int moves) {
  Client client(port);
  std::vector<double> all;
  for (int i = 0; i < moves; ++i) {
    const Clock::time_point begin = Clock::now();
    const Client::Answer answer = client.ask(slider_move(2048 + 128 * (i % 17)));
    all.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
    REQUIRE(answer.status == 200);
    REQUIRE(json::parse(answer.body)["ok"] == true);
  }
  std::ranges::sort(all);
  return all;
}

struct Load {
  std::atomic<int> asked{0};
  std::atomic<int> answered{0};
};

/// `clients` at once for `seconds`; each asks at least once, and again as soon as it has its answer.
void press(int port, int clients, double seconds, const std::string& question, Load& load) {
  const Clock::time_point end =
      Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c)
    threads.emplace_back([&] {
      Client client(port);
      do {
        ++load.asked;
        const Client::Answer answer = client.ask(question);
        if (answer.status == 200 && answer.body.starts_with("{\"ok\":true")) ++load.answered;
      } while (Clock::now() < end);
    });
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

TEST_CASE("server: a second one on the same port is refused", "[serve][error]") {
  const Server server;
  const std::string command =
      fmt::format("'{}' serve --port {} --seconds 5 >/dev/null 2>&1", tracecast_binary(), server.port());
  const int status = std::system(command.c_str());
  REQUIRE(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 2);
  CHECK(server.alive());
}

TEST_CASE("serve: hands out its page and answers, and nothing else", "[serve][e2e]") {
  const Server server;
  Client client(server.port());
  const Client::Answer page = client.ask(get("/"));
  CHECK(page.status == 200);
  CHECK(page.body.find("<title>Tracecast: what if</title>") != std::string::npos);
  const Client::Answer schedules = client.ask(get("/schedule"));
  CHECK(schedules.status == 200);
  CHECK(schedules.body.find("<title>Pipeline schedule</title>") != std::string::npos);
  CHECK(page.head.find("Content-Security-Policy: default-src 'none'") != std::string::npos);
  CHECK(json::parse(client.ask(get("/api/catalog")).body)["ok"] == true);
  CHECK(json::parse(client.ask(slider_move(2048)).body)["result"]["ranks"] == 16384);
  for (const char* path : {"/etc/passwd", "/../../../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/api", "/index.html",
                           "/api/forecast"}) {
    INFO(path);
    CHECK(client.ask(get(path)).status == 404);
  }
}

TEST_CASE("serve: refuses with a sentence what it does not take", "[serve][e2e]") {
  const Server server;
  const auto refused = [&](const std::string& request) {
    Client client(server.port());
    const Client::Answer answer = client.ask(request);
    INFO(request.substr(0, 200));
    if (answer.status != 0) {
      const json said = json::parse(answer.body, nullptr, false);
      CHECK((said.is_object() && said["ok"] == false && !said["errors"].empty()));
    }
    return answer.status;
  };
  CHECK(refused("GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n") == 403);
  CHECK(refused("GET / HTTP/1.1\r\n\r\n") == 403);
  CHECK(refused("DELETE / HTTP/1.1\r\nHost: localhost\r\n\r\n") == 405);
  CHECK(refused(post("{}", "text/plain")) == 415);
  CHECK(refused("POST /api/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
                "Transfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n") == 411);
  CHECK(refused(post(std::string(70'000, ' '))) == 413);
  CHECK(refused(post("{}")) == 200);  // answered: what is missing
  CHECK(refused("nonsense\r\n\r\n") == 400);
}

TEST_CASE("serve: on all addresses the Host header must still be an address or this machine", "[serve][e2e]") {
  const Server server("0.0.0.0");
  const auto status = [&](const std::string& host) {
    return Client(server.port()).ask("GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n").status;
  };
  CHECK(status("127.0.0.1") == 200);
  CHECK(status("192.0.2.1:8417") == 200);
  CHECK(status("[2001:db8::1]:8417") == 200);
  CHECK(status("evil.example") == 403);
  CHECK(status("127.0.0.1.evil.example") == 403);
}

TEST_CASE("serve: broken, endless and silent clients do not disturb the others", "[serve][e2e]") {
  const Server server;
  RandomStream random(7, 0, 0);
  std::vector<std::unique_ptr<Client>> silent;  // connected, half a request, nothing more
  for (int i = 0; i < 20; ++i) {
    silent.push_back(std::make_unique<Client>(server.port()));
    silent.back()->send("POST /api/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Le");
  }
  for (int i = 0; i < 200; ++i) {
    std::string request = slider_move(2048);
    for (int change = 0; change < 4; ++change)
      request[random.below(request.size())] = static_cast<char>(random.below(256));
    request.resize(1 + random.below(request.size()));
    Client client(server.port());
    client.send(request);  // and gone
  }
  Client endless(server.port());
  endless.send("GET /" + std::string(200'000, 'a'));
  Client client(server.port());
  CHECK(client.ask(slider_move(2048)).status == 200);
  CHECK(server.alive());
}

TEST_CASE("serve: listens on the loopback address and on no other", "[serve][e2e]") {
  const Server server;
  // Lines of /proc/net/tcp: number, local address:port in hexadecimal (the address as the machine stores it), remote, state.
  const std::string port = fmt::format(":{:04X}", server.port());
  std::vector<std::string> listening;
  for (const char* table : {"/proc/net/tcp", "/proc/net/tcp6"}) {
    std::ifstream lines(table);
    std::string number, local, remote, state, rest;
    while (lines >> number >> local >> remote >> state && std::getline(lines, rest))
      if (local.ends_with(port) && state == "0A") listening.push_back(local);
  }
  CHECK(listening == std::vector<std::string>{fmt::format("{:08X}{}", htonl(INADDR_LOOPBACK), port)});
}

TEST_CASE("serve: a client that says nothing is left", "[serve][e2e]") {
  const Server server;
  const Clock::time_point begin = Clock::now();
  Client silent(server.port());
  Client half(server.port());
  half.send(
      "POST /api/forecast HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 9\r\n\r\n{");
  CHECK(silent.receive().status == 0);                     // the connection was closed
  CHECK(half.receive().status != 200);                     // closed, or refused
  CHECK(Clock::now() - begin < std::chrono::seconds(40));  // a client's own patience is a minute
}

TEST_CASE("serve: clients that connect at once wait, and none is reset", "[serve][e2e]") {
  const int clients = GENERATE(50, 200);
  const Server server;
  Load load;
  press(server.port(), clients, 0, teaching_question(), load);
  CHECK(load.asked == clients);
  CHECK(load.answered == load.asked);
}

// What happens to one that ends is in worker_pool_test.cpp.
TEST_CASE("serve: a worker has at most 4 GiB", "[serve][e2e]") {
  if (test::kSanitized) return;  // sets no limit: shadow memory is larger
  const Server server;
  REQUIRE(Client(server.port()).ask(teaching_question()).status == 200);
  const std::vector<pid_t> workers = workers_of(server.process());
  REQUIRE(workers.size() == 2);
  for (const pid_t worker : workers) {
    rlimit memory{};
    REQUIRE(prlimit(worker, RLIMIT_AS, nullptr, &memory) == 0);
    CHECK(memory.rlim_cur == rlim_t{4} << 30);
    CHECK(memory.rlim_max == rlim_t{4} << 30);
  }
}

TEST_CASE("serve, alone on the machine: 95 % of slider moves within 150 ms", "[.latency]") {
  const Server server;
  latencies(server.port(), 4);
  const std::vector<double> all = latencies(server.port(), 400);
  WARN("median " << all[200] << " ms, 95th percentile " << all[380] << " ms, slowest " << all.back() << " ms");
  CHECK(all[380] < 150);
}

TEST_CASE("serve, for a minute: fifty clients at once lose nothing", "[.load]") {
  const Server server;
  Load load;
  press(server.port(), 50, 60, slider_move(2048), load);
  WARN(load.asked << " requests in a minute, " << load.asked - load.answered << " lost");
  CHECK(load.answered == load.asked);
  CHECK(server.alive());
}

}  // namespace tracecast

#else

TEST_CASE("serve: skipped", "[serve][e2e]") {
  WARN("skipped: this build has no tracecast-server, since cpp-httplib is missing");
}

#endif
