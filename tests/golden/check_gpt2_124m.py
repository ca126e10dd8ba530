"""Holds Lockstep against transformers and PyTorch on a GPT-2 of 124M parameters with random values: each run loads
the model of save_pretrained straight into its mesh, computes the loss of transformers, takes AdamW's first step as
PyTorch does, and exports a model that from_pretrained reads. All meshes' exports must be alike.

    python tests/golden/check_gpt2_124m.py build/release [SCRATCH_FOLDER]

Needs torch, transformers, 6 GB of memory, 4 GB of disk and some minutes; not part of the suites."""
import json
import math
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

RATE, DECAY = 1e-4, 0.1
# The lesson and its flags; all sequences of a batch are the same.
RUNS = ["02_data_parallel --ranks 1 --batch 1 --overlap overlap", "15_3d --dp 1 --pp 1 --tp 1 --batch 1 --microbatches 1",
        "15_3d --dp 2 --pp 2 --tp 2 --batch 4 --microbatches 2", "15_3d --dp 1 --pp 3 --tp 4 --batch 1 --microbatches 1",
        "15_3d --dp 2 --pp 1 --tp 2 --batch 2 --microbatches 1 --zero 3 --sequence-parallel",
        "05_zero_3 --ranks 3 --batch 3 --prefetch 1", "09_1f1b --ranks 4 --batch 1 --microbatches 1 --compare 0"]


def make_oracle(folder):
    torch.manual_seed(124)
    model = GPT2LMHeadModel(GPT2Config(resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0)).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(torch.randn_like(parameter) * 0.02)
    model.save_pretrained(folder / "theirs")
    tokens = torch.randint(50257, (1025,))
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240520, 1, len(tokens)
    (folder / "tokens.bin").write_bytes(header.tobytes() + tokens.numpy().astype(numpy.uint16).tobytes())

    loss = torch.nn.functional.cross_entropy(model(tokens[None, :-1]).logits[0], tokens[1:])
    loss.backward()
    matrices = [p for p in model.parameters() if p.dim() > 1]
    vectors = [p for p in model.parameters() if p.dim() == 1]
    torch.optim.AdamW([{"params": matrices, "weight_decay": DECAY}, {"params": vectors, "weight_decay": 0.0}],
                      lr=RATE, betas=(0.9, 0.95), eps=1e-5).step()
    return loss.item(), {name: value.detach() for name, value in model.named_parameters()}


def distance(a, b):
    """The parity norm (core/run/README.md)."""
    return ((a - b).norm() / max(b.norm(), math.sqrt(b.numel()) * 0.02)).item()


build = pathlib.Path(sys.argv[1])
with tempfile.TemporaryDirectory(dir=sys.argv[2] if len(sys.argv) > 2 else None) as name:
    folder = pathlib.Path(name)
    loss, stepped = make_oracle(folder)
    print(f"transformers: {sum(p.numel() for p in stepped.values()):,} parameters, loss {loss:.7f}", flush=True)
    first, worst = None, 0.0
    for run in RUNS:
        ours = folder / "ours"
        lesson, *flags = run.split()
        subprocess.run([str(build / "lessons" / f"lesson_{lesson}"), *flags, "--load", str(folder / "theirs"), "--tokens",
                        str(folder / "tokens.bin"), "--steps", "1", "--lr", str(RATE), "--parity", "off", "--trace", "none",
                        "--quiet", "--report", str(folder / "report.json"), "--export", str(ours)], check=True)
        observed = json.loads((folder / "report.json").read_text())["losses"][0]
        read, info = GPT2LMHeadModel.from_pretrained(ours, output_loading_info=True)
        assert not info["missing_keys"] and not info["unexpected_keys"], info
        values = {name: value.detach() for name, value in read.named_parameters()}
        assert values.keys() == stepped.keys()
        by_tensor = {name: distance(values[name], stepped[name]) for name in values}
        farthest = max(by_tensor, key=by_tensor.get)
        first = first or values
        spread = max(distance(values[name], first[name]) for name in values)
        difference = abs(observed - loss) / loss
        print(f"{run}: loss {observed:.7f}, relative difference {difference:.1e}; after AdamW's step "
              f"{by_tensor[farthest]:.1e} from PyTorch ({farthest}), {spread:.1e} from the first run", flush=True)
        worst = max(worst, difference / 1e-5, by_tensor[farthest] / 1e-4, spread / 1e-4)
print("good" if worst <= 1 else "BAD")
sys.exit(0 if worst <= 1 else 1)
