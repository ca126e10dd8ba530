"""The training step of bench_step.cpp in PyTorch, on one CPU thread.

    torch_step.py LAYERS HIDDEN HEADS SEQUENCE VOCABULARY BATCH f32|bf16 eager|compiled

Prints PyTorch's version after three steps. Then, for each line of standard input, computes a step and
prints its thread's CPU time in seconds. In bf16, weights are f32 and autocast is on.
"""
import pathlib
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "gpu"))
try:
    import torch
    from compare_torch import Gpt
except ImportError as error:
    sys.exit(f"no comparison with PyTorch: {error}")


def main():
    layers, hidden, heads, sequence, vocabulary, batch = map(int, sys.argv[1:7])
    precision, how = sys.argv[7:]
    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = Gpt(vocabulary, layers, hidden, heads, sequence)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    tokens, targets = torch.randint(vocabulary, (2, batch, sequence))
    run = torch.compile(model) if how == "compiled" else model

    def step():
        optimizer.zero_grad(set_to_none=True)
        with torch.autocast("cpu", torch.bfloat16, enabled=precision == "bf16"):
            loss = run(tokens, targets)
        loss.backward()
        optimizer.step()

    for _ in range(3):
        step()
    print(torch.__version__, flush=True)
    for _ in sys.stdin:
        start = time.process_time()
        step()
        print(time.process_time() - start, flush=True)


if __name__ == "__main__":
    main()
