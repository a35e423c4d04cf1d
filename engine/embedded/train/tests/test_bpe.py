"""The tokenizer against another implementation's recorded ids, and against its own definition."""

import json
import pathlib
import random
import unittest

from .. import bpe, vocabulary

ROOT = pathlib.Path(__file__).resolve().parents[3]
RECORDED = ROOT / "tokenizer" / "testdata"


class TestBPE(unittest.TestCase):
    def test_recorded_ids(self):
        vocab = json.loads((RECORDED / "vocab.json").read_text())
        t = bpe.Tokenizer(vocab["tokens"], vocab["merges"], vocab["types"])
        recorded = json.loads((RECORDED / "ids.json").read_text())
        texts = json.loads((RECORDED / "splits.json").read_text())["texts"] + recorded["extra"]
        cases = next(c for c in recorded["cases"] if c["pre"] == "qwen2")
        self.assertGreater(len(texts), 100)
        for text, ids in zip(texts, cases["ids"], strict=True):
            self.assertEqual(t.encode(text, special=False), ids, repr(text))

    def test_train_joins_the_most_frequent_pair_first(self):
        merges = vocabulary.train({"abab": 3, "abc": 2, "bc": 1}, 10)
        self.assertEqual(merges, [("a", "b"), ("ab", "ab"), ("ab", "c"), ("b", "c")])

    def test_train_is_what_counting_again_gives(self):
        rng = random.Random(5)
        counts = {"".join(rng.choices("abcé", k=rng.randint(1, 8))): rng.randint(1, 9) for _ in range(60)}
        self.assertEqual(vocabulary.train(counts, 40), slow_train(counts, 40))

    def test_round_trip_of_any_text(self):
        t = bpe.Tokenizer.load(str(ROOT / "embedded" / "train" / "tokenizer.json"))
        rng = random.Random(9)
        for _ in range(300):
            text = "".join(chr(rng.choice([rng.randrange(32, 127), rng.randrange(0xD800), rng.randrange(0xE000, 0x110000), 10]))
                           for _ in range(rng.randrange(40)))
            self.assertEqual(t.decode(t.encode(text, special=False)), text)
            raw = rng.randbytes(rng.randrange(30)).decode("latin-1")
            self.assertEqual(t.bytes(t.encode(raw, special=False)), raw.encode())

    def test_vocabulary_of_the_models(self):
        t = bpe.Tokenizer.load(str(ROOT / "embedded" / "train" / "tokenizer.json"))
        self.assertEqual(len(t.vocab), vocabulary.SIZE)
        self.assertEqual(len(set(t.vocab)), vocabulary.SIZE)
        self.assertEqual(list(t.specials), bpe.CONTROL + bpe.USER_DEFINED)
        self.assertEqual(len(t.encode("1234567890")), 10)
        for name, i in t.specials.items():
            self.assertEqual(t.encode(name), [i])
            self.assertGreater(len(t.encode(name, special=False)), 1)


def slow_train(counts, merges_max):
    """The definition: count every pair, join the best, begin again."""
    words = {w: [bpe.ALPHABET[b] for b in w.encode()] for w in counts}
    merges = []
    while len(merges) < merges_max:
        pairs = {}
        for w, symbols in words.items():
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] = pairs.get(pair, 0) + counts[w]
        if not pairs:
            break
        best = min(pairs, key=lambda p: (-pairs[p], p))
        merges.append(best)
        words = {w: bpe.join(s, best) for w, s in words.items()}
    return merges


if __name__ == "__main__":
    unittest.main()
