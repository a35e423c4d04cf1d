"""The Gated DeltaNet rule in forms that give the same values.

One V head carries a state S of dk x dv. A token with key k, value v, decay exp(g)
and rate beta does, in this order:

    S <- exp(g) S        d = beta (v - S'k)        S <- S + k d'        o = S'q

`recurrent` does just that, token by token: it generates text and is the oracle
of the tests. `chunked` computes 64 tokens at a time with matrix products, which
is what training on a GPU needs; `in_turn` goes from token to token on a CPU, in C++
(delta.cpp). Everything here is float32 (or float64 in tests).

Documents are packed: `segment` numbers them, and a token sees the state of its own
document only. Where others would set a decay to zero, the chunked form masks by
equal numbers: sums of logarithms of decays stay small, so nothing cancels.
"""

import functools

import torch
import torch.nn.functional as F

from . import native

CHUNK = 64
NEVER = -1000.0  # its exponential is 0, and no infinity takes part in derivatives


def l2norm(x, eps):
    """x over its length, as the engine does: eps under the root."""
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + eps)


def spread(q, k, v):
    """q and k for every V head: each of theirs is that of as many that follow another."""
    return tuple(x.repeat_interleave(v.shape[2] // x.shape[2], 2) for x in (q, k))


def recurrent(q, k, v, g, beta, state):
    """Tokens one by one. q, k: [B, T, G, dk], v: [B, T, H, dv], g, beta: [B, T, H], H a multiple of G;
    state: [B, H, dk, dv]. Returns the outputs [B, T, H, dv] and the last state."""
    q, k = spread(q, k, v)
    out = []
    for t in range(q.shape[1]):
        state = state * g[:, t].exp()[..., None, None]
        read = torch.einsum("bhkv,bhk->bhv", state, k[:, t])
        delta = beta[:, t, :, None] * (v[:, t] - read)
        state = state + k[:, t, :, :, None] * delta[:, :, None, :]
        out.append(torch.einsum("bhkv,bhk->bhv", state, q[:, t]))
    return torch.stack(out, 1), state


# ---- two operations whose derivatives are cheaper by hand ---------------------
# Both are opaque to torch.compile: their loops would otherwise be unrolled into
# thousands of nodes for every layer.


@torch.library.custom_op("delta::unit_lower_inverse", mutates_args=())
def unit_lower_inverse(a: torch.Tensor) -> torch.Tensor:
    """(I + a)^-1 for strictly lower triangular a [..., C, C], C a power of two. A CPU solves
    row by row, seven times as fast there; a GPU wants few and large products."""
    if a.device.type != "cpu":
        return inverse_by_blocks(a)
    unit = torch.eye(a.shape[-1], dtype=a.dtype).expand(a.shape)
    return torch.linalg.solve_triangular(a, unit, upper=False, unitriangular=True).contiguous()


def inverse_by_blocks(a):
    """unit_lower_inverse with products only.

    Blocks of 1, 2, 4, ... are inverted in place: the inverse of [[X, 0], [C, Y]] has
    -Y^-1 C X^-1 below its diagonal. Powers of a, the usual shortcut, overflow the
    precision when keys repeat; the entries of these products are those of the answer.
    """
    n = a.shape[-1]
    index = torch.arange(n, device=a.device)
    x = torch.eye(n, dtype=a.dtype, device=a.device).expand(a.shape)
    size = 1
    while size < n:
        block, pair = index // size, index // (2 * size)
        below = (pair[:, None] == pair[None, :]) & (block[:, None] > block[None, :])
        x = x - x @ (a * below) @ x if size > 1 else x - a * below
        size *= 2
    return x.contiguous()


@unit_lower_inverse.register_fake
def _(a):
    return torch.empty_like(a, memory_format=torch.contiguous_format)


def _inverse_backward(ctx, grad):
    (x,) = ctx.saved_tensors
    xt = x.transpose(-1, -2)
    return -torch.tril(xt @ grad @ xt, -1)


unit_lower_inverse.register_autograd(
    _inverse_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(output))


@torch.library.custom_op("delta::scan", mutates_args=())
def scan(m: torch.Tensor, p: torch.Tensor) -> torch.Tensor:
    """States at the borders of chunks: s[0] = 0, s[n+1] = m[n] s[n] + p[n].
    m: [N, X, dk, dk], p: [N, X, dk, dv] -> [N+1, X, dk, dv]. One product per chunk
    is all that runs in sequence."""
    s = torch.empty((p.shape[0] + 1, *p.shape[1:]), dtype=p.dtype, device=p.device)
    s[0] = 0
    for n in range(p.shape[0]):
        torch.baddbmm(p[n], m[n], s[n], out=s[n + 1])
    return s


@scan.register_fake
def _(m, p):
    return p.new_empty((p.shape[0] + 1, *p.shape[1:]))


@torch.library.custom_op("delta::scan_backward", mutates_args=())
def scan_backward(grad: torch.Tensor, m: torch.Tensor) -> torch.Tensor:
    """d loss / d s[1:], from what each state is used for and from the states after it."""
    out = torch.empty_like(grad[1:], memory_format=torch.contiguous_format)
    out[-1] = grad[-1]
    for n in range(m.shape[0] - 1, 0, -1):
        torch.baddbmm(grad[n], m[n].transpose(-1, -2), out[n], out=out[n - 1])
    return out


@scan_backward.register_fake
def _(grad, m):
    return torch.empty_like(grad[1:], memory_format=torch.contiguous_format)


def _scan_backward(ctx, grad):
    m, s = ctx.saved_tensors
    down = scan_backward(grad.contiguous(), m)
    return down @ s[:-1].transpose(-1, -2), down


scan.register_autograd(
    _scan_backward, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(inputs[0], output))


# ---- the chunked form -----------------------------------------------------------


def _blocks(x, n):
    """[B, T, H, ...] -> [B, H, N, C, ...]."""
    b, t, h = x.shape[:3]
    return x.reshape(b, n, CHUNK, h, *x.shape[3:]).movedim(3, 1)


def _previous(segment):
    """The number of the document in which the chunk before ended; -1 before the first."""
    last = segment[:, :, -1]
    return F.pad(last[:, :-1], (1, 0), value=-1)[:, :, None]


def chunked(q, k, v, g, beta, segment):
    """As recurrent from a zero state; T must be a multiple of CHUNK, segment: [B, T]
    non-negative numbers of documents. Returns outputs and the last state."""
    b, t, h, dv = v.shape
    n = t // CHUNK
    q, k = spread(q, k, v)
    q, k, v, g, beta = (_blocks(x, n) for x in (q, k, v, g, beta))
    segment = segment.reshape(b, n, CHUNK)
    before, last = _previous(segment), segment[:, :, -1:]
    first = (segment == before)[:, None]  # tokens that still see the state from before
    final = (segment == last)[:, None]  # tokens that the state after the chunk still sees
    carried = (last == before)[:, None, :, 0]
    index = torch.arange(CHUNK, device=q.device)
    seen = (segment[..., :, None] == segment[..., None, :]) & (index[:, None] >= index[None, :])

    c = g.cumsum(-1)
    decay = (c[..., :, None] - c[..., None, :]).masked_fill(~seen[:, None], NEVER).exp()
    into = c.exp() * first
    strict = index[:, None] > index[None, :]
    a = beta[..., None] * (k @ k.transpose(-1, -2)) * decay * strict
    x = unit_lower_inverse(a)
    u = x @ (beta[..., None] * v)
    w = x @ ((beta * into)[..., None] * k)

    kd = (k * ((c[..., -1:] - c).exp() * final)[..., None]).transpose(-1, -2)
    eye = torch.eye(k.shape[-1], dtype=k.dtype, device=k.device)
    m = (c[..., -1].exp() * carried)[..., None, None] * eye - kd @ w
    states = scan(_chunks_first(m), _chunks_first(kd @ u))
    s = states[:-1].reshape(n, b, h, *states.shape[2:]).permute(1, 2, 0, 3, 4)

    fresh = u - w @ s
    o = (q * into[..., None]) @ s + ((q @ k.transpose(-1, -2)) * decay) @ fresh
    return o.movedim(1, 3).reshape(b, t, h, dv), states[-1].reshape(b, h, *states.shape[2:])


def _chunks_first(x):
    """[B, H, N, ...] -> [N, B*H, ...]."""
    return x.permute(2, 0, 1, 3, 4).reshape(x.shape[2], x.shape[0] * x.shape[1], *x.shape[3:]).contiguous()


# ---- token by token, on a CPU ---------------------------------------------------

WIDE, TAPS, EPSILON = 32, 4, 1e-6  # a head, the convolution and what keeps lengths from zero, as delta.cpp has them
KEPT = 32  # tokens from one state that it keeps to the next


@functools.cache
def _library():
    return native.library("delta", instead="computed by chunks")


def able(config):
    """Whether `in_turn` can compute the DeltaNet layers of a model."""
    return (config.delta_dim, config.conv, config.eps) == (WIDE, TAPS, EPSILON) and _library() is not None


@torch.library.custom_op("delta::forward", mutates_args=())
def _forward(x: torch.Tensor, weight: torch.Tensor, decay: torch.Tensor, beta: torch.Tensor,
             segment: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    b, t, heads = decay.shape
    made = x.new_empty(b, t, heads, WIDE), x.new_empty(b, t // KEPT, heads, WIDE, WIDE)
    inputs = [y.contiguous() for y in (x, weight, decay, beta, segment)]
    native.call(_library().delta_forward, inputs, (b, t, heads, _key_heads(x, heads)), made)
    return made


@_forward.register_fake
def _(x, weight, decay, beta, segment):
    b, t, heads = decay.shape
    return x.new_empty(b, t, heads, WIDE), x.new_empty(b, t // KEPT, heads, WIDE, WIDE)


def _key_heads(x, heads):
    return (x.shape[2] // WIDE - heads) // 2


@torch.library.custom_op("delta::backward", mutates_args=())
def _backward(x: torch.Tensor, weight: torch.Tensor, decay: torch.Tensor, beta: torch.Tensor, segment: torch.Tensor,
              states: torch.Tensor, grad: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    made = x.new_zeros(x.shape), x.new_zeros(weight.shape), x.new_empty(decay.shape), x.new_empty(beta.shape)
    inputs = [y.contiguous() for y in (x, weight, decay, beta, segment)]
    native.call(_library().delta_backward, inputs, (*decay.shape, _key_heads(x, decay.shape[2])), (states, grad.contiguous(), *made))
    return made


@_backward.register_fake
def _(x, weight, decay, beta, segment, states, grad):
    return tuple(x.new_empty(y.shape) for y in (x, weight, decay, beta))


def _derive(ctx, grad, _):
    *inputs, states = ctx.saved_tensors
    return *_backward(*inputs, states, grad), None


_forward.register_autograd(_derive, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs, output[1]))


def in_turn(x, weight, g, beta, segment):
    """What model.Delta.mix computes: from projected channels x [B, T, channels], the convolution's weight [channels, TAPS] and the gates
    to outputs [B, T, H, 32]. In float32; T must be a multiple of KEPT."""
    return _forward(x.float(), weight.flip(1).t(), g.exp(), beta, segment.int())[0]
