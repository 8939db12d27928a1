// All kernels, compiled as one file: nvcc parses the headers of CUDA and of C++ several times for each file.
#include "kernels/cuda/activation.cu"
#include "kernels/cuda/cast.cu"
#include "kernels/cuda/embedding.cu"
#include "kernels/cuda/fill.cu"
#include "kernels/cuda/norm.cu"
#include "kernels/cuda/optimizer.cu"
#include "kernels/cuda/softmax.cu"
