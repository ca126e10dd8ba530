"""Writes llama/: the results of PyTorch and transformers for three small Llamas with random values. Run this by hand
to regenerate the golden numbers; building and testing Lockstep does not need it.

llama/NAME/config.json, model.safetensors   what save_pretrained writes
llama/NAME/expected.safetensors             tokens, targets (b, s) I32; the mean loss, logits (b, s, V) and the gradient
                                            of every parameter, F32

The shapes have 1, 2 and 4 heads of queries per head of keys and values. The second one's wavelengths of rotary
positions lie in all three ranges of "llama3": kept, interpolated and stretched. Its sequences are shorter than
max_position_embeddings.
"""
import os
import pathlib
import shutil

os.environ["TOKENIZERS_PARALLELISM"] = "false"
import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

folder = pathlib.Path(__file__).parent / "llama"
SHAPES = {
    "groups_of_1_tied": dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=3, intermediate_size=36,
                             vocab_size=80, max_position_embeddings=16, tie_word_embeddings=True, rms_norm_eps=1e-5,
                             rope_parameters={"rope_type": "default", "rope_theta": 10000.0}),
    "groups_of_2_scaled": dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=2, intermediate_size=40,
                               vocab_size=64, max_position_embeddings=56, tie_word_embeddings=False, rms_norm_eps=1e-5,
                               rope_parameters={"rope_type": "llama3", "rope_theta": 50.0, "factor": 4.0,
                                                "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                                                "original_max_position_embeddings": 48}),
    "groups_of_4": dict(hidden_size=32, num_attention_heads=8, num_key_value_heads=2, intermediate_size=48,
                        vocab_size=64, max_position_embeddings=20, tie_word_embeddings=False, rms_norm_eps=2e-3,
                        rope_parameters={"rope_type": "default", "rope_theta": 500.0}),
}
BATCH, LONGEST = 3, 24


def regimes(config):
    """The names of the ranges in which the wavelengths lie."""
    rope = config.rope_parameters
    if rope["rope_type"] == "default":
        return {"kept"}
    wavelengths = [6.283185307 * rope["rope_theta"] ** (2 * i / config.head_dim) for i in range(config.head_dim // 2)]
    shortest, longest = (rope["original_max_position_embeddings"] / rope[key]
                         for key in ("high_freq_factor", "low_freq_factor"))
    return {"kept" if w < shortest else "stretched" if w > longest else "interpolated" for w in wavelengths}


def make(name, shape):
    config = LlamaConfig(num_hidden_layers=2, bos_token_id=None, eos_token_id=None, **shape)
    config._attn_implementation = "eager"
    model = LlamaForCausalLM(config).float().eval()
    with torch.no_grad():
        # Larger and less regular than initial values, so that every term of every gradient matters.
        for parameter in model.parameters():
            is_gain = parameter.dim() == 1
            parameter.copy_(torch.randn_like(parameter) * (0.3 if is_gain else 0.1) + (1.0 if is_gain else 0.0))
    model.save_pretrained(folder / name)
    (folder / name / "generation_config.json").unlink(missing_ok=True)
    tokens = torch.randint(config.vocab_size, (BATCH, min(LONGEST, config.max_position_embeddings) + 1))
    logits = model(tokens[:, :-1]).logits
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    loss.backward()
    expected = {"tokens": tokens[:, :-1].to(torch.int32).contiguous(),
                "targets": tokens[:, 1:].to(torch.int32).contiguous(),
                "loss": loss.detach().reshape(1), "logits": logits.detach().contiguous()}
    expected |= {f"gradient.{name}": parameter.grad.clone() for name, parameter in model.named_parameters()}
    save_file(expected, folder / name / "expected.safetensors")
    print(name, "loss", loss.item(), regimes(config), {p.name: p.stat().st_size for p in (folder / name).iterdir()})
    return regimes(config)


torch.manual_seed(20261126)
torch.set_num_threads(1)
shutil.rmtree(folder, ignore_errors=True)
assert make("groups_of_1_tied", SHAPES["groups_of_1_tied"]) == {"kept"}
assert make("groups_of_2_scaled", SHAPES["groups_of_2_scaled"]) == {"kept", "interpolated", "stretched"}
assert make("groups_of_4", SHAPES["groups_of_4"]) == {"kept"}
