TP=1
ARGS=( --num-layers 4 --hidden-size 64 --num-attention-heads 4 --ffn-hidden-size 256
  --max-position-embeddings 64 --vocab-size 512 --swiglu --num-experts 4 --moe-layer-freq ([0]*1+[1]*3) )
torchrun --nproc_per_node 1 --nnodes 1 pretrain_gpt.py ${ARGS[@]} --tensor-model-parallel-size $TP \
  --pipeline-model-parallel-layout 'Et|(tt|)*1tL' --micro-batch-size 1 --global_batch_size=4 --bf16
