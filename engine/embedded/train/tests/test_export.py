"""Checkpoints and exports hold what the model holds; the Go tests run what is exported here."""

import dataclasses
import pathlib
import struct
import tempfile
import unittest

import numpy as np
import torch

from train import average, bpe, card, checkpoint, evaluate, export, generate, gguf, grow, model, probe, restore


def scalar_q8_0(values):
    """The format by its description, one value at a time."""
    out = b""
    for at in range(0, len(values), 32):
        block = [np.float32(v) for v in values[at:at + 32]]
        scale = np.float32(max(abs(v) for v in block) / np.float32(127))
        out += struct.pack("<e", scale)
        for v in block:
            y = v * np.float32(1 / scale) if scale else np.float32(0)
            out += struct.pack("<b", int(abs(y) + np.float32(0.5)) * (1 if y >= 0 else -1))
    return out


def random_model(name="probe", seed=3):
    m = model.Model(model.CONFIGS[name]).initialize(seed)
    r = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in m.parameters():
            if p.dim() == 1:  # norms that are not trivial
                p.add_(0.1 * torch.randn(p.shape, generator=r))
    return m


class Export(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def test_checkpoint(self):
        m = random_model()
        checkpoint.save(m, self.folder / "c", part_max=200_000)
        files = list((self.folder / "c").glob("*.safetensors"))
        self.assertGreater(len(files), 2)
        self.assertTrue(all(f.stat().st_size <= 200_000 for f in files))
        back = checkpoint.load(self.folder / "c")
        self.assertEqual(back.config, m.config)
        for (name, a), b in zip(m.named_parameters(), back.parameters()):
            self.assertTrue(torch.equal(a.to(torch.bfloat16).float() if a.dim() > 1 else a, b), name)
        checkpoint.save(back, self.folder / "c")  # over the old one
        self.assertEqual(len(list((self.folder / "c").glob("*.safetensors"))), 1)
        names = set(checkpoint.tensors(self.folder / "c"))
        for name in ("embed_tokens.weight", "norm.weight", "layers.0.linear_attn.conv1d.weight", "layers.0.linear_attn.A_log",
                     "layers.2.self_attn.q_norm.weight", "layers.0.mlp.experts.gate_up_proj", "layers.0.mlp.shared_expert_gate.weight"):
            self.assertIn("model.language_model." + name, names)

    def test_q8_0(self):
        x = np.random.default_rng(1).standard_normal(320).astype(np.float32)
        x[64:96], x[100] = 0, 7.5
        self.assertEqual(gguf.q8_0(x), scalar_q8_0(x))
        back = gguf.from_q8_0(gguf.q8_0(x), x.shape)
        self.assertLess(np.abs(back - x).max(), 7.5 / 127)

    def test_training_goes_on_from_a_file(self):
        m = random_model()
        checkpoint.save(m, self.folder / "c")
        saved = checkpoint.load(self.folder / "c")
        for kind, most in (("F32", 1e-6), ("Q8_0", 0.01)):
            export.write(self.folder / "c", probe.tokenizer(), "probe", kind, self.folder / "m.gguf")
            export.split(self.folder / "m.gguf", 100_000)
            back = restore.restored(*gguf.read(restore.joined(self.folder / "m.gguf")))
            self.assertEqual(back.config, m.config)
            for (name, a), b in zip(saved.named_parameters(), back.named_parameters()):
                self.assertEqual(name, b[0])
                torch.testing.assert_close(b[1], a, rtol=0, atol=most * float(a.detach().abs().max()), msg=name)

    def test_tiled(self):
        c = model.Config(key_heads=2, value_heads=6)
        self.assertEqual(export.tiled(c, 1).tolist(), [0, 3, 1, 4, 2, 5])
        self.assertEqual(export.tiled(c, 2).tolist(), [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11])

    def test_every_matrix_can_be_q8_0(self):
        for name in ("mini", "core"):
            c = model.CONFIGS[name]
            state = {n: t.float().numpy() for n, t in checkpoint.stored(random_model(name).named_parameters()).items()}
            for tensor, kind, x in export.tensors(c, state, "Q8_0"):
                self.assertTrue(kind == "F32" or x.shape[-1] % 32 == 0, f"{name} {tensor}: {x.shape}")

    def test_files(self):
        checkpoint.save(random_model(), self.folder / "c")
        file = self.folder / "m.gguf"
        export.write(self.folder / "c", probe.tokenizer(), "m", "Q8_0", file)
        whole = file.read_bytes()
        parts = export.split(file, 100_000)
        self.assertFalse(file.exists())
        self.assertEqual([p.name for p in parts], [f"m.gguf.{i + 1}-of-{len(parts)}" for i in range(len(parts))])
        self.assertEqual(b"".join(p.read_bytes() for p in parts), whole)
        export.write(self.folder / "c", probe.tokenizer(), "m", "Q8_0", file)
        self.assertEqual(export.split(file, 1 << 30), [file])
        self.assertEqual([p.name for p in self.folder.glob("m.gguf*")], ["m.gguf"])
        with self.assertRaisesRegex(ValueError, "entries"):
            export.write(self.folder / "c", bpe.Tokenizer.from_merges([]), "m", "Q8_0", file)

    def test_agreement(self):
        m = random_model()
        answers = evaluate.record(m, [[1, 2, 3], [4] * 70], 9, ())
        self.assertEqual(evaluate.choices(m, answers), (18, 18))
        self.assertEqual(answers[0]["tokens"], generate.greedy(m, [1, 2, 3], 9))
        same, total = evaluate.choices(evaluate.rounded(m), answers)
        self.assertEqual(total, 18)
        other, _ = evaluate.choices(random_model(seed=4), answers)
        self.assertLess(other, same)

    def test_grown(self):
        """A wider stream, more layers, heads and members of experts, and the same logits."""
        old = random_model(seed=1)
        with torch.no_grad():
            old.embed_tokens.weight.mul_(100)  # beside what has the size of trained ones, the norms' eps is nothing
        c = dataclasses.replace(old.config, hidden=2 * old.config.hidden, layers=2 * old.config.layers, heads=2 * old.config.heads, kv_heads=2 * old.config.kv_heads,
                                expert_ff=3 * old.config.expert_ff, shared_ff=2 * old.config.shared_ff)
        new, tokens = grow.grown(old, c, seed=2), torch.arange(128)[None] * 7 % c.vocab
        got = new(tokens)
        torch.testing.assert_close(got, old(tokens), rtol=1e-5, atol=1e-4)
        got.square().sum().backward()
        for name, p in new.named_parameters():
            if name.endswith(grow.ADDS):  # a new layer can begin to learn
                self.assertGreater(p.grad.abs().max(), 0, name)
        for bad in (dict(head_dim=2 * c.head_dim), dict(hidden=old.config.hidden), dict(layers=c.layers + 1), dict(heads=old.config.heads, kv_heads=old.config.kv_heads, layers=3), dict(heads=c.heads // 2), dict(expert_ff=old.config.expert_ff)):
            with self.assertRaises(ValueError):
                grow.grown(new, dataclasses.replace(c, **bad))

    def test_average(self):
        want = [0.25 * a + 0.75 * b for a, b in zip(random_model(seed=1).parameters(), random_model(seed=2).parameters())]
        for got, w in zip(average.average([random_model(seed=1), random_model(seed=2)], [1, 3]).parameters(), want):
            self.assertTrue(torch.allclose(got, w, atol=1e-6))

    def test_card(self):
        logs = [[{"kind": "start", "device": "one GPU"}, {"kind": "eval", "loss": {"all": 0.25}}, {"kind": "end", "seconds": 120, "tokens": 5e6}]] * 2
        logs.append([{"kind": "start", "device": "cpu", "rows": 1, "row": 5120, "processes": 2}, {"kind": "eval", "loss": {"all": 9}},
                     {"kind": "step", "step": 100, "seconds": 90.0}])
        logs.append([{"kind": "start", "device": "another GPU"}, {"kind": "end", "seconds": 60, "tokens": 2e6}])
        score = {"skill": "facts", "cases": 50, "right": 49, "share": 0.98, "ended": 1.0, "looped": 0.0, "tokens": 9, "calls": 7, "valid_calls": 7, "wanted_calls": 8, "right_calls": 6}
        rounds = [{"model": m, "temperature": t, "skills": [{**score, "share": 0.98 if "mini" in m else 0.5}], "all": {**score, "skill": "all"}} for m in ("core-1.1", "core-1.1-mini") for t in (0, -1)]
        gates = [{"name": f"{m}, temperature 0: calls right", "value": 0.75, "limit": 0.96, "at_least": True, "met": False} for m in ("core-1.1", "core-1.1-mini")]
        reports = {"rounds": rounds, "gates": gates}
        text = card.card("core-1.1-mini", model.CONFIGS["mini"], [15 << 20, 1 << 20], [card.run(x) for x in logs], reports, {"choices": 1000, "share": 0.995}, 4096)
        for want in ("13 million tokens in 6.5 minutes", "| 3 | cpu | 1.5 | 1 M | stopped |", "| 4 | another GPU | 1.0 | 2 M | not asked |", "| facts | 50 | 98.0 % | 100.0 % | 98.0 % | 100.0 % |", "2 parts", "99.50 %", "4096",
                     "right, temperature 0", "right, default temperature", "7 of 7 valid and 6 of 8 wanted ones right", "| temperature 0: calls right | 75.0 % | at least 96 % | missed |"):
            self.assertIn(want, text)
        self.assertEqual(card.ROW.findall(text), [card.run(x) for x in logs])

    def test_card_sums_each_file_of_cases_alone(self):
        score = lambda skill, cases, right, ended=1.0: {"skill": skill, "cases": cases, "right": right, "share": right / cases, "ended": ended}
        scores = [score("facts", 40, 37), score("json", 10, 3, 0.9), score("new facts", 30, 26), score("new json", 10, 4, 0.8), score("schemas", 200, 200), score("loops", 500, 499, 0.998)]
        calls = {"valid_calls": 4, "calls": 4, "right_calls": 3, "wanted_calls": 4}
        rounds = [{"temperature": 0, "skills": scores, "all": {**score("all", 790, 769), "looped": 0.01, **calls}}]
        table, _, below = card.skills(rounds).partition("\n\n")
        self.assertEqual([row.split(" | ")[0].removeprefix("| ") for row in table.splitlines()[2:]], ["facts", "json", "all", "new facts", "new json", "all new", "schemas", "loops"])
        self.assertIn("| all | 50 | 80.0 % | 98.0 % |", table)
        self.assertIn("| all new | 40 | 75.0 % | 95.0 % |", table)
        self.assertTrue(below.startswith("Answers that go round in circles, of all 790: 1.00 % at temperature 0."), below)
        rounds[0]["skills"] = scores[:2]  # skills.jsonl alone
        self.assertNotIn("all new", card.skills(rounds))

    def test_card_says_what_its_agreement_is_of(self):
        text = card.card("core-1.1-mini", model.CONFIGS["mini"], [], [], None, {"choices": 1000, "share": 0.995}, None)
        self.assertIn("the weights rounded to Q8_0 make, with activations in float32, 99.50 % as the float32 weights do.", text)


if __name__ == "__main__":
    unittest.main()
