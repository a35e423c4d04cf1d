#!/usr/bin/env python3
"""Logits of a prediction layer (MTP), computed in float64 with numpy alone.

    reference.py ../parity/tiny-qwen35-f16.gguf ../parity/tiny-qwen35-f32.kv-f32.json > tiny-qwen35.json

The file's model gets a prediction block made by the rule of gguftest.WithPrediction:
every tensor is a hash of its name and index. The formulas are those of the models'
publishers (transformers' Qwen3.5, vLLM's qwen3_5_mtp): gated full attention, gated
delta rule token by token, experts by softmax over all and renormalised. The second
argument is a recording of the model without the block by another engine: the model's
own logits must agree with it, so that a wrong reference is found here.

The output has, for the recording's prompt: "next[t]", the distribution of token t+2
from the hidden values of token t and the embedding of token t+1 (log-sum-exp, best
eight as [id, logit]); "chain", what follows the last of them: greedy tokens of the
layer applied to its own result, with all logits.
"""
import json
import math
import struct
import sys

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}


class File:
    """A GGUF file of F32 and F16 tensors; x[name] is float64, rows first."""

    def __init__(self, path):
        self.data, self.at, self.meta, infos = open(path, "rb").read(), 4, {}, []
        _, count, keys = self.take("IQQ")
        for _ in range(keys):
            key = self.text()
            self.meta[key] = self.value(self.take("I")[0])
        for _ in range(count):
            name = self.text()
            shape = self.take("Q" * self.take("I")[0])
            infos.append((name, shape) + self.take("IQ"))
        base = (self.at + 31) // 32 * 32
        self.tensors = {}
        for name, shape, typ, offset in infos:
            kind = {0: "<f4", 1: "<f2"}[typ]
            n = math.prod(shape)
            values = np.frombuffer(self.data, kind, n, base + offset)
            self.tensors[name] = values.astype(np.float64).reshape(shape[::-1])

    def take(self, form):
        out = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return out

    def text(self):
        n, = self.take("Q")
        self.at += n
        return self.data[self.at - n:self.at].decode("utf-8", "replace")

    def value(self, typ):
        if typ == 8:
            return self.text()
        if typ == 9:
            of, n = self.take("IQ")
            return [self.value(of) for _ in range(n)]
        return self.take(SCALARS[typ])[0]

    def __getitem__(self, name):
        return self.tensors[name]

    def __contains__(self, name):
        return name in self.tensors


def hashed(name, n, scale):
    """gguftest.Hashed."""
    seed = 2166136261
    for c in name.encode():
        seed = (seed ^ c) * 16777619 & 0xFFFFFFFF
    h = np.arange(n, dtype=np.uint32) * np.uint32(0x9E3779B9) + np.uint32(seed)
    h = (h ^ h >> np.uint32(16)) * np.uint32(0x7FEB352D)
    h = (h ^ h >> np.uint32(15)) * np.uint32(0x846CA68B)
    h = h ^ h >> np.uint32(16)
    return np.float32(scale) * ((h >> np.uint32(8)).astype(np.float32) / np.float32(1 << 23) - np.float32(1))


def add_prediction(f, blocks, hidden):
    """gguftest.WithPrediction."""
    last, p = "blk.%d." % (blocks - 1), "blk.%d." % blocks
    shapes = {p + n[len(last):]: x.shape for n, x in f.tensors.items() if n.startswith(last)}
    shapes[p + "nextn.eh_proj.weight"] = (hidden, 2 * hidden)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        shapes[p + "nextn." + name + ".weight"] = (hidden,)
    for name, shape in shapes.items():
        n = math.prod(shape)
        if name.endswith("norm.weight"):
            x = hashed(name, n, 0.25) + np.float32(1)
        else:
            x = hashed(name, n, np.float32(2 / math.sqrt(shape[-1])))
            if "ffn_gate_inp" not in name:
                x = x.astype(np.float16)
        f.tensors[name] = x.astype(np.float64).reshape(shape)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def silu(x):
    return x * sigmoid(x)


class Model:
    def __init__(self, f):
        self.f, a = f, f.meta["general.architecture"]
        key = lambda name, default=None: f.meta.get(a + "." + name, default)
        self.blocks, self.hidden = key("block_count"), key("embedding_length")
        self.heads, self.kv_heads = key("attention.head_count"), key("attention.head_count_kv")
        self.dim, self.eps = key("attention.key_length"), key("attention.layer_norm_rms_epsilon")
        self.rope, self.base = key("rope.dimension_count"), key("rope.freq_base")
        self.k_heads, self.v_heads = key("ssm.group_count"), key("ssm.time_step_rank")
        self.state, self.taps = key("ssm.state_size"), key("ssm.conv_kernel")
        self.every, self.used = key("full_attention_interval", 4), key("expert_used_count", 0)
        self.head = f["output.weight"] if "output.weight" in f else f["token_embd.weight"]

    def norm(self, x, w):
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + self.eps) * w

    def rotate(self, x, positions):
        """x is [n, heads, dim]; the first rope values of a head turn."""
        half = self.rope // 2
        angle = np.outer(positions, self.base ** (-2 * np.arange(half) / self.rope))[:, None, :]
        a, b = x[..., :half], x[..., half:2 * half]
        turned = np.concatenate([a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)], -1)
        return np.concatenate([turned, x[..., 2 * half:]], -1)

    def attention(self, p, x, positions, cache):
        """x is [n, hidden]; cache is a list of (k, v) by position, and grows."""
        f, n = self.f, len(x)
        both = (x @ f[p + "attn_q.weight"].T).reshape(n, self.heads, 2 * self.dim)
        q, gate = both[..., :self.dim], both[..., self.dim:]
        k = (x @ f[p + "attn_k.weight"].T).reshape(n, self.kv_heads, self.dim)
        v = (x @ f[p + "attn_v.weight"].T).reshape(n, self.kv_heads, self.dim)
        q = self.rotate(self.norm(q, f[p + "attn_q_norm.weight"]), positions)
        k = self.rotate(self.norm(k, f[p + "attn_k_norm.weight"]), positions)
        group, out = self.heads // self.kv_heads, np.empty((n, self.heads, self.dim))
        for i in range(n):
            cache.append((k[i], v[i]))
            keys, values = np.array([c[0] for c in cache]), np.array([c[1] for c in cache])
            for h in range(self.heads):
                score = keys[:, h // group] @ q[i, h] / math.sqrt(self.dim)
                w = np.exp(score - score.max())
                out[i, h] = w @ values[:, h // group] / w.sum()
        return (out * sigmoid(gate)).reshape(n, -1) @ f[p + "attn_output.weight"].T

    def delta(self, p, x):
        f, n, d = self.f, len(x), self.state
        qkv = np.concatenate([np.zeros((self.taps - 1, f[p + "attn_qkv.weight"].shape[0])), x @ f[p + "attn_qkv.weight"].T])
        conv = silu(sum(qkv[j:j + n] * f[p + "ssm_conv1d.weight"][:, j] for j in range(self.taps)))
        keys = self.k_heads * d
        unit = lambda y: y / np.sqrt((y * y).sum(-1, keepdims=True) + self.eps)
        q = unit(conv[:, :keys].reshape(n, self.k_heads, d)) / math.sqrt(d)
        k = unit(conv[:, keys:2 * keys].reshape(n, self.k_heads, d))
        v = conv[:, 2 * keys:].reshape(n, self.v_heads, d)
        beta = sigmoid(x @ f[p + "ssm_beta.weight"].T)
        g = f[p + "ssm_a"] * np.logaddexp(0, x @ f[p + "ssm_alpha.weight"].T + f[p + "ssm_dt.bias"])
        out, state = np.empty((n, self.v_heads, d)), np.zeros((self.v_heads, d, d))
        for i in range(n):
            for h in range(self.v_heads):
                at = h % self.k_heads  # the order of heads in this file format
                s = state[h] * math.exp(g[i, h])
                s = s + np.outer(k[i, at], beta[i, h] * (v[i, h] - s.T @ k[i, at]))
                state[h], out[i, h] = s, s.T @ q[i, at]
        z = (x @ f[p + "attn_gate.weight"].T).reshape(n, self.v_heads, d)
        return (self.norm(out, f[p + "ssm_norm.weight"]) * silu(z)).reshape(n, -1) @ f[p + "ssm_out.weight"].T

    def ffn(self, p, x):
        f = self.f
        swiglu = lambda y, g, u, d: (silu(y @ g.T) * (y @ u.T)) @ d.T
        if not self.used:
            return swiglu(x, f[p + "ffn_gate.weight"], f[p + "ffn_up.weight"], f[p + "ffn_down.weight"])
        out = sigmoid(x @ f[p + "ffn_gate_inp_shexp.weight"].reshape(1, -1).T) * swiglu(
            x, f[p + "ffn_gate_shexp.weight"], f[p + "ffn_up_shexp.weight"], f[p + "ffn_down_shexp.weight"])
        scores = x @ f[p + "ffn_gate_inp.weight"].T
        for i, row in enumerate(scores):
            best = np.argsort(-row, kind="stable")[:self.used]
            w = np.exp(row[best] - row[best].max())
            for e, share in zip(best, w / w.sum()):
                out[i] += share * swiglu(x[i], f[p + "ffn_gate_exps.weight"][e], f[p + "ffn_up_exps.weight"][e], f[p + "ffn_down_exps.weight"][e])
        return out

    def block(self, i, x, positions, cache, linear):
        p = "blk.%d." % i
        h = self.norm(x, self.f[p + "attn_norm.weight"])
        x = x + (self.delta(p, h) if linear else self.attention(p, h, positions, cache))
        return x + self.ffn(p, self.norm(x, self.f[p + "post_attention_norm.weight"]))

    def run(self, tokens):
        """The hidden values that the head reads, of every token."""
        x = self.f["token_embd.weight"][tokens]
        for i in range(self.blocks):
            x = self.block(i, x, np.arange(len(tokens)), [], (i + 1) % self.every != 0)
        return self.norm(x, self.f["output_norm.weight"])

    def predict(self, hidden, following, first, cache):
        """The layer's result for rows at positions from first on."""
        p = "blk.%d.nextn." % self.blocks
        e = self.norm(self.f["token_embd.weight"][following], self.f[p + "enorm.weight"])
        h = self.norm(hidden, self.f[p + "hnorm.weight"])
        x = np.concatenate([e, h], -1) @ self.f[p + "eh_proj.weight"].T
        x = self.block(self.blocks, x, first + np.arange(len(x)), cache, False)
        return self.norm(x, self.f[p + "shared_head_norm.weight"])


def describe(logits):
    best = np.argsort(-logits, kind="stable")[:8]
    most = logits.max()
    return {"lse": round(most + math.log(np.exp(logits - most).sum()), 6), "top": [[int(i), round(logits[i], 6)] for i in best]}


def main():
    f, recorded = File(sys.argv[1]), json.load(open(sys.argv[2]))
    m, tokens = Model(f), recorded["prompt"]
    hidden = m.run(tokens)
    worst = max(np.abs(h @ m.head.T - np.array(r["all"])).max() for h, r in zip(hidden, recorded["prompt_positions"]))
    print("largest difference to the recording: %.4f" % worst, file=sys.stderr)
    assert worst < 0.01
    add_prediction(f, m.blocks, m.hidden)
    cache, out = [], {"prompt": tokens, "next": [], "chain": []}
    rows = m.runHead(hidden[:-1], tokens[1:], 0, cache)
    for row in rows:
        out["next"].append(describe(row @ m.head.T))
    row = rows[-1]
    for depth in range(4):
        logits = row @ m.head.T
        token = int(np.argmax(logits))
        out["chain"].append({"token": token, "all": [round(x, 5) for x in logits.tolist()]})
        row = m.runHead(row[None], [token], len(tokens) - 1 + depth, cache)[0]
    json.dump(out, sys.stdout)


main()
