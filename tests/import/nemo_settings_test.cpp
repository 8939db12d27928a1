// Settings of NeMo that once were lost, taken for others or refused.
#include <string>

#include <catch2/catch.hpp>

#include "sim/import/importers.hpp"
#include "tests/import/launched.hpp"

using namespace tracecast;

TEST_CASE("launchers: NeMo's YAML describes its model, in words of its own", "[io][launch]") {
  const auto nemo = [](const std::string& words, const std::string& precision = "bf16-mixed",
                       const std::string& model = "") {
    return imported("megatron",
                    "trainer:\n  devices: 8\n  num_nodes: 2\n  precision: " + precision +
                        "\nmodel:\n  micro_batch_size: 4\n  global_batch_size: 64\n  encoder_seq_length: 512\n"
                        "  max_position_embeddings: ${.encoder_seq_length}\n  num_layers: 12\n  hidden_size: 768\n"
                        "  num_attention_heads: 12\n" +
                        words + "  data:\n    seq_length: ${model.encoder_seq_length}\n",
                    "nemo.yaml",
                    {.model = model, .topology = "dgx-h100", .gpus = 0, .overrides = {"model.vocab_size=50304"}})
        .scenario;
  };
  const Scenario plain = nemo("  activation: gelu\n  normalization: layernorm1p\n  bias: true\n");
  CHECK(plain.cluster.world_size == 16);
  CHECK(plain.training.seq_length == 512);
  CHECK(plain.training.dtype == Precision::bf16);
  CHECK(plain.model.max_position_embeddings == 512);
  CHECK(plain.model.num_layers == 12);
  CHECK(plain.model.norm == Norm::layer_norm);
  CHECK(plain.model.activation == Activation::gelu);
  CHECK(plain.model.mlp_bias);
  CHECK(plain.model.tied_embeddings);
  const Model llama = nemo(
                          "  activation: fast-swiglu\n  normalization: rmsnorm\n  bias: false\n"
                          "  share_embeddings_and_output_weights: false\n")
                          .model;
  CHECK(llama.activation == Activation::swiglu);
  CHECK(llama.norm == Norm::rms_norm);
  CHECK_FALSE(llama.mlp_bias);
  CHECK_FALSE(llama.tied_embeddings);
  CHECK(nemo("", "16").training.dtype == Precision::fp16);
  CHECK(nemo("", "32").training.dtype == Precision::fp32);
  CHECK(nemo("", "bf16", "gpt2-small").model.name == "gpt2-small");  // in place of the file's
}

TEST_CASE("launchers: the optimizers, FSDP and overlap of NeMo", "[io][launch]") {
  const auto nemo = [](const std::string& settings, const std::string& trainer = "") {
    return imported("megatron",
                    "trainer:\n  num_nodes: 1\n  devices: 8\n" + trainer + "model:\n  micro_batch_size: 1\n" + settings,
                    "nemo.yaml", job("llama-3.1-8b", 0));
  };
  const auto optimizer = [&](const std::string& name, const std::string& more = "") {
    return nemo("  optim:\n    name: " + name + "\n    betas: [0.9, 0.95]\n" + more);
  };
  CHECK(optimizer("fused_adam").scenario.parallel.zero_stage == 0);
  CHECK(optimizer("fused_adam").unmapped.empty());
  const ImportedRun divided = optimizer("distributed_fused_adam",
                                        "    overlap_grad_sync: false\n    overlap_param_sync: false\n    "
                                        "grad_sync_dtype: fp32\n");
  CHECK(divided.scenario.parallel.zero_stage == 1);
  CHECK_FALSE(divided.scenario.parallel.overlap_grad_reduce);
  CHECK_FALSE(divided.scenario.parallel.overlap_param_gather);
  CHECK(divided.scenario.training.grad_reduce_dtype == Precision::fp32);
  CHECK(divided.unmapped.empty());
  CHECK_FALSE(optimizer("adafactor").unmapped.empty());

  const std::string fsdp = "  fsdp: True\n  fsdp_grad_reduce_dtype: bf16\n  optim: {name: fused_adam}\n";
  const ImportedRun full = nemo(fsdp);
  CHECK(full.scenario.parallel.zero_stage == 3);
  CHECK(full.scenario.training.grad_reduce_dtype == Precision::bf16);
  CHECK(full.unmapped.empty());
  CHECK(nemo(fsdp + "  fsdp_sharding_strategy: grad\n").scenario.parallel.zero_stage == 2);
  CHECK(
      refusal("megatron",
              "trainer: {devices: 8}\nmodel:\n  micro_batch_size: 1\n  fsdp: true\n  fsdp_sharding_strategy: hybrid\n",
              "n.yaml", job("llama-3.1-8b", 0)) ==
      "n.yaml:5: fsdp-sharding-strategy = \"hybrid\": is not supported (allowed: full grad)");

  const std::string tensor = "  tensor_model_parallel_size: 2\n  sequence_parallel: true\n";
  CHECK(nemo(tensor + "  ub_tp_comm_overlap: true\n").scenario.parallel.tp_comm_overlap);
  const ImportedRun callback =
      nemo(tensor + "  ddp: {overlap_grad_reduce: true}\n",
           "  callbacks:\n  - _target_: nemo.lightning.pytorch.callbacks.megatron_comm_overlap."
           "MegatronCommOverlapCallback\n    tp_comm_overlap: true\n    overlap_grad_reduce: false\n    "
           "overlap_param_gather: null\n");
  CHECK(callback.scenario.parallel.tp_comm_overlap);
  CHECK_FALSE(callback.scenario.parallel.overlap_grad_reduce);
  CHECK(callback.unmapped.empty());
}

// OmegaConf, and the resolvers that NeMo registers.
TEST_CASE("launchers: NeMo's interpolations are worked out", "[io][launch]") {
  const auto nemo = [](const std::string& settings) {
    return imported("megatron",
                    "trainer:\n  num_nodes: ${oc.env:NODES,1}\n  devices: 8\nrun: {tp: 2, name: x}\nmodel:\n"
                    "  micro_batch_size: 1\n  hidden_size: 512\n  num_layers: 4\n  num_attention_heads: 8\n"
                    "  max_position_embeddings: 4096\n  vocab_size: 32000\n" +
                        settings,
                    "nemo.yaml", job("", 0));
  };
  const auto width = [&](const std::string& value) {
    return nemo("  ffn_hidden_size: " + value + "\n").scenario.model.ffn_hidden_size;
  };
  CHECK(width("${multiply:4, ${.hidden_size}}") == 2048);
  CHECK(width("${multiply:${divide:${model.hidden_size},4},8}") == 1024);
  CHECK(width("${training.model.hidden_size}") == 512);
  CHECK(width("${sum:${.hidden_size},256}") == 768);
  CHECK(nemo("  ffn_hidden_size: 8\n  tensor_model_parallel_size: ${..run.tp}\n").scenario.parallel.tp == 2);
  CHECK(assumes(nemo("  ffn_hidden_size: 8\n"), "NODES is not set outside the file: num-nodes = 1"));
  for (const char* unknown : {"${multiply:4}", "${divide:512,0}", "${multiply:${.none},2}", "${.ffn_hidden_size}"})
    CHECK(refusal("megatron",
                  "trainer: {devices: 8}\nmodel: {micro_batch_size: 1, hidden_size: 8, num_layers: 2, "
                  "num_attention_heads: 2, vocab_size: 8, ffn_hidden_size: \"" +
                      std::string(unknown) + "\"}\n",
                  "n.yaml", job("", 0))
              .find("ffn-hidden-size = \"" + std::string(unknown) + "\": is a variable") != std::string::npos);
}
