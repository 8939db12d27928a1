"""A PyTorch program for tools/gpu-checks: some training steps of two transformer blocks.

  torch_step.py run                     the steps (what `tracecast record` records)
  torch_step.py profile TABLE           the same under PyTorch's profiler; writes median nanoseconds by kernel name
  torch_step.py compare TRACE TABLE     Markdown: medians of a trace of tracecast beside those of the table; exit code 1 when
                                        kernels that matter differ by more than 5 %
"""

import json
import statistics
import sys

STEPS = 30
ALLOWED = 0.05  # two runs without fixed clocks
MANY = 20  # launches below which a median says little
LONG_NS = 20_000  # shorter kernels vary by more between two runs


def train(profiler=None):
    import torch

    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(2048, 16, 8192, dropout=0.0, batch_first=True, norm_first=True)
    model = torch.nn.TransformerEncoder(layer, 2).cuda().bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    x = torch.randn(4, 1024, 2048, device="cuda", dtype=torch.bfloat16)
    for step in range(STEPS + 10):
        if step == 10:  # the GPU is warm, the allocator has settled
            torch.cuda.synchronize()
            if profiler:
                profiler.start()
        model(x).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=False)
    torch.cuda.synchronize()
    if profiler:
        profiler.stop()


def profile(table):
    from torch.profiler import ProfilerActivity
    from torch.profiler import profile as torch_profile

    profiler = torch_profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU])
    train(profiler)
    times = {}
    for event in profiler.profiler.kineto_results.events():
        if "cuda" in str(event.device_type()).lower():
            times.setdefault(event.name(), []).append(event.duration_ns())
    with open(table, "w", encoding="utf-8") as file:
        for name, values in times.items():
            file.write(f"{statistics.median(values)}\t{len(values)}\t{name}\n")


def medians_of_trace(path):
    strings, times = {}, {}
    with open(path, encoding="utf-8", errors="replace") as file:
        next(file)
        for line in file:
            record = json.loads(line)
            if record[0] == "string":
                strings[record[1]] = record[2]
            elif record[0] == "kernel":
                times.setdefault(strings[record[1]], []).append(record[6] - record[5])
    # Steps that warm up are in the recording and not in the table: the median of what came after them.
    return {name: statistics.median(values[len(values) * 10 // (STEPS + 10):]) for name, values in times.items()}


def demangled(names):
    """By name as it is in a trace: what the C++ library makes of it, as PyTorch's profiler does."""
    import ctypes

    try:
        demangle = ctypes.CDLL("libstdc++.so.6").__cxa_demangle
    except OSError:
        return {name: name for name in names}
    demangle.restype = ctypes.c_char_p
    plain = {}
    for name in names:
        status = ctypes.c_int(-1)
        text = demangle(name.encode(), None, None, ctypes.byref(status))
        plain[name] = text.decode() if status.value == 0 and text else name
    return plain


def compare(trace, table):
    recorded = medians_of_trace(trace)
    plain = demangled(list(recorded))
    ours = {plain[name]: value for name, value in recorded.items()}
    worst, rows, missing = 0.0, [], []
    with open(table, encoding="utf-8") as file:
        for line in file:
            median, count, name = line.rstrip("\n").split("\t", 2)
            if int(count) < MANY or float(median) < LONG_NS:
                continue
            if name not in ours:
                missing.append(name)
                continue
            difference = ours[name] / float(median) - 1
            worst = max(worst, abs(difference))
            rows.append((float(median), int(count), difference, name))
    print("A PyTorch program (`tests/gpu/torch_step.py`) recorded by injection and, in a run of its own, by PyTorch's")
    print(f"profiler: kernels of at least {LONG_NS / 1000:.0f} us that ran at least {MANY} times.\n")
    print("| kernel | runs | PyTorch's profiler | tracecast, difference |")
    print("| --- | --- | --- | --- |")
    for median, count, difference, name in sorted(rows, reverse=True)[:15]:
        print(f"| {name[:70].replace('|', ' ')} | {count} | {median / 1000:.1f} us | {100 * difference:+.2f} % |")
    print(f"\nLargest difference {100 * worst:.2f} % over {len(rows)} kernels; {len(missing)} not found by name.\n")
    return 0 if rows and worst <= ALLOWED else 1


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "run":
        train()
    elif what == "profile" and len(sys.argv) == 3:
        profile(sys.argv[2])
    elif what == "compare" and len(sys.argv) == 4:
        sys.exit(compare(sys.argv[2], sys.argv[3]))
    else:
        sys.exit(__doc__)
