"""A checkpoint from an exported GGUF file, whole or in parts: training goes on from what ships.

    python -m train.restore --file core-1.1-mini.gguf --out runs/base-mini

The inverse of export.py. From a Q8_0 file the weights are those of the file, half a step of its scale away
from the trained ones.
"""

import argparse
import pathlib

import numpy as np
import torch

from . import checkpoint, export, gguf, model


def config(keys):
    """The sizes that a file's keys say."""
    k = lambda name: keys["qwen35moe." + name]
    return model.Config(
        vocab=k("vocab_size"), hidden=k("embedding_length"), layers=k("block_count"), full_every=k("full_attention_interval"),
        heads=k("attention.head_count"), kv_heads=k("attention.head_count_kv"), head_dim=k("attention.key_length"), rope_dim=k("rope.dimension_count"),
        rope_base=k("rope.freq_base"), key_heads=k("ssm.group_count"), value_heads=k("ssm.time_step_rank"), delta_dim=k("ssm.state_size"), conv=k("ssm.conv_kernel"),
        experts=k("expert_count"), experts_used=k("expert_used_count"), expert_ff=k("expert_feed_forward_length"), shared_ff=k("expert_shared_feed_forward_length"),
        eps=float(f"{k('attention.layer_norm_rms_epsilon'):.6g}"), context=k("context_length")).check()


def _grouped(c, size):
    """Undoes export.tiled."""
    return np.argsort(export.tiled(c, size))


def _parameter(c, name, parts, shape):
    """A parameter of a layer from the tensors that export made of it."""
    if name == "mlp.experts.gate_up_proj":
        return np.concatenate(parts, axis=1)
    (x,) = parts
    if name.endswith("norm.weight") and not name.startswith("linear_attn"):
        x = x - 1
    elif name == "linear_attn.A_log":
        x = np.log(-x)
    if name in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight"):
        keys = 2 * c.key_heads * c.delta_dim
        x = np.concatenate([x[:keys], x[keys:][_grouped(c, c.delta_dim)]])
    elif name == "linear_attn.in_proj_z.weight":
        x = x[_grouped(c, c.delta_dim)]
    elif name == "linear_attn.out_proj.weight":
        x = x[:, _grouped(c, c.delta_dim)]
    elif name in ("linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight", "linear_attn.A_log", "linear_attn.dt_bias"):
        x = x[_grouped(c, 1)]
    return x.reshape(shape)


def restored(keys, tensors):
    """The model of a file's keys and tensors, in float32 on the CPU."""
    c = config(keys)
    m, rest = model.Model(c), dict(tensors)
    state = {}
    for full, p in m.named_parameters():
        if full == "embed_tokens.weight":
            x = rest.pop("token_embd.weight")
        elif full == "norm.weight":
            x = rest.pop("output_norm.weight") - 1
        else:
            _, layer, name = full.split(".", 2)
            names = ["ffn_gate_exps.weight", "ffn_up_exps.weight"] if name == "mlp.experts.gate_up_proj" else [export.PLAIN[name]]
            x = _parameter(c, name, [rest.pop(f"blk.{layer}.{n}") for n in names], p.shape)
        state[full] = torch.from_numpy(np.ascontiguousarray(x, np.float32))
    if rest:
        raise ValueError(f"tensors that no parameter is made of: {', '.join(rest)}")
    m.load_state_dict(state)
    return m


def joined(file):
    """The bytes of a file, or of its parts FILE.K-of-N."""
    file = pathlib.Path(file)
    if file.exists():
        return file.read_bytes()
    parts = sorted(file.parent.glob(file.name + ".*-of-*"), key=lambda p: int(p.name.removeprefix(file.name + ".").split("-")[0]))
    if not parts:
        raise FileNotFoundError(file)
    return b"".join(p.read_bytes() for p in parts)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--file", required=True)
    p.add_argument("--out", required=True, help="folder of the checkpoint")
    a = p.parse_args()
    checkpoint.save(restored(*gguf.read(joined(a.file))), a.out)


if __name__ == "__main__":
    main()
