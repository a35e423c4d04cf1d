"""Checkpoints: folders in the form of the family's published ones, in small parts.

`config.json`, `model-0000K-of-0000N.safetensors` with the family's tensor names and the
index of them. Matrices are bf16; vectors, which are few, keep float32. There is no state
of the optimizer: a run that goes on begins with a fresh one.
"""

import json
import os
import pathlib
import shutil

import torch
from safetensors.torch import load_file, save_file

from . import model

PREFIX = "model.language_model."
PART_MAX = 15 << 20  # bytes of a file: small enough for any transport and for git
INDEX = "model.safetensors.index.json"

# Our names of sizes and the family's.
NAMES = {
    "vocab": "vocab_size", "hidden": "hidden_size", "layers": "num_hidden_layers", "full_every": "full_attention_interval",
    "heads": "num_attention_heads", "kv_heads": "num_key_value_heads", "head_dim": "head_dim",
    "key_heads": "linear_num_key_heads", "value_heads": "linear_num_value_heads", "conv": "linear_conv_kernel_dim",
    "experts": "num_experts", "experts_used": "num_experts_per_tok", "expert_ff": "moe_intermediate_size",
    "shared_ff": "shared_expert_intermediate_size", "eps": "rms_norm_eps", "context": "max_position_embeddings",
}


def config_json(c):
    out = {"architectures": ["Qwen3_5MoeForCausalLM"], "model_type": "qwen3_5_moe_text"}
    out.update({theirs: getattr(c, ours) for ours, theirs in NAMES.items()})
    out.update({
        "linear_key_head_dim": c.delta_dim, "linear_value_head_dim": c.delta_dim, "attention_bias": False,
        "attn_output_gate": True, "hidden_act": "silu", "tie_word_embeddings": True, "dtype": "bfloat16",
        "mamba_ssm_dtype": "float32", "mtp_num_hidden_layers": 0,
        "rope_parameters": {"rope_type": "default", "rope_theta": c.rope_base, "partial_rotary_factor": c.rope_dim / c.head_dim},
    })
    return out


def read_config(folder):
    d = json.loads((pathlib.Path(folder) / "config.json").read_text())
    rope = d["rope_parameters"]
    return model.Config(**{ours: d[theirs] for ours, theirs in NAMES.items()}, delta_dim=d["linear_key_head_dim"],
                        rope_base=rope["rope_theta"], rope_dim=round(rope["partial_rotary_factor"] * d["head_dim"])).check()


def stored(parameters):
    """What a checkpoint holds of named tensors: bf16 matrices and float32 vectors."""
    return {PREFIX + name: p.detach().to("cpu", torch.bfloat16 if p.dim() > 1 else torch.float32).contiguous()
            for name, p in parameters}


def parts(sizes, most):
    """Cuts (name, bytes) into runs of at most `most` bytes, in order."""
    out, room = [], 0
    for name, size in sizes:
        if size > room or not out:
            out.append([])
            room = most
        out[-1].append(name)
        room -= size
    return out


def save(m, folder, part_max=PART_MAX):
    """Writes the folder anew: readers see the old checkpoint or the new one."""
    folder = pathlib.Path(folder)
    fresh = folder.with_name(folder.name + ".new")
    shutil.rmtree(fresh, ignore_errors=True)
    fresh.mkdir(parents=True)
    tensors = stored(m.named_parameters())
    runs = parts([(name, t.nbytes) for name, t in tensors.items()], part_max - (1 << 16))  # the header counts too
    where = {}
    for i, names in enumerate(runs):
        file = f"model-{i + 1:05}-of-{len(runs):05}.safetensors"
        save_file({name: tensors[name] for name in names}, fresh / file, metadata={"format": "pt"})
        where.update(dict.fromkeys(names, file))
    total = sum(t.nbytes for t in tensors.values())
    (fresh / INDEX).write_text(json.dumps({"metadata": {"total_size": total}, "weight_map": where}, indent=1))
    (fresh / "config.json").write_text(json.dumps(config_json(m.config), indent=1))
    old = folder.with_name(folder.name + ".old")
    shutil.rmtree(old, ignore_errors=True)
    if folder.exists():
        os.rename(folder, old)
    os.rename(fresh, folder)
    shutil.rmtree(old, ignore_errors=True)


def keep(folder, step, most):
    """Keeps a copy of a checkpoint beside it, as of a step, and the `most` latest of such copies up to that step: those of
    further ones are of a run before, and take no place from this one's."""
    folder = pathlib.Path(folder)
    shutil.copytree(folder, folder.with_name(f"{folder.name}-step{step}"), dirs_exist_ok=True)
    steps = sorted(int(p.name.rsplit("-step", 1)[1]) for p in folder.parent.glob(folder.name + "-step*"))
    for old in [s for s in steps if s <= step][:-most]:
        shutil.rmtree(folder.with_name(f"{folder.name}-step{old}"))


def tensors(folder):
    """All tensors of a checkpoint by the family's names."""
    folder = pathlib.Path(folder)
    names = json.loads((folder / INDEX).read_text())["weight_map"]
    out = {}
    for file in sorted(set(names.values())):
        out.update(load_file(folder / file))
    if set(out) != set(names):
        raise ValueError(f"{folder}: the parts do not hold what the index says")
    return out


def load(folder):
    """The model of a checkpoint in float32 on the CPU."""
    m = model.Model(read_config(folder))
    m.load_state_dict({name.removeprefix(PREFIX): t.float() for name, t in tensors(folder).items()})
    return m
