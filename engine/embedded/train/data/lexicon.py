"""What common words mean, for training alone, since a model that has read nothing but tasks knows a word only from where it stands in them.
Text files of `ways`, a word a line with what it means and words that have to do with it, the nearest first:

    rename: give another name to something | retitle, change, name, label"""

import functools

from . import ways
from .draw import Draw, Turn, turn

SKILL = "lexicon"


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


def make(d: Draw) -> list[Turn]:
    return d.any([explained, found, found, alike, related, related])(d)
