#!/usr/bin/env python3
"""The pieces of further splitters, by Python's regex module, which knows the expressions as they are written.

    splits.py splits.json OUT.json           (regex 2026; the texts of splits.json, some more and random ones)
    splits.py splits.json OUT.json deepseek  (tokenizers 0.23: sequences of expressions, and regex for Kimi)

SmolLM's are digits one by one and then the ByteLevel of that library.
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
ASCII_SIGNS = "[!\"#$%&'()*+,\\-./:;<=>?@\\[\\\\\\]^_`{|}~]"
WESTERN = ("A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-\u1f7dᾀ-ᾴᾶ-ᾼ\u1fbeῂ-ῄῆ-ῌῐ-\u1fd3ῖ-\u1fdbῠ-Ῥῲ-ῴῶ-ῼ"
           "ℂℇℊ-ℓℕℙ-ℝℤ\u2126ℨ\u212a-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃")
SEQUENCES = {
    "deepseek-v3": [r"\p{N}{1,3}", "[一-龥\u3040-\u309f\u30a0-\u30ff]+",
                    ASCII_SIGNS + "[A-Za-z]+|[^\r\n\\p{L}\\p{P}\\p{S}]?[\\p{L}\\p{M}]+| ?[\\p{P}\\p{S}]+[\r\n]*|\\s*[\r\n]+|\\s+(?!\\S)|\\s+"],
    "deepseek-llm": ["[\r\n]", rf"\s?[{WESTERN}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", "[一-龥\u0800-一가-\ud7ff]+", None],
}
KIMI_UPPER, KIMI_LOWER = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]")
KIMI = (rf"[\p{{Han}}]+|[^\r\n\p{{L}}\p{{N}}]?{KIMI_UPPER}*{KIMI_LOWER}+{ENDING}|[^\r\n\p{{L}}\p{{N}}]?{KIMI_UPPER}+{KIMI_LOWER}*{ENDING}"
        r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEXTS = [
    "camelCase HTTPServer XMLHttpRequest iOS McDonald eBay aB Ab AB ab A b", "IT'S it's It'S we'LL 'tis O'Neil's I'd've'd", "x\u0301Y\u0301 \u0301a !\u0301b \u0301",
    "ǅungla ǈ ʰa Aʰ Aʰb ʰA", "你好World WORLD你好 Hello世界 中A中", "a/b//c\n/\r\n/ path/to/file.go\n\n//", "https://Example.COM/A?b=C&d=1234567", "1234567 12 3a4B",
    "ÀÉÎ àéî Àé éÀ ßA Aß", "नमस्ते दुनिया Aनम", "  Two  Spaces\t\tTabs \n\n Lines", "\u0301", "A", "a", "'", "'S", "A's", "'s's",
]
ALPHABET = ["a", "b", "s", "t", "A", "B", "S", "\u0301", "你", "ʰ", "ǅ", "1", "22", " ", "  ", "\n", "\r\n", "'", "'s", "'LL", "/", ".", "!", "\t", "é", "É", "ſ", "\u00a0", "🙂"]


EASTERN = ["の", "ア", "゠", "ー", "々", "〇", "⺀", "한", "ก", "٣", "　", "\u2003", "。", "’", "。", "\x00", "\x01", "\u200d", "𝐀", "ƻ", "Ω", "x", "#", "$", "12345"]


def sequence(steps):
    """The lengths of the pieces of a sequence of expressions; None is digits one by one."""
    from tokenizers import Regex, pre_tokenizers as pre
    whole = pre.Sequence([pre.Digits(individual_digits=True) if s is None else pre.Split(Regex(s), "isolated") for s in steps])
    return lambda text: [len(piece.encode()) for piece, _ in whole.pre_tokenize_str(text)]


def deepseek(texts):
    kimi = regex.compile(KIMI, regex.V1)
    out = [dict(pre=name, regex=steps, lengths=[sequence(steps)(t) for t in texts]) for name, steps in SEQUENCES.items()]
    out += [dict(pre="kimi-k2", regex=KIMI, lengths=[[len(m.group().encode()) for m in kimi.finditer(t)] for t in texts])]
    return out + [dict(pre="smollm", lengths=[smollm(t) for t in texts])]


def smollm(text):
    """The lengths of the pieces, which have one character for each byte."""
    from tokenizers import pre_tokenizers as pre
    whole = pre.Sequence([pre.Digits(individual_digits=True), pre.ByteLevel(add_prefix_space=False, use_regex=True)])
    return [len(piece) for piece, _ in whole.pre_tokenize_str(text)]


def main():
    r = random.Random(11)
    texts = json.load(open(sys.argv[1]))["texts"] + TEXTS
    further = sys.argv[3:] == ["deepseek"]
    alphabet = ALPHABET + EASTERN if further else ALPHABET
    texts += ["".join(r.choice(alphabet) for _ in range(r.randrange(1, 14))) for _ in range(900 if further else 300)]
    splitters = deepseek(texts) if further else []
    for pre, expression in ({} if further else SPLITTERS).items():
        pattern = regex.compile(expression)
        splitters.append(dict(pre=pre, regex=expression, lengths=[[len(m.group().encode()) for m in pattern.finditer(text)] for text in texts]))
    out = dict(how="splits.py, with Python's regex module; length counts UTF-8 bytes", texts=texts, splitters=splitters)
    json.dump(out, open(sys.argv[2], "w"), ensure_ascii=False, separators=(",", ":"))


main()
