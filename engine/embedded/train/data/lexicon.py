"""What common words mean, for training alone, since a model that has read nothing but tasks knows a word only from where it stands in them.
Text files of `ways`, a word a line with what it means and words that have to do with it, the nearest first:

    rename: give another name to something | retitle, change, name, label"""

import functools
import re

from . import ways
from .draw import Draw, Turn, turn

SKILL = "lexicon"
# What a word is of, by how its meaning begins.
KINDS = {"a person": r"(someone|somebody|the one|(a|the) (\w+ )?(person|man|woman|boy|girl|human|child|artist|worker))\b", "what one does": r"to [a-z]+ ", "a place": r"(a|the) (\w+ )?(place|building|room|shop|town|area|house)\b",
         "a thing": r"a (\w+ )?(tool|thing|machine|device|piece|paper|stick|cloth|knife|box|bag)\b"}


@functools.cache
def entries() -> list[tuple[str, str, list[str]]]:
    """Words, meanings and near words, in the order of the files: those beside each other are often alike."""
    out = []
    for file in sorted(ways.FOLDER.glob("lexicon_*.txt")):
        for line in file.read_text(encoding="utf-8").splitlines():
            word, rest = line.split(": ", 1)
            meaning, near = rest.split(" | ")
            out.append((word, meaning, near.split(", ")))
    return out


def _beside(d: Draw, n: int) -> list[tuple[str, str, list[str]]]:
    """n entries, half of the time those beside each other."""
    everything = entries()
    if d.chance(0.5):
        return d.some(everything, n)
    first = d.int(0, len(everything) - 2 * n)
    return d.some(everything[first:first + 2 * n], n)


def _turn(n: int, user: str, lines: list[str]) -> list[Turn]:
    return [turn(SKILL, user, f"There are {n} words. I take one after the other.", "\n".join(lines), {}, ("ack",))]


def explained(d: Draw) -> list[Turn]:
    """What some words mean."""
    chosen = _beside(d, d.int(3, 12))
    user = d.ask(["What do these words mean?\n{w}", "[Explain|Define] each of these words: {w}", "{w}\n\nSay in a few words what each of them [is|means].", "A small dictionary of these, please: {w}"],
                 w=d.any(["\n", ", "]).join(word for word, _, _ in chosen))
    return _turn(len(chosen), user, [f"{word}: {meaning}" for word, meaning, _ in chosen])


def found(d: Draw) -> list[Turn]:
    """Meanings, and which of the words that stand there has each."""
    offered = _beside(d, d.int(4, 14))
    asked = d.some(offered, d.int(2, len(offered)))
    user = d.ask(["Words: {w}\n\nWhich of them is meant?\n{m}", "{m}\n\nFind the word for each, out of these: {w}", "Which of these words [has|fits] each meaning? {w}\n{m}"],
                 w=", ".join(word for word, _, _ in offered), m="\n".join(f"{i}. {d.any(meaning.split('; '))}" for i, (_, meaning, _) in enumerate(asked, 1)))
    return _turn(len(asked), user, [f"{i}. {word}" for i, (word, _, _) in enumerate(asked, 1)])


def alike(d: Draw) -> list[Turn]:
    """Words that mean nearly the same as some."""
    chosen = _beside(d, d.int(3, 14))
    n = d.any([1, 2, 3])
    user = d.ask(["[Another word|Other words] for each of these:\n{w}", "{w}\n\nHow else can these be said?", "What means nearly the same as each of these? {w}"], w=d.any(["\n", ", "]).join(word for word, _, _ in chosen))
    return _turn(len(chosen), user, [f"{word}: {', '.join(near[:n])}" for word, _, near in chosen])


def related(d: Draw) -> list[Turn]:
    """Words, and which of those on offer each has to do with."""
    offered = d.some(entries(), d.int(3, 9))
    pairs = []
    for word, _, near in offered:
        alone = [x for x in near if not any(x in other or x == w for w, _, other in offered if w != word)]
        pairs += [(x, word) for x in d.some(alone, min(len(alone), 2))]
    if not pairs:
        return related(d)
    d.rng.shuffle(pairs)
    user = d.ask(["{w}\n\nWhich of these has most to do with each of the following?\n{q}", "Words: {w}\nWhich one [goes|belongs] with each of these?\n{q}"],
                 w=", ".join(word for word, _, _ in offered), q="\n".join(x for x, _ in pairs))
    return _turn(len(pairs), user, [f"{x}: {word}" for x, word in pairs])


@functools.cache
def _of_kinds() -> dict[str, list[str]]:
    """The words of every kind."""
    return {kind: [word for word, meaning, _ in entries() if re.match(pattern, meaning)] for kind, pattern in KINDS.items()}


def sorted_out(d: Draw) -> list[Turn]:
    """Words, and what each is of."""
    chosen: dict[str, str] = {}
    for _ in range(d.int(5, 14)):
        kind = d.any(list(KINDS))
        chosen.setdefault(d.any(_of_kinds()[kind]), kind)
    user = d.ask(["[A person, a place, a thing or what one does|Say of each what it is]: {w}", "What [sort|kind] of word is each of these?\n{w}", "{w}\n\nWhich of them [is|are] a person, and what are the others?"],
                 w=d.any(["\n", ", "]).join(chosen))
    return _turn(len(chosen), user, [f"{word}: {kind}" for word, kind in chosen.items()])


def _form(d: Draw, word: str, meaning: str) -> str:
    """A word as it stands somewhere else: of many, of the past, at the beginning of a sentence."""
    stem = word[:-1] if word.endswith("e") else word
    if meaning.startswith("to ") and d.chance(0.5):
        word = d.any([stem + "ing", stem + "ed"])
    elif re.match("(a|an|the|one|some|to)", meaning) and d.chance(0.6):
        word = re.sub("y$", "ie", word) + "s" if not re.search("[aeiou]y$|(s|x|ch|sh)$", word) else word + ("s" if word.endswith("y") else "es")
    return d.any([word, word.capitalize(), word.capitalize(), word.upper()])


def _joined(d: Draw, words: list[str]) -> str:
    """A name of some words, as programmers write one."""
    return d.any(["_".join(words), "_".join(words), "-".join(words), words[0] + "".join(w.title() for w in words[1:]), "".join(w.title() for w in words), "mcp__" + "__".join(words)])


def named(d: Draw) -> list[Turn]:
    """Names as programs have them, and which of them has each of some words, which stand there otherwise: Invoices are of pay_invoice."""
    offered = [e for e in d.some(entries(), d.int(6, 20)) if "-" not in e[0]]
    offered = [e for e in offered if not any(o is not e and (o[0][:4] == e[0][:4]) for o in offered)]
    names, of = [], {}
    rest = list(offered)
    while rest:
        part, rest = rest[:(n := d.int(1, 3))], rest[n:]
        names.append(_joined(d, [word for word, _, _ in part]))
        of.update({word: names[-1] for word, _, _ in part})
    asked = d.some(offered, d.int(min(3, len(offered)), len(offered)))
    shown = [_form(d, word, meaning) for word, meaning, _ in asked]
    user = d.ask(["{n}\n\nWhich of these [names|tools] has [the word|each word]?\n{w}", "{w}\n\nFind the name that has each of them: {n}", "[Names|Tools]:\n{n}\nWhich one is about each of these: {w}"],
                 n=d.any(["\n", ", "]).join(names), w=d.any(["\n", ", "]).join(shown))
    return _turn(len(asked), user, [f"{x}: {of[word]}" for x, (word, _, _) in zip(shown, asked)])


def make(d: Draw) -> list[Turn]:
    return d.any([explained, found, found, alike, related, related, sorted_out, named, named, named])(d)
