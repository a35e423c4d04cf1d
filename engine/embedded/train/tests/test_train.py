"""It learns: a small model copies, reverses and adds after a short run on one core; runs are
repeatable, resume, and leave what they promise. And rows of documents lose nothing."""

import dataclasses
import itertools
import json
import os
import pathlib
import signal
import sys
import tempfile
import unittest

import numpy as np
import torch

from train import batches, checkpoint, generate, model, optim, parallel, train

STOP = 31


@dataclasses.dataclass(frozen=True)
class Reversing:
    """Documents of 2 to 5 symbols, a colon, and the symbols in reverse order."""

    def __call__(self, seed, worker, workers):
        r = np.random.default_rng([seed, worker])
        while True:
            x = r.integers(1, 12, r.integers(2, 6))
            ids = np.concatenate([x, [30], x[::-1], [STOP]])
            yield ids, np.arange(len(ids)) > len(x)


@dataclasses.dataclass(frozen=True)
class Interrupting(Reversing):
    """Sends the trainer a signal, some dozens of batches after its first step."""

    def __call__(self, seed, worker, workers):
        for i, document in enumerate(super().__call__(seed, worker, workers)):
            if i == 2000:
                os.kill(os.getppid(), signal.SIGTERM)
            yield document


CONFIG = dataclasses.replace(model.CONFIGS["probe"], vocab=32)


def arguments(folder, *more):
    return train.parser().parse_args(
        ["--tokenizer", "none", "--device", "cpu", "--dtype", "float32", "--no-compile", "--rows", "4", "--row", "128", "--workers", "1",
         "--out", str(folder / "out"), "--log", str(folder / "log.jsonl"), "--heldout", "0", "--log-every", "5", "--config", "test", *more])


class Learning(unittest.TestCase):
    def setUp(self):
        torch.set_num_threads(1)
        model.CONFIGS["test"] = CONFIG
        self.addCleanup(model.CONFIGS.pop, "test")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def log(self):
        return [json.loads(line) for line in (self.folder / "log.jsonl").read_text().splitlines()]

    def test_learns_to_reverse(self):
        train.run(arguments(self.folder, "--steps", "300", "--prompt-weight", "0"), Reversing())
        steps = [x for x in self.log() if x["kind"] == "step"]
        self.assertLess(steps[-1]["loss"], 0.2 * steps[0]["loss"])
        m = checkpoint.load(self.folder / "out")
        right = 0
        for (ids, learnt), _ in zip(Reversing()(99, 0, 1), range(20)):
            at = int(np.argmax(learnt))
            right += generate.greedy(m, ids[:at].tolist(), 20, (STOP,)) == ids[at:].tolist()
        self.assertGreaterEqual(right, 18)

    def test_runs_are_repeatable_and_resume(self):
        first = train.run(arguments(self.folder, "--steps", "6"), Reversing())
        again = train.run(arguments(self.folder, "--steps", "6"), Reversing())
        for (name, a), b in zip(first.model.named_parameters(), again.model.parameters()):
            self.assertTrue(torch.equal(a, b), name)
        resumed = train.run(arguments(self.folder, "--steps", "1", "--resume", str(self.folder / "out"), "--rate-scale", "0"), Reversing())
        for (name, a), b in zip(first.model.named_parameters(), resumed.model.parameters()):
            want = a.to(torch.bfloat16).float() if a.dim() > 1 else a
            self.assertTrue(torch.equal(want, b), name)

    def test_noise_is_on_what_is_learnt_from_alone(self):
        document, learnt = next(Reversing()(3, 0, 1))
        b = batches.batch([[(document, learnt)]], 64, 0.0).to(torch.device("cpu"))
        losses = {}
        for noise in ("0", "0.3"):
            t = train.Trainer(arguments(self.folder, "--noise", noise), train.Log(None, quiet=True))
            losses[noise] = *(t.backward(b)[0].item() for _ in range(2)), *(t.per_token(b)[0].sum().item() for _ in range(2))
        (plain, plain2, *alone), (noisy, noisy2, *beside) = losses.values()
        self.assertEqual(plain, plain2)
        self.assertEqual(len({plain, noisy, noisy2}), 3)
        self.assertAlmostEqual(plain, noisy, delta=0.3)
        self.assertEqual([*alone], [*beside])

    def test_a_timed_run_ends_in_time(self):
        now = [0.0]

        def clock():
            now[0] += 1.0
            return now[0]
        c = train.Clock(2, 0, clock)
        c.start()
        shares = []
        while (done := c.done(0)) < 1:
            shares.append(done)
        self.assertLessEqual(now[0], 120 - train.RESERVE + 3)
        scales = [optim.schedule(s) for s in shares]
        self.assertEqual(max(scales), 1.0)
        self.assertLess(scales[-1], 0.05)


    def test_late_states_are_kept(self):
        out = self.folder / "out"
        checkpoint.save(model.Model(CONFIG).initialize(1), out)
        names = lambda: sorted(p.name for p in self.folder.glob("out-*"))
        for step in (9, 10, 11, 12):
            checkpoint.keep(out, step, 2)
        self.assertEqual(names(), ["out-step11", "out-step12"])
        self.assertEqual(checkpoint.read_config(self.folder / "out-step12"), CONFIG)
        for step in (4, 5, 6):  # of another run
            checkpoint.keep(out, step, 2)
        self.assertEqual(names(), ["out-step11", "out-step12", "out-step5", "out-step6"])

    def test_a_signal_brings_the_end(self):
        c = train.Clock(0, 1000)
        shares = []
        for step in range(1000):
            if (done := c.done(step)) >= 1:
                break
            shares.append(done)
            if step in (100, 110):
                c.finish(40, 0.4)
        self.assertEqual(len(shares), 140)  # a second signal changes nothing
        scales = [optim.schedule(s, decay=0.4) for s in shares]
        self.assertEqual(scales[100], 1)
        self.assertLess(scales[-1], 0.05)
        self.assertEqual(scales[101:], sorted(scales[101:], reverse=True))

    def test_sigterm_finishes_a_run(self):
        before = signal.getsignal(signal.SIGTERM)

        train.run(arguments(self.folder, "--steps", "100000", "--finish-steps", "10"), Interrupting())
        end = self.log()[-1]
        self.assertEqual(end["kind"], "end")
        self.assertLess(end["step"], 1000)
        self.assertLess([x for x in self.log() if x["kind"] == "step"][-1]["scale"], 0.6)
        self.assertTrue((self.folder / "out" / "config.json").exists())
        self.assertEqual(signal.getsignal(signal.SIGTERM), before)


class Two(unittest.TestCase):
    """Two processes that share a step take the one that a process with both their batches takes."""

    def test_steps_are_those_of_one(self):
        model.CONFIGS["test"] = CONFIG
        self.addCleanup(model.CONFIGS.pop, "test")
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(parallel.launch(2, [sys.executable, "-m", "train.tests.test_train", folder]), 0)
            first, second = (torch.load(pathlib.Path(folder, f"{i}.pt")) for i in range(2))
        want = stepped(slice(None), parallel.Group())
        self.assertGreater(max(float((want[k] - v).abs().max()) for k, v in stepped(slice(2), parallel.Group()).items()), 1e-3)  # half a batch is another step
        for name, p in want.items():
            self.assertTrue(torch.equal(first[name], second[name]), name)
            torch.testing.assert_close(first[name], p, rtol=0, atol=2e-5, msg=name)

    def test_a_failure_ends_all(self):
        self.assertEqual(parallel.launch(2, [sys.executable, "-c", "import os, time; os.environ['RANK'] == '1' and os._exit(3); time.sleep(600)"]), 3)


def stepped(rows, group):
    """The weights after two steps on these rows of two batches of four. AdamW only: what Muon makes of a derivative's
    last bits is not small."""
    trainer = train.Trainer(arguments(pathlib.Path("unused"), "--optimizer", "adamw", "--balance", "0"), train.Log(None), group)
    for b in itertools.islice(batches.batches(Reversing()(1, 0, 1), 4, 128, 0.25), 2):
        trainer.step(batches.Batch(*(torch.from_numpy(x[rows]) for x in (b.tokens, b.segment, b.weight))), 1.0)
    return {k: v.detach() for k, v in trainer.model.named_parameters()}


class Rows(unittest.TestCase):
    def test_every_document_is_there_once(self):
        r = np.random.default_rng(1)
        docs = [(r.integers(1, 1000, n), r.random(n) < 0.5) for n in r.integers(1, 200, 300)]
        docs[7] = (np.arange(300), np.ones(300, bool))
        out = list(batches.batches(iter(docs), 3, 256, 0.25))
        self.assertEqual(sum(b.dropped for b in out), 1)
        got = []
        for b in out:
            for tokens, segment, weight in zip(b.tokens, b.segment, b.weight):
                for s in sorted(set(segment)):
                    if tokens[segment == s].any():
                        got.append((tokens[segment == s].tolist(), weight[segment == s].tolist()))
                    else:  # padding: documents have no token 0 here
                        self.assertFalse(weight[segment == s].any())
        want = [(ids.tolist(), [*np.where(learnt[1:], 1, 0.25).tolist(), 0]) for i, (ids, learnt) in enumerate(docs) if i != 7]
        self.assertEqual(sorted(got), sorted(want))

    def test_orthogonal(self):
        g = torch.randn(3, 40, 24, generator=torch.Generator().manual_seed(1))
        u, _, v = torch.linalg.svd(g, full_matrices=False)
        s = torch.linalg.svdvals(optim.orthogonal(g))
        self.assertTrue((s > 0.6).all() and (s < 1.3).all())
        cosine = (optim.orthogonal(g) * (u @ v)).sum((-2, -1)) / (24 * s.square().mean(-1)) ** 0.5 / 24 ** 0.5
        self.assertTrue((cosine > 0.95).all())

    def test_attention_is_dense(self):
        r = torch.Generator().manual_seed(2)
        q, k, v = (torch.randn(3, 128, h, 32, generator=r) for h in (4, 2, 2))
        segment = (torch.arange(128)[None] >= torch.tensor([[30], [100], [128]])).int()  # the last row is one document
        want = model.attend_dense(q, k, v, model.dense_mask(segment))
        for name, got in (("flex", model.attend_flex(q, k, v, model.flex_mask(segment))), ("documents", model.attend_documents(q, k, v, segment))):
            with self.subTest(name):
                torch.testing.assert_close(got, want, rtol=0, atol=1e-5)


if __name__ == "__main__":  # one of the processes of Two
    torch.set_num_threads(1)
    model.CONFIGS["test"] = CONFIG
    here = parallel.Group()
    torch.save(stepped(slice(2 * here.rank, 2 * here.rank + 2), here), pathlib.Path(sys.argv[1], f"{here.rank}.pt"))
