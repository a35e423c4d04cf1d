"""A checkpoint as a GGUF file that any reader of architecture qwen35moe loads.

    python -m train.export --checkpoint runs/mini --name core-1.1-mini --type Q8_0 \\
        --out core-1.1-mini.gguf --part-max 15728640

Layouts differ from the checkpoint's in four places: norms hold 1 + w, the decay is
-exp(A_log), V heads stand tiled (all first V heads of the K heads, then all second ones)
instead of grouped, and gate and up of the experts are two tensors. With --part-max a
larger file is cut into FILE.1-of-N and so on, which engine/embedded joins.
"""

import argparse
import pathlib
import re

import numpy as np

from . import bpe, checkpoint, gguf
from .gguf import ARRAY, BOOL, F32, I32, STRING, U32

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "template" / "corenode.jinja"

# The family's names below a layer and those of GGUF; what is not a plain copy is in _layer.
PLAIN = {
    "input_layernorm.weight": "attn_norm.weight", "post_attention_layernorm.weight": "post_attention_norm.weight",
    "self_attn.q_proj.weight": "attn_q.weight", "self_attn.k_proj.weight": "attn_k.weight",
    "self_attn.v_proj.weight": "attn_v.weight", "self_attn.o_proj.weight": "attn_output.weight",
    "self_attn.q_norm.weight": "attn_q_norm.weight", "self_attn.k_norm.weight": "attn_k_norm.weight",
    "linear_attn.in_proj_qkv.weight": "attn_qkv.weight", "linear_attn.in_proj_z.weight": "attn_gate.weight",
    "linear_attn.in_proj_b.weight": "ssm_beta.weight", "linear_attn.in_proj_a.weight": "ssm_alpha.weight",
    "linear_attn.conv1d.weight": "ssm_conv1d.weight", "linear_attn.A_log": "ssm_a", "linear_attn.dt_bias": "ssm_dt.bias",
    "linear_attn.norm.weight": "ssm_norm.weight", "linear_attn.out_proj.weight": "ssm_out.weight",
    "mlp.gate.weight": "ffn_gate_inp.weight", "mlp.experts.down_proj": "ffn_down_exps.weight",
    "mlp.shared_expert.gate_proj.weight": "ffn_gate_shexp.weight", "mlp.shared_expert.up_proj.weight": "ffn_up_shexp.weight",
    "mlp.shared_expert.down_proj.weight": "ffn_down_shexp.weight", "mlp.shared_expert_gate.weight": "ffn_gate_inp_shexp.weight",
}
# Always float32, as converters do: small, and the router decides.
EXACT = ("ssm_conv1d.weight", "ffn_gate_inp.weight", "ffn_gate_inp_shexp.weight")


def tiled(c, size):
    """Indices that take rows of V heads, size each, from grouped to tiled order."""
    heads = np.arange(c.value_heads).reshape(c.key_heads, -1).T.reshape(-1)
    return (heads[:, None] * size + np.arange(size)).reshape(-1)


def _layer(c, name, x):
    """A tensor of a layer in GGUF's layout: (name, values), two for fused experts."""
    if name == "mlp.experts.gate_up_proj":
        gate, up = np.split(x, 2, axis=1)
        return [("ffn_gate_exps.weight", gate), ("ffn_up_exps.weight", up)]
    if name.endswith("norm.weight") and not name.startswith("linear_attn"):
        x = 1 + x
    elif name == "linear_attn.A_log":
        x = -np.exp(x)
    elif name in ("linear_attn.conv1d.weight", "mlp.shared_expert_gate.weight"):
        x = x.reshape(-1, c.conv) if "conv" in name else x.reshape(-1)
    if name in ("linear_attn.in_proj_qkv.weight", "linear_attn.conv1d.weight"):
        keys = 2 * c.key_heads * c.delta_dim
        x = np.concatenate([x[:keys], x[keys:][tiled(c, c.delta_dim)]])
    elif name == "linear_attn.in_proj_z.weight":
        x = x[tiled(c, c.delta_dim)]
    elif name == "linear_attn.out_proj.weight":
        x = x[:, tiled(c, c.delta_dim)]
    elif name in ("linear_attn.in_proj_b.weight", "linear_attn.in_proj_a.weight", "linear_attn.A_log", "linear_attn.dt_bias"):
        x = x[tiled(c, 1)]
    return [(PLAIN[name], x)]


def tensors(c, state, kind):
    """All tensors of a checkpoint for gguf.write; state: arrays by the family's names."""
    out = []
    for full, x in state.items():
        name = full.removeprefix(checkpoint.PREFIX)
        layer = re.fullmatch(r"layers\.(\d+)\.(.*)", name)
        if layer:
            out += [(f"blk.{layer[1]}.{new}", y) for new, y in _layer(c, layer[2], x)]
        elif name == "embed_tokens.weight":
            out.append(("token_embd.weight", x))  # tied: there is no output.weight
        elif name == "norm.weight":
            out.append(("output_norm.weight", 1 + x))
        else:
            raise ValueError(f"tensor {full} is not part of the architecture")
    return [(n, "F32" if x.ndim == 1 or n.endswith(EXACT) else kind, np.ascontiguousarray(x)) for n, x in out]


def keys(c, tokenizer, name, kind):
    a = "qwen35moe."
    third = c.rope_dim // 2 // 3
    sections = [c.rope_dim // 2 - 2 * third, third, third, 0]
    count = {
        "block_count": c.layers, "context_length": c.context, "embedding_length": c.hidden, "feed_forward_length": c.shared_ff,
        "attention.head_count": c.heads, "attention.head_count_kv": c.kv_heads, "attention.key_length": c.head_dim,
        "attention.value_length": c.head_dim, "rope.dimension_count": c.rope_dim, "vocab_size": c.vocab,
        "expert_count": c.experts, "expert_used_count": c.experts_used, "expert_feed_forward_length": c.expert_ff,
        "expert_shared_feed_forward_length": c.shared_ff, "ssm.conv_kernel": c.conv, "ssm.state_size": c.delta_dim,
        "ssm.group_count": c.key_heads, "ssm.time_step_rank": c.value_heads, "ssm.inner_size": c.value_dim,
        "full_attention_interval": c.full_every,
    }
    special = tokenizer.specials
    return [
        ("general.architecture", STRING, "qwen35moe"), ("general.name", STRING, name),
        ("general.file_type", U32, gguf.TYPES[kind][1]), ("general.quantization_version", U32, 2),
        *((a + k, U32, v) for k, v in count.items()),
        (a + "attention.layer_norm_rms_epsilon", F32, c.eps), (a + "rope.freq_base", F32, c.rope_base),
        (a + "rope.dimension_sections", ARRAY, (I32, sections)),
        ("tokenizer.ggml.model", STRING, "gpt2"), ("tokenizer.ggml.pre", STRING, tokenizer.pre),
        ("tokenizer.ggml.tokens", ARRAY, (STRING, tokenizer.vocab)),
        ("tokenizer.ggml.token_type", ARRAY, (I32, tokenizer.types)),
        ("tokenizer.ggml.merges", ARRAY, (STRING, tokenizer.merges)),
        ("tokenizer.ggml.eos_token_id", U32, special["<|im_end|>"]),
        ("tokenizer.ggml.bos_token_id", U32, special["<|endoftext|>"]),
        ("tokenizer.ggml.padding_token_id", U32, special["<|endoftext|>"]),
        ("tokenizer.ggml.add_bos_token", BOOL, False),
        ("tokenizer.chat_template", STRING, TEMPLATE.read_text(encoding="utf-8")),
    ]


def write(folder, tokenizer, name, kind, path):
    """Exports a checkpoint to one file."""
    c = checkpoint.read_config(folder)
    if len(tokenizer.vocab) != c.vocab:
        raise ValueError(f"the tokenizer has {len(tokenizer.vocab)} entries, the model {c.vocab}")
    state = {n: t.float().numpy() for n, t in checkpoint.tensors(folder).items()}
    gguf.write(path, keys(c, tokenizer, name, kind), tensors(c, state, kind))


def split(path, most):
    """Cuts a file larger than most bytes into FILE.K-of-N and removes it. Parts of an
    earlier cut go away. Returns the files."""
    path = pathlib.Path(path)
    for old in path.parent.glob(path.name + ".*-of-*"):
        old.unlink()
    data = path.read_bytes()
    if len(data) <= most:
        return [path]
    n = -(-len(data) // most)
    out = []
    for i in range(n):
        out.append(path.with_name(f"{path.name}.{i + 1}-of-{n}"))
        out[-1].write_bytes(data[i * most:(i + 1) * most])
    path.unlink()
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--checkpoint", required=True)
    p.add_argument("--tokenizer", default=str(pathlib.Path(__file__).with_name("tokenizer.json")))
    p.add_argument("--name", required=True, help="general.name")
    p.add_argument("--type", choices=gguf.TYPES, default="Q8_0")
    p.add_argument("--out", required=True)
    p.add_argument("--part-max", type=int, help="bytes above which the file is cut into parts")
    a = p.parse_args()
    write(a.checkpoint, bpe.Tokenizer.load(a.tokenizer), a.name, a.type, a.out)
    for file in split(a.out, a.part_max) if a.part_max else [pathlib.Path(a.out)]:
        print(f"{file}: {file.stat().st_size} bytes")


if __name__ == "__main__":
    main()
