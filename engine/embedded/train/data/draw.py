"""Choices of the generator: seeded, and parted into what is trained and what is held out.

Every list of wordings or names is parted by the hashes of its items, and so
are payloads (number pairs, lists of words): a held-out conversation uses
wordings, names and payloads that no training conversation has.
"""

import collections
import dataclasses
import functools
import json
import random
import re
import zlib

from . import synonyms, ways, words

# One item of so many of a list is held out, at least one; lists of fewer than
# four items are not parted.
HELDOUT_SHARE = 7

# How often a name of a person or a city is one that nobody has: names are copied, not known.
INVENTED = 0.4

# How often a wording of training has a word too many or too few, so that none of its words decides alone; and words that nothing replaces.
GARBLED = 0.2
NEEDED = frozenset("""not no none without never last first before after behind front next end begin begins starts start ends up down most least smallest
biggest largest highest lowest small big upper lower capital capitals capitalized letters words back backwards reverse reversed twice once one each every
only from to than minus plus times divided sum product difference less more half double count number""".split())

# How often some words of a wording of training are others that mean the same.
SWAPPED = 0.35

# How often a question is of those that were written apart from the generator's lists, where there are such.
WRITTEN = 0.5

_OPTIONS = re.compile(r"\[([^\[\]]*)\]")
_LETTERS = re.compile(r"[a-z]+")
_SLOT = re.compile(r"\{(\w+)\}")
_RUDE = re.compile("shit|cunt|tits?$")  # what syllables make by chance and no name is


def _hash(thing) -> int:
    return zlib.crc32(json.dumps(thing, ensure_ascii=False, default=str).encode())


def _words(pattern: str) -> set[str]:
    """The words of a wording, whichever of its options is taken; what is filled in does not count."""
    return set(re.findall(r"\w+", _SLOT.sub(" ", pattern).lower()))


@functools.cache
def _wordings(items: tuple) -> tuple[tuple, tuple]:
    """Wordings of a question: up to a quarter is held out, all of the second half, for the first one has the
    plainest, which a user will use. What is held out is a new sentence of words that other wordings of the
    list have: a model that has read nothing else cannot know what a word means that nobody ever used. A list that
    has no such sentence lends the one with the fewest words of its own."""
    if len(items) < 4:
        return items, items
    uses = collections.Counter(w for i in items for w in _words(i))
    candidates = sorted(items[len(items) // 2:], key=_hash)
    held: list[str] = []
    for c in candidates:
        if len(held) < max(1, len(items) // 4) and all(uses[w] > 1 for w in _words(c)):
            uses.subtract(_words(c))
            held.append(c)
    if not held:  # the one that is closest to the others
        held = [min(candidates, key=lambda c: (sum(uses[w] < 2 for w in _words(c)), _hash(c)))]
    return tuple(i for i in items if i not in held), tuple(held)


@functools.cache
def _held_out(items: tuple) -> re.Pattern:
    """Every held-out wording of a list, whichever of its options is taken, in small letters or others."""
    groups = {"[": "(?:", "]": ")", "|": "|"}
    return re.compile("|".join("(?:" + "".join(groups.get(c) or re.escape(c) for c in w) + ")" for w in _wordings(items)[1]), re.IGNORECASE)


@functools.cache
def _parts(items: tuple) -> tuple[tuple, tuple]:
    if len(items) < 4:
        return items, items
    ranked = sorted(items, key=lambda x: (_hash(x), str(x)))
    held = set(ranked[: max(1, len(items) // HELDOUT_SHARE)])
    return tuple(x for x in items if x not in held), tuple(x for x in items if x in held)


@dataclasses.dataclass
class Turn:
    """One question and all that is said until its answer."""

    skill: str
    user: str
    # What the assistant and the tools say; the last one is the answer.
    reply: list[dict]
    # What the answer must be, in the form of the skill cases; of the first reply where calls are expected.
    expect: dict
    # The task as data, for a solver that knows nothing of how the answer was made.
    task: tuple = ()
    tools: list[dict] | None = None
    # The schema of the answer in JSON.
    schema: dict | None = None


def say(thought: str, answer: str, calls: list[tuple[str, dict]] | None = None) -> dict:
    """An assistant message; the thought is taken away where thinking is off."""
    m = {"role": "assistant", "content": answer, "reasoning_content": thought}
    if calls:
        m["tool_calls"] = [{"function": {"name": n, "arguments": a}} for n, a in calls]
    return m


def turn(skill: str, user: str, thought: str, answer: str, expect: dict, task: tuple = ()) -> Turn:
    return Turn(skill, user, [say(thought, answer)], expect, task)


def look(what: str, found: str | None = None) -> str:
    """The thought of one who looks for something in what was said, and finds it or not."""
    return f"I look for {what} and find: {found}" if found else f"I look for {what}, but there is nothing about that."


def exactly(text: str) -> dict:
    """The answer is this text; quotes around it and a full stop behind it do no harm."""
    return {"text": "^[\"'`]?" + re.escape(text).replace("\\ ", " ").replace("\\-", "-") + "[\"'`]?[.!]?$"}


def has(*texts: str, absent: tuple = ()) -> dict:
    """The answer has these words, in this order, in any case, and none of the absent ones."""
    part = lambda t: r"(^|[^\w])" + re.escape(t).replace("\\ ", " ").replace("\\-", "-") + r"([^\w]|$)"
    e = {"text": "(?i)" + ".*".join(map(part, texts))}
    if absent:
        e["not"] = "(?i)" + "|".join(map(part, absent))
    return e


def invented(d) -> str:
    """A name of one to three syllables, mostly on no list."""
    begin = "b br c ch d dr f fl g gr h j k kl l m n p pr qu r s sh sk st t th tr v w y z".split()
    end = ["", "", "", "n", "r", "l", "s", "m", "t", "k", "nd", "rt", "ll", "x"]
    while True:
        name = "".join(d.any(begin) + d.any(["a", "e", "i", "o", "u", "ai", "ee", "ou"]) + d.any(end) for _ in range(d.int(1, 3)))
        if not _RUDE.search(name):
            return name.title()


class Draw:
    """A seeded source of choices for one conversation of one split."""

    def __init__(self, seed, split: str, name: str = "core-1.1"):
        if split not in ("train", "heldout"):
            raise ValueError(f"split is {split!r}, want train or heldout")
        self.rng = random.Random(f"{seed}")
        self.heldout = split == "heldout"
        self.name = name  # what the model calls itself
        self.around = None  # what puts things around a wording that do not belong to it; of training alone
        self.chance = lambda p: self.rng.random() < p
        self.int = self.rng.randint

    def any(self, items):
        """One of all items, held out or not; at times, in training, one that is on no list."""
        if type(items) is words.Open and not self.heldout and self.chance(INVENTED):
            return self.invented()
        return items[int(self.rng.random() * len(items))]

    def invented(self) -> str:
        """A name of this split that is on no list."""
        return self.until_fresh(lambda: invented(self), "name")

    def task(self, makers, practised):
        """One of the makers; in training, half of the time one of those that want more practice."""
        return self.any(practised if not self.heldout and self.chance(0.5) else makers)

    def mine(self, items) -> tuple:
        return _parts(tuple(items))[self.heldout]

    def pick(self, items):
        """One of the items of this split. A held-out name is on no list: those on one are tokens of the vocabulary, which
        have to be learnt like other words, and no user's name is a token that nobody ever asked about."""
        if type(items) is words.Open:
            return self.invented() if self.heldout else self.any(items)
        return self.any(self.mine(items))

    def written(self, way: str, items, parted: bool = True):
        """One of the items, of this split if they are parted; in training as often one of a name in ways.py."""
        if not self.heldout and (written := ways.of(way)) and self.chance(WRITTEN):
            return self.any(written)
        return self.pick(items) if parted else self.any(items)

    def some(self, items, n: int, split: bool = False) -> list:
        """Different items, of all or of this split."""
        if not split:
            return self.rng.sample(items, n)
        out: dict = {}
        while len(out) < n:
            out[self.pick(items)] = None
        return list(out)

    def fresh(self, payload) -> bool:
        """Says whether a payload belongs to this split."""
        return (_hash(payload) % HELDOUT_SHARE == 0) == self.heldout

    def until_fresh(self, make, kind: str):
        """Draws payloads until one belongs to this split; of small sets nothing can be held out."""
        while True:
            payload = make()
            if self.fresh([kind, payload]):
                return payload

    def choose(self, pattern: str) -> str:
        """Resolves [a|b] to one of its options."""
        while "[" in pattern:
            pattern, n = _OPTIONS.subn(lambda m: self.any(m.group(1).split("|")), pattern)
            if not n:
                break
        return pattern

    def fill(self, pattern: str, /, **values) -> str:
        """The same, and {name} to a value."""
        return _SLOT.sub(lambda m: str(values[m.group(1)]), self.choose(pattern))

    def ask(self, patterns, /, compose=None, way=None, **values) -> str:
        """A wording of this split, at times written carelessly; values are never changed. For training there are others: those of a name
        in ways.py, and what compose gives, a pattern or what makes one, of parts that the patterns have. None is one that is held out."""
        pattern, more = "", None
        if not self.heldout:
            if (written := ways.of(way)) and self.chance(WRITTEN):
                more = lambda: self.any(written)
            elif compose and self.chance(0.5):
                more = lambda: compose(self) if callable(compose) else compose
        filled = lambda text: _SLOT.sub(lambda m: str(values[m.group(1)]), text)
        held_out = lambda text: any(map(_held_out(tuple(patterns)).fullmatch, (text, filled(text))))
        while more and (not pattern or held_out(pattern)):
            pattern = self.choose(more())
        pattern = pattern or self.choose(self.any(_wordings(tuple(patterns))[self.heldout]))
        if not self.heldout and self.chance(SWAPPED) and not held_out(other := synonyms.swapped(self, pattern)):
            pattern = other
        pattern = self._careless(pattern)
        if self.around and not self.heldout and self.chance(0.25):
            pattern = self.around(self, pattern)
        return filled(pattern)

    def _careless(self, text: str) -> str:
        r = self.rng.random()
        if r > 0.24 + (0 if self.heldout else GARBLED):
            return text
        parts = re.split(r"(\{\w+\})", text)
        if r < 0.10:
            return "".join(p if p[:1] == "{" else p.lower() for p in parts)
        if r < 0.16:
            return text[:-1] if text[-1:] in ".?!" else text
        if r < 0.18:
            return "".join(p if p[:1] == "{" else p.upper() for p in parts)
        if r > 0.24:
            at = max(range(0, len(parts), 2), key=lambda i: len(parts[i]))
            parts[at] = self._garbled(parts[at])
            return "".join(parts)
        at = self.rng.randrange(len(parts))
        if parts[at][:1] != "{":
            parts[at] = self._typo(parts[at])
        return "".join(parts)

    def _garbled(self, text: str) -> str:
        """With a word or two that do not belong there, or without some that the question can do without. Both ends stay as they are: what
        stands beside a value could be read as a part of it."""
        for _ in range(self.int(1, 2)):
            gaps = [m.start() for m in re.finditer(r"(?<=[a-z]) (?=[a-z]+[ ,.?!])", text)]
            if len(gaps) < 3:
                break
            at = self.any(gaps)
            if self.chance(0.5):
                text = f"{text[:at]} {self.any(words.SENTENCE_WORDS)}{text[at:]}"
            elif (left_out := _LETTERS.match(text, at + 1)).group() not in NEEDED:
                text = text[:at] + text[left_out.end():]
        return text

    def _typo(self, text: str) -> str:
        words = [m for m in re.finditer(r"[a-z]{5,}", text)]
        if not words:
            return text
        m = self.any(words)
        i = self.rng.randrange(m.start() + 1, m.end() - 2)
        if self.chance(0.5):
            return text[:i] + text[i + 1] + text[i] + text[i + 2:]
        return text[:i] + text[i + 1:]
