"""Byte-level BPE: encoding and decoding, as engine/tokenizer reads it. vocabulary.py trains it.

Text is cut into pieces by the family's expression (GGUF calls it qwen2: words
with the space before them, single digits, punctuation, white space); a piece
starts as one token per byte, and the pair of neighbours with the lowest merge
rank is joined until no pair has a rank. Special tokens are named in the
vocabulary and found only where the caller says that the text is a prompt.
"""

import functools
import json
import pathlib
import re
import sys
import unicodedata

PRE = "qwen2"
VOCABULARY = pathlib.Path(__file__).resolve().parent / "tokenizer.json"  # of the embedded models
# Ids follow the merges, in this order. Control tokens never are text; the
# others are part of the text that a reader of the stream sees.
CONTROL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
USER_DEFINED = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]
TYPE_NORMAL, TYPE_CONTROL, TYPE_USER_DEFINED = 1, 3, 4


def _characters(category: str) -> str:
    """Ranges of a character class with all code points whose category starts so."""
    ranges, start = [], None
    for point in range(sys.maxunicode + 2):
        inside = point <= sys.maxunicode and unicodedata.category(chr(point)).startswith(category)
        if inside and start is None:
            start = point
        elif not inside and start is not None:
            ranges.append(f"\\U{start:08x}-\\U{point - 1:08x}")
            start = None
    return "".join(ranges)


# What the expression calls \s in every other reader: White_Space of Unicode.
# Python's own \s has U+001C to U+001F besides.
_SPACE = r"\t-\r \x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"


@functools.cache
def splitter() -> re.Pattern:
    letter, number = _characters("L"), _characters("N")
    return re.compile(
        r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
        rf"|[^\r\n{letter}{number}]?[{letter}]+"
        rf"|[{number}]"
        rf"| ?[^{_SPACE}{letter}{number}]+[\r\n]*"
        rf"|[{_SPACE}]*[\r\n]+"
        rf"|[{_SPACE}]+(?![^{_SPACE}])"
        rf"|[{_SPACE}]+"
    )


def byte_alphabet() -> list[str]:
    """The character for each byte: printable ones stand for themselves, the rest follow U+0100."""
    own = [*range(33, 127), *range(161, 173), *range(174, 256)]
    table, extra = {b: chr(b) for b in own}, 0
    for b in range(256):
        if b not in table:
            table[b] = chr(256 + extra)
            extra += 1
    return [table[b] for b in range(256)]


ALPHABET = byte_alphabet()
_BYTE = {c: b for b, c in enumerate(ALPHABET)}


def join(symbols: list[str], pair: tuple[str, str]) -> list[str]:
    out, i = [], 0
    while i < len(symbols):
        if i + 1 < len(symbols) and (symbols[i], symbols[i + 1]) == pair:
            out.append(symbols[i] + symbols[i + 1])
            i += 2
        else:
            out.append(symbols[i])
            i += 1
    return out


class Tokenizer:
    """A vocabulary and how text becomes its ids. Not safe for several threads."""

    # Pieces whose ids are remembered; then the memo starts over.
    MEMO_MAX = 1 << 18

    def __init__(self, tokens: list[str], merges: list[str], types: list[int], pre: str = PRE):
        self.vocab, self.merges, self.types, self.pre = tokens, merges, types, pre
        self.specials = {t: i for i, t in enumerate(tokens) if types[i] != TYPE_NORMAL}
        self._ids = {t: i for i, t in enumerate(tokens) if types[i] == TYPE_NORMAL}
        self._ranks = {tuple(m.split(" ")): rank for rank, m in enumerate(merges)}
        self._memo: dict[str, list[int]] = {}
        names = sorted(self.specials, key=lambda name: (-len(name), name))
        self._special = re.compile("(" + "|".join(map(re.escape, names)) + ")") if names else None

    @classmethod
    def from_merges(cls, merges: list[tuple[str, str]]) -> "Tokenizer":
        tokens = ALPHABET + [a + b for a, b in merges]
        types = [TYPE_NORMAL] * len(tokens) + [TYPE_CONTROL] * len(CONTROL) + [TYPE_USER_DEFINED] * len(USER_DEFINED)
        return cls(tokens + CONTROL + USER_DEFINED, [f"{a} {b}" for a, b in merges], types)

    @classmethod
    def load(cls, path: str) -> "Tokenizer":
        with open(path, encoding="utf-8") as f:
            d = json.load(f)
        return cls(d["tokens"], d["merges"], d["types"], d["pre"])

    def save(self, path: str) -> None:
        """Writes the fields under the names that GGUF gives them behind tokenizer.ggml."""
        d = {
            "model": "gpt2", "pre": self.pre, "eos_token_id": self.specials["<|im_end|>"],
            "padding_token_id": self.specials["<|endoftext|>"], "tokens": self.vocab, "types": self.types, "merges": self.merges,
        }
        with open(path, "w", encoding="utf-8") as f:
            f.write("{\n" + ",\n".join(f"{json.dumps(k)}: {json.dumps(v)}" for k, v in d.items()) + "\n}\n")

    def encode(self, text: str, special: bool = True) -> list[int]:
        """Returns the ids of a text. With special, the names of special tokens in it are those tokens."""
        ids: list[int] = []
        parts = self._special.split(text) if special and self._special else [text]
        for i, part in enumerate(parts):
            if i % 2:
                ids.append(self.specials[part])
            else:
                self._content(part, ids)
        return ids

    def _content(self, text: str, ids: list[int]) -> None:
        memo = self._memo
        for piece in splitter().findall(text):
            known = memo.get(piece)
            if known is None:
                if len(memo) >= self.MEMO_MAX:
                    memo.clear()
                known = memo[piece] = self._piece(piece)
            ids += known

    def _piece(self, piece: str) -> list[int]:
        symbols = [ALPHABET[b] for b in piece.encode()]
        while len(symbols) > 1:
            ranked = [(self._ranks[p], p) for p in zip(symbols, symbols[1:]) if p in self._ranks]
            if not ranked:
                break
            symbols = join(symbols, min(ranked)[1])
        return [self._ids[s] for s in symbols]

    def bytes(self, ids: list[int]) -> bytes:
        out = bytearray()
        for i in ids:
            if self.types[i] == TYPE_NORMAL:
                out += bytes(_BYTE[c] for c in self.vocab[i])
            else:
                out += self.vocab[i].encode()
        return bytes(out)

    def decode(self, ids: list[int]) -> str:
        """Returns the text of ids; bytes that are not UTF-8 become U+FFFD."""
        return self.bytes(ids).decode("utf-8", "replace")
