#include "tools/accuracy/rows/row_scenario.hpp"

#include <catch2/catch.hpp>
#include <fmt/format.h>

#include "tests/accuracy/rows/one_row.hpp"
#include "tools/accuracy/rows/row_machine.hpp"

using namespace tracecast;
using namespace tracecast::accuracy;
using tracecast::test::assumes;
using tracecast::test::row;

TEST_CASE("row: what is reported is used", "[accuracy]") {
  const RowScenario r = row(",framework,tp,pp,vp,micro_batch,precision,recompute,schedule,seq_parallel,zero_stage,id",
                            ",NeMo,2,4,2,2,fp8,full,interleaved_1f1b,1,1,mine")
                            .value();
  const Scenario& s = r.scenario;
  CHECK(s.name == "mine");
  CHECK(r.stack == "megatron-core");
  CHECK(s.model.num_layers == 32);
  CHECK(s.model.gated());
  CHECK(s.parallel.tp == 2);
  CHECK(s.parallel.vpp == 2);
  CHECK(s.parallel.pp_schedule == "interleaved-1f1b");
  CHECK(s.parallel.sequence_parallel);
  CHECK(s.parallel.zero_stage == 1);
  CHECK(s.training.micro_batch_size == 2);
  CHECK(s.training.dtype == Precision::fp8);
  CHECK(s.training.grad_reduce_dtype == Precision::bf16);  // the stack's
  CHECK(s.training.recompute == Recompute::full);
  CHECK(s.training.low_precision_activations == std::vector<std::string>{"linear_inputs"});  // the stack's, in 8 bit
  CHECK(row(",framework,precision", ",NeMo,bf16").value().scenario.training.low_precision_activations.empty());
  CHECK(s.topology == "dgx-h100");
  CHECK(s.profile.name == "h100");
  CHECK_FALSE(r.guessed_layout);
  CHECK_FALSE(r.guess_recompute);
}

TEST_CASE("row: ZeRO-2 of PyTorch's FSDP is SHARD_GRAD_OP, of other frameworks Megatron's", "[accuracy]") {
  const auto parallel = [](const char* framework) {
    return row(",framework,zero_stage", fmt::format(",{},2", framework)).value().scenario.parallel;
  };
  const Parallel fsdp = parallel("Composer/FSDP");
  CHECK(fsdp.zero_stage == 3);
  CHECK_FALSE(fsdp.reshard_after_forward);
  const Parallel megatron = parallel("Megatron-LM");
  CHECK(megatron.zero_stage == 2);
  CHECK(megatron.reshard_after_forward);
}

TEST_CASE("row: what is not reported is filled in and listed", "[accuracy]") {
  const RowScenario r = row("", "").value();
  CHECK(r.stack.empty());
  CHECK(r.scenario.training.micro_batch_size == 1);
  CHECK(r.guessed_layout);
  CHECK(r.guess_recompute);
  CHECK(assumes(r, "micro-batch not reported"));
  CHECK(assumes(r, "unknown software stack"));
  CHECK(assumes(r, "network between nodes not reported: dgx-h100"));
  CHECK(row(",num_microbatches", ",4").value().scenario.training.micro_batch_size == 2);  // 128 / (4 x 16)
}

TEST_CASE("row: layers that do not divide", "[accuracy]") {
  const auto cut = [](const char* layers_pp, const char* split) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,gated_mlp,pp,pipeline_split\n" +
        std::string(layers_pp) + "," + split + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
        .value()
        .scenario.parallel;
  };
  CHECK(cut("30,1024,16,1024,64,A100,8,0,8", "even").account_for_loss);
  CHECK(cut("22,1024,16,1024,64,A100,8,0,8", "first_and_last_stage_one_layer_less").account_for_embedding);
  CHECK(cut("32,1024,16,1024,64,A100,8,0,8", "even") == [] {
    Parallel p{.pp = 8};
    p.pp_layout.clear();
    return p;
  }());
  const RowScenario even = test::row(",pp,pipeline_split", ",4,embedding_and_head_count_as_layers").value();
  CHECK(assumes(even, "embedding and loss do not divide as layers: 8 on each virtual stage"));
  CHECK_FALSE(assumes(even, "stages of"));
  CHECK(cut("27,1024,16,1024,64,A100,8,0,8", "uneven").pp_layout == std::vector<int>{3, 4, 4, 4, 3, 3, 3, 3});
}

TEST_CASE("row: boards without NVLink", "[accuracy]") {
  const auto read = [](const std::string& gpu, const std::string& link) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu_count,gpu,intra_node_link\n"
        "32,4096,32,4096,64,8," +
        gpu + "," + link + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value()).value();
  };
  for (const auto& [gpu, profile] :
       {std::pair{"V100 PCIe", "v100"}, std::pair{"V100-PCIE-16GB", "v100-16gb"}, std::pair{"H200 NVL", "h200-nvl"},
        std::pair{"H100 NVL", "h100-nvl"}, std::pair{"H100 PCIe 94GB", "h100-nvl"}, std::pair{"Tesla V100", "v100"}}) {
    CAPTURE(gpu);
    const Scenario s = read(gpu, gpu == std::string("Tesla V100") ? "PCIe" : "").scenario;
    CHECK(s.cluster.node.link == IntraLink::pcie);
    CHECK(s.profile.name == profile);
  }
  CHECK(read("V100", "").scenario.cluster.node.link != IntraLink::pcie);
  CHECK(assumes(read("B200", "PCIe Gen5"), "no board of B200 is known, so its GPUs are connected as in dgx-b200"));
  CHECK_FALSE(assumes(read("L40S", "PCIe"), "no board of"));
  CHECK(assumes(read("V100", "PCIe"), "boards with PCIe: at the rates of V100 SXM2 32 GB"));
  CHECK_FALSE(assumes(read("A100", "PCIe"), "boards with PCIe"));
}

TEST_CASE("row: V100 has neither FlashAttention nor bf16", "[accuracy]") {
  const auto read = [](const std::string& columns, const std::string& values) {
    const std::string text = "layers,hidden,heads,seq_len,global_batch_seqs,gpu_count,gpu,framework" + columns +
                             "\n32,4096,32,2048,64,8,V100," + values + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value()).value();
  };
  const RowScenario plain = read("", "DeepSpeed");
  CHECK_FALSE(plain.scenario.training.flash_attention);
  CHECK(assumes(plain, "V100: attention is not fused"));
  CHECK(assumes(plain, "bf16: V100 has no such tensor cores"));
  CHECK(read(",flash_attention", "DeepSpeed,1").scenario.training.flash_attention);
  CHECK(read("", "PyTorch FSDP").scenario.training.flash_attention);  // its memory-efficient kernel
  CHECK_FALSE(assumes(read(",precision", "Megatron-LM,fp16"), "V100"));
}

TEST_CASE("row: fabrics by GPU, memory and words", "[accuracy]") {
  const auto machine = [](const std::string& gpu, const std::string& more) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu_count,gpu,gpu_mem_gb,inter_node_link,framework\n"
        "32,4096,32,4096,64,8," +
        gpu + "," + more + "\n";
    const Scenario s =
        scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
            .value()
            .scenario;
    return s.topology + " " + s.profile.name;
  };
  CHECK(machine("A100", "80,4x Omni-Path 100Gb/s,") == "jean-zay a100");
  CHECK(machine("A100", "40,1600Gb/s RoCE per node,Composer/FSDP") == "hgx-a100-8x200g a100-40gb");
  CHECK(machine("A100", "40,not printed,") == "dgx-a100 a100-40gb");
  CHECK(machine("H100", "96,RDMA 400Gb/s per GPU,torchtitan") == "grand-teton h100-96gb-500w");
  CHECK(machine("GB200", "186,,NeMo") == "gb200-nvl72 gb200");
}

TEST_CASE("row: what cannot be forecast says why, with line and column", "[error][accuracy]") {
  const auto message = [](const std::string& columns, const std::string& values) {
    return to_string(row(columns, values).error());
  };
  CHECK(message(",tp", ",3") == "t.csv:2: gpu_count = 16: is not a multiple of tp x pp x cp = 3");
  CHECK(message(",precision", ",int3") ==
        "t.csv:2: precision = int3: unknown precision (allowed: fp32 fp16 bf16 fp8 fp8_block mxfp8 nvfp4)");
  CHECK(message(",micro_batch", ",many") == "t.csv:2: micro_batch = many: must be a number of at least 0");
  const CsvTable table = CsvTable::parse("layers,hidden\n4,\n", "t.csv").value();
  CHECK(to_string(scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).error()) ==
        "t.csv:2: hidden: is not reported");
}

TEST_CASE("row: machines that lack something say what", "[error][accuracy]") {
  const auto message = [](const std::string& gpu_and_count, const std::string& more) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,intra_node_link,inter_node_link\n32,4096,32,4096,"
        "64," +
        gpu_and_count + "," + more + "\n";
    const auto read =
        scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value());
    return read ? fmt::format("{} {:.1f}", read->scenario.topology,
                              static_cast<double>(read->scenario.cluster.node.pcie.bytes_per_second) * 1e-9)
                : to_string(read.error());
  };
  CHECK(message("H100,", ",") == "t.csv:2: gpu_count: is not reported");
  CHECK(message("abacus,8", ",") == "t.csv:2: gpu = abacus: unknown GPU (allowed: " + known_gpus() + ")");
  CHECK(message("A100,16", "PCIe Gen4,") == "t.csv:2: inter_node_link: must say how nodes of 8 GPUs are connected");
  CHECK(message("A100,16", "PCIe Gen4,2x HDR") == "rtx-pro-6000-pcie 26.5");  // its board is of Gen4
  CHECK(message("RTX PRO 6000,8", ",") == "rtx-pro-6000-pcie 53.0");
}

TEST_CASE("row: a node as reported, and listed", "[accuracy]") {
  const RowScenario r =
      row(",gpus_per_node,inter_node_link,framework", ",4,4x NDR200 per node,NVIDIA NeMo (25.02)").value();
  CHECK(r.scenario.cluster.node.gpus == 4);
  CHECK(r.scenario.cluster.node.nics == 4);
  CHECK(r.scenario.cluster.nodes() == 4);
  CHECK(assumes(r, "nodes of 4 GPUs and 4 NICs of 200 Gb/s"));
  CHECK(r.stack == "nemo-2025");
}

TEST_CASE("row: GPUs per node by the number of nodes", "[accuracy]") {
  const auto gpus = [](const std::string& columns, const std::string& values) {
    const RowScenario r = row(columns, values).value();  // 16 H100
    return std::to_string(r.scenario.cluster.node.gpus) + (assumes(r, "of gpu_count and nodes") ? " said" : "");
  };
  CHECK(gpus(",nodes", ",4") == "4 said");
  CHECK(gpus(",nodes", ",16") == "1 said");
  CHECK(gpus(",nodes", ",2") == "8 said");
  CHECK(gpus(",nodes", ",3") == "8");
  CHECK(gpus(",nodes,gpus_per_node", ",4,8") == "8");
  const std::string rack = "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,nodes\n4,1024,16,1024,512,";
  const CsvTable table = CsvTable::parse(rack + "GB200,64,16\n", "t.csv").value();
  const RowScenario r = scenario_of_row(table, 0, RowLibrary::open(shipped_data()).value()).value();
  CHECK(r.scenario.cluster.node.gpus == 72);
  CHECK_FALSE(assumes(r, "of gpu_count and nodes"));
}

TEST_CASE("row: words between nodes without a rate are said", "[accuracy]") {
  for (const char* words : {"Ethernet", "8x InfiniBand", "LUMI"})
    CHECK(assumes(row(",inter_node_link", fmt::format(",{}", words)).value(),
                  fmt::format("no rate read in '{}': the network of dgx-h100", words)));
  CHECK_FALSE(assumes(row(",inter_node_link", ",8x NDR").value(), "no rate read"));
}

TEST_CASE("row: a batch that is not reported is what its micro-batches make", "[accuracy]") {
  const std::string text =
      "layers,hidden,heads,seq_len,gpu,gpu_count,tp,micro_batch,num_microbatches,precision\n32,4096,32,4096,H100,16,2,"
      "2,5,BF16\n";
  const RowScenario r =
      scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value()).value();
  CHECK(r.scenario.training.global_batch_size == 2 * 5 * 8);
  CHECK(r.scenario.training.dtype == Precision::bf16);
}

TEST_CASE("row: jobs leave the trays of a rack idle that do not divide them", "[accuracy]") {
  const auto gpus_of_rack = [](const char* gpu, const char* count) {
    const std::string text = "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count\n4,1024,16,1024,512," +
                             std::string(gpu) + "," + count + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
        .value()
        .scenario.cluster.node.gpus;
  };
  CHECK(gpus_of_rack("GB200", "256") == 64);
  CHECK(gpus_of_rack("GB200", "144") == 72);
  CHECK(gpus_of_rack("GB200", "8") == 72);     // less than one
  CHECK(gpus_of_rack("GB200", "1006") == 72);  // nothing divides: as the rack is
  CHECK(gpus_of_rack("H100", "12") == 8);
}

TEST_CASE("row: GPT-like models have the dropout of their stack, others none", "[accuracy]") {
  CHECK(row(",framework,gated_mlp", ",Megatron-LM (2021),0").value().scenario.model.dropout == 0.1);
  CHECK(row(",framework,gated_mlp", ",Megatron-LM (2021),1").value().scenario.model.dropout == 0);
  CHECK(row(",framework,gated_mlp", ",NeMo,0").value().scenario.model.dropout == 0);
}

TEST_CASE("row: a pipeline of which only the depth is reported is interleaved where the stack overlaps messages",
          "[accuracy]") {
  const RowScenario core = row(",framework,pp,micro_batch", ",NeMo,4,1").value();
  CHECK(core.scenario.parallel.pp_schedule == "interleaved-1f1b");
  CHECK(core.scenario.parallel.vpp == 8);  // 32 layers, one each
  CHECK(core.guessed_layout);
  CHECK(row(",framework,pp", ",Megatron-LM (2021),4").value().scenario.parallel.pp_schedule !=
        "interleaved-1f1b");  // nothing overlaps
  CHECK(row(",framework,pp,vp", ",NeMo,4,1").value().scenario.parallel.pp_schedule != "interleaved-1f1b");  // reported
}

TEST_CASE("row: a vocabulary that is not reported is the stack's, else the general one", "[accuracy]") {
  const auto vocabulary = [](const char* source) {
    const std::string text =
        "layers,hidden,heads,seq_len,global_batch_seqs,gpu,gpu_count,framework,source\n"
        "4,1024,16,1024,64,A100,8,Megatron-LM fork," +
        std::string(source) + "\n";
    return scenario_of_row(CsvTable::parse(text, "t.csv").value(), 0, RowLibrary::open(shipped_data()).value())
        .value()
        .scenario.model.vocab_size;
  };
  CHECK(vocabulary("Zero Bubble ICLR24") == 32000);
  CHECK(vocabulary("somebody") == 51200);
}

TEST_CASE("row: scales by row, of fp8", "[accuracy]") {
  const auto by_row = [](const char* values) {
    return row(",precision,precision_detail", values).value().scenario.training.row_scales;
  };
  CHECK(by_row(",fp8,rowwise"));
  CHECK_FALSE(by_row(",fp8,tensorwise"));
  CHECK_FALSE(by_row(",bf16,rowwise"));
}

TEST_CASE("row: a release in the framework's name is the age of its libraries", "[oracle][accuracy]") {
  const auto gemm = [](const char* framework) {
    return row(",framework", std::string(",") + framework).value().scenario.profile.in_training.gemm;
  };
  const double newer = gemm("NeMo 24.07"), older = gemm("NeMo 24.03");
  CHECK(older / newer == Approx(std::exp(kFasterPerYear / 3)));  // four months
  CHECK(gemm("NeMo 24.13") == gemm("NeMo"));                     // no month: the stack's own
}

TEST_CASE("row: families of models whose tables print sizes only", "[accuracy]") {
  const auto model = [](const char* name, const char* gated) {
    return row(",model_name,gated_mlp,moe_experts,moe_topk,moe_ffn_hidden",
               fmt::format(",{},{},{}", name, gated, std::string(name).starts_with("GPT-OSS") ? "8,2,1024" : ",,"))
        .value()
        .scenario.model;
  };
  const Model nemotron = model("Nemotron-4-15B", "0"), mpt = model("MPT-1B", "0"), oss = model("GPT-OSS-120B", "1");
  CHECK(nemotron.position == Position::rope);
  CHECK(nemotron.activation == Activation::relu);
  CHECK_FALSE((nemotron.qkv_bias || nemotron.attention_output_bias || nemotron.mlp_bias));
  CHECK(mpt.position == Position::learned);
  CHECK((mpt.qkv_bias && mpt.attention_output_bias && mpt.mlp_bias && mpt.norm_bias));
  CHECK(oss.sliding_window == 128);
  CHECK(oss.global_layer_interval == 2);
  CHECK((oss.attention_sinks && oss.qkv_bias && oss.moe->expert_bias));
}

TEST_CASE("row: offloaded layers, layers that are recomputed, orders of ranks, and other words", "[accuracy]") {
  const auto training = [](const char* columns, const char* values) {
    return row(columns, values).value().scenario.training;
  };
  CHECK(training(",cpu_offload_layers", ",20").offload_activations);
  CHECK(training(",cpu_offload_layers", ",20").offload_layers == 20);
  CHECK(training(",notes", ",activation offload").offload_layers == 0);
  CHECK(training(",notes", ",activation offload").offload_activations);
  CHECK_FALSE(training(",notes", ",nothing").offload_activations);
  const auto partial = [](const char* values) {
    const Training t = row(",recompute,recompute_detail,pp", values).value().scenario.training;
    return t.recompute == Recompute::full ? t.recompute_num_layers : 0;
  };
  CHECK(partial(",partial_layers,full on 5 layers of each stage,2") == 5);
  CHECK(partial(",partial_layers,full on 21 of 32 layers,1") == 21);
  CHECK(partial(",partial_layers,full on 21 of 32 layers,2") == 11);  // spread evenly
  CHECK(partial(",partial_layers,some,1") == 0);
  CHECK(partial(",partial_layers,full on 99999999999999999999 layers,1") == 100'000);
  CHECK(training(",recompute,recompute_detail", ",selective_other,core_attn norm").recompute == Recompute::selective);
  CHECK(training(",recompute,recompute_detail", ",selective_other,norm").recompute == Recompute::none);
  CHECK_FALSE(
      assumes(row(",recompute,recompute_detail", ",selective_other,core_attn").value(), "left out of the time"));
  // A stack repeats norms, unless the row says what is repeated.
  CHECK(training(",framework,recompute", ",InternEvo,none").recompute_modules == std::vector<std::string>{"norm"});
  CHECK(training(",framework,recompute", ",InternEvo,full").recompute_modules.empty());
  CHECK(training(",framework,recompute,recompute_detail", ",InternEvo,selective_other,norm act").recompute_modules ==
        std::vector<std::string>{"norm", "activation"});
  CHECK(training(",precision,precision_detail", ",fp8,fp8 all-gather").fp8_param_gather);
  CHECK_FALSE(training(",precision,precision_detail", ",fp8,tensorwise").fp8_param_gather);
  const auto parallel = [](const char* note) {
    return row(",notes", std::string(",") + note).value().scenario.parallel;
  };
  CHECK(parallel("ranks in the order tp-cp-pp-dp").rank_order == "tp-cp-ep-pp-dp");
  CHECK(parallel("").rank_order == Parallel{}.rank_order);
  CHECK(parallel("torch DDP").data_parallel == DataParallelKind::ddp);
  CHECK(parallel("").data_parallel == DataParallelKind::automatic);
  const auto schedule = [](const char* word) {
    return row(",schedule,pp", fmt::format(",{},2", word)).value().scenario.parallel.pp_schedule;
  };
  CHECK(schedule("zb_1p") == "zb-auto-1p");
  CHECK(schedule("zb_2p") == "zb-auto-2p");
}
