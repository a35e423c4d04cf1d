"""Makes the tiny trained model of the Go tests: a spelling-backwards model of two hundred
thousand parameters, its F32 export and the trainer's greedy tokens for 50 prompts.

    python -m train.probe --out testdata --steps 900
"""

import argparse
import dataclasses
import hashlib
import pathlib
import tempfile

import numpy as np

from . import bpe, checkpoint, evaluate, export, train, vocabulary

WORDS = ("stone river apple cloud paper green table light music water horse glass bread candle "
         "garden window silver forest orange button").split()


def tokenizer():
    """320 entries: bytes, merges of the words, the special tokens."""
    room = 320 - 256 - len(bpe.CONTROL) - len(bpe.USER_DEFINED)
    return bpe.Tokenizer.from_merges(vocabulary.train({" " + w: 1 for w in WORDS}, room))


def ask(r):
    """A question, and its answer, which is the words in reverse order."""
    words = [WORDS[i] for i in r.integers(0, len(WORDS), r.integers(2, 5))]
    return f"<|im_start|>user\nBackwards: {' '.join(words)}<|im_end|>\n<|im_start|>assistant\n", " ".join(reversed(words)) + "<|im_end|>"


@dataclasses.dataclass(frozen=True)
class Backwards:
    def __call__(self, seed, worker, workers):
        t, r = tokenizer(), np.random.default_rng([seed, worker])
        while True:
            question, answer = (t.encode(x) for x in ask(r))
            yield np.array(question + answer), np.arange(len(question) + len(answer)) >= len(question)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    p.add_argument("--steps", type=int, default=900)
    a = p.parse_args()
    out = pathlib.Path(a.out)
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        train.run(train.parser().parse_args(
            ["--config", "probe", "--tokenizer", "none", "--device", "cpu", "--dtype", "float32", "--no-compile", "--steps", str(a.steps),
             "--rows", "2", "--row", "256", "--workers", "1", "--heldout", "0", "--prompt-weight", "0", "--out", str(folder / "checkpoint")]), Backwards())
        t, r = tokenizer(), np.random.default_rng(1000)
        prompts = [t.encode(ask(r)[0]) for _ in range(50)]
        prompts[-1] = sum(prompts[:12], [])  # longer than the chunks of the delta rule
        export.write(folder / "checkpoint", t, "probe", "F32", out / "probe-f32.gguf")
        export.write(folder / "checkpoint", t, "probe", "Q8_0", folder / "probe-q8_0.gguf")
        digest = hashlib.sha256((folder / "probe-q8_0.gguf").read_bytes()).hexdigest()
        evaluate.write(out / "probe.json", checkpoint.load(folder / "checkpoint"), prompts, 24, t, steps=a.steps, q8_0_sha256=digest)


if __name__ == "__main__":
    main()
