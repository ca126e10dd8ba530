#!/usr/bin/env python3
"""The training step of bench_training in PyTorch: the same GPT-2, batch and optimizer, on one GPU.

    compare_torch.py [--quick] [--eager] [--compiled] [--batch 32] [--vocab 50257] [--steps 20]

Prints figures as bench_training does: name, value, unit, detail, with tabs between them. Attention is
scaled_dot_product_attention, AdamW is the fused one, gradients are clipped to norm 1. Weights are f32
under bf16 autocast, or bf16 throughout (then without f32 masters, which Lockstep keeps); each as it is
and with torch.compile.
"""
import argparse
import statistics
import sys

import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, hidden, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(hidden), nn.LayerNorm(hidden)
        self.qkv, self.projection = nn.Linear(hidden, 3 * hidden), nn.Linear(hidden, hidden)
        self.up, self.down = nn.Linear(hidden, 4 * hidden), nn.Linear(4 * hidden, hidden)

    def forward(self, x):
        b, s, h = x.shape
        q, k, v = (part.view(b, s, self.heads, -1).transpose(1, 2) for part in self.qkv(self.norm1(x)).split(h, 2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.projection(y.transpose(1, 2).reshape(b, s, h))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, vocabulary, layers=12, hidden=768, heads=12, sequence=1024):
        super().__init__()
        self.tokens, self.positions = nn.Embedding(vocabulary, hidden), nn.Embedding(sequence, hidden)
        self.blocks = nn.Sequential(*(Block(hidden, heads) for _ in range(layers)))
        self.norm = nn.LayerNorm(hidden)
        for parameter in self.parameters():
            if parameter.dim() == 2:
                nn.init.normal_(parameter, std=0.02)

    def forward(self, tokens, targets):
        x = self.tokens(tokens) + self.positions.weight[: tokens.shape[1]]
        logits = F.linear(self.norm(self.blocks(x)), self.tokens.weight)
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def measure(options, compiled, autocast):
    torch.manual_seed(1)
    model = Gpt(options.vocab).cuda()
    if not autocast:
        model = model.bfloat16()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if compiled else model
    tokens, targets = torch.randint(options.vocab, (2, options.batch, 1024), device="cuda")
    marks = []
    for _ in range(5 + options.steps + 1):
        marks.append(torch.cuda.Event(enable_timing=True))
        marks[-1].record()
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cuda", torch.bfloat16, enabled=autocast):
            loss = run(tokens, targets)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    torch.cuda.synchronize()
    times = [a.elapsed_time(b) for a, b in zip(marks[5:], marks[6:])]
    median = statistics.median(times)
    how = ("autocast" if autocast else "bf16 throughout") + (", compiled" if compiled else "")
    rate = options.batch * 1024 / median * 1e3
    print(f"PyTorch, V {options.vocab}, {how}\t{rate:.5g}\ttokens/s\t"
          f"b {options.batch}, s 1024, {median:.2f} ms a step ({min(times):.2f} to {max(times):.2f}), "
          f"torch {torch.__version__}, loss {loss.item():.3f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer steps, and the likeliest ways only")
    parser.add_argument("--eager", action="store_true", help="not compiled, unless --compiled is given as well")
    parser.add_argument("--compiled", action="store_true", help="compiled, unless --eager is given as well")
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--vocab", type=int, default=50257)
    parser.add_argument("--steps", type=int, default=20)
    options = parser.parse_args()
    ways = [(False, True), (True, True), (False, False), (True, False)]
    if options.quick:
        options.steps, ways = 8, ways[:2]
    if options.eager != options.compiled:
        ways = [way for way in ways if way[0] == options.compiled]
    failed = False
    for compiled, autocast in ways:
        try:
            measure(options, compiled, autocast)
        except Exception as error:  # for example, no compiler for torch.compile, or too little memory
            print(f"PyTorch, compiled {compiled}, autocast {autocast}: {error}".splitlines()[0], flush=True)
            failed = True
        torch.cuda.empty_cache()
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
