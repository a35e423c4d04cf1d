"""Attention over packed documents on the matrix units of an x86 CPU, five times as fast as torch's (attention.cpp).

`tiles` takes the place of model.attend_documents where the machine has AMX, heads are 32 wide, numbers are bfloat16 and a
compiler is at hand; it is compiled, in a few seconds, for the process that asks for it.
"""

import torch

from . import native

WIDE = 32


def _library():
    return native.on_matrix_units("attention")


def able(config):
    """Whether `tiles` can compute the attention of a model."""
    return config.head_dim == WIDE and _library() is not None


def _call(function, q, k, lengths, tensors):
    """Calls a function of attention.cpp: q, k and what else it reads, the sizes, and what it reads and writes after them."""
    inputs, outputs = tensors
    native.call(function, (*inputs, lengths), (len(lengths), q.shape[1], k.shape[1], q.shape[0]), outputs)


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
