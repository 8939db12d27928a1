#include "tools/accuracy/measured_tables.hpp"

#include <fstream>

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "sim/cost/costs.hpp"
#include "sim/cost/memory_bound.hpp"
#include "sim/io/files.hpp"
#include "tests/support/results.hpp"
#include "tests/support/shipped.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tools/accuracy/collective_tables.hpp"
#include "tools/accuracy/kernel_tables.hpp"
#include "tools/accuracy/samples_report.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;

TEST_CASE("operators of a table: isolated, so without the in-training factor", "[accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const CsvTable table = CsvTable::parse(
                             "profile,op,m,n,k,precision,seq,heads,head_dim,time_us\n"
                             "h100,gemm,8192,8192,8192,bf16,,,,1400\n"
                             "h100,attention,,,,bf16,4096,32,128,500\n",
                             "k.csv")
                             .value();
  const std::vector<MeasuredSample> samples = validate_kernels(table, library).value();
  REQUIRE(samples.size() == 2);
  const Profile h100 = library.profile("h100").value();
  Operator op;
  op.kind = OperatorKind::gemm;
  op.precision = Precision::bf16;
  op.shape = GemmShape{8192, 8192, 8192, 1, false};
  CHECK(samples[0].predicted_s == Approx(seconds(Costs(h100).of(op).duration) / h100.in_training.gemm).epsilon(1e-6));
  CHECK(samples[0].error() == Approx(samples[0].predicted_s / 1400e-6 - 1));
  const std::vector<SampleErrors> errors = sample_errors(samples, false);
  REQUIRE(errors.size() == 3);
  CHECK(errors[0].group == "all");
  CHECK(errors[0].samples == 2);
  CHECK(errors[2].group == "h100 gemm bf16");
  CHECK(errors[0].factor.empty());  // of several kinds of work
  CHECK(errors[2].factor == "gemm");
  CHECK(errors[2].in_training == Approx(h100.in_training.gemm).epsilon(1e-6));
  CHECK_FALSE(errors[2].with_factor);
}

TEST_CASE("operators of a table: every kind of work, and a profile of one's own", "[accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const TemporaryFolder folder;
  Profile recorded = library.profile("h100").value();
  recorded.measured.push_back(
      {{OperatorKind::norm, Pass::backward, Precision::bf16, "", ElementwiseShape{33'554'432, Bytes{402'653'184}}},
       321e-6,
       0,
       5});
  const std::string mine = (folder.path() / "mine.json").string();
  std::ofstream(mine) << to_json(recorded);
  const std::string head = "profile,op,pass,precision,m,n,k,batch,bytes,elements,time_us\n";
  const auto validated = [&](const std::string& rows) {
    return validate_kernels(CsvTable::parse(head + rows, "k.csv").value(), library);
  };
  const std::string norm = ",norm,backward,bf16,,,,,402653184,33554432,300\n";
  const auto samples =
      value_of(validated(mine + norm + "h100" + norm + "h100,grouped_gemm,,bf16,1024,4096,4096,8,,,400\n" +
                         "h100,optimizer,,fp32,,,,,3000000000,,1500\n"));
  REQUIRE(samples.size() == 4);
  CHECK((samples)[0].predicted_s == Approx(321e-6));  // as it was recorded
  CHECK((samples)[0].group == mine + " norm backward");
  const Profile h100 = library.profile("h100").value();
  const auto fitted = [&](OperatorKind kind, Pass pass, double bytes) {
    const MemoryModel& model = *find_memory_model(h100, kind, pass);
    return model.t0 + bytes / (model.efficiency * h100.memory_bandwidth);
  };
  CHECK((samples)[1].predicted_s == Approx(fitted(OperatorKind::norm, Pass::backward, 402653184)).epsilon(1e-3));
  CHECK((samples)[2].group == "h100 grouped_gemm bf16");
  CHECK((samples)[2].predicted_s > 2 * 8 * 1024.0 * 4096 * 4096 / 989e12);
  CHECK((samples)[3].predicted_s == Approx(fitted(OperatorKind::optimizer, Pass::optimizer, 3e9)).epsilon(1e-3));
  CHECK(to_string(validated("h100,scores,,bf16,,,,,1,,1\n").error())
            .starts_with("k.csv:2: op = scores: is unknown (allowed: gemm grouped_gemm attention softmax norm"));
  CHECK(to_string(validated("h100,norm,,bf16,,,,,,,1\n").error()).starts_with("k.csv:2: bytes"));
  CHECK(to_string(validated("none.json" + norm).error()).find("none.json") != std::string::npos);
}

TEST_CASE("operators of a table: the page names its columns", "[report][accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const CsvTable table =
      CsvTable::parse("profile,op,m,n,k,precision,time_us\nh100,gemm,8192,8192,8192,bf16,1400\n", "k.csv").value();
  const std::string page = samples_page(validate_kernels(table, library).value(), false, {});
  CHECK(page.find("\n  percent                           samples   mean median   bias held out  large\n") !=
        std::string::npos);
}

TEST_CASE("aiconfigurator's GEMMs: held-out weights, quantisation in the time, vLLM's zeros apart", "[accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  std::string text = "gpu,src,dtype,m,n,k,latency_us\n";
  for (int n = 1024; n <= 16384; n += 1024) text += fmt::format("H100-SXM,trtllm-1,bfloat16,4096,{},4096,200\n", n);
  text +=
      "H100-SXM,vllm-0.24.0,bfloat16,4096,4096,4096,200\nH100-SXM,sglang-0.5,fp8,64,4096,4096,20\nL20,trtllm-1,"
      "bfloat16,8,8,8,1\n";
  const std::vector<MeasuredSample> samples = validate_kernels(CsvTable::parse(text, "g.csv").value(), library).value();
  REQUIRE(samples.size() == 19);
  int held = 0;
  for (int i = 0; i < 16; ++i) held += samples[static_cast<std::size_t>(i)].held_out ? 1 : 0;
  CHECK(held > 0);
  CHECK(held < 16);
  CHECK(samples[16].excluded == "operands of zeros");
  CHECK(samples[18].skipped == "no profile of L20");
  const Profile h100 = library.profile("h100").value();
  Profile isolated = h100;
  isolated.in_training = InTraining{};
  Operator gemm;
  gemm.precision = Precision::fp8;
  gemm.shape = GemmShape{64, 4096, 4096, 1, false};
  // And the cast of its operand, by the kernels that the library chose.
  const GemmModel& model = h100.gemm.at(Precision::fp8);
  const GemmShape shape = std::get<GemmShape>(gemm.shape);
  const double cast = quantisation_seconds(model, {0, h100.memory_bandwidth, 1}, shape, gemm_elements(Precision::fp8));
  CHECK(cast > 1e-6);
  CHECK(samples[17].predicted_s == Approx((seconds(looped_costs(isolated, "", {6, 6, 1}).of(gemm).duration) + cast) *
                                          choice_factor(model, shape)));
  CHECK_FALSE(samples[17].large);
  const std::vector<SampleErrors> errors = sample_errors(samples, false);
  REQUIRE(errors.size() == 4);
  CHECK(errors[0].samples == 17);  // without zeros and without L20
  CHECK(errors[1].held_out.samples == held);
  CHECK(errors.back().excluded == "operands of zeros");
}

TEST_CASE("aiconfigurator's GEMMs are priced in the loop that timed them", "[oracle][accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const char* text =
      "gpu,src,dtype,m,n,k,latency_us\nRTX-PRO-6000-Server,sglang-0.5,bfloat16,64,2048,2048,8\n"
      "RTX-PRO-6000-Server,trtllm-1,bfloat16,64,2048,2048,8\nRTX-PRO-6000-Server,vllm-0.2,bfloat16,64,2048,2048,8\n";
  const CsvTable table = CsvTable::parse(text, "g.csv").value();
  const std::vector<MeasuredKernel> kernels = read_kernels(table).value();
  REQUIRE(kernels.size() == 3);
  CHECK(kernels[0].loop.left == 6);
  CHECK(kernels[0].loop.right == 6);
  CHECK(kernels[1].loop.left == 1);
  CHECK(kernels[1].loop.right == 5);
  CHECK(kernels[2].loop.right == 0);
  // Six times 8 MB stay in 128 MB of L2: faster than from memory.
  const std::vector<MeasuredSample> samples = validate_kernels(table, library).value();
  CHECK(samples[0].predicted_s < 0.9 * samples[2].predicted_s);
}

TEST_CASE("attention: cuDNN's, FlashAttention's rates, and efficiencies inside training steps", "[oracle][accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const auto read = [](const char* text) { return read_kernels(CsvTable::parse(text, "a.csv").value()).value(); };
  const std::vector<MeasuredKernel> cudnn = read(
      "gpu_name,data_type,attn_mask,sliding_window_size,batch_size,q_seqlen,kv_seqlen,num_q_heads,num_kv_heads,"
      "head_dim_qk,head_dim_vo,pass,deterministic_bwd,time_ms\n"
      "NVIDIA H200,bfloat16,top_left,,2,4096,4096,64,8,128,128,bwd,False,2\n"
      "NVIDIA H200,bfloat16,no_mask,,2,4096,4096,64,8,192,128,bwd,True,2\n");
  REQUIRE(cudnn.size() == 2);
  const auto& shape = std::get<AttentionShape>(cudnn[0].op.shape);
  CHECK(shape.causal);
  CHECK(shape.kv_heads == 8);
  CHECK(cudnn[0].op.pass == Pass::backward);
  CHECK(cudnn[0].excluded.empty());
  CHECK(cudnn[1].excluded == "deterministic");
  // 4 b h s^2 d FLOPs at 400 TFLOP/s; 16 heads of 128 where none are stated.
  const std::vector<MeasuredKernel> flash = read(
      "gpu,impl,pass,batch,seqlen,heads,head_dim,causal,deterministic,tflops\n"
      "H100-class(Hopper),FA2,fwd,2,8192,0,128,False,False,400\nH100-class(Hopper),FA2,fwd,2,8192,0,128,False,True,"
      "400\n"
      "H100-class(Hopper),FA2,bwd,2,8192,0,128,False,True,300\n");
  REQUIRE(flash.size() == 3);
  CHECK(flash[1].excluded.empty());  // only the backward pass has a deterministic kernel of its own
  CHECK(flash[2].excluded == "deterministic");
  CHECK(flash[0].kernel == "fa2");
  CHECK(flash[0].seconds == Approx(4.0 * 2 * 16 * 8192 * 8192 * 128 / 400e12));
  // 2 m n k over peak x efficiency, with the factor since it was measured in training.
  const CsvTable simumax = CsvTable::parse(
                               "gpu,op,peak_tflops,efficiency,b,m,k,n,layout,accumulate\n"
                               "A100-PCIe-80GB,matmul,312,0.75,1,4096,5120,1536,NT,True\n",
                               "s.csv")
                               .value();
  const std::vector<MeasuredSample> step = validate_kernels(simumax, library).value();
  REQUIRE(step.size() == 1);
  CHECK(step[0].measured_s == Approx(2.0 * 4096 * 5120 * 1536 / (0.75 * 312e12)));
  CHECK(step[0].with_factor);
  CHECK(step[0].factor == "gemm x weight_gradient");
  CHECK(step[0].group == "a100-pcie gemm bf16 wgrad");
}

TEST_CASE("Vidur's layers are four GEMMs, norms are bytes", "[oracle][accuracy]") {
  const auto read = [](const char* text) { return read_kernels(CsvTable::parse(text, "v.csv").value()).value(); };
  const std::vector<MeasuredKernel> layer = read(
      "gpu,n_head,n_kv_head,n_embd,n_expanded_embd,use_gated_mlp,num_tokens,num_tensor_parallel_workers,"
      "attn_pre_proj_ms,attn_post_proj_ms,mlp_up_proj_ms,mlp_down_proj_ms\n"
      "h100,64,8,8192,28672,True,4096,2,1,1,1,0.001\n");
  REQUIRE(layer.size() == 3);  // the last one is below the timer's resolution
  CHECK(std::get<GemmShape>(layer[0].op.shape) == GemmShape{4096, (64 + 16) * 128 / 2, 8192, 1, false});
  CHECK(std::get<GemmShape>(layer[1].op.shape) == GemmShape{4096, 8192, 4096, 1, false});
  CHECK(std::get<GemmShape>(layer[2].op.shape) == GemmShape{4096, 28672, 8192, 1, false});
  const std::vector<MeasuredKernel> norms =
      read("gpu_name,norm_type,backend,N,C,fwd_time_ms,bwd_time_ms\nNVIDIA H200,rms_norm,cudnn,1024,4096,0.01,0.02\n");
  REQUIRE(norms.size() == 2);
  CHECK(std::get<ElementwiseShape>(norms[0].op.shape).traffic == Bytes{4 * 1024 * 4096});
  CHECK(std::get<ElementwiseShape>(norms[1].op.shape).traffic == Bytes{6 * 1024 * 4096});
}

TEST_CASE("nccl-tests' collection: known machines, unknown ones by their GPU, settings called bad apart",
          "[accuracy]") {
  const CsvTable table =
      CsvTable::parse(
          "source,system,gpu,nranks,collective,size_bytes,time_us_oop,time_us_ip,settings,recommended\n"
          "alcf,polaris,A100-SXM4-40GB,8,all_reduce,8388608,500,400,NCCL_ALGO=Ring,True\n"
          "someone,new-cluster,H100-SXM5-80GB,16,all_gather,8388608,100,,,False\n"
          "x,li-plus-playground,A100-SXM4,8,sendrecv,8388608,100,90,,True\n"
          "x,smc,H100-SXM5-80GB,8,reduce,8388608,100,90,,True\n",
          "n.csv")
          .value();
  const std::vector<CollectiveSample> samples = read_collectives(table).value();
  REQUIRE(samples.size() == 3);  // nothing is asked of reduce
  CHECK(samples[0].topology == "polaris");
  CHECK(samples[0].seconds == Approx(400e-6));
  CHECK(samples[1].topology == "dgx-h100");
  CHECK(samples[1].guessed);
  CHECK_FALSE(samples[1].excluded.empty());
  CHECK(samples[2].ranks == 2);
  CHECK(samples[0].call.algorithm == Algorithm::ring);
  CHECK(samples[2].call.algorithm == Algorithm::automatic);
  const std::vector<MeasuredSample> scored =
      validate_collectives(table, RowLibrary::open(shipped_data()).value()).value();
  CHECK(sample_errors(scored, true)[0].samples == 2);
  CHECK(scored[0].group == "polaris all_reduce");
}

TEST_CASE("collectives of a table: a group may have few GPUs of each rack", "[accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const auto scored = [&](const std::string& per_domain) {
    const std::string rows =
        "source,topology,collective,ranks,ranks_per_domain,bytes,time_us\nx,gb200-nvl72,all_reduce,24," + per_domain +
        ",17179869184,83650\n";
    return validate_collectives(CsvTable::parse(rows, "c.csv").value(), library);
  };
  CHECK(std::abs(scored("8").value().front().error()) < 0.1);      // eight NICs of each of three racks
  CHECK(scored("").value().front().predicted_s < 0.083650 / 1.5);  // inside one rack
  CHECK(scored("4").value().front().predicted_s > 1.9 * scored("8").value().front().predicted_s);
  const auto refused = scored("100");
  REQUIRE_FALSE(refused);
  CHECK(to_string(refused.error()) == "c.csv:2: ranks_per_domain = 100: is more than a scale-up domain has");
}

TEST_CASE("collectives of a table: errors are of those above 1 MiB", "[accuracy]") {
  const CsvTable table = CsvTable::parse(
                             "topology,collective,ranks,bytes,time_us\n"
                             "dgx-h100,all_reduce,8,536870912,2111\n"
                             "dgx-h100,all_reduce,8,1024,15\n",
                             "c.csv")
                             .value();
  const std::vector<MeasuredSample> samples =
      validate_collectives(table, RowLibrary::open(shipped_data()).value()).value();
  const std::vector<SampleErrors> large = sample_errors(samples, true);
  REQUIRE_FALSE(large.empty());
  CHECK(large[0].samples == 1);
  CHECK(large[0].mean < 0.15);  // 445 GB/s of bus bandwidth (docs/references.md#data-nccl-tests)
  CHECK(sample_errors(samples, false)[0].samples == 2);
}

TEST_CASE("errors in tables of measurements name line and column", "[error][accuracy]") {
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const auto kernels = [&](const char* text) {
    return to_string(validate_kernels(CsvTable::parse(text, "k.csv").value(), library).error());
  };
  CHECK(kernels("profile,op,m,n,k,time_us\nh100,gemm,0,1,1,5\n") ==
        "k.csv:2: m = 0: must be a whole number of at least 1");
  CHECK(kernels("profile,op,m,n,k,time_us\nh100,gem,1,1,1,5\n") ==
        "k.csv:2: op = gem: is unknown (allowed: gemm grouped_gemm attention softmax norm activation rope "
        "residual embedding cross_entropy optimizer cast permute copy)");
  CHECK(kernels("profile,op,m,n,k,time_us\nnone,gemm,1,1,1,5\n") == "k.csv:2: profile = none: unknown profile");
  CHECK(kernels("profile,op,seq,heads,kernel,time_us\nh100,attention,128,8,fa9,5\n") ==
        "k.csv:2: kernel = fa9: unknown attention kernel of the profile");
  CHECK(kernels("a,b\n1,2\n").starts_with("k.csv:1: unknown columns of a table of operators"));
  const CsvTable table =
      CsvTable::parse("topology,collective,ranks,bytes,time_us\ndgx-h100,all_reduce,8,0,1\n", "c.csv").value();
  CHECK(to_string(validate_collectives(table, library).error()) ==
        "c.csv:2: bytes = 0: must be a whole number of at least 1");
  const CsvTable other = CsvTable::parse("a,b\n1,2\n", "c.csv").value();
  CHECK(to_string(validate_collectives(other, library).error())
            .starts_with("c.csv:1: unknown columns of a table of collectives"));
}

TEST_CASE("a name of a GPU selects the profile of that variant, or none", "[accuracy]") {
  CHECK(profile_of_gpu("NVIDIA H200") == "h200");
  CHECK(profile_of_gpu("NVIDIA H200 NVL") == "h200-nvl");
  CHECK(profile_of_gpu("H800 PCIe") == "h800-pcie");
  CHECK(profile_of_gpu("A100-SXM4-40GB") == "a100-40gb");
  CHECK(profile_of_gpu("A100 SXM4 40GB") == "a100-40gb");
  CHECK(profile_of_gpu("A100 SXM") == "a100");
  CHECK(profile_of_gpu("A100 PCIe") == "a100-pcie");
  CHECK(profile_of_gpu("A100 PCIe 40GB") == "a100-pcie-40gb");
  const RowLibrary library = RowLibrary::open(shipped_data()).value();
  const CsvTable table =
      CsvTable::parse("profile,op,m,n,k,time_us\nh200-measured,gemm,4096,4096,4096,220\n", "k.csv").value();
  CHECK(validate_kernels(table, library).value().front().group.starts_with("h200-measured "));
}
