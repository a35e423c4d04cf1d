"""What a run is watched by: the loss of every skill on held-out conversations, and what the
model says to a few of them."""

import numpy as np
import torch

from . import batches, generate


def documents(tokenizer, seed, n, name, shares=None):
    """n held-out conversations: (skill, ids, learnt)."""
    from . import data, render
    out = []
    for conversation in data.conversations(seed, n, "heldout", name, shares=shares):
        ids, learnt = render.tokens(conversation, tokenizer)
        out.append((conversation["skill"], np.asarray(ids), np.asarray(learnt)))
    return out


class Loss:
    """Loss per learnt token by skill. `per_token` is the trainer's compiled function."""

    def __init__(self, docs, rows, row, device):
        self.skills = sorted({skill for skill, _, _ in docs})
        number = {s: i for i, s in enumerate(self.skills)}
        self.batches = []
        ready = []
        for r, _ in batches.fill([(ids, learnt, number[skill]) for skill, ids, learnt in docs], row):
            ready.append(r)
            if len(ready) == rows:
                self._add(ready, row, device)
                ready = []
        if ready:  # filled up: a batch of another size would be compiled anew
            self._add(ready + [[]] * (rows - len(ready)), row, device)

    def _add(self, rows, row, device):
        b = batches.batch([[d[:2] for d in r] for r in rows], row, 0.0)
        skill = np.zeros(b.tokens.shape, np.int64)
        for i, r in enumerate(rows):
            at = 0
            for ids, _, which in r:
                skill[i, at:at + len(ids)] = which
                at += len(ids)
        self.batches.append((b.to(device), torch.from_numpy(skill).to(device)))

    def __call__(self, per_token):
        """Derivatives stay possible, though nobody takes them: without, all would be compiled anew."""
        device = self.batches[0][1].device
        total, count = (torch.zeros(len(self.skills), device=device) for _ in range(2))
        for b, skill in self.batches:
            loss = per_token(b)[0].detach().float()
            total.index_add_(0, skill.flatten(), (loss * b.weight).flatten())
            count.index_add_(0, skill.flatten(), b.weight.flatten())
        mean = (total / count.clamp(min=1)).tolist()
        out = dict(zip(self.skills, mean))
        out["all"] = float(total.sum() / count.sum().clamp(min=1))
        return out


def first_answer(ids, learnt):
    """Cuts a document before the first thing an assistant says in it: (prompt, what is said)."""
    at = int(np.argmax(learnt))
    rest = np.flatnonzero(~np.asarray(learnt[at:]))
    end = at + int(rest[0]) if len(rest) else len(ids)
    return [int(i) for i in ids[:at]], [int(i) for i in ids[at:end]]


def samples(model, docs, tokenizer, n, limit):
    """Greedy answers to the first prompt of each of the first n skills' documents."""
    stop, seen, out = tokenizer.specials["<|im_end|>"], set(), []
    for skill, ids, learnt in docs:
        if skill in seen or len(ids) > 1024 or not learnt.any():
            continue
        seen.add(skill)
        prompt, want = first_answer(ids, learnt)
        got = generate.greedy(model, prompt, min(limit, 2 * len(want) + 8), (stop,))
        out.append({"skill": skill, "prompt": tokenizer.decode(prompt[-200:]), "got": tokenizer.decode(got),
                    "want": tokenizer.decode(want), "equal": got == want})
        if len(out) == n:
            break
    return out
