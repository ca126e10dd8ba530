#!/usr/bin/env python3
"""The speed of PyTorch's attention on one GPU, as an anchor for that of bench_variants: the same shapes, in bf16, causal.

    sdpa.py [--rounds 5]

Prints lines "variant sdpa NAME: VALUE TFLOP/s" for each backend that PyTorch has here (flash, cuDNN), and for
FlashAttention-3, if it is installed. FLOPs are counted in half, because attention is causal.
"""
import argparse
import statistics

import torch
from torch.nn import functional as F
from torch.nn.attention import SDPBackend, sdpa_kernel


def milliseconds(work, rounds):
    """Returns the median time of a call."""
    work(), work()
    times = []
    for _ in range(rounds):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        for _ in range(10):
            work()
        end.record()
        end.synchronize()
        times.append(begin.elapsed_time(end) / 10)
    return statistics.median(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    ways = {}
    for name, backend in (("flash", SDPBackend.FLASH_ATTENTION), ("cudnn", SDPBackend.CUDNN_ATTENTION)):
        def attention(q, k, v, backend=backend):
            with sdpa_kernel(backend):
                return F.scaled_dot_product_attention(q, k, v, is_causal=True)
        ways[name] = attention
    try:
        from flash_attn_interface import flash_attn_func

        def three(q, k, v):
            y = flash_attn_func(*(x.transpose(1, 2) for x in (q, k, v)), causal=True)
            return (y[0] if isinstance(y, tuple) else y).transpose(1, 2)
        ways["fa3"] = three
    except ImportError:
        print("FlashAttention-3 is not installed")
    for batch, sequence, heads, columns in ((32, 1024, 12, 64), (4, 4096, 12, 64), (32, 1024, 6, 128), (4, 4096, 6, 128)):
        # As in GPT-2: parts of one tensor of (b, s, 3 h).
        qkv = torch.randn(batch, sequence, 3, heads, columns, device="cuda", dtype=torch.bfloat16, requires_grad=True)
        q, k, v = (qkv[:, :, i].transpose(1, 2) for i in range(3))
        dy = torch.randn(batch, heads, sequence, columns, device="cuda", dtype=torch.bfloat16)
        flops = 2 * batch * heads * sequence**2 * columns
        for name, attention in ways.items():
            shape = f"{name}, b {batch}, s {sequence}, d {columns}"
            try:
                with torch.no_grad():
                    forward = milliseconds(lambda: attention(q, k, v), rounds)
                y = attention(q, k, v)
                backward = milliseconds(
                    lambda: torch.autograd.grad(y, (q, k, v), dy, retain_graph=True), rounds)
                print(f"variant sdpa forward, {shape}: {flops / forward / 1e9:.5g} TFLOP/s")
                print(f"variant sdpa backward, {shape}: {2.5 * flops / backward / 1e9:.5g} TFLOP/s", flush=True)
            except RuntimeError as error:
                print(f"{shape}: {str(error).splitlines()[0]}", flush=True)


if __name__ == "__main__":
    main()
