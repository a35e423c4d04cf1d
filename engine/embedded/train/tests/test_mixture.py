"""Experts on matrix units have the values and derivatives of the plain ones in float64."""

import unittest

import torch

from train import mixture, model


def relative(got, want):
    return float((got.detach().double() - want.detach()).norm() / want.detach().norm())


@unittest.skipUnless(mixture.able(), "no AMX, or no compiler")
class Tiles(unittest.TestCase):
    def check(self, shape, config=model.MINI, share=None):
        r = torch.Generator().manual_seed(sum(shape))
        experts, shared = model.Experts(config), model.SwiGLU(config.hidden, config.shared_ff)
        with torch.no_grad():
            for p in (*experts.parameters(), *shared.parameters()):
                p.copy_(torch.randn(p.shape, generator=r) * p.shape[-1] ** -0.5)
        x, grad = (torch.randn(*shape, config.hidden, generator=r) for _ in range(2))
        logits = torch.randn(*shape, config.experts, generator=r) if share is None else share.expand(*shape, config.experts)
        weights = logits.softmax(-1) * torch.zeros_like(logits).scatter(-1, logits.topk(config.experts_used, -1).indices, 1.0)
        whole = torch.rand(*shape, 1, generator=r)
        inputs = [t.clone().requires_grad_() for t in (x, weights, whole)]
        got = mixture.tiles(*inputs, experts, shared)
        made = torch.autograd.grad((got * grad).sum(), [*inputs, *experts.parameters(), *shared.parameters()])
        experts.double(), shared.double()
        inputs = [t.double().requires_grad_() for t in (x, weights, whole)]
        want = experts(inputs[0], inputs[1]) + inputs[2] * shared(inputs[0])
        wanted = list(torch.autograd.grad((want * grad.double()).sum(), [*inputs, *experts.parameters(), *shared.parameters()]))
        wanted[1] = wanted[1] * (weights != 0)  # of the others nobody asks
        names = ["x", "weights", "whole", *(n for n, _ in experts.named_parameters()), *(n for n, _ in shared.named_parameters())]
        for name, g, w in [("y", got, want), *zip(names, made, wanted)]:
            with self.subTest(shape=shape, name=name):
                self.assertEqual(g.shape, w.shape)
                self.assertLess(relative(g, w), 0.01)

    def test_tokens(self):
        self.check((1, 1))
        self.check((1, 33))
        self.check((2, 700))
        self.check((3, 1024))

    def test_other_sizes(self):
        self.check((1, 100), model.CONFIGS["core"])
        self.check((1, 100), model.CONFIGS["probe"])

    def test_everybody_wants_the_same(self):
        """Two experts have all tokens, more than are computed at a time, and six have none."""
        self.check((1, 600), share=torch.arange(8.0))
