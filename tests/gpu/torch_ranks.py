"""A PyTorch program for tools/gpu-checks: two ranks of NCCL on one GPU, which NCCL takes for two hosts (NCCL_HOSTID).

  torch_ranks.py run            starts both ranks (what `tracecast record` records): every kind of collective, then training steps
                                of DistributedDataParallel. Data go through sockets, so times mean nothing; calls, sizes and
                                groups do
  torch_ranks.py compare TRACE TRACE
                                Markdown: what the program asked for beside what was recorded of each rank; exit code 1 if they
                                differ
"""

import gzip
import json
import os
import subprocess
import sys

RANKS = 2
MIB = 1 << 20
STEPS = 6
WIDTHS = {"Int8": 1, "Uint8": 1, "Float16": 2, "Bfloat16": 2, "Int32": 4, "Float32": 4, "Int64": 8, "Float64": 8}


def expected(rank):
    """Calls of a rank by (function, bytes of the larger buffer), without those of the training steps."""
    calls = {
        ("AllReduce", 2 * MIB): 3,
        ("AllGather", 4 * MIB): 3,
        ("ReduceScatter", 8 * MIB): 3,
        ("Broadcast", 16 * MIB): 3,
        ("AllToAll", 32 * MIB): 3,
    }
    calls["Recv" if rank else "Send", MIB] = 3
    return calls


def collectives(rank):
    import torch
    import torch.distributed as dist

    def buffer(bytes):
        return torch.ones(bytes // 2, device="cuda", dtype=torch.bfloat16)

    for _ in range(3):
        dist.all_reduce(buffer(2 * MIB))
        dist.all_gather_into_tensor(buffer(4 * MIB), buffer(4 * MIB // RANKS))
        dist.reduce_scatter_tensor(buffer(8 * MIB // RANKS), buffer(8 * MIB))
        dist.broadcast(buffer(16 * MIB), 0)
        dist.all_to_all_single(buffer(32 * MIB), buffer(32 * MIB))
        if rank == 0:
            dist.send(buffer(MIB), 1)
        else:
            dist.recv(buffer(MIB), 0)
    torch.cuda.synchronize()


def training(rank):
    import torch

    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, dropout=0.0, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).cuda().bfloat16()
    model = torch.nn.parallel.DistributedDataParallel(model, bucket_cap_mb=4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    x = torch.randn(4, 512, 512, device="cuda", dtype=torch.bfloat16)
    for _ in range(STEPS):
        model(x).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    torch.cuda.synchronize()


def one_rank():
    import torch
    import torch.distributed as dist

    rank = int(os.environ["RANK"])
    torch.cuda.set_device(0)
    dist.init_process_group("nccl", device_id=torch.device("cuda", 0))
    collectives(rank)
    training(rank)
    dist.destroy_process_group()


def run():
    ranks = []
    for rank in range(RANKS):
        environment = dict(os.environ, RANK=str(rank), LOCAL_RANK="0", WORLD_SIZE=str(RANKS), MASTER_ADDR="127.0.0.1",
                           MASTER_PORT="29511", NCCL_HOSTID=f"host-{rank}", NCCL_SOCKET_IFNAME="lo", NCCL_IB_DISABLE="1")
        ranks.append(subprocess.Popen([sys.executable, __file__, "rank"], env=environment))
    sys.exit(max(abs(rank.wait()) for rank in ranks))


def recorded(path):
    strings, calls, kernels, communicators = {}, {}, 0, set()
    with (gzip.open if path.endswith(".gz") else open)(path, "rt", encoding="utf-8") as file:
        header = json.loads(next(file))
        for line in file:
            record = json.loads(line)
            if record[0] == "string":
                strings[record[1]] = record[2]
            elif record[0] == "kernel" and "nccl" in strings[record[1]]:
                kernels += 1
            elif record[0] == "collective":
                name, kind, communicator, ranks, count = strings[record[1]], strings[record[2]], record[5], record[7], record[9]
                communicators.add((communicator, ranks))
                key = name, count * WIDTHS[kind.replace("nccl", "")]
                calls[key] = calls.get(key, 0) + 1
    return header, calls, kernels, communicators


def compare(paths):
    good = True
    ranks = set()
    print("Two ranks on one GPU (`tests/gpu/torch_ranks.py`), which NCCL takes for two hosts:\n")
    print("| rank | call | bytes | asked for | recorded |")
    print("| --- | --- | ---: | ---: | ---: |")
    lines = []
    for path in paths:
        header, calls, kernels, communicators = recorded(path)
        rank = header["rank"]
        ranks.add(rank)
        for (name, bytes), count in sorted(expected(rank).items()):
            found = calls.pop((name, bytes), 0)
            good = good and found == count
            print(f"| {rank} | {name} | {bytes} | {count} | {found} |")
        rest = ", ".join(f"{count} {name} of {bytes} bytes" for (name, bytes), count in sorted(calls.items()))
        lines.append(f"Rank {rank}: NCCL {header['nccl'] or 'told by a record'}, {kernels} kernels of NCCL, "
                     f"{len(communicators)} communicators; also recorded: {rest}.")
    print("\n" + "\n".join(lines) + "\n")
    return 0 if good and ranks == set(range(RANKS)) else 1


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "run":
        run()
    elif what == "rank":
        one_rank()
    elif what == "compare" and len(sys.argv) == 2 + RANKS:
        sys.exit(compare(sys.argv[2:]))
    else:
        sys.exit(__doc__)
