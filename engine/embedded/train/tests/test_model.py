"""The two forms of the delta rule agree, in values and gradients, whatever is packed;
and so do training's forward pass and generation."""

import dataclasses
import unittest

import torch

from train import delta, generate, grow, model


def inputs(seed, b=2, t=192, h=3, dk=32, dv=16):
    r = torch.Generator().manual_seed(seed)
    q, k = (delta.l2norm(torch.randn(b, t, h, dk, generator=r, dtype=torch.float64), 1e-6) for _ in range(2))
    k[:, 10:40] = k[:, 9:10]  # repeated keys: what makes careless inverses overflow
    v = torch.randn(b, t, h, dv, generator=r, dtype=torch.float64)
    g = -torch.rand(b, t, h, generator=r, dtype=torch.float64) ** 4 * 5
    beta = torch.sigmoid(3 * torch.randn(b, t, h, generator=r, dtype=torch.float64))
    beta[:, 10:40] = 0.999
    return [x.requires_grad_() for x in (q, k, v, g, beta)]


def by_document(args, segment):
    """The recurrent form on each document alone."""
    b, t = segment.shape
    rows = []
    for i in range(b):
        cuts = [0, *(j for j in range(1, t) if segment[i, j] != segment[i, j - 1]), t]
        parts = []
        for lo, hi in zip(cuts, cuts[1:]):
            part = [x[i:i + 1, lo:hi] for x in args]
            zero = part[0].new_zeros(1, part[0].shape[2], part[0].shape[3], part[2].shape[3])
            o, state = delta.recurrent(*part, zero)
            parts.append(o)
        rows.append(torch.cat(parts, 1))
    return torch.cat(rows), state


class Forms(unittest.TestCase):
    def check(self, segment):
        args = inputs(1)
        want, last = by_document(args, segment)
        got, state = delta.chunked(*args, segment)
        torch.testing.assert_close(got, want, rtol=0, atol=1e-12)
        torch.testing.assert_close(state[-1:], last, rtol=0, atol=1e-12)
        weights = torch.randn(want.shape, generator=torch.Generator().manual_seed(2), dtype=torch.float64)
        a = torch.autograd.grad((want * weights).sum(), args)
        b = torch.autograd.grad((got * weights).sum(), args)
        for name, x, y in zip("q k v g beta".split(), a, b):
            torch.testing.assert_close(y, x, rtol=0, atol=1e-10, msg=lambda m: f"gradient of {name}: {m}")

    def test_one_document(self):
        self.check(torch.zeros(2, 192, dtype=torch.long))

    def test_borders_anywhere(self):
        cuts = [[5, 64, 65, 70, 127, 150], [63, 128, 129, 191]]
        self.check(torch.stack([sum((torch.arange(192) >= c).long() for c in row) for row in cuts]))

    def test_state_counts_in_gradients(self):
        args = [x[:, :64] for x in inputs(3)]
        zero = torch.zeros(2, 3, 32, 16, dtype=torch.float64)
        want = delta.recurrent(*args, zero)[1]
        got = delta.chunked(*args, torch.zeros(2, 64, dtype=torch.long))[1]
        for x, y in zip(torch.autograd.grad(want.square().sum(), args[1:]), torch.autograd.grad(got.square().sum(), args[1:])):
            torch.testing.assert_close(y, x, rtol=0, atol=1e-10)

    def test_inverse(self):
        a = torch.randn(5, 64, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(4)).tril(-1) * 0.2
        eye = torch.eye(64, dtype=torch.float64)
        for inverse in (delta.unit_lower_inverse, delta.inverse_by_blocks):
            torch.testing.assert_close(inverse(a) @ (eye + a), eye.expand(5, 64, 64), rtol=0, atol=1e-9)
        small = a[:1, :8, :8].clone().requires_grad_()
        self.assertTrue(torch.autograd.gradcheck(delta.unit_lower_inverse, (small,)))

@unittest.skipUnless(delta.able(model.MINI), "no compiler")
class InTurn(unittest.TestCase):
    """From projected channels to answers, token by token in C++: as convolution and chunks have it in float64."""

    def check(self, cuts, tokens=192):
        r = torch.Generator().manual_seed(5)
        mixer = model.Delta(model.MINI)
        weight = torch.randn(mixer.conv1d.weight.shape, generator=r) / 2
        x = torch.randn(len(cuts), tokens, model.MINI.conv_dim, generator=r)
        x[:, 10:40] = x[:, 9:10]  # keys that repeat
        g = -torch.rand(len(cuts), tokens, model.MINI.value_heads, generator=r) ** 4 * 5
        beta = torch.sigmoid(3 * torch.randn(g.shape, generator=r))
        grad = torch.randn(*g.shape, model.MINI.delta_dim, generator=r)
        segment = torch.stack([sum(((torch.arange(tokens) >= c).long() for c in row), torch.zeros(tokens).long()) for row in cuts])

        def both(kind):
            inputs = [t.to(kind).requires_grad_() for t in (x, weight, g, beta)]
            mixer.conv1d.weight = torch.nn.Parameter(inputs[1])
            inputs[1] = mixer.conv1d.weight
            out = mixer.mix(inputs[0], *inputs[2:], segment)
            return out, *torch.autograd.grad((out * grad.to(kind)).sum(), inputs)

        mixer.in_turn = True
        got = both(torch.float32)
        mixer.in_turn = False
        for name, a, b in zip("out x weight g beta".split(), got, both(torch.float64)):
            torch.testing.assert_close(a.double(), b, rtol=0, atol=1e-5, msg=lambda m: f"{name}: {m}")

    def test_one_document(self):
        self.check([[]])

    def test_borders_anywhere(self):
        self.check([[1, 2, 5, 31, 64, 65, 70, 127, 150], [63, 128, 129, 191]])

    def test_a_row_ends_a_document(self):
        self.check([[], [], []], 64)

    def test_other_widths_are_computed_by_chunks(self):
        self.assertFalse(delta.able(dataclasses.replace(model.MINI, delta_dim=64)))


def tiny(seed=1, **changes):
    config = dataclasses.replace(model.CONFIGS["probe"], **changes)
    return model.Model(config).double().initialize(seed)


class Whole(unittest.TestCase):
    def test_generation_is_the_forward_pass(self):
        m = tiny()
        tokens = torch.randint(0, 320, (1, 128), generator=torch.Generator().manual_seed(5))
        with torch.no_grad():
            want = m(tokens)
            for first in (1, 63, 64, 100):  # what is prefilled, the rest goes token by token
                cache = generate.empty(m, 1)
                parts = [generate.advance(m, tokens[:, :first], cache)]
                parts += [generate.advance(m, tokens[:, i:i + 1], cache) for i in range(first, 128)]
                torch.testing.assert_close(torch.cat(parts, 1), want, rtol=0, atol=1e-10)

    def test_documents_do_not_see_each_other(self):
        m = tiny()
        r = torch.Generator().manual_seed(6)
        tokens = torch.randint(0, 320, (1, 128), generator=r)
        segment = (torch.arange(128) >= 70).long()[None]
        with torch.no_grad():
            want = m(tokens, segment)
            changed = tokens.clone()
            changed[:, :70] = torch.randint(0, 320, (1, 70), generator=r)
            got = m(changed, segment)
            alone = generate.advance(m, tokens[:, 70:], generate.empty(m, 1))
        torch.testing.assert_close(got[:, 70:], want[:, 70:], rtol=0, atol=1e-12)
        torch.testing.assert_close(alone, want[:, 70:], rtol=0, atol=1e-10)
        self.assertGreater((got[:, :70] - want[:, :70]).abs().max(), 1e-3)

    def test_the_loss_that_is_read(self):
        r = torch.Generator().manual_seed(6)
        embedding, tokens = torch.randn(50, 16, generator=r), torch.randint(0, 50, (2, 40), generator=r)
        weight = torch.where(torch.rand(2, 40, generator=r) < 0.3, 0.5, 0.0)
        x = torch.randn(2, 40, 16, generator=r).requires_grad_()
        want = model.next_token_loss(x, embedding, tokens, weight) * weight
        got = model.learnt_loss(x, embedding, tokens, weight)
        self.assertFalse(got[weight == 0].any())
        torch.testing.assert_close(got * weight, want)
        torch.testing.assert_close(*(torch.autograd.grad(y.sum(), x)[0] for y in (got * weight, want)))

    def test_router_is_the_engines(self):
        """Only the chosen experts count, with weights that sum to one, and the wide
        product is the sum over them."""
        m = tiny()
        mlp = m.layers[0].mlp
        x = torch.randn(1, 7, 64, dtype=torch.float64, generator=torch.Generator().manual_seed(7))
        with torch.no_grad():
            weights, _ = mlp.route(x)
            got = mlp.experts(x, weights)
            for t in range(7):
                logits = mlp.gate.weight @ x[0, t]
                top = logits.argsort(descending=True)[:2]
                share = torch.exp(logits[top]) / torch.exp(logits[top]).sum()
                want = 0
                for w, e in zip(share, top):
                    gate, up = (mlp.experts.gate_up_proj[e] @ x[0, t]).chunk(2)
                    want = want + w * (mlp.experts.down_proj[e] @ (gate * torch.sigmoid(gate) * up))
                torch.testing.assert_close(got[0, t], want, rtol=0, atol=1e-12)

    def test_sizes(self):
        self.assertLessEqual(model.count(model.CONFIGS["mini"]), 12_000_000)
        self.assertLessEqual(model.count(model.CONFIGS["core"]), 30_000_000)
        with self.assertRaisesRegex(ValueError, "hidden is 100"):
            dataclasses.replace(model.CONFIGS["mini"], hidden=100).check()

    def test_core_is_what_mini_grows_to(self):
        mini, core = model.CONFIGS["mini"], model.CONFIGS["core"]
        self.assertEqual(dataclasses.replace(mini, **{n: getattr(core, n) for n in grow.GROWS}), core.check())
        self.assertEqual((core.layers - mini.layers) % mini.full_every, 0)


if __name__ == "__main__":
    unittest.main()
