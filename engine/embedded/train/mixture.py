"""The experts of a layer on the matrix units of an x86 CPU (mixture.cpp): a token costs the experts that it has, where torch computes
all of them as one wide layer (model.Experts)."""

import torch

from . import native


def _library():
    return native.on_matrix_units("mixture")


def able():
    """Whether `tiles` can compute experts here; sizes are multiples of 32 anyway (model.Config)."""
    return _library() is not None


def _sizes(x, gate_up, shared_gate):
    return x.shape[0], x.shape[1], gate_up.shape[0], gate_up.shape[1] // 2, shared_gate.shape[0]


@torch.library.custom_op("mixture::forward", mutates_args=())
def _forward(x: torch.Tensor, weights: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor,
             shared_gate: torch.Tensor, shared_up: torch.Tensor, shared_down: torch.Tensor) -> torch.Tensor:
    y = x.new_zeros(x.shape)
    inputs = [t.contiguous() for t in (x, weights, gate_up, down, shared_gate, shared_up, shared_down)]
    native.call(_library().mixture_forward, inputs, _sizes(x, gate_up, shared_gate), [y])
    return y


@_forward.register_fake
def _(x, *rest):
    return x.new_empty(x.shape)


@torch.library.custom_op("mixture::backward", mutates_args=())
def _backward(x: torch.Tensor, weights: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor,
              shared_gate: torch.Tensor, shared_up: torch.Tensor, shared_down: torch.Tensor, grad: torch.Tensor) -> list[torch.Tensor]:
    inputs = [t.contiguous() for t in (x, weights, gate_up, down, shared_gate, shared_up, shared_down)]
    made = [t.new_zeros(t.shape) for t in (x, weights, gate_up, down.mT, shared_gate, shared_up, shared_down.mT)]
    native.call(_library().mixture_backward, inputs, _sizes(x, gate_up, shared_gate), [grad.contiguous(), *made])
    return made


@_backward.register_fake
def _(x, weights, gate_up, down, shared_gate, shared_up, shared_down, grad):
    return [t.new_empty(t.shape) for t in (x, weights, gate_up, down.mT, shared_gate, shared_up, shared_down.mT)]


def _derive(ctx, grad):
    dx, dweights, dgate_up, ddown, dshared_gate, dshared_up, dshared_down = _backward(*ctx.saved_tensors, grad)
    return dx, dweights, dgate_up, ddown.mT, dshared_gate, dshared_up, dshared_down.mT


_forward.register_autograd(_derive, setup_context=lambda ctx, inputs, output: ctx.save_for_backward(*inputs))


def tiles(x, weights, shared_weight, experts, shared):
    """model.Mixture's answers: x [..., hidden], weights of the experts [..., experts], zero for those that a token does not have, the
    weight of the shared expert [..., 1], and both modules. Products are in bfloat16, the rest in float32."""
    flat = x.float().flatten(0, -2), torch.cat([weights, shared_weight.float()], -1).flatten(0, -2)
    matrices = shared.gate_proj.weight, shared.up_proj.weight, shared.down_proj.weight
    return _forward(*flat, experts.gate_up_proj, experts.down_proj, *matrices).view(x.shape)
