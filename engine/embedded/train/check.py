"""Compares the ids of a model file's tokenizer, as the node computes them, with those of this folder.

    python -m train.check --node ../../bin/corenode --model model.gguf
"""

import argparse
import json
import pathlib
import subprocess
import sys

RECORDED = pathlib.Path(__file__).resolve().parent / "tests" / "testdata" / "prompts.json"


def node_ids(node: str, model: str, text: str, special: bool) -> list[int]:
    args = [node, "model", "tokenize", "--model", model] + ["--special"] * special
    out = subprocess.run(args, input=text.encode(), capture_output=True, check=True).stdout
    return [int(i) for i in out.split()]


def main() -> int:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--node", required=True, help="the corenode binary")
    p.add_argument("--model", required=True, help="a GGUF file with the vocabulary of this folder")
    o = p.parse_args()
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))
    texts = [(r["prompt"], True, r["ids"]) for r in recorded["prompts"]] + [(r["text"], False, r["ids"]) for r in recorded["texts"]]
    wrong = 0
    for text, special, ids in texts:
        got = node_ids(o.node, o.model, text, special)
        if got != ids:
            wrong += 1
            print(f"{text[:60]!r}: {got[:20]}, want {ids[:20]}")
    print(f"{len(texts) - wrong} of {len(texts)} texts have the same ids")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
