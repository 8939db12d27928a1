"""Kernels of a training step beside a stand-in for a collective (transfer.cu) on one GPU, for tools/gpu-checks.

  torch_contention.py run LIBRARY        prints lines of JSON: each operator beside thread blocks that copy, or only hold their SMs;
                                         what the copies reach beside it; how long a short transfer waits for the kernels before it
  torch_contention.py rows               Markdown tables of such lines on standard input
  torch_contention.py csv                the operators of such lines as tests/data/h200_contention.csv has them

LIBRARY is transfer.cu as a shared library. Operators are PyTorch's: cuBLAS, FlashAttention 2, cuDNN, element-wise kernels, AdamW.
"""

import json
import re
import statistics
import sys
import time

BLOCKS = (4, 8, 16, 24, 32)
REPEATS = 3
SECONDS = 0.025  # of an operator's launches in one repeat
PER_BLOCK = 32 << 20  # bytes, far more than the L2 cache with the fewest blocks
SHORT_NS = 100_000
WAITS = 12


class Transfer:
    """The stand-in on a stream of its own, and what it has moved."""

    def __init__(self, torch, library):
        import ctypes

        self.torch = torch
        self.start_transfer = ctypes.CDLL(library).start_transfer
        self.start_transfer.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64,
                                        ctypes.c_double, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_void_p]
        self.to, self.source = (torch.randint(256, (max(BLOCKS) * PER_BLOCK,), dtype=torch.uint8, device="cuda") for _ in range(2))
        self.flag = torch.zeros(1, dtype=torch.int32, device="cuda")
        self.flags = [torch.full((1,), value, dtype=torch.int32).pin_memory() for value in (0, 1)]
        self.moved = torch.zeros(max(BLOCKS), dtype=torch.int64, device="cuda")
        self.control = torch.cuda.Stream()  # copy engines, no kernels
        self.streams = {"normal": torch.cuda.Stream(), "high": torch.cuda.Stream(priority=-1)}

    def set_flag(self, value):
        with self.torch.cuda.stream(self.control):
            self.flag.copy_(self.flags[value], non_blocking=True)
        self.control.synchronize()

    def launch(self, blocks, rate, duration_ns=0, priority="normal"):
        """rate: bytes per second of all blocks; 0: none, -1: without a limit"""
        status = self.start_transfer(self.streams[priority].cuda_stream, blocks, self.to.data_ptr(), self.source.data_ptr(), PER_BLOCK,
                                     rate / blocks if rate > 0 else rate, duration_ns, self.flag.data_ptr(), self.moved.data_ptr())
        if status != 0:
            sys.exit(f"the transfer could not be launched: CUDA error {status}")

    def begin(self, blocks, rate):
        self.moved.zero_()
        self.set_flag(0)
        self.torch.cuda.synchronize()
        self.launch(blocks, rate)
        time.sleep(0.002)

    def end(self):
        self.set_flag(1)
        self.torch.cuda.synchronize()

    def snapshot(self, into):
        """The bytes moved so far, in order with the work of the current stream, by a copy engine."""
        into.copy_(self.moved, non_blocking=True)


def operators(torch):
    """name: (what limits it, a launch)"""
    from torch.nn import functional
    from torch.nn.attention import SDPBackend, sdpa_kernel

    def random(*shape):
        return torch.randn(*shape, device="cuda", dtype=torch.bfloat16)

    def gemm(m, n, k):
        a, b, out = random(m, k), random(n, k), random(m, n)
        return "compute", lambda: torch.mm(a, b.t(), out=out)

    def weight_gradient(m, n, k):
        a, b, out = random(k, m), random(k, n), random(m, n)
        return "compute", lambda: torch.mm(a.t(), b, out=out)

    def gemm_fp8(m, n, k):
        a, b = (random(*shape).to(torch.float8_e4m3fn) for shape in ((m, k), (n, k)))
        scale = torch.ones((), device="cuda")
        return "compute", lambda: torch._scaled_mm(a, b.t(), scale_a=scale, scale_b=scale, out_dtype=torch.bfloat16, use_fast_accum=True)

    def attention(backend, backward):
        q, k, v = (random(1, 32, 8192, 128).requires_grad_(backward) for _ in range(3))

        def forward():
            with sdpa_kernel(backend):
                return functional.scaled_dot_product_attention(q, k, v, is_causal=True)

        if not backward:
            return "compute", forward
        y = forward()
        gradient = torch.randn_like(y)
        return "compute", lambda: torch.autograd.grad(y, (q, k, v), gradient, retain_graph=True)

    def add():
        x, y, out = random(16384, 8192), random(16384, 8192), random(16384, 8192)
        return "memory", lambda: torch.add(x, y, out=out)

    def norm():
        x, weight = random(16384, 8192), random(8192)
        return "memory", lambda: functional.rms_norm(x, (8192,), weight)

    def adamw():
        parameters = [torch.nn.Parameter(random(8192, 8192)) for _ in range(4)]
        for parameter in parameters:
            parameter.grad = torch.randn_like(parameter)
        optimizer = torch.optim.AdamW(parameters, lr=1e-5, fused=True)
        return "memory", optimizer.step

    makers = {
        "GEMM 8192 x 8192 x 8192": lambda: gemm(8192, 8192, 8192),
        "GEMM 8192 x 14336 x 4096": lambda: gemm(8192, 14336, 4096),
        "GEMM 8192 x 4096 x 14336": lambda: gemm(8192, 4096, 14336),
        "GEMM 8192 x 2304 x 16384": lambda: gemm(8192, 2304, 16384),
        "GEMM 4096 x 4096 x 4096": lambda: gemm(4096, 4096, 4096),
        "GEMM 2048 x 2048 x 4096": lambda: gemm(2048, 2048, 4096),
        "weight gradient 14336 x 4096 x 8192": lambda: weight_gradient(14336, 4096, 8192),
        "fp8 GEMM 8192 x 14336 x 4096": lambda: gemm_fp8(8192, 14336, 4096),
        "FlashAttention 2, forward": lambda: attention(SDPBackend.FLASH_ATTENTION, False),
        "FlashAttention 2, backward": lambda: attention(SDPBackend.FLASH_ATTENTION, True),
        "cuDNN attention, forward": lambda: attention(SDPBackend.CUDNN_ATTENTION, False),
        "cuDNN attention, backward": lambda: attention(SDPBackend.CUDNN_ATTENTION, True),
        "sum of two, 16384 x 8192": add,
        "RMSNorm, 16384 x 8192": norm,
        "AdamW, 268 million parameters": adamw,
    }
    cases = {}
    for name, make in makers.items():
        try:
            cases[name] = make()
            cases[name][1]()
        except RuntimeError as error:
            print(f"{name}: {error}", file=sys.stderr)
    return cases


def run(library):
    import torch

    transfer = Transfer(torch, library)
    counters = [torch.zeros(max(BLOCKS), dtype=torch.int64).pin_memory() for _ in range(2)]

    def timed(launch, launches):
        """seconds of a launch; bytes that the transfer moved in it"""
        launch()
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        transfer.snapshot(counters[0])
        events[0].record()
        for _ in range(launches):
            launch()
        events[1].record()
        transfer.snapshot(counters[1])
        events[1].synchronize()
        torch.cuda.current_stream().synchronize()
        return events[0].elapsed_time(events[1]) / 1e3 / launches, (counters[1].sum() - counters[0].sum()).item() / launches

    def beside(launch, launches, blocks, rate):
        transfer.begin(blocks, rate)
        result = timed(launch, launches)
        transfer.end()
        return result

    def alone_rate(blocks, rate):
        transfer.begin(blocks, rate)
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        transfer.snapshot(counters[0])
        events[0].record()
        torch.cuda.current_stream().synchronize()
        time.sleep(0.02)
        transfer.snapshot(counters[1])
        events[1].record()
        torch.cuda.current_stream().synchronize()
        transfer.end()
        return (counters[1].sum() - counters[0].sum()).item() / events[0].elapsed_time(events[1]) * 1e3

    def short_transfer(blocks, priority):
        events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
        events[0].record(transfer.streams[priority])
        transfer.launch(blocks, 0, SHORT_NS, priority)
        events[1].record(transfer.streams[priority])
        events[1].synchronize()
        return events[0].elapsed_time(events[1]) / 1e3

    properties = torch.cuda.get_device_properties(0)
    print(json.dumps({"gpu": properties.name, "sms": properties.multi_processor_count, "torch": torch.__version__}), flush=True)
    rates = {blocks: alone_rate(blocks, -1) for blocks in BLOCKS}
    print(json.dumps({"rates_alone": rates}), flush=True)
    cases = operators(torch)
    for name, (bound, launch) in cases.items():
        launch()
        torch.cuda.synchronize()
        launches = max(2, min(400, round(SECONDS / timed(launch, 5)[0])))
        timed(launch, launches)
        for blocks in BLOCKS:
            # SMs only; a NIC of 400 Gbit/s; NVLink's 400 GB/s or what the blocks reach
            for rate in (0, 50e9, min(400e9, 0.9 * rates[blocks])):
                alone, with_it, bytes_moved = [], [], []
                for _ in range(REPEATS):
                    alone.append(timed(launch, launches)[0])
                    seconds, moved = beside(launch, launches, blocks, rate)
                    with_it.append(seconds)
                    bytes_moved.append(moved / seconds)
                print(json.dumps({"operator": name, "bound": bound, "blocks": blocks, "wanted": rate,
                                  "alone_s": statistics.median(alone), "beside_s": statistics.median(with_it),
                                  "reached": statistics.median(bytes_moved)}), flush=True)
    transfer.set_flag(0)
    for name in ("GEMM 8192 x 8192 x 8192", "GEMM 4096 x 4096 x 4096", "FlashAttention 2, forward", "FlashAttention 2, backward",
                 "cuDNN attention, backward", "sum of two, 16384 x 8192"):
        if name not in cases:
            continue
        launch = cases[name][1]
        seconds = timed(launch, 5)[0]
        for priority in transfer.streams:
            for blocks in (1, 16, 32):
                alone = statistics.median(short_transfer(blocks, priority) for _ in range(5))
                waits = []
                for i in range(WAITS):
                    for _ in range(max(4, round(0.012 / seconds))):
                        launch()
                    time.sleep(0.002 + 0.00037 * i)
                    waits.append(short_transfer(blocks, priority) - alone)
                    torch.cuda.synchronize()
                waits.sort()
                print(json.dumps({"waits_for": name, "operator_s": seconds, "blocks": blocks, "priority": priority,
                                  "mean_wait_s": statistics.mean(waits), "median_wait_s": statistics.median(waits),
                                  "longest_wait_s": waits[-1]}), flush=True)


def rows():
    """Markdown tables of the results on standard input."""
    results = [json.loads(line) for line in sys.stdin]
    if not results or "sms" not in results[0]:
        sys.exit("no results")
    sms = results[0]["sms"]
    print("| operator | blocks | copying | alone | beside | slower | 1 / (1 - blocks / SMs) | copies reached |")
    print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |")
    for r in results:
        if "operator" in r:
            reached = f"{100 * r['reached'] / r['wanted']:.0f} %" if r["wanted"] > 0 else ""
            print(f"| {r['operator']} | {r['blocks']} | {r['wanted'] / 1e9:.0f} GB/s | {1e6 * r['alone_s']:.0f} us | "
                  f"{1e6 * r['beside_s']:.0f} us | {100 * (r['beside_s'] / r['alone_s'] - 1):+.1f} % | "
                  f"{100 * (1 / (1 - r['blocks'] / sms) - 1):+.1f} % | {reached} |")
    print("\nHow long a transfer waits for kernels that were launched before it:\n")
    print("| behind | takes | blocks | priority | mean wait | median | longest |")
    print("| --- | ---: | ---: | --- | ---: | ---: | ---: |")
    for r in results:
        if "waits_for" in r:
            print(f"| {r['waits_for']} | {1e6 * r['operator_s']:.0f} us | {r['blocks']} | {r['priority']} | {1e6 * r['mean_wait_s']:.0f} us | "
                  f"{1e6 * r['median_wait_s']:.0f} us | {1e6 * r['longest_wait_s']:.0f} us |")


def csv():
    """A table of the results on standard input, without the waits."""
    print("operator,kind,m,n,k,blocks,copied_gb_per_s,alone_us,beside_us,reached_gb_per_s")
    for r in map(json.loads, sys.stdin):
        if "operator" not in r:
            continue
        found = re.search(r"(?:GEMM|weight gradient) (\d+) x (\d+) x (\d+)$", r["operator"])
        kind = "gemm" if found else "attention" if r["bound"] == "compute" else "memory"
        name = r["operator"] if found else re.sub(r", \d.*", "", r["operator"]).replace(",", "")
        print(",".join([name, kind, *(found.groups() if found else ("", "", "")), str(r["blocks"]), f"{r['wanted'] / 1e9:.0f}",
                        f"{1e6 * r['alone_s']:.1f}", f"{1e6 * r['beside_s']:.1f}", f"{r['reached'] / 1e9:.0f}"]))


if __name__ == "__main__":
    if sys.argv[1:2] == ["run"] and len(sys.argv) == 3:
        run(sys.argv[2])
    elif sys.argv[1:] == ["rows"]:
        rows()
    elif sys.argv[1:] == ["csv"]:
        csv()
    else:
        sys.exit(__doc__)
