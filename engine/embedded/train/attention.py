"""Attention over packed documents on the matrix units of an x86 CPU, five times as fast as torch's (attention.cpp).

`tiles` takes the place of model.attend_documents where the machine has AMX, heads are 32 wide, numbers are bfloat16 and a
compiler is at hand; it is compiled, in a few seconds, for the process that asks for it.
"""

import ctypes
import functools
import os
import pathlib
import subprocess
import tempfile
import warnings

import torch

WIDE = 32
_SOURCE = pathlib.Path(__file__).with_name("attention.cpp")


@functools.cache
def _library():
    """attention.cpp compiled and loaded, or None where it cannot be."""
    if not getattr(torch.cpu, "get_capabilities", dict)().get("amx_bf16"):
        return None
    with tempfile.TemporaryDirectory() as folder:
        out = pathlib.Path(folder) / "attention.so"
        compiler = [os.environ.get("CXX", "c++"), "-std=c++17", "-O3", "-march=sapphirerapids", "-shared", "-fPIC"]
        try:
            subprocess.run([*compiler, "-o", str(out), str(_SOURCE)], check=True, capture_output=True)
            library = ctypes.CDLL(str(out))
        except (OSError, subprocess.CalledProcessError) as e:
            warnings.warn(f"attention is torch's, which is slower: {e} {getattr(e, 'stderr', b'').decode(errors='replace')[:2000]}")
            return None
    return library if library.attention_able() else None


def able(config):
    """Whether `tiles` can compute the attention of a model."""
    return config.head_dim == WIDE and _library() is not None


def _call(function, q, k, lengths, tensors):
    """Calls a function of attention.cpp: q, k and what else it reads, the sizes, and what it reads and writes after them."""
    inputs, outputs = tensors
    sizes = len(lengths), q.shape[1], k.shape[1], q.shape[0]
    first, last = ([ctypes.c_void_p(t.data_ptr()) for t in part] for part in ((*inputs, lengths), outputs))
    function(*first, *(ctypes.c_int64(n) for n in sizes), ctypes.c_float(WIDE ** -0.5), *last)


class Tiles(torch.autograd.Function):
    """q: [tokens, heads, 32], k, v: [tokens, key heads, 32], all bfloat16; lengths of the documents, one after the other."""

    @staticmethod
    def forward(ctx, q, k, v, lengths):
        out, sums = torch.empty_like(q), torch.empty(q.shape[1], q.shape[0])
        _call(_library().attention_forward, q, k, lengths, ((q, k, v), (out, sums)))
        ctx.save_for_backward(q, k, v, lengths, out, sums)
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, lengths, out, sums = ctx.saved_tensors
        grad = grad.contiguous()
        made = [torch.empty_like(x) for x in (q, k, v)]
        _call(_library().attention_backward, q, k, lengths, ((q, k, v), (out, sums, grad, *made)))
        return *made, None


@torch.compiler.disable
def tiles(q, k, v, segment):
    """As model.attend_documents, in bfloat16 with sums in float32."""
    rows = torch.arange(segment.shape[0])[:, None] * (segment.shape[1] + 1)
    lengths = torch.unique_consecutive((segment + rows).flatten(), return_counts=True)[1]
    flat = [x.flatten(0, 1).to(torch.bfloat16).contiguous() for x in (q, k, v)]
    return Tiles.apply(*flat, lengths).view(q.shape).to(q.dtype)
