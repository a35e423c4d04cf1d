"""The trainer's own greedy tokens, recorded for the engine's tests; and how often a quantized
export makes the same choices.

    python -m train.evaluate greedy --checkpoint runs/mini --name core-1.1-mini --prompts 50 --out testdata/core-1.1-mini.json
    python -m train.evaluate agreement --checkpoint runs/mini --recorded testdata/core-1.1-mini.json

`greedy` computes in float32, token by token, from the checkpoint's weights: the values an F32
export holds. At every recorded token the model was given all tokens before it, so the same
file judges teacher-forced choices. `agreement` answers with weights rounded to Q8_0 and
back, activations in float32: what storage alone costs. The engine's own figure, whose
activations are rounded too, comes from the Go test that reads the recording.
"""

import argparse
import json
import pathlib

import numpy as np
import torch

from . import bpe, checkpoint, generate, gguf, train


EXACT = ("conv1d", "mlp.gate.", "shared_expert_gate")  # what export.EXACT keeps in float32


def record(m, prompts, limit, stops):
    """Greedy tokens of every prompt, and how far the choice was from the second best: a margin
    near zero is a choice that rounding may turn."""
    out = []
    for prompt in prompts:
        tokens = generate.greedy(m, prompt, limit, stops)
        logits = generate.advance(m, torch.tensor([prompt + tokens[:-1]]), generate.empty(m, 1))[0, len(prompt) - 1:]
        best = logits.topk(2, -1).values
        out.append({"prompt": prompt, "tokens": tokens, "margin": round(float((best[:, 0] - best[:, 1]).min()), 6)})
    return out


def choices(m, recorded):
    """(choices equal to the recorded ones, all choices)."""
    same = total = 0
    for r in recorded:
        ids = r["prompt"] + r["tokens"][:-1]
        got = generate.advance(m, torch.tensor([ids]), generate.empty(m, 1))[0, len(r["prompt"]) - 1:].argmax(-1)
        same += int((got == torch.tensor(r["tokens"])).sum())
        total += len(r["tokens"])
    return same, total


def rounded(m):
    """The model with every matrix that an export stores as Q8_0 rounded so."""
    with torch.no_grad():
        for name, p in m.named_parameters():
            if p.dim() > 1 and not any(x in name for x in EXACT):
                p.copy_(torch.from_numpy(gguf.from_q8_0(gguf.q8_0(p.numpy()), p.shape)))
    return m


def heldout_prompts(tokenizer, seed, n, name, shares=None):
    """Prompts of held-out conversations, up to their first answer."""
    from . import heldout
    return [heldout.first_answer(ids, learnt)[0] for _, ids, learnt in heldout.documents(tokenizer, seed, n, name, shares) if np.any(learnt)]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("what", choices=["greedy", "agreement"])
    p.add_argument("--checkpoint", required=True)
    p.add_argument("--tokenizer", default=str(pathlib.Path(__file__).with_name("tokenizer.json")))
    p.add_argument("--name", default="core-1.1", help="what the model calls itself")
    p.add_argument("--skills", help="shares of skills among the prompts, as of train.train")
    p.add_argument("--prompts", type=int, default=50)
    p.add_argument("--limit", type=int, default=128, help="tokens of an answer")
    p.add_argument("--seed", type=int, default=50)
    p.add_argument("--recorded")
    p.add_argument("--out")
    a = p.parse_args()
    m = checkpoint.load(a.checkpoint)
    if a.what == "greedy":
        tokenizer = bpe.Tokenizer.load(a.tokenizer)
        write(a.out, m, heldout_prompts(tokenizer, a.seed, a.prompts, a.name, train.skill_shares(a.skills)), a.limit, tokenizer)
        return
    with open(a.recorded, encoding="utf-8") as f:
        same, total = choices(rounded(m), json.load(f)["answers"])
    result = {"same": same, "choices": total, "share": round(same / total, 5)}
    print(json.dumps(result))
    if a.out:
        with open(a.out, "w", encoding="utf-8") as f:
            json.dump(result, f)


def write(path, m, prompts, limit, tokenizer, **more):
    """Records to a JSON file, one answer on a line."""
    answers = record(m, prompts, limit, (tokenizer.specials["<|im_end|>"],))
    made = f"train.evaluate greedy: float32, recurrent form, torch {torch.__version__}, {len(prompts)} prompts, at most {limit} tokens"
    head = json.dumps({"made": made, **more})[:-1]
    with open(path, "w", encoding="utf-8") as f:
        f.write(head + ', "answers": [\n' + ",\n".join(json.dumps(x, separators=(",", ":")) for x in answers) + "\n]}\n")


if __name__ == "__main__":
    main()
