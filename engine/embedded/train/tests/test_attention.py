"""Attention on matrix units has the values and derivatives of the plain one in float64, document by document."""

import dataclasses
import unittest

import torch
import torch.nn.functional as F

from train import attention, model


def plain(q, k, v):
    """q: [tokens, heads, 32], k, v: [tokens, key heads, 32] of one document."""
    q, k, v = (x.transpose(0, 1)[None] for x in (q, k, v))
    return F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)[0].transpose(0, 1)


@unittest.skipUnless(attention.able(model.MINI), "no AMX, or no compiler")
class Tiles(unittest.TestCase):
    def check(self, lengths, heads=4, key_heads=2, size=1.0):
        r = torch.Generator().manual_seed(sum(lengths))
        row = sum(lengths) // 2
        q, k, v, grad = ((size * torch.randn(2, row, n, 32, generator=r)).bfloat16() for n in (heads, key_heads, key_heads, heads))
        segment = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths)).view(2, row)
        got = [x.clone().requires_grad_() for x in (q, k, v)]
        out = attention.tiles(*got, segment)
        out.backward(grad)
        want = [x.double().flatten(0, 1).requires_grad_() for x in (q, k, v)]
        parts = torch.cat([plain(*part) for part in zip(*(x.split(lengths) for x in want))])
        parts.backward(grad.double().flatten(0, 1))
        pairs = {"out": (out, parts), **{n: (g.grad, w.grad) for n, g, w in zip("qkv", got, want)}}
        for name, (g, w) in pairs.items():
            for g, w in zip(g.detach().double().flatten(0, 1).split(lengths), w.detach().split(lengths)):
                with self.subTest(lengths=lengths, name=name, tokens=len(w)):
                    self.assertLess(float((g - w).norm()), 0.01 * size * float(w.norm()) + 1e-6)

    def test_documents(self):
        self.check([64, 64])
        self.check([1, 31, 32, 33, 17, 6, 16, 15, 89])
        self.check([100, 1, 200, 63, 300, 64], heads=6)
        self.check([130, 130], key_heads=4)  # one query head for each

    def test_large_scores(self):
        self.check([70, 200, 230, 40], size=3.0)

    def test_a_row_ends_a_document(self):
        """The last document of a row and the first of the next have the same number."""
        q, k, v = (torch.randn(2, 48, n, 32, generator=torch.Generator().manual_seed(n)).bfloat16() for n in (2, 1, 1))
        out = attention.tiles(q, k, v, torch.zeros(2, 48, dtype=torch.int32))
        for i in range(2):
            torch.testing.assert_close(out[i].double(), plain(q[i].double(), k[i].double(), v[i].double()), rtol=0, atol=0.02)

    def test_other_widths_have_torchs(self):
        self.assertFalse(attention.able(dataclasses.replace(model.MINI, head_dim=64)))
