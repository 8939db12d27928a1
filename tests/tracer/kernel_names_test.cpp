// What the names of kernels say, with the symbols of the libraries themselves.

#include "sim/import/kernel_names.hpp"

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include <catch2/catch.hpp>

#include "sim/io/trace_reader.hpp"
#include "tests/support/paths.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tracer/trace_writer.hpp"

using namespace tracecast;

namespace {

std::vector<std::string> nccl_symbols() {
  std::ifstream file(source_dir() / "tests/data/nccl_kernels.txt");
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);)
    if (!line.starts_with('#')) names.push_back(line);
  return names;
}

/// As a trace gives the names back.
std::vector<std::string> read_back(const std::vector<std::string>& names) {
  Trace trace;
  for (const std::string& name : names) trace.kernels.push_back({name, 0, 7, 1, 1, 2, 1, 1});
  const TemporaryFolder folder;
  REQUIRE(write_trace(folder.path() / "t", trace));
  std::vector<std::string> result;
  const Trace again = read_trace(folder.path() / "t").value();
  for (const TraceKernel& kernel : again.kernels) result.push_back(kernel.name);
  return result;
}

}  // namespace

TEST_CASE("kernel names: every kernel of libnccl is a collective, mangled or not", "[tracer][recorder][names]") {
  const std::vector<std::string> mangled = nccl_symbols();
  const std::vector<std::string> plain = read_back(mangled);
  REQUIRE(mangled.size() == 79);
  std::map<std::string, int> unknown;
  for (std::size_t i = 0; i < mangled.size(); ++i) {
    CAPTURE(mangled[i], plain[i]);
    const NcclKernel kernel = nccl_kernel(mangled[i]);
    CHECK(plain[i].find("_Z") == std::string::npos);
    CHECK_FALSE(kernel.name.empty());
    CHECK(nccl_kernel(plain[i]).name == kernel.name);
    CHECK(nccl_kernel(plain[i]).algorithm == kernel.algorithm);
    CHECK(nccl_kernel(plain[i]).protocol == kernel.protocol);
    if (!kernel.collective()) ++unknown[kernel.name];
  }
  // A reduce to one rank is not a collective of the step graph; Generic may run any.
  CHECK(unknown == std::map<std::string, int>{{"Generic", 1}, {"Reduce", 9}});
}

TEST_CASE("kernel names: NCCL's name tells algorithm and protocol", "[tracer][recorder][names]") {
  const NcclKernel kernel =
      nccl_kernel("_Z40ncclDevKernel_AllReduce_Sum_bf16_RING_LL24ncclDevKernelArgsStorageILm4096EE");
  CHECK(kernel.collective() == Collective::all_reduce);
  CHECK(kernel.algorithm == "RING");
  CHECK(kernel.protocol == "LL");
  CHECK(nccl_kernel("_Z99ncclDevKernel_cut").name.empty());  // shorter than it says
  CHECK(nccl_kernel("_ZN5cudnn6fusion4ncclEv").name.empty());
  CHECK(nccl_kernel("my_nccl_like_kernel").name.empty());
}

TEST_CASE("kernel names: the kernels of cuBLASLt and cuDNN are of their kinds, mangled or not",
          "[tracer][recorder][names]") {
  std::ifstream file(source_dir() / "tests/data/cuda_kernels.txt");
  std::vector<std::string> kinds;
  std::vector<std::string> names;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    kinds.push_back(line.substr(0, line.find(' ')));
    names.push_back(line.substr(line.find(' ') + 1));
  }
  REQUIRE(names.size() > 600);
  const std::vector<std::string> plain = read_back(names);
  for (std::size_t i = 0; i < names.size(); ++i) {
    CAPTURE(names[i], plain[i]);
    CHECK(to_string(kernel_kind(names[i])) == kinds[i]);
    CHECK(kernel_kind(plain[i]) == kernel_kind(names[i]));
    CHECK(nccl_kernel(names[i]).name.empty());
  }
}

TEST_CASE("names of types tell their size, whoever writes them", "[tracer][names]") {
  for (const char* name : {"BFloat16", "c10::Half", "Float16", "ncclBfloat16"}) CHECK(type_size(name) == 2);
  for (const char* name : {"Double", "Long", "Int64"}) CHECK(type_size(name) == 8);
  for (const char* name : {"Float8_e4m3fn", "Byte", "Char", "Bool", "ncclInt8"}) CHECK(type_size(name) == 1);
  for (const char* name : {"Float", "Int", "ncclFloat32"}) CHECK(type_size(name) == 4);
  CHECK(type_size("unknown") == 0);
}

TEST_CASE("kernel names: conversions are no convolutions", "[tracer][recorder][names]") {
  const auto kinds = [](const std::string& name) {
    const std::string plain = read_back({name}).front();
    CHECK(kernel_kind(name) == kernel_kind(plain));
    return kernel_kind(plain);
  };
  CHECK(kinds("_ZN5cudnn6fusion19convert_dq_to_16bitsI13__nv_bfloat16Li128EEEvPKfPT_") == OperatorKind::attention);
  CHECK(kinds("_ZN5cudnn19engines_precompiled20convertTensor_kernelI13__nv_bfloat166__halffL21cudnnKernelDataType_t0EEE"
              "vT1_PKT_S4_PT0_m") == OperatorKind::cast);
  CHECK(kinds("sm80_xmma_fprop_implicit_gemm_bf16") == OperatorKind::gemm);
  CHECK(kinds("cudnn_convolve_sgemm") == OperatorKind::gemm);
  CHECK(kinds("_ZN8cublasLt19splitKreduce_kernelILi32ELi16EifLb0EEEvv") == OperatorKind::gemm);
  CHECK(is_split_k_part("splitKreduce_kernel<32, 16>"));
  CHECK(is_split_k_part("_ZN8cublasLt8epilogue4impl12globalKernelILi8ELi32EfffEEvv"));
  CHECK(is_split_k_part("void cublasLt::epilogue::impl::globalKernel<8, 32, float>()"));
  // Convolutions of PyTorch models have an activation in their name and are multiplications.
  CHECK(kinds("volta_scudnn_128x64_relu_interior_nn_v1") == OperatorKind::gemm);
  CHECK(kinds("_Z24memcpyWithTypeConversionI6__halffEvPT_PKT0_m") == OperatorKind::cast);
  CHECK(kinds("vectorized_elementwise_relu") == OperatorKind::activation);
}

TEST_CASE("kernel names: passes, norms of gradients, and names in unnamed namespaces", "[tracer][names]") {
  CHECK(is_backward_kernel("void pytorch_flash::flash_bwd_dq_dk_dv_loop_seqk_parallel_kernel<…>(…)") == true);
  CHECK(is_backward_kernel("void cudnn::fusion::compute_dot_do_o_specialized<true, 64>(…)") == true);
  CHECK(is_backward_kernel("cudnn_generated_fort_native_sdpa_sm90_flash_fprop_wgmma_f16_knob_7") == false);
  CHECK_FALSE(is_backward_kernel("nvjet_sm90_tst_256x128_64x4_1x2_h_bz_coopA_NTT"));
  CHECK(is_gradient_norm("multi_tensor_apply_kernel<…, FusedAdamMathFunctor<…>>") == false);
  CHECK(is_gradient_norm("multi_tensor_apply_kernel<…, LpNormFunctor<…>>") == true);
  CHECK_FALSE(is_gradient_norm("multi_tensor_apply_kernel<…, BinaryOpScalarFunctor<…>>"));
  CHECK(kernel_kind("tracecast::cuda::(anonymous namespace)::squared_norm_kernel(long)") == OperatorKind::optimizer);
  CHECK(kernel_kind("void at::native::(anonymous namespace)::GammaBetaBackwardCUDAKernelTemplate<…>(…)") ==
        OperatorKind::norm);
  CHECK(short_kernel_name("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<int>(long)") ==
        "at::native::multi_tensor_apply_kernel");
}

TEST_CASE("kernel names: FSDP2 packs with a multi-tensor copy, which is not an optimizer", "[tracer][names]") {
  CHECK(kernel_kind("void at::native::(anonymous namespace)::multi_tensor_apply_kernel<…TensorListMetadata<2>, "
                    "at::native::(anonymous namespace)::CopyFunctor<c10::BFloat16, float, 2, 1, 1>, …>(…)") ==
        OperatorKind::copy);
  CHECK(kernel_kind("_ZN2at6native12_GLOBAL__N_125multi_tensor_apply_kernelINS1_18TensorListMetadataILi2EEENS1_"
                    "11CopyFunctorIN3c108BFloat16EfLi2ELi1ELi1EEEEvv") == OperatorKind::copy);
}

TEST_CASE("kernel names: transfers of other libraries than NCCL have a collective", "[tracer][names]") {
  const auto collective = [](const char* name) {
    CHECK(nccl_kernel(name).name.empty());
    return transfer_kernel(name).collective();
  };
  CHECK(collective("void deep_ep::intranode::dispatch<8, 768, 8192>(int4*, float*)") == Collective::all_to_all);
  CHECK(collective("void deep_ep::internode_ll::combine<true, 7168>(void*)") == Collective::all_to_all);
  CHECK(collective("_ZN7deep_ep9intranode22cached_notify_dispatchILi8EEEvPKi") == Collective::all_to_all);
  CHECK(collective("void userbuffers_fp16_sum_inplace_gpu_rr_rs_oop<8>(int)") == Collective::reduce_scatter);
  CHECK(collective("void userbuffers_fp16_sum_inplace_gpu_rw_ag<8>(int)") == Collective::all_gather);
  CHECK(collective("void userbuffers_fp16_sum_inplace_gpu_rr<8>(int)") == Collective::all_reduce);
  CHECK(collective("kuserbuffers_pushsend(int, int*)") == Collective::send_recv);
  CHECK(collective("void (anonymous namespace)::multimem_all_reduce_kernel<c10::BFloat16, 16>(c10::BFloat16*)") ==
        Collective::all_reduce);
  CHECK(transfer_kernel("void deep_ep::layout::get_dispatch_layout<256>(long*)").name.empty());
  CHECK(transfer_kernel("nvjet_sm90_tst_128x256_64x4_bf16").name.empty());
  CHECK(transfer_kernel("ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgs)").algorithm == "RING");
}
