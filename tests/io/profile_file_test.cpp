#include <algorithm>
#include <fstream>

#include <catch2/catch.hpp>

#include "sim/io/files.hpp"
#include "sim/io/json_document.hpp"
#include "tests/support/files.hpp"
#include "tests/support/json_schema.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/results.hpp"
#include "tests/support/temporary_folder.hpp"

using namespace tracecast;
using namespace tracecast::literals;

namespace {

const std::filesystem::path kSchema = source_dir() / "docs/schema/profile.schema.json";

/// A profile with every group filled, no two numbers equal.
Profile full_profile() {
  Profile profile;
  profile.name = "full";
  profile.gpu = "A GPU";
  profile.kind = "recorded";
  profile.source = "this test";
  profile.architecture = "Hopper";
  profile.sms = 132;
  profile.peak_flops = {{Precision::bf16, 989.4e12}, {Precision::nvfp4, 1e16 / 3}};
  profile.memory_bandwidth = 3350e9;
  profile.gemm_extra_waves = 1.5;
  profile.host_bandwidth = 15750e6;
  profile.memory = 79_GiB;
  GemmModel gemm{1e-6,
                 0.11,
                 0.12,
                 13,
                 0.14,
                 1.5e-6,
                 0.16,
                 1.7,
                 0.18,
                 1.19,
                 1.20,
                 2.1e11,
                 0.22,
                 2.3,
                 2.4e-7,
                 1.25,
                 false,
                 {{64, 32, 16, 2, 2.7e-8}, {0, 48, 24, 4, 2.8e-8}},
                 1.27,
                 {2.5e7, 2.6, 1.28, 2.9e-6, 0.29, std::vector<int>(180, -30)},
                 {"gemms", 24, 0.25}};
  profile.gemm = {{Precision::bf16, gemm}};
  gemm.t0 = 2e-6;
  profile.grouped_gemm = gemm;
  profile.attention = {{"fa3", 64, false, 3e-6, 0.31, 32, 0.33, 34, {"attention", 35, 0.36}, 3.7e11, 0.038}};
  profile.memory_bound[{OperatorKind::norm, Pass::backward}] = {4e-6, 0.41, {"norms", 42, 0.43}};
  profile.in_training = {1.5, 1.51, 1.515, 1.52, 1.525, 1.53, 1.54, 1.55, 1.56, 1.57, 1, {"runs", 58, 0.59}};
  profile.host = {6e-6, 2.3e-6, 6.4e-6, 6.1e-6, 1.63, 6.2e-3, 6.3e-7, {"traces", 64, 0.65}};
  profile.measured = {
      {{OperatorKind::gemm, Pass::wgrad, Precision::bf16, "fc1", GemmShape{70, 71, 72, 73, true}}, 7.4e-3, 0.75, 76},
      {{OperatorKind::attention, Pass::backward, Precision::fp16, "core",
        AttentionShape{77, 78, 79, 80, 81, 82, 83, false, 84}},
       8.5e-3,
       0.86,
       87},
      {{OperatorKind::norm, Pass::forward, Precision::bf16, "norm", ElementwiseShape{88, 89_B}}, 9.0e-3, 0.91, 92}};
  profile.measured_collectives = {{Collective::all_gather, 93, 94_B, 9.5e-3, 0.96, 97}};
  profile.overlap = false;
  return profile;
}

std::filesystem::path write(const TemporaryFolder& folder, const std::string& text) {
  const std::filesystem::path path = folder.path() / "full.json";
  std::ofstream(path) << text;
  return path;
}

/// The message of a file whose `from` was replaced by `to`.
std::string complaint(const std::string& from, const std::string& to) {
  const TemporaryFolder folder;
  std::string text = to_json(full_profile());
  const std::size_t at = text.find(from);
  REQUIRE(at != std::string::npos);
  text.replace(at, from.size(), to);
  const Result<Profile> read = read_profile(write(folder, text));
  REQUIRE_FALSE(read);
  Error error = read.error();
  for (Diagnostic& diagnostic : error.diagnostics)
    diagnostic.file = std::filesystem::path(diagnostic.file).filename().string();
  return to_string(error);
}

}  // namespace

TEST_CASE("profile file: what is written is read back equal", "[io][property]") {
  const TemporaryFolder folder;
  const Profile read = value_of(read_profile(write(folder, to_json(full_profile()))));
  CHECK(read == full_profile());
  CHECK(to_json(read) == to_json(full_profile()));
}

TEST_CASE("profile file: the schema has every key that is written, and no others", "[io][schema]") {
  CHECK(schema_violations(kSchema, to_json(full_profile())) == std::vector<std::string>{});
  std::vector<std::string> written{"$schema"};
  const Result<JsonDocument> document = parse_json(to_json(full_profile()), "full.json");
  REQUIRE(document);
  for (const auto& [key, value] : document->root.members) written.push_back(key);
  std::sort(written.begin(), written.end());
  CHECK(schema_properties(kSchema, "") == written);
}

TEST_CASE("profile file: each error has its own message", "[io][error]") {
  CHECK(complaint("\"sms\": 132", "\"sm\": 132") ==
        "full.json:1: sms: is missing\nfull.json:6: sm: unknown key (did you mean 'sms'?)");
  CHECK(complaint("\"sms\": 132", "\"sms\": 0") == "full.json:6: sms = 0: is not positive");
  CHECK(complaint("\"kind\": \"recorded\"", "\"kind\": \"guessed\"") ==
        "full.json:3: kind = \"guessed\": is unknown (allowed: fitted recorded specification)");
  CHECK(complaint("\"3350 GB/s\"", "\"3350 GB\"") ==
        "full.json:11: memory_bandwidth = \"3350 GB\": has the unknown unit 'GB' (allowed: B/s kB/s MB/s GB/s TB/s "
        "MiB/s GiB/s TiB/s b/s kb/s Mb/s Gb/s Tb/s)");
  CHECK(complaint("\"wave_weight\": 0.18", "\"wave_weight\": 1.8") ==
        "full.json:25: gemm.bf16.wave_weight = 1.8: is not between 0 and 1");
  CHECK(complaint("\"bf16\": {", "\"bf61\": {") == "full.json:16: gemm.bf61: unknown key (did you mean 'bf16'?)");
  CHECK(complaint("\"kind\": \"norm\"", "\"kind\": \"nrom\"").find("memory_bound[0].kind = \"nrom\": ") !=
        std::string::npos);
  CHECK(complaint("\"seconds\": 0.0074", "\"seconds\": -1").find("measured[0].seconds = -1: is not positive") !=
        std::string::npos);
  CHECK(complaint("\"up_to_rows\": 0,", "\"up_to_rows\": 128,") ==
        "full.json:15: gemm = {1 key}: has no tile for any number of rows (the last one without up_to_rows)");
  CHECK(complaint("-30,", "") == "full.json:15: gemm = {1 key}: has choices at 179 nodes (allowed: none or 180)");
  CHECK(complaint("\"together\": 2", "\"together\": 0").find("gemm.bf16.tiles[0].together = 0: is not positive") !=
        std::string::npos);
  CHECK(complaint("\"m\": 70,", "").find("measured[0].shape.m: is missing") != std::string::npos);
}

TEST_CASE("profile file: numbers in other units and shares that no GPU has are refused, as are unknown architectures",
          "[io][error]") {
  const auto refused = [](const std::string& from, const std::string& to, const std::string& message) {
    CHECK(complaint(from, to).find(message) != std::string::npos);
  };
  refused("\"architecture\": \"Hopper\"", "\"architecture\": \"hopper\"",
          "architecture = \"hopper\": is unknown (allowed: Volta ");
  refused("\"efficiency\": 0.11", "\"efficiency\": 1.2",
          "gemm.bf16.efficiency = 1.2: is out of range (allowed: above 0, to 1.1)");
  refused("\"memory_efficiency\": 0.12", "\"memory_efficiency\": 12",
          "gemm.bf16.memory_efficiency = 12: is out of range");
  refused("\"forward_efficiency\": 0.31", "\"forward_efficiency\": 31",
          "attention[0].forward_efficiency = 31: is out of range");
  refused("\"efficiency\": 0.41", "\"efficiency\": 41", "memory_bound[0].efficiency = 41: is out of range");
  refused("\"memory\": 1.57", "\"memory\": 1e-6", "in_training.memory = 1e-6: is out of range (allowed: 0.1 to 10)");
  refused("\"launch_s\": 6e-06", "\"launch_s\": 6", "host.launch_s = 6: is out of range (allowed: 0 to 1)");
  const std::string peak = "(allowed: 1000000 to 1e+18)";
  refused("\"bf16\": 989400000000000.0", "\"bf16\": 989", "peak_flops_per_s.bf16 = 989: is out of range " + peak);
  refused("\"bf16\": 989400000000000.0", "\"bf16\": 1e25", "peak_flops_per_s.bf16 = 1e25: is out of range " + peak);
}

TEST_CASE("profile file: the shipped profiles parse and round-trip", "[io]") {
  const std::filesystem::path folder = source_dir() / "kernels/profiles";
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() != ".json") continue;
    ++files;
    INFO(entry.path());
    const Profile profile = value_of(read_profile(entry.path()));
    const std::string text = content_of(entry.path());
    CHECK(to_json(profile) == text);
    CHECK(profile.name == entry.path().stem());
    CHECK(schema_violations(kSchema, text).empty());
  }
  CHECK(files >= 2);
}
