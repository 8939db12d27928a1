/// `tracecast serve`: the what-if page in a browser, on this machine.
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "tools/command_rows.hpp"
#include "tools/option_checks.hpp"

namespace tracecast::cli {
namespace {

struct ServeOptions {
  std::string host = "127.0.0.1";
  int port = 8417;
  int workers = static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 2U, 16U));
  int seconds = 0;
};

/// Replaces this process by tracecast-server, so that only the server links the HTTP library.
ExitCode serve(const ServeOptions& options) {
  std::error_code ignored;
  const std::filesystem::path program =
      std::filesystem::read_symlink("/proc/self/exe", ignored).parent_path() / "tracecast-server";
  std::fflush(stdout);
  const std::string port = std::to_string(options.port);
  const std::string workers = std::to_string(options.workers);
  const std::string seconds = std::to_string(options.seconds);
  execl(program.c_str(), program.c_str(), options.host.c_str(), port.c_str(), workers.c_str(), seconds.c_str(),
        nullptr);
  std::fputs("the page cannot be served: this build has no tracecast-server (it needs cpp-httplib)\n", stderr);
  return ExitCode::missing;
}

Run add_serve_options(CLI::App& app) {
  auto options = std::make_shared<ServeOptions>();
  app.add_option("--port", options->port, "port to listen on; 0: any free port, which is printed")
      ->check(in_range(0, 65535))
      ->capture_default_str();
  app.add_option("--host", options->host, "address to listen on; any other than the default accepts other machines")
      ->type_name("ADDRESS")
      ->capture_default_str();
  app.add_option("--workers", options->workers, "parallel forecasts")
      ->check(in_range(1, 256))
      ->default_str("cores of this machine");
  app.add_option("--seconds", options->seconds, "stop after this time; 0: at Ctrl-C")
      ->check(in_range(0, 1'000'000))
      ->capture_default_str();
  return [options](const Context&) -> Result<ExitCode> { return serve(*options); };
}

}  // namespace

const Command kServeCommand{"serve", "open a page in the browser: change a run with sliders and see the effect",
                            "serve --port 0 --seconds 1", add_serve_options};

}  // namespace tracecast::cli
