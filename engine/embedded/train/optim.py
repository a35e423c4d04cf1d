"""Muon for matrices, AdamW for the rest.

Muon (momentum whose matrix is replaced by the nearest orthogonal one) reaches a loss in
about half the steps of AdamW on models of this size. Matrices of one shape are stacked,
the experts' too, so a step is a few products for all layers together.
"""

import collections

import torch

# Coefficients of the quintic iteration that drives singular values towards 1; five
# rounds leave them between 0.7 and 1.2, which is enough.
QUINTIC, ROUNDS = (3.4445, -4.7750, 2.0315), 5

# Matrices that are not maps between streams: AdamW suits them better.
PLAIN = ("embed_tokens", "conv1d", "mlp.gate.", "shared_expert_gate", "in_proj_a", "in_proj_b")


def orthogonal(g, kind=torch.float32):
    """Nearly U V' of every matrix U S V' in a stack [N, rows, columns], computed in a type of numbers."""
    wide = g.shape[-2] <= g.shape[-1]
    x = g if wide else g.transpose(-1, -2)
    x = (x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)).to(kind).contiguous()
    a, b, c = QUINTIC
    for _ in range(ROUNDS):
        s = x @ x.transpose(-1, -2)
        x = torch.baddbmm(x, torch.baddbmm(s, s, s, beta=b, alpha=c), x, beta=a)
    return (x if wide else x.transpose(-1, -2)).to(g.dtype)


class Muon:
    """One learning rate for all shapes: the step of a matrix has the size of its rows."""

    def __init__(self, parameters, rate, momentum=0.95, decay=0.02, kind=torch.float32):
        self.rate, self.momentum, self.decay, self.kind = rate, momentum, decay, kind
        shapes = collections.defaultdict(list)
        for p in parameters:
            shapes[p.shape[-2:]].append(p)
        self.groups = [(ps, torch.zeros(sum(p.numel() for p in ps) // s.numel(), *s, device=ps[0].device))
                       for s, ps in shapes.items()]

    @torch.no_grad()
    def step(self, scale):
        rate = self.rate * scale
        for ps, buffer in self.groups:
            g = torch.cat([p.grad.reshape(-1, *buffer.shape[1:]) for p in ps])
            buffer.lerp_(g, 1 - self.momentum)
            update = orthogonal(g.lerp(buffer, self.momentum), self.kind)  # Nesterov's look ahead
            parts = update.split([p.numel() // buffer[0].numel() for p in ps])
            size = max(1, buffer.shape[1] / buffer.shape[2]) ** 0.5
            torch._foreach_mul_(ps, 1 - rate * self.decay)
            torch._foreach_add_(ps, [u.view_as(p) for u, p in zip(parts, ps)], alpha=-rate * size)


class Optimizer:
    """Both, under one schedule: step's scale multiplies all rates."""

    def __init__(self, model, rate=0.003, matrix_rate=0.02, decay=0.01, muon=True, kind=torch.float32):
        matrices, plain, vectors = [], [], []
        for name, p in model.named_parameters():
            if muon and p.dim() > 1 and not any(n in name for n in PLAIN):
                matrices.append(p)
            else:
                (plain if p.dim() > 1 else vectors).append(p)
        self.rate, self.parameters = rate, [*matrices, *plain, *vectors]
        self.muon = Muon(matrices, matrix_rate, kind=kind) if matrices else None
        self.adam = torch.optim.AdamW(
            [{"params": plain, "weight_decay": decay}, {"params": vectors, "weight_decay": 0.0}],
            lr=rate, betas=(0.9, 0.95), eps=1e-10, fused=True)

    def step(self, scale, clip=1.0):
        """Clips, updates, clears the gradients; returns their norm, on the device."""
        norm = torch.nn.utils.clip_grad_norm_(self.parameters, clip)
        if self.muon:
            self.muon.step(scale)
        for group in self.adam.param_groups:
            group["lr"] = self.rate * scale
        self.adam.step()
        for p in self.parameters:
            p.grad = None
        return norm


def schedule(done, warm=0.02, decay=0.45, last=0.0):
    """The scale of the rates when a share `done` of the run is over: up, level, and
    down in a straight line, so that a run of any length ends with small steps."""
    up = min(1.0, (done + 1e-3) / warm)
    down = min(1.0, max(0.0, (1 - done) / decay))
    return up * (last + (1 - last) * down)
