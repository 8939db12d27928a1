"""PyTorch training steps for tools/gpu-checks: Llama-like layers on one GPU in bf16, whose step time a forecast has to meet.

  torch_llama.py run NAME [STEPS] [nvtx]   runs one of the cases below and prints a line of JSON: its scenario and step times
  torch_llama.py rows FOLDER               Markdown rows of such lines on standard input beside the forecasts in FOLDER
  torch_llama.py names                     the cases
  torch_llama.py scenario NAME TOPOLOGY    the case as a scenario for `tracecast predict`

Parameters, gradients and AdamW's states are in bf16, attention is FlashAttention 2, norms and RoPE are written as torchtitan has them.
"""

import json
import statistics
import sys

ONE_B = {"num_layers": 16, "hidden_size": 2048, "num_attention_heads": 32, "num_query_groups": 8, "ffn_hidden_size": 8192,
         "vocab_size": 128256}
EIGHT_B = {"num_layers": 6, "hidden_size": 4096, "num_attention_heads": 32, "num_query_groups": 8, "ffn_hidden_size": 14336,
           "vocab_size": 128256}
# model, sequence, micro-batch, micro-batches, recompute, compiled
CASES = {
    "1b": (ONE_B, 2048, 4, 2, "none", False),
    "1b-long": (ONE_B, 8192, 1, 2, "none", False),
    "1b-recompute": (ONE_B, 2048, 4, 2, "full", False),
    "1b-small": (ONE_B, 512, 1, 2, "none", False),
    "1b-compiled": (ONE_B, 2048, 4, 2, "none", True),
    "8b": (EIGHT_B, 4096, 2, 2, "none", False),
    "8b-long": (EIGHT_B, 8192, 1, 2, "none", False),
    "8b-compiled": (EIGHT_B, 4096, 2, 2, "none", True),
}
WARM_UP = 4


def scenario(name, topology):
    model, sequence, micro_batch, micro_batches, recompute, compiled = CASES[name]
    return {
        "model": dict(model, name=name),
        "parallel": {},
        "training": {
            "seq_length": sequence, "micro_batch_size": micro_batch, "global_batch_size": micro_batch * micro_batches,
            "dtype": "bf16", "grad_reduce_dtype": "bf16", "master_weights": False, "optimizer_state_dtype": "bf16",
            "recompute": recompute, "attention_kernel": "fa2", "cross_entropy": "pytorch",
            "compiled": compiled, "unfused_elementwise": not compiled, "fused_norms": not compiled,
        },
        "cluster": {"topology": topology, "world_size": 1},
    }


def make_model(torch, case):
    shape, sequence, _, _, recompute, compiled = case
    from torch import nn
    from torch.nn import functional
    from torch.utils.checkpoint import checkpoint

    hidden, heads, groups = shape["hidden_size"], shape["num_attention_heads"], shape["num_query_groups"]
    size = hidden // heads

    def rotated(x, angles):
        pairs = torch.view_as_complex(x.float().reshape(*x.shape[:-1], -1, 2))
        return torch.view_as_real(pairs * angles).flatten(3).type_as(x)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm1, self.norm2 = nn.RMSNorm(hidden), nn.RMSNorm(hidden)
            self.wq = nn.Linear(hidden, hidden, bias=False)
            self.wk = nn.Linear(hidden, groups * size, bias=False)
            self.wv = nn.Linear(hidden, groups * size, bias=False)
            self.wo = nn.Linear(hidden, hidden, bias=False)
            self.w1 = nn.Linear(hidden, shape["ffn_hidden_size"], bias=False)
            self.w3 = nn.Linear(hidden, shape["ffn_hidden_size"], bias=False)
            self.w2 = nn.Linear(shape["ffn_hidden_size"], hidden, bias=False)

        def forward(self, x, angles):
            y = self.norm1(x)
            batch, length = x.shape[:2]
            q = rotated(self.wq(y).view(batch, length, heads, size), angles).transpose(1, 2)
            k = rotated(self.wk(y).view(batch, length, groups, size), angles).transpose(1, 2)
            v = self.wv(y).view(batch, length, groups, size).transpose(1, 2)
            y = functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            x = x + self.wo(y.transpose(1, 2).reshape(batch, length, hidden))
            y = self.norm2(x)
            return x + self.w2(functional.silu(self.w1(y)) * self.w3(y))

    class Llama(nn.Module):
        def __init__(self):
            super().__init__()
            self.embedding = nn.Embedding(shape["vocab_size"], hidden)
            self.blocks = nn.ModuleList(Block() for _ in range(shape["num_layers"]))
            self.norm = nn.RMSNorm(hidden)
            self.output = nn.Linear(hidden, shape["vocab_size"], bias=False)
            frequencies = 1.0 / 500000 ** (torch.arange(0, size, 2).float() / size)
            angles = torch.outer(torch.arange(sequence).float(), frequencies)
            self.register_buffer("angles", torch.polar(torch.ones_like(angles), angles)[None, :, None, :], persistent=False)

        def forward(self, ids):
            x, angles = self.embedding(ids), self.angles
            for block in self.blocks:
                x = checkpoint(block, x, angles, use_reentrant=False) if recompute == "full" else block(x, angles)
            return self.output(self.norm(x))

    model = Llama()
    angles = model.angles.cuda()
    model = model.to(device="cuda", dtype=torch.bfloat16)  # would also cast the complex buffer
    model.angles = angles
    if compiled:
        for block in model.blocks:
            block.compile()
    return model


def run(name, steps, ranges):
    import contextlib
    import time

    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.functional import cross_entropy

    case = CASES[name]
    shape, sequence, micro_batch, micro_batches, _, _ = case
    torch.manual_seed(1)
    model = make_model(torch, case)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True)
    batches = [torch.randint(shape["vocab_size"], (micro_batch, sequence + 1), device="cuda") for _ in range(micro_batches)]
    times = []
    named = torch.autograd.profiler.emit_nvtx(record_shapes=True) if ranges else contextlib.nullcontext()
    with sdpa_kernel(SDPBackend.FLASH_ATTENTION), named:
        for _ in range(WARM_UP + steps):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for batch in batches:
                logits = model(batch[:, :-1])
                loss = cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
                del logits
                loss.backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=True)
            torch.cuda.synchronize()
            times.append(time.perf_counter() - begin)
    times = times[WARM_UP:]
    tenths = [statistics.median(times[len(times) * i // 10 : len(times) * (i + 1) // 10]) for i in range(10)] if len(times) >= 100 else []
    times = sorted(times)
    print(json.dumps({"name": name, "gpu": torch.cuda.get_device_name(0), "torch": torch.__version__, "steps": len(times),
                      "lower_quartile_s": times[len(times) // 4], "median_s": statistics.median(times),
                      "longest_s": times[-1], "medians_of_tenths_s": tenths, "loss": loss.item(),
                      "peak_reserved_gib": torch.cuda.max_memory_reserved() / 2**30,
                      "peak_allocated_gib": torch.cuda.max_memory_allocated() / 2**30}), flush=True)


def rows(folder):
    """Markdown rows of the results on standard input beside FOLDER/NAME-shipped.json and NAME-measured.json."""
    for line in sys.stdin:
        result = json.loads(line)
        measured = result["lower_quartile_s"]
        for profile in ("shipped", "measured"):
            try:
                with open(f"{folder}/{result['name']}-{profile}.json", encoding="utf-8") as file:
                    forecast = json.load(file)
            except (OSError, json.JSONDecodeError):
                continue
            step = forecast["step_time_s"]
            kinds = forecast["memory"]["by_kind_gib"]
            tensors = sum(kinds[kind] for kind in ("weights", "gradients", "optimizer", "activations", "transient"))
            print(f"| {result['name']}, {profile} profile | {1000 * step:.1f} ms | {1000 * measured:.1f} ms | "
                  f"{100 * (step / measured - 1):+.1f} % | {tensors:.1f} GiB | "
                  f"{result['peak_allocated_gib']:.1f} GiB | {result['peak_reserved_gib']:.1f} GiB |")


if __name__ == "__main__":
    what = sys.argv[1] if len(sys.argv) > 1 else ""
    if what == "run" and len(sys.argv) >= 3:
        run(sys.argv[2], int(sys.argv[3]) if len(sys.argv) > 3 else 15, "nvtx" in sys.argv[4:])
    elif what == "rows" and len(sys.argv) == 3:
        rows(sys.argv[2])
    elif what == "names":
        print("\n".join(CASES))
    elif what == "scenario" and len(sys.argv) == 4:
        print(json.dumps(scenario(sys.argv[2], sys.argv[3]), indent=2))
    else:
        sys.exit(__doc__)
