#!/bin/bash
# Llama 3.1 8B on two nodes; what `tracecast import megatron` reads of such a script are its arguments.
TP=4
MODEL_ARGS=(
  --num-layers 32 --hidden-size 4096 --ffn-hidden-size 14336 --num-attention-heads 32
  --group-query-attention --num-query-groups 8 --max-position-embeddings 8192
  --swiglu --normalization RMSNorm --position-embedding-type rope --disable-bias-linear
  --untie-embeddings-and-output-weights --vocab-size 128256 --hidden-dropout 0.0
)
torchrun --nproc_per_node 8 --nnodes 2 pretrain_gpt.py "${MODEL_ARGS[@]}" \
  --tensor-model-parallel-size $TP --sequence-parallel --pipeline-model-parallel-size 1 \
  --micro-batch-size 1 --global-batch-size 64 --seq-length 8192 --bf16 --lr 3e-4 \
  --use-distributed-optimizer --overlap-grad-reduce --overlap-param-gather
