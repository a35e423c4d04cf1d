"""Rows of packed documents for the trainer, made by other processes.

A document is (ids, learnt): which of its tokens are said by an assistant. A row is a
fixed number of tokens holding whole documents; `segment` numbers them and ends with a
number of its own for the padding. The weight of a position says how much predicting
the next token counts: 1 for what is learnt, `prompt_weight` for the rest of a
document, 0 across its end.

The batches of a feed depend on its arguments alone: worker w of n makes batches w,
w+n, w+2n, ... and they are taken in turn.
"""

import dataclasses
import itertools
import multiprocessing
import queue

import numpy as np
import torch

OPEN_ROWS = 16  # rows that are filled at the same time: more leave less padding
AHEAD = 4  # finished batches a worker may be ahead


@dataclasses.dataclass
class Batch:
    tokens: object  # [B, T] int32
    segment: object  # [B, T] int32
    weight: object  # [B, T] float32
    dropped: int = 0  # documents longer than a row, left out since the batch before

    def to(self, device):
        def move(x):
            x = torch.from_numpy(x)
            return x.pin_memory().to(device, non_blocking=True) if device.type == "cuda" else x
        return Batch(move(self.tokens), move(self.segment), move(self.weight), self.dropped)


def fill(documents, row):
    """Puts documents into rows, each into the fullest open row that has room; yields lists
    of documents and how many were longer than a row before each."""
    rows, dropped = [], 0
    for d in documents:
        n = len(d[0])
        if n > row:
            dropped += 1
            continue
        fits = [r for r in rows if r[0] + n <= row]
        if fits:
            best = max(fits, key=lambda r: r[0])
        else:
            if len(rows) == OPEN_ROWS:
                full = max(rows, key=lambda r: r[0])
                rows.remove(full)
                yield full[1], dropped
                dropped = 0
            best = [0, []]
            rows.append(best)
        best[0] += n
        best[1].append(d)
    for r in rows:
        yield r[1], dropped
        dropped = 0


def batch(rows, row, prompt_weight):
    """Arrays of finished rows (lists of documents)."""
    b = len(rows)
    tokens = np.zeros((b, row), np.int32)
    segment = np.zeros((b, row), np.int32)
    weight = np.zeros((b, row), np.float32)
    for i, documents in enumerate(rows):
        at = 0
        for number, (ids, learnt) in enumerate(documents):
            end = at + len(ids)
            tokens[i, at:end], segment[i, at:end] = ids, number
            weight[i, at:end - 1] = np.where(learnt[1:], 1.0, prompt_weight)
            at = end
        segment[i, at:] = len(documents)
    return Batch(tokens, segment, weight)


def batches(documents, rows, row, prompt_weight):
    """Batches of `rows` rows from a stream of documents; what is left at its end is
    a smaller batch."""
    ready, dropped = [], 0
    for r, left_out in fill(documents, row):
        ready.append(r)
        dropped += left_out
        if len(ready) == rows:
            out = batch(ready, row, prompt_weight)
            out.dropped, ready, dropped = dropped, [], 0
            yield out
    if ready:
        out = batch(ready, row, prompt_weight)
        out.dropped = dropped
        yield out


@dataclasses.dataclass(frozen=True)
class Packed:
    """Documents of a file of `python -m train.pack`: tokens, mask (one each) and starts of
    documents. Every pass over the file is in another order."""

    path: str

    def __call__(self, seed, worker, workers):
        with np.load(self.path) as f:
            tokens, mask, starts = f["tokens"], f["mask"].astype(bool), f["starts"].astype(np.int64)
        ends = np.append(starts[1:], len(tokens))[:len(starts)]
        mine = np.flatnonzero(starts < ends)[worker::workers]
        for epoch in itertools.count():
            for i in np.random.default_rng([seed, worker, epoch]).permutation(mine):
                yield tokens[starts[i]:ends[i]], mask[starts[i]:ends[i]]


@dataclasses.dataclass(frozen=True)
class Generated:
    """Fresh conversations without end. Every one is seen `repeat` times, first when it is made
    and then at random among the last MEMORY: making takes longer than learning from it."""

    tokenizer: str
    name: str
    repeat: int
    shares: tuple = ()  # (skill, share) of conversations; empty: the generator's own
    BLOCK = 256  # conversations made at a time
    MEMORY = 20000

    def fresh(self, seed, worker, workers):
        """Conversations worker, worker + workers, ... of the blocks of a seed."""
        from . import bpe, data, render
        tokenizer = bpe.Tokenizer.load(self.tokenizer)
        for block in itertools.count(worker, workers):
            for conversation in data.conversations(seed, self.BLOCK, "train", self.name, block * self.BLOCK, dict(self.shares)):
                ids, learnt = render.tokens(conversation, tokenizer)
                yield np.asarray(ids, np.uint16), np.asarray(learnt)

    def __call__(self, seed, worker, workers):
        memory, r = [], np.random.default_rng([seed, worker])
        for i, document in enumerate(self.fresh(seed, worker, workers)):
            yield document
            if i < self.MEMORY:
                memory.append(document)
            else:
                memory[i % self.MEMORY] = document
            for _ in range(self.repeat - 1):
                yield memory[r.integers(len(memory))]


def _work(source, seed, worker, workers, shape, prompt_weight, out):
    for b in batches(source(seed, worker, workers), *shape, prompt_weight):
        out.put(b)


class Feed:
    """An endless iterator over batches that `workers` processes make, for feed `part` of `parts`
    that share a source. close ends them."""

    def __init__(self, source, seed, rows, row, prompt_weight, workers, part=0, parts=1):
        context = multiprocessing.get_context("spawn")
        self._queues = [context.Queue(AHEAD) for _ in range(workers)]
        self._processes = [
            context.Process(target=_work, args=(source, seed, part * workers + w, parts * workers, (rows, row), prompt_weight, q), daemon=True)
            for w, q in enumerate(self._queues)]
        for p in self._processes:
            p.start()
        self._turn = 0

    def __next__(self):
        w = self._turn % len(self._queues)
        self._turn += 1
        while True:
            try:
                return self._queues[w].get(timeout=5)
            except queue.Empty:
                if not self._processes[w].is_alive():
                    raise RuntimeError(f"worker {w} of the data ended with code {self._processes[w].exitcode}") from None

    def __iter__(self):
        return self

    def close(self):
        for p in self._processes:
            p.terminate()
            p.join()
