"""Writes golden.safetensors and saved_by_transformers/: the results of PyTorch and transformers for a
small GPT-2. Run this by hand to regenerate the golden numbers; building and testing Lockstep does not need it.

golden.safetensors, all F32 and I32:
  transformer.* and lm_head.weight         parameters (the tied model does not use lm_head.weight)
  tokens, targets                          (b, s)
  {tied,untied}.loss, .logits, .gradient.* the mean loss, logits (b, s, V), every gradient
saved_by_transformers/                     the output of save_pretrained for a smaller, tied model;
                                           its tokens and logits are in expected.safetensors
"""
import json
import os
import pathlib
import shutil

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
from safetensors.torch import save_file
from transformers import GPT2Config, GPT2LMHeadModel

here = pathlib.Path(__file__).parent


def build(layers, hidden, heads, sequence, vocabulary, tied):
    config = GPT2Config(
        n_layer=layers, n_embd=hidden, n_head=heads, n_positions=sequence, vocab_size=vocabulary,
        tie_word_embeddings=tied, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0,
        bos_token_id=None, eos_token_id=None)
    config._attn_implementation = "eager"
    return GPT2LMHeadModel(config).float().eval()


def shake(model):
    """Larger and less regular than initial values, so that every term of every gradient matters."""
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(torch.randn_like(parameter) * 0.15 + (1.0 if ".ln_" in name and name.endswith("weight") else 0.0))


def main():
    torch.manual_seed(20240607)
    torch.set_num_threads(1)
    shape = dict(layers=2, hidden=48, heads=3, sequence=24, vocabulary=96)
    batch = 2
    models = {"untied": build(**shape, tied=False), "tied": build(**shape, tied=True)}
    shake(models["untied"])
    models["tied"].load_state_dict(
        {k: v for k, v in models["untied"].state_dict().items() if k != "lm_head.weight"}, strict=False)

    tokens = torch.randint(shape["vocabulary"], (batch, shape["sequence"] + 1))
    golden = {name: p.detach().clone() for name, p in models["untied"].named_parameters()}
    golden["tokens"] = tokens[:, :-1].to(torch.int32).contiguous()
    golden["targets"] = tokens[:, 1:].to(torch.int32).contiguous()
    for kind, model in models.items():
        logits = model(tokens[:, :-1]).logits
        loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        golden[f"{kind}.loss"] = loss.detach().reshape(1)
        golden[f"{kind}.logits"] = logits.detach().contiguous()
        for name, parameter in model.named_parameters():
            golden[f"{kind}.gradient.{name}"] = parameter.grad.clone()
        print(kind, "loss", loss.item())
    save_file(golden, here / "golden.safetensors")

    small = build(layers=1, hidden=8, heads=2, sequence=6, vocabulary=16, tied=True)
    shake(small)
    saved = here / "saved_by_transformers"
    shutil.rmtree(saved, ignore_errors=True)
    small.save_pretrained(saved)
    (saved / "generation_config.json").unlink(missing_ok=True)
    ids = torch.randint(16, (2, 6))
    save_file({"tokens": ids.to(torch.int32), "logits": small(ids).logits.detach().contiguous()},
              saved / "expected.safetensors")
    print(json.dumps({p.name: p.stat().st_size for p in [here / "golden.safetensors", *saved.iterdir()]}))


main()
