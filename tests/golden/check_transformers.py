"""Checks checkpoints against transformers in both directions, for GPT-2 and Llama: Lockstep loads what save_pretrained
has written, from_pretrained loads what Lockstep has exported, and logits and losses must be equal.

    python tests/golden/check_transformers.py build/release

Needs torch, transformers and safetensors, and the programs test_model, lesson_02_data_parallel and
lesson_06_tensor_parallel in that folder. Not part of the test suites."""
import copy
import json
import os
import pathlib
import subprocess
import sys
import tempfile

import numpy
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM

transformers.utils.logging.set_verbosity_error()
transformers.utils.logging.disable_progress_bar()
VOCABULARY = 64
FAMILY = {"gpt2": GPT2LMHeadModel, "llama": LlamaForCausalLM}


def gpt2(tied):
    return GPT2Config(n_layer=3, n_embd=40, n_head=4, n_positions=20, vocab_size=VOCABULARY, tie_word_embeddings=tied,
                      bos_token_id=None, eos_token_id=None)


def llama(**settings):
    shape = dict(num_hidden_layers=3, hidden_size=48, num_attention_heads=6, num_key_value_heads=2, intermediate_size=80,
                 max_position_embeddings=40, rms_norm_eps=1e-5)
    return LlamaConfig(**{**shape, **settings}, vocab_size=VOCABULARY, bos_token_id=None, eos_token_id=None)


CONFIGS = {
    "gpt2_tied": gpt2(True),
    "gpt2_untied": gpt2(False),
    "llama_tied": llama(tie_word_embeddings=True, num_key_value_heads=6),
    "llama_untied": llama(rope_theta=500.0, rms_norm_eps=2e-3),
    "llama_scaled": llama(rope_theta=50.0, rope_scaling={"rope_type": "llama3", "factor": 4.0, "low_freq_factor": 1.0,
                                                         "high_freq_factor": 4.0, "original_max_position_embeddings": 32}),
}
build = pathlib.Path(sys.argv[1])
worst = {"logit": 0.0, "loss": 0.0}


def report(kind, what, difference):
    worst[kind] = max(worst[kind], difference)
    print(f"{what}: {difference:.1e}", flush=True)


def with_random_values(config):
    model = FAMILY[config.model_type](config).eval()
    for parameter in model.parameters():
        parameter.add_(torch.randn_like(parameter) * 0.1)
    return model


def loaded(folder, family):
    """The model that from_pretrained reads; no key may be missing, left over or of another shape."""
    model, info = FAMILY[family].from_pretrained(folder, output_loading_info=True)
    assert not any(info[keys] for keys in ("missing_keys", "unexpected_keys", "mismatched_keys", "error_msgs")
                   if keys in info), info
    return model.float().eval()


def loss_of(model, tokens):
    return torch.nn.functional.cross_entropy(model(tokens[None, :-1]).logits[0], tokens[1:]).item()


def train(lesson, *flags):
    """Runs a lesson on one batch, and returns the loss of its first step."""
    with tempfile.TemporaryDirectory() as scratch:
        answer = pathlib.Path(scratch) / "report.json"
        subprocess.run([build / "lessons" / f"lesson_{lesson}", "--quiet", "--trace", "none", "--parity", "off", "--report",
                        answer, *map(str, flags)], check=True)
        return json.loads(answer.read_text())["losses"][0]


LESSONS = (("02_data_parallel", "--ranks", 1, "--batch", 1, "--microbatches", 1),
           ("06_tensor_parallel", "--tp", 2, "--batch", 1, "--microbatches", 1))


def compare_logits(folder):
    """By the C++ test, which writes the logits of both models."""
    tokens = torch.randint(VOCABULARY, (2, 20))
    save_file({"tokens": tokens.to(torch.int32)}, folder / "tokens.safetensors")
    theirs = {kind: with_random_values(config) for kind, config in CONFIGS.items()}
    for kind, model in theirs.items():
        model.save_pretrained(folder / f"theirs_{kind}")
    subprocess.run([build / "tests" / "test_model", "--no-skip", "--minimal", "--test-case=exchange with transformers"],
                   check=True, env={**os.environ, "LOCKSTEP_EXCHANGE": str(folder)})
    for kind, model in theirs.items():
        ours = loaded(folder / f"ours_{kind}", model.config.model_type)
        files = len(list((folder / f"ours_{kind}").glob("*.safetensors")))
        for whose, there in ("theirs", model), (f"ours, {files} files", ours):
            here = load_file(folder / f"{whose.split(',')[0]}_{kind}_logits.safetensors")["logits"]
            there = there(tokens).logits
            report("logit", f"{kind} ({whose}): largest difference of a logit, of logits up to {there.abs().max():.2f}",
                   (here - there).abs().max().item())


def compare_losses(folder, kind, config):
    """By lessons, which load a Llama without further flags, train it and export it."""
    model = with_random_values(config)
    tokens = torch.randint(VOCABULARY, (config.max_position_embeddings + 1,))
    file = folder / "tokens.bin"
    file.write_bytes(tokens.numpy().astype(numpy.uint16).tobytes())  # one window: every batch is the same

    narrow, rounded = copy.deepcopy(model).bfloat16(), copy.deepcopy(model)
    for parameter in rounded.parameters():  # not its rotary frequencies, which a file does not have
        parameter.copy_(parameter.bfloat16())
    forms = {"whole": (model, model, {}), "sharded": (model, model, dict(max_shard_size="60KB")),
             "bf16": (narrow, rounded, {}), "bf16, sharded": (narrow, rounded, dict(max_shard_size="60KB"))}
    if config.tie_word_embeddings:
        forms["without a head"] = model.model, model, {}
    for form, (saved, oracle, how) in forms.items():
        place = folder / f"{kind} {form}"
        saved.save_pretrained(place, **how)
        files = len(list(place.glob("*.safetensors")))
        assert (files > 1) == ("sharded" in form)
        wanted = loss_of(oracle, tokens)
        for lesson in LESSONS:
            here = train(*lesson, "--load", place, "--tokens", file, "--steps", 1)
            report("loss", f"{kind} ({form}, {files} files, {lesson[0]}): relative difference of a loss of {wanted:.6f}",
                   abs(here / wanted - 1))

    flags = ["--layers", 2, "--hidden", 32, "--heads", 4, "--sequence", len(tokens) - 1, "--vocab", VOCABULARY, "--model",
             "llama"] + (["--tied"] if config.tie_word_embeddings else [])
    for start, these in ("theirs", ["--load", folder / f"{kind} whole"]), ("random values", flags):
        for lesson in LESSONS:
            place = folder / f"ours {kind} {start} {lesson[0]}"
            train(*lesson, *these, "--tokens", file, "--steps", 5, "--lr", 0.003, "--export", place)
            ours = loaded(place, "llama")
            if start == "theirs":
                for key in ("rope_parameters", "rope_theta", "rope_scaling", "rms_norm_eps", "tie_word_embeddings",
                            "num_key_value_heads", "intermediate_size", "head_dim"):
                    assert getattr(ours.config, key, None) == getattr(config, key, None), key
            here = train(*LESSONS[0], "--load", place, "--tokens", file, "--steps", 1)
            there = loss_of(ours, tokens)
            report("loss", f"{kind} (exported by {lesson[0]}, 5 steps from {start}): relative difference of a loss of "
                   f"{there:.6f}", abs(here / there - 1))


torch.manual_seed(5)
torch.set_num_threads(1)
print(f"transformers {transformers.__version__}, torch {torch.__version__}")
with tempfile.TemporaryDirectory() as name, torch.no_grad():
    compare_logits(pathlib.Path(name))
    for kind, config in CONFIGS.items():
        if config.model_type == "llama":
            compare_losses(pathlib.Path(name), kind, config)
print(f"largest difference of a logit {worst['logit']:.1e}, relative difference of a loss {worst['loss']:.1e}")
sys.exit(0 if worst["logit"] < 1e-4 and worst["loss"] < 1e-6 else 1)
