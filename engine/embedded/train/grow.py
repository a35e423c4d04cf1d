"""A larger model that computes what a smaller one does: training goes on with room to learn more.

    python -m train.grow --checkpoint runs/base-mini --config core --out runs/base-core

New attention heads and new members of the experts read what they like, and what they give is multiplied by zero; so is
what the new layers, copies of the ones after them, add to the residual stream. A wider residual stream is zero where it is new:
nothing writes there yet, everything reads it. Function-preserving growth after Chen and others (2016, arXiv:1511.05641).
"""

import argparse
import dataclasses

import torch
import torch.nn.functional as F

from . import checkpoint, model

GROWS = ("hidden", "heads", "kv_heads", "layers", "expert_ff", "shared_ff")
ADDS = ("o_proj.weight", "out_proj.weight", "down_proj", "down_proj.weight")  # what a layer gives to the residual stream


def source(layer, old, new):
    """The layer of the old model that a layer of the new one is made of, and whether it is a copy. The new
    layers stand before the last `full_every` ones, in whole groups that end with full attention."""
    last = old.layers - old.full_every
    if layer < last:
        return layer, False
    more = new.layers - old.layers
    if layer >= last + more:
        return layer - more, False
    return last + (layer - last) % old.full_every, True


def _fitted(name, x, drawn):
    """What parameter `name` of the old model is in a larger one that has drawn its own: [rows, columns], at times of each expert.
    What gives to the residual stream, or is in it, is zero where it is new; what reads it is as drawn."""
    if name.endswith("gate_up_proj"):  # the rows of all gates, then those of what they multiply
        x, drawn = (m.unflatten(-2, (2, -1)) for m in (x, drawn))
        return _fitted(name.removesuffix("gate_up_proj"), x, drawn).flatten(-3, -2)
    if name.endswith("norm.weight") and drawn.shape[-1] > x.shape[-1]:  # the mean of the squares has more zeros in it
        return F.pad((1 + x) * (x.shape[-1] / drawn.shape[-1]) ** 0.5 - 1, (0, drawn.shape[-1] - x.shape[-1]))
    out = drawn.clone()
    if name.endswith((*ADDS, "embed_tokens.weight")):
        out.zero_()
    out[..., :x.shape[-2], :x.shape[-1]] = x
    return out


def grown(old, config, seed=1):
    """A model of sizes `config` with the same logits; of the sizes only GROWS may differ, and grow."""
    c = old.config
    if dataclasses.replace(c, **{n: getattr(config, n) for n in GROWS}) != config:
        raise ValueError(f"sizes other than {', '.join(GROWS)} differ")
    if (config.layers - c.layers) % c.full_every or any(getattr(config, n) < getattr(c, n) for n in GROWS) or config.heads // config.kv_heads != c.heads // c.kv_heads:
        raise ValueError("layers grow by groups that end with full attention, heads by groups that share a key")
    m = model.Model(config).initialize(seed)
    before = dict(old.named_parameters())
    with torch.no_grad():
        for name, p in m.named_parameters():
            copy, there = False, name
            if name.startswith("layers."):
                _, layer, rest = name.split(".", 2)
                number, copy = source(int(layer), c, config)
                there = f"layers.{number}.{rest}"
            x = before[there]
            p.copy_(x if x.shape == p.shape else _fitted(name, x, p))
            if copy and name.endswith(ADDS):
                p.zero_()
    return m


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--checkpoint", required=True)
    p.add_argument("--config", choices=list(model.CONFIGS), required=True, help="the sizes to grow to")
    p.add_argument("--seed", type=int, default=1, help="of what the new heads read")
    p.add_argument("--out", required=True, help="folder of the grown checkpoint")
    a = p.parse_args()
    checkpoint.save(grown(checkpoint.load(a.checkpoint), model.CONFIGS[a.config], a.seed), a.out)


if __name__ == "__main__":
    main()
