#!/usr/bin/env python3
"""The pieces of further splitters, by Python's regex module, which knows the expressions as they are written.

    splits.py splits.json OUT.json           (regex 2026; the texts of splits.json, some more and random ones)
"""
import json
import random
import sys

import regex

UPPER, LOWER = r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}]"
CASED = (rf"[^\r\n\p{{L}}\p{{N}}]?{UPPER}*{LOWER}+%s|[^\r\n\p{{L}}\p{{N}}]?{UPPER}+{LOWER}*%s|\p{{N}}{{1,%d}}"
         r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
ENDING = "(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")
SPLITTERS = {
    "glm4": WORDS, "chatglm-bpe": WORDS,
    "tekken": (CASED % ("", "", 1)).replace("{1,1}", ""),
    "gpt-4o": CASED % (ENDING, ENDING, 3),
}
TEXTS = [
    "camelCase HTTPServer XMLHttpRequest iOS McDonald eBay aB Ab AB ab A b", "IT'S it's It'S we'LL 'tis O'Neil's I'd've'd", "x\u0301Y\u0301 \u0301a !\u0301b \u0301",
    "ǅungla ǈ ʰa Aʰ Aʰb ʰA", "你好World WORLD你好 Hello世界 中A中", "a/b//c\n/\r\n/ path/to/file.go\n\n//", "https://Example.COM/A?b=C&d=1234567", "1234567 12 3a4B",
    "ÀÉÎ àéî Àé éÀ ßA Aß", "नमस्ते दुनिया Aनम", "  Two  Spaces\t\tTabs \n\n Lines", "\u0301", "A", "a", "'", "'S", "A's", "'s's",
]
ALPHABET = ["a", "b", "s", "t", "A", "B", "S", "\u0301", "你", "ʰ", "ǅ", "1", "22", " ", "  ", "\n", "\r\n", "'", "'s", "'LL", "/", ".", "!", "\t", "é", "É", "ſ", "\u00a0", "🙂"]


def main():
    r = random.Random(11)
    texts = json.load(open(sys.argv[1]))["texts"] + TEXTS
    texts += ["".join(r.choice(ALPHABET) for _ in range(r.randrange(1, 14))) for _ in range(300)]
    splitters = []
    for pre, expression in SPLITTERS.items():
        pattern = regex.compile(expression)
        splitters.append(dict(pre=pre, regex=expression, lengths=[[len(m.group().encode()) for m in pattern.finditer(text)] for text in texts]))
    out = dict(how="splits.py, with Python's regex module; length counts UTF-8 bytes", texts=texts, splitters=splitters)
    json.dump(out, open(sys.argv[2], "w"), ensure_ascii=False, separators=(",", ":"))


main()
