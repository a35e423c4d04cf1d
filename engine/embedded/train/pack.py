"""Conversations as one stream of tokens, packed for the trainer.

    python -m train.pack --seed 1 --conversations 400000 --out tokens.npz

The file has tokens (uint16), mask (uint8, 1 where the token is learnt) and
starts (int64, where each conversation begins in tokens). What is in it depends
on seed, conversations, split and name alone, not on the number of processes.
"""

import argparse
import multiprocessing
import os

import numpy as np

from . import bpe, data, render

CHUNK = 500  # conversations that a process makes at a time

_tokenizer = None


def tokens_of(seed: int, first: int, n: int, split: str, name: str, tokenizer) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Conversations first to first+n: tokens, mask and the length of each."""
    ids: list[int] = []
    mask: list[bool] = []
    lengths = []
    for c in data.conversations(seed, n, split, name, first):
        new, learnt = render.tokens(c, tokenizer)
        ids += new
        mask += learnt
        lengths.append(len(new))
    return np.array(ids, np.uint16), np.array(mask, np.uint8), np.array(lengths, np.int64)


def _start(path: str) -> None:
    global _tokenizer
    _tokenizer = bpe.Tokenizer.load(path)


def _chunk(job) -> tuple:
    return tokens_of(*job, _tokenizer)


def pack(seed: int, conversations: int, split: str, name: str, vocabulary: str, processes: int) -> dict[str, np.ndarray]:
    jobs = [(seed, at, min(CHUNK, conversations - at), split, name) for at in range(0, conversations, CHUNK)]
    if processes == 1:
        _start(vocabulary)
        parts = [_chunk(j) for j in jobs]
    else:
        with multiprocessing.get_context("spawn").Pool(processes, _start, (vocabulary,)) as pool:
            parts = list(pool.imap(_chunk, jobs))
    ids, mask, lengths = (np.concatenate(x) for x in zip(*parts))
    return {"tokens": ids, "mask": mask, "starts": np.concatenate([[0], np.cumsum(lengths)[:-1]]).astype(np.int64)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--conversations", type=int, required=True)
    p.add_argument("--split", choices=["train", "heldout"], default="train")
    p.add_argument("--name", default="core-1.1", help="what the model calls itself")
    p.add_argument("--vocabulary", default=str(bpe.VOCABULARY))
    p.add_argument("--processes", type=int, default=os.cpu_count())
    p.add_argument("--out", required=True)
    o = p.parse_args()
    packed = pack(o.seed, o.conversations, o.split, o.name, o.vocabulary, o.processes)
    np.savez(o.out, **packed)
    n = len(packed["tokens"])
    print(f"{o.conversations} conversations, {n} tokens, {packed['mask'].sum() / n:.1%} of them learnt")


if __name__ == "__main__":
    main()
