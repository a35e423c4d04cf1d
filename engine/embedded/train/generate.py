"""Text from the trainer's own model: chunked prefill, then one token at a time with
the recurrent rule. Greedy only: it is what the engine is compared with."""

import dataclasses

import torch
import torch.nn.functional as F

from . import delta
from .model import attend_dense, rotary


@dataclasses.dataclass
class Cache:
    """What sequences carry, all of one length: per layer (k, v) [B, length, heads, d], or the
    convolution's last raw inputs [B, taps-1, channels] and the state."""

    length: int
    layers: list


def empty(model, batch):
    """The cache before the first token."""
    c, like = model.config, model.norm.weight
    layers = []
    for i in range(c.layers):
        if c.full(i):
            layers.append((like.new_zeros(batch, 0, c.kv_heads, c.head_dim),) * 2)
        else:
            layers.append((like.new_zeros(batch, c.conv - 1, c.conv_dim),
                           like.new_zeros(batch, c.value_heads, c.delta_dim, c.delta_dim)))
    return Cache(0, layers)


def _full(attention, h, cached, start):
    t = h.shape[1]
    rope = rotary(attention.c, torch.arange(start, start + t, device=h.device), h.dtype)
    q, k, v, gate = attention.project(h, rope)
    k, v = torch.cat([cached[0], k], 1), torch.cat([cached[1], v], 1)
    mask = torch.ones(t, start + t, dtype=torch.bool, device=h.device).tril(start)
    return attention.finish(attend_dense(q, k, v, mask), gate), (k, v)


def _linear(mixer, h, cached, start):
    """From an empty cache by chunks, else token by token."""
    taps, state = cached
    t = h.shape[1]
    raw = torch.cat([taps, mixer.in_proj_qkv(h)], 1)
    mixed = mixer.convolve(raw, torch.zeros(raw.shape[:2], dtype=torch.long, device=h.device))[:, taps.shape[1]:]
    g, beta = mixer.gates(h)
    q, k, v = mixer.split(mixed)
    if start == 0 and t >= delta.CHUNK:
        fill = -t % delta.CHUNK  # tokens that change nothing: no key, no decay, no rate
        q, k, v = (F.pad(x, (0, 0, 0, 0, 0, fill)) for x in (q, k, v))
        g, beta = (F.pad(x, (0, 0, 0, fill)) for x in (g, beta))
        segment = torch.zeros(q.shape[:2], dtype=torch.long, device=h.device)
        o, state = delta.chunked(q, k, v, g, beta, segment)
        o = o[:, :t]
    else:
        o, state = delta.recurrent(q, k, v, g, beta, state)
    return mixer.finish(o, h), (raw[:, -taps.shape[1]:], state)


@torch.no_grad()
def advance(model, tokens, cache):
    """Computes tokens [B, T] after what is in the cache; returns all their logits."""
    x, layers = model.embed_tokens(tokens), []
    for layer, cached in zip(model.layers, cache.layers):
        h = layer.input_layernorm(x)
        if hasattr(layer, "self_attn"):
            y, cached = _full(layer.self_attn, h, cached, cache.length)
        else:
            y, cached = _linear(layer.linear_attn, h, cached, cache.length)
        x = x + y
        x = x + layer.mlp(layer.post_attention_layernorm(x))[0]
        layers.append(cached)
    cache.layers, cache.length = layers, cache.length + tokens.shape[1]
    return F.linear(model.norm(x), model.embed_tokens.weight)


@torch.no_grad()
def greedy(model, prompt, limit, stops=()):
    """The most likely continuation of a list of ids: at most limit ids, the stop included."""
    device = model.norm.weight.device
    cache, out = empty(model, 1), []
    logits = advance(model, torch.tensor([prompt], device=device), cache)
    while len(out) < limit:
        token = int(logits[0, -1].argmax())
        out.append(token)
        if token in stops:
            break
        logits = advance(model, torch.tensor([[token]], device=device), cache)
    return out
