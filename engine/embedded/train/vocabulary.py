"""The vocabulary of the embedded models: byte-level BPE, trained on conversations of the generator.

    python -m train.vocabulary --conversations 60000 --out train/tokenizer.json
"""

import argparse
import collections
import heapq
import re

from . import bpe, data, render

SIZE = 8192


def train(counts: dict[str, int], merges_max: int) -> list[tuple[str, str]]:
    """Learns merges from how often each piece occurs. Of equally frequent pairs
    the one that sorts first wins, so the result depends on the counts alone."""
    words = [([bpe.ALPHABET[b] for b in piece.encode()], n) for piece, n in sorted(counts.items())]
    pairs: dict[tuple[str, str], int] = collections.Counter()
    where: dict[tuple[str, str], set[int]] = collections.defaultdict(set)
    for i, (symbols, n) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += n
            where[pair].add(i)
    heap = [(-n, pair) for pair, n in pairs.items()]
    heapq.heapify(heap)
    merges: list[tuple[str, str]] = []
    while heap and len(merges) < merges_max:
        n, pair = heapq.heappop(heap)
        if pairs.get(pair, 0) != -n or n == 0:
            continue  # its count changed since; the right entry is elsewhere in the heap
        merges.append(pair)
        changed = set()
        for i in where.pop(pair):
            symbols, times = words[i]
            for old in zip(symbols, symbols[1:]):
                pairs[old] -= times
                changed.add(old)
            symbols[:] = bpe.join(symbols, pair)
            for new in zip(symbols, symbols[1:]):
                pairs[new] += times
                where[new].add(i)
                changed.add(new)
        pairs.pop(pair, None)
        for other in changed - {pair}:
            if pairs[other] > 0:
                heapq.heappush(heap, (-pairs[other], other))
    return merges


def count_pieces(texts) -> collections.Counter:
    counts: collections.Counter = collections.Counter()
    names = re.compile("|".join(map(re.escape, bpe.CONTROL + bpe.USER_DEFINED)))
    for text in texts:
        for part in names.split(text):
            counts.update(bpe.splitter().findall(part))
    return counts


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--conversations", type=int, default=60000)
    p.add_argument("--size", type=int, default=SIZE)
    p.add_argument("--out", required=True)
    o = p.parse_args()
    shares = {k: n for k, n in data.SHARES.items() if k != "vocabulary"}  # an exercise in one that is there already
    counts = count_pieces(render.text(c) for c in data.conversations(o.seed, o.conversations, "train", shares=shares))
    # The square root keeps the few phrases of tool prompts from using up the
    # merges that rarer words need.
    counts = {piece: max(1, int(n ** 0.5)) for piece, n in counts.items() if n > 1}
    merges = train(counts, o.size - 256 - len(bpe.CONTROL) - len(bpe.USER_DEFINED))
    t = bpe.Tokenizer.from_merges(merges)
    t.save(o.out)
    print(f"{len(t.vocab)} tokens from {len(counts)} different pieces")


if __name__ == "__main__":
    main()
