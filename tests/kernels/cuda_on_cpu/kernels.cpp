// All kernels, compiled as C++.
#include "tests/kernels/cuda_on_cpu/cuda_on_cpu.hpp"
// Included last: the header above replaces CUDA's keywords and launches.
#include "kernels/cuda/operators.cu"
