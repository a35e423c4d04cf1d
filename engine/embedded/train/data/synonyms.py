"""Words that can stand for each other in what users ask, for training alone: `ways/synonyms.txt` has a group of them a line. So a wording
is not one sentence but many, and what it says no longer hangs on one word."""

import functools
import re

from . import ways

MOST = 3  # words of a wording that others take the place of


@functools.cache
def groups() -> dict[str, tuple[str, ...]]:
    """What can stand for a phrase, by the phrase."""
    lines = [tuple(line.split(", ")) for line in (ways.FOLDER / "synonyms.txt").read_text(encoding="utf-8").splitlines()]
    return {phrase: tuple(other for other in line if other != phrase) for line in lines for phrase in line}


@functools.cache
def _phrases() -> re.Pattern:
    """Any of the phrases, the longest that stands there, but nothing of a slot; with the article in front of it."""
    longest = sorted(groups(), key=len, reverse=True)
    return re.compile(r"(?<![\w{'-])(?:([Aa]n?) )?(" + "|".join(map(re.escape, longest)) + r")(?![\w}'-])", re.IGNORECASE)


def _instead(d, m: re.Match) -> str:
    phrase = m[2]
    small = phrase if phrase in groups() else phrase[0].lower() + phrase[1:]
    if small not in groups():  # written in capitals, say
        return m[0]
    other = d.any(groups()[small])
    if phrase != small:
        other = other[0].upper() + other[1:]
    article = m[1] and m[1][0] + ("n" if other[0].lower() in "aeiou" else "")
    return f"{article} {other}" if article else other


def swapped(d, text: str) -> str:
    """A wording with some of its words in other words; slots stay as they are."""
    found = list(_phrases().finditer(text))
    for m in sorted(d.some(found, min(len(found), d.int(1, MOST))), key=lambda m: -m.start()):
        text = text[:m.start()] + _instead(d, m) + text[m.end():]
    return text
