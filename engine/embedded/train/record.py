"""Prompts and their ids as this folder makes them, for the engine's tests to make again.

    python -m train.record --out train/tests/testdata/prompts.json
"""

import argparse
import json
import random

from . import bpe, data, render

TOKENS_MAX = 700  # of a recorded prompt
PROMPTS, TEXTS = 40, 60


def prompts(tokenizer) -> list[dict]:
    """What the engine is given before the last answer, of conversations of every kind."""
    out = []
    for c in data.conversations(31, 400, "heldout"):
        messages = c["messages"][:-1]
        text = render.prompt(messages, c["tools"], c["thinking"], schema=c["schema"])
        ids = tokenizer.encode(text)
        if len(ids) <= TOKENS_MAX and (c["tools"] is not None) == (len(out) % 2 == 0):
            out.append({"messages": messages, "tools": c["tools"], "schema": c["schema"], "thinking": c["thinking"], "prompt": text, "ids": ids})
        if len(out) == PROMPTS:
            return out
    raise ValueError("too few short conversations")


def texts(tokenizer) -> list[dict]:
    """Text of any kind, special tokens' names in it, as content."""
    rng = random.Random(7)
    kinds = [range(32, 127), range(0xA1, 0x250), range(0x370, 0x600), range(0x3040, 0x30A0), range(0x4E00, 0x5000), range(0x1F600, 0x1F640), [10, 13, 32, 32, 9, 0xA0, 0x2028]]
    out = ["", " ", "\n\n", "don't DON'T", "<|im_end|> <think>", "1234567890", "e\u0301", "\u01C5\u2160\u00B2", "'\u017F \u212A", "a" * 300]
    while len(out) < TEXTS:
        out.append("".join(chr(rng.choice(rng.choice(kinds))) for _ in range(rng.randrange(1, 40))))
    return [{"text": t, "ids": tokenizer.encode(t, special=False)} for t in out]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--out", required=True)
    o = p.parse_args()
    tokenizer = bpe.Tokenizer.load(str(bpe.VOCABULARY))
    rows = [(kind, r) for kind, make in (("prompts", prompts), ("texts", texts)) for r in make(tokenizer)]
    with open(o.out, "w", encoding="utf-8") as f:
        parts = [f'"{kind}": [\n' + ",\n".join(json.dumps(r, ensure_ascii=False) for k, r in rows if k == kind) + "\n]" for kind in ("prompts", "texts")]
        f.write("{\n" + ",\n".join(parts) + "\n}\n")


if __name__ == "__main__":
    main()
