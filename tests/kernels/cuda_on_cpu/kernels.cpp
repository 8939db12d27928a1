// All kernels, compiled as C++.
#include "tests/kernels/cuda_on_cpu/cuda_on_cpu.hpp"
// Behind it, since it stands for CUDA's keywords.
#include "kernels/cuda/operators.cu"
