"""Writes tiny_gpt2/: a small GPT-2 with random values as transformers saves it, token files, and the loss that
transformers computes. Run by hand when these files are to be made anew; nothing here is needed to build or
test Lockstep.

config.json, model.safetensors   what save_pretrained writes
tokens.bin                       17 tokens with the header of llm.c's GPT-2 files: one window of 16 tokens
tokens_plain.bin                 the same tokens as nanoGPT writes them
expected.json                    the mean loss over that window
"""
import json
import pathlib
import shutil

import numpy
import torch
from transformers import GPT2Config, GPT2LMHeadModel

folder = pathlib.Path(__file__).parent / "tiny_gpt2"


def write_tokens(tokens):
    header = numpy.zeros(256, dtype=numpy.int32)
    header[:3] = 20240520, 1, len(tokens)    # magic number, version, tokens
    plain = numpy.array(tokens, dtype=numpy.uint16)
    (folder / "tokens.bin").write_bytes(header.tobytes() + plain.tobytes())
    (folder / "tokens_plain.bin").write_bytes(plain.tobytes())


torch.manual_seed(20261122)
torch.set_num_threads(1)
config = GPT2Config(n_layer=4, n_embd=16, n_head=4, n_positions=16, vocab_size=300, resid_pdrop=0.0, embd_pdrop=0.0,
                    attn_pdrop=0.0, bos_token_id=None, eos_token_id=None)
model = GPT2LMHeadModel(config).float().eval()
with torch.no_grad():
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
shutil.rmtree(folder, ignore_errors=True)
model.save_pretrained(folder)
(folder / "generation_config.json").unlink(missing_ok=True)
tokens = torch.randint(300, (17,))
write_tokens(tokens.tolist())
with torch.no_grad():
    loss = torch.nn.functional.cross_entropy(model(tokens[None, :-1]).logits[0], tokens[1:]).item()
(folder / "expected.json").write_text(json.dumps({"loss": loss}) + "\n")
print({path.name: path.stat().st_size for path in folder.iterdir()}, loss)
