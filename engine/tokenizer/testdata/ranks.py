#!/usr/bin/env python3
"""A small vocabulary of ranks, and the ids of texts in it by the definition: while two neighbors make a token, the
first ones of those that make the token of the lowest rank are joined. Pieces are those of Kimi, by Python's regex module.

    ranks.py splits-deepseek.json OUT.json
"""
import base64
import json
import random
import sys

import regex


def encode(ranks, piece):
    if piece in ranks:
        return [ranks[piece]]
    parts = [piece[i:i + 1] for i in range(len(piece))]
    while True:
        pairs = [(ranks[parts[i] + parts[i + 1]], i) for i in range(len(parts) - 1) if parts[i] + parts[i + 1] in ranks]
        if not pairs:
            return [ranks[p] for p in parts]
        _, i = min(pairs)
        parts[i:i + 2] = [parts[i] + parts[i + 1]]


def main():
    r = random.Random(5)
    recorded = json.load(open(sys.argv[1]))
    kimi = regex.compile(next(s["regex"] for s in recorded["splitters"] if s["pre"] == "kimi-k2"), regex.V1)
    texts = recorded["texts"][:160] + ["aaaa aaaaa aaaaaaa", "abababa bababab", "the theatre then there, thethethe " * 3]
    tokens = [bytes([b]) for b in range(256)]
    r.shuffle(tokens)
    pool = [text.encode() for text in texts]
    for token in [b"aa", b"aaa", b"ab", b"ba", b"aba", b"bab", b"th", b"he", b"the", b" the", b"abab"]:
        tokens.append(token)
    while len(tokens) < 900:  # of any bytes that follow each other, also such as no two tokens make
        text = r.choice(pool)
        at = r.randrange(len(text))
        token = text[at:at + r.randrange(2, 6)]
        if len(token) > 1 and token not in tokens:
            tokens.append(token)
    ranks = {t: i for i, t in enumerate(tokens)}
    ids = [[i for m in kimi.finditer(text) for i in encode(ranks, m.group().encode())] for text in texts]
    out = dict(how="ranks.py", tokens=[base64.b64encode(t).decode() for t in tokens], texts=texts, ids=ids)
    json.dump(out, open(sys.argv[2], "w"), ensure_ascii=False, separators=(",", ":"))


main()
