"""Checks checkpoints against transformers in both directions: from_pretrained loads a checkpoint that
Lockstep has saved, Lockstep loads one that save_pretrained has written, and the logits must be equal.

    python tests/golden/check_transformers.py build/release/tests/test_model

Needs torch, transformers and safetensors. Not part of the test suites."""
import os
import pathlib
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel

torch.manual_seed(5)
tokens = torch.randint(64, (2, 20))
worst = 0.0


def compare(what, a, b):
    global worst
    difference = (a - b).abs().max().item()
    worst = max(worst, difference)
    print(f"{what}: largest difference of a logit {difference:.2e}, of logits up to {b.abs().max().item():.2f}")


with tempfile.TemporaryDirectory() as name, torch.no_grad():
    folder = pathlib.Path(name)
    save_file({"tokens": tokens.to(torch.int32)}, folder / "tokens.safetensors")
    theirs = {}
    for kind in ("tied", "untied"):
        config = GPT2Config(n_layer=3, n_embd=40, n_head=4, n_positions=20, vocab_size=64,
                            tie_word_embeddings=kind == "tied", bos_token_id=None, eos_token_id=None)
        theirs[kind] = GPT2LMHeadModel(config).eval()
        for parameter in theirs[kind].parameters():
            parameter.add_(torch.randn_like(parameter) * 0.1)
        theirs[kind].save_pretrained(folder / f"theirs_{kind}")
    subprocess.run([sys.argv[1], "--no-skip", "--test-case=exchange with transformers"], check=True,
                   env={**os.environ, "LOCKSTEP_EXCHANGE": name})
    for kind, model in theirs.items():
        compare(f"theirs, {kind}", load_file(folder / f"theirs_{kind}_logits.safetensors")["logits"],
                model(tokens).logits)
        ours, info = GPT2LMHeadModel.from_pretrained(folder / f"ours_{kind}", output_loading_info=True)
        print(f"ours, {kind}: from_pretrained says {info}")
        assert not info["missing_keys"] and not info["unexpected_keys"]
        compare(f"ours, {kind}", load_file(folder / f"ours_{kind}_logits.safetensors")["logits"],
                ours.eval()(tokens).logits)

sys.exit(0 if worst < 1e-4 else 1)
