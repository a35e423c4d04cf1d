"""Exercises in copying and finding: learnt from, never asked in an evaluation.

Most of what the models do with a request is to find a word in it and to say it again: a name, a tool, a number. What is
copied in the other skills is drawn from lists, so guessing a word of the list does nearly as well. Here it is
anything, often never seen before, and most of a conversation is learnt.
"""

import functools
import json
import re

from .. import bpe
from . import words
from .draw import Draw, Turn, invented, look, turn

SKILL = "copy"


def identifier(d: Draw) -> str:
    """A name as programmers write it."""
    parts = [d.any(words.WORDS) if d.chance(0.8) else invented(d).lower() for _ in range(d.int(1, 3))]
    style = d.int(0, 6)
    if style == 0:
        return "".join(p if i == 0 else p.title() for i, p in enumerate(parts))
    if style == 1:
        return "".join(p.title() for p in parts)
    if style == 2:
        return "mcp__" + "__".join(parts)
    return d.any(["_", "_", "_", "-", ".", "/"]).join(parts)


def plain_name(d: Draw) -> str:
    """A word in small letters, on a list or on none."""
    return d.any(words.WORDS) if d.chance(0.6) else invented(d).lower()


def mail(d: Draw) -> str:
    return f"{invented(d).lower()}{d.any(['', d.int(1, 99)])}@{plain_name(d)}.example"


def place(d: Draw) -> str:
    """A path of any names."""
    return d.any(["", "/", "./"]) + "/".join(plain_name(d) for _ in range(d.int(1, 4))) + d.any([".go", ".py", ".md", ".txt", ".json", ".log", ".csv"])


def number(d: Draw) -> str:
    kind = d.rng.random()
    if kind < 0.5:
        return str(d.int(0, 10 ** d.int(1, 6)))
    if kind < 0.65:
        return f"{d.int(0, 999)}.{d.int(0, 99):02}"
    if kind < 0.8:
        return f"{d.int(1990, 2040)}-{d.int(1, 12):02}-{d.int(1, 28):02}"
    return f"{d.int(0, 23):02}:{d.int(0, 59):02}" if kind < 0.9 else f"{d.int(100, 999)}-{d.int(1000, 9999)}"


def long_number(d: Draw) -> str:
    """Eight to fourteen digits, half of the time with a part that comes twice or three times: what follows such a part is another
    thing each time, and a copy must know which time it is."""
    if d.chance(0.5):
        return str(d.int(10 ** 7, 10 ** d.int(8, 14)))
    part = str(d.int(10, 9999))
    inside = [part] * d.int(2, 3) + [str(d.int(0, 999)) for _ in range(d.int(0, 2))]
    d.rng.shuffle(inside)
    return d.any(["", "978", str(d.int(1, 99))]) + "".join(inside)


def scrambled(d: Draw) -> str:
    return "".join(d.any("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789") for _ in range(d.int(3, 9)))


KINDS = [lambda d: d.any(words.WORDS), lambda d: d.any(words.NAMES), lambda d: d.any(words.CITIES), invented, identifier, identifier, number, number, long_number, scrambled,
         lambda d: " ".join(d.some(words.WORDS, d.int(2, 4))), lambda d: d.any(words.WORDS).upper(), lambda d: d.any(words.WORDS).title()]


PLAIN = [lambda d: d.any(words.WORDS), lambda d: d.any(words.WORDS), lambda d: d.any(words.NAMES), lambda d: d.any(words.CITIES), lambda d: str(d.int(10, 99))]


def things(d: Draw, n: int, kinds=KINDS) -> list[str]:
    """n different things, of one kind or of all."""
    kinds = [d.any(kinds)] if d.chance(0.5) else kinds
    out: dict[str, None] = {}
    while len(out) < n:
        out[d.any(kinds)(d)] = None
    return list(out)


def repeat(d: Draw, kinds=KINDS) -> list[Turn]:
    """A long text, back as it is."""
    text = d.any([" ", ", ", "\n", " | "]).join(things(d, d.int(3, 24), kinds))
    user = d.ask(["[Please |]repeat [this|the following|all of this]: {q}", "Repeat [this text |]exactly: {q}", "Copy this: {q}", "Say this: {q}", "[Answer|Reply] with [exactly |]this: {q}",
                  "Write this again: {q}", "Echo: {q}", "{q}\n\nRepeat that."], q=text)
    return [turn(SKILL, user, f"I repeat the text as it is: {text}", text, {}, ("ack",))]


FORMS = [("{k} is {v}", ". "), ("{k}: {v}", "\n"), ("{k} = {v}", "\n"), ("{k}: {v}", ", "), ("- {k}: {v}", "\n"), ("{k} has {v}", ". "), ("{k} -> {v}", "\n"), ("\"{k}\": \"{v}\"", ", "), ("{k} ({v})", ", "), ("| {k} | {v} |", "\n")]
QUESTIONS = ["{k}?", "What is {k}?", "And {k}?", "Now {k}.", "What belongs to {k}?", "Which value has {k}?", "Give me {k}.", "Find {k}.", "{k}, please."]
BACK = ["Which one has {v}?", "What has {v}?", "Which key belongs to {v}?", "Where is {v}?", "Who has {v}?", "{v} belongs to what?"]


def lookup(d: Draw) -> list[Turn]:
    """Pairs, and questions about some of them in both directions, and about what is in none of them."""
    plain = d.chance(0.6)  # what has one token is found before what has many
    n, kinds = (d.int(2, 8), PLAIN) if plain else (d.int(2, 14), KINDS)
    keys, values = things(d, n, kinds), things(d, n, kinds)
    pairs = [(k, v) for k, v in zip(keys, values) if v not in keys] or [(keys[0], "nothing")]
    form, between = d.any(FORMS)
    text = between.join(form.format(k=k, v=v) for k, v in pairs)
    asked = d.some(pairs, min(len(pairs), d.int(3, 10)))
    asked += [(k, None) for k in things(d, d.int(0, 3), kinds) if k not in keys and k not in values]
    d.rng.shuffle(asked)
    turns = []
    for k, v in asked:
        back = d.chance(0.25)
        sought = v if back and v else k
        question = d.ask(BACK, v=sought) if back else d.ask(QUESTIONS, k=sought)
        user = question if turns else d.any([f"{text}\n\n{question}", f"{text}\n{question}", f"Here is a list.\n{text}\n\n{question}", f"{question}\n\n{text}"])
        if v:
            turns.append(turn(SKILL, user, look(sought, form.format(k=k, v=v)), k if back else v, {}, ("ack",)))
        else:
            turns.append(turn(SKILL, user, look(sought), "The list does not say that.", {}, ("ack",)))
    return turns


def _apart(by: str):
    return lambda x: by.join(x)


def _each(form: str, by: str = "\n"):
    return lambda x: by.join(form.format(w=w) for w in x)


# How a list is written, what no thing of it may have in it to be read again, and how users ask for it so.
LAYOUTS = [
    (_apart(", "), ",", ["[with|separated by] commas", "as a list with commas", "on one line, with commas"]),
    (_apart("\n"), "\n", ["one per line", "each on a line of its own", "line by line"]),
    (_each("- {w}"), "\n", ["as a bullet list", "as a list with dashes", "with a dash in front of each"]),
    (_apart(" "), " ", ["[with|separated by] spaces", "with nothing but spaces"]),
    (_apart("/"), "/", ["joined with slashes", "with / between them", "as a path"]),
    (_each('"{w}"', ", "), ",", ["in quotes, with commas", "each in quotes"]),
    (json.dumps, '"', ["as a JSON list", "as a JSON array", "in JSON"]),
    (_apart("; "), ";", ["with semicolons", "separated by semicolons"]),
    (_apart(" | "), "|", ["with | between them", "separated by |"]),
    (_apart("_"), "_", ["joined with underscores", "with _ between them"]),
    (_apart("-"), "-", ["joined with dashes", "with - between them"]),
    (_apart("+"), "+", ["joined with plus signs", "with + between them"]),
    (lambda x: "\n".join(f"{i}. {w}" for i, w in enumerate(x, 1)), "\n", ["numbered", "as a numbered list", "with a number in front of each"]),
    (_each("({w})", ""), "(", ["in brackets", "each in brackets"]),
    (_each("name={w}"), "\n", ["with name= in front of each", "each behind name="]),
]


def layout(d: Draw, kinds=(invented, invented, identifier, mail, place, *KINDS)) -> list[Turn]:
    """A list in one layout, back in others: behind another character a word is made of other tokens, which nothing shows."""
    x = things(d, d.int(3, 16), kinds)
    shown = d.any([l for l in LAYOUTS if not any(l[1] in w for w in x)])
    turns = []
    for write, _, asked in d.some([l for l in LAYOUTS if l is not shown], d.int(1, 3)):
        how = d.choose(d.any(asked))
        user = d.any([f"Now {how}.", f"{how.capitalize()}, please.", f"And {how}?", f"The same {how}."]) if turns else d.ask(
            ["[Write|Give me] [this list|these|all of these] {h}:\n{q}", "{q}\n\nWrite [them|all of them|this] {h}.", "{h}: {q}", "[Please |]put these {h}: {q}"], q=shown[0](x), h=how)
        turns.append(turn(SKILL, user, "I write them again.", write(x), {}, ("ack",)))
    return turns


def select(d: Draw) -> list[Turn]:
    """Names with descriptions, as tools have; the one that a description belongs to."""
    n = d.int(2, 8)
    names = []
    while len(names) < n:
        name = identifier(d)
        if name not in names:
            names.append(name)
    what = d.some([f"{v} the {o}" for v in d.some(["open", "close", "send", "find", "count", "move", "print", "check", "clean", "sell"], 4) for o in d.some(words.OBJECTS, 4)], n)
    text = "\n".join(f"{a}: {b}" for a, b in zip(names, what))
    turns = []
    for i, at in enumerate(d.some(range(n), d.int(1, min(n, 6)))):
        question = d.ask(["Which one [is there to|does|can] {w}?", "I want to {w}.", "[What|Which] do I call to {w}?", "Name the one that can {w}.", "How do I {w}?", "{w}, please."], w=what[at])
        turns.append(turn(SKILL, question if i else f"{text}\n\n{question}", f"The line is: {names[at]}: {what[at]}", names[at], {}, ("ack",)))
    return turns


LETTERS = [w for w in words.WORDS + words.NAMES + words.CITIES if 3 <= len(w) <= 8]


def _unlisted(d: Draw) -> str:
    """What tokens consist of or a name, of 2 to 12 letters; where neither is, two others are drawn."""
    while not (some := [w for w in (d.any(spellable()), invented(d).lower()) if 2 <= len(w) <= 12]):
        pass
    return d.any(some)


def letters(d: Draw) -> list[Turn]:
    """Words one after the other, each with its letters, in capitals or in small letters: a token does not show them, and a question about
    one word teaches one word."""
    x = d.some(LETTERS, d.int(3, 10))
    if not d.heldout and d.chance(0.5):  # a word that nobody listed is made of tokens that need their letters
        x = list(dict.fromkeys(_unlisted(d) for _ in x))
    kind = d.int(0, 3)
    patterns = [["Spell [each of these|these words|all of these]: {q}", "{q}: how is each of them spelled?", "The letters of each of these words: {q}", "Spell, one after the other: {q}", "[Give|Show] me the letters of each: {q}"],
                ["Number the letters of each of these words: {q}", "Count through the letters of each: {q}", "{q}: number their letters.", "Number the letters, word by word: {q}"],
                ["Each of these words in [capitals|upper case]: {q}", "[Upper case|Capitals], word by word: {q}", "{q}: write each one in [capitals|upper case].", "Write each of these words in [capitals|upper case]: {q}"],
                ["Each of these words in [small letters|lower case]: {q}", "[Lower case|Small letters], word by word: {q}", "{q}: write each one in [small letters|lower case].", "Write each of these words in [small letters|lower case]: {q}"]][kind]
    shown = [lambda w: f"{w}: {' '.join(w)}", lambda w: f"{w}: " + ", ".join(f"{c} {i + 1}" for i, c in enumerate(w)), lambda w: f"{w}: {w.upper()}", lambda w: f"{w}: {w.lower()}"][kind]
    x = [d.any([w.upper(), w.upper(), w.title()]) for w in x] if kind == 3 else x
    return [turn(SKILL, d.ask(patterns, q=", ".join(x)), f"There are {len(x)} words. I take one after the other.", ". ".join(map(shown, x)) + ".", {}, ("ack",))]


_SAYABLE = re.compile(r"[ /_.:='\"-]?[^\W\d_]+")


@functools.cache
def tokens() -> tuple[str, ...]:
    """Tokens of the vocabulary that are letters, with the character in front that many of them have."""
    known = bpe.Tokenizer.load(str(bpe.VOCABULARY))
    texts = (known.decode([i]) for i in range(len(known.vocab)))
    return tuple(t for t in texts if _SAYABLE.fullmatch(t))


@functools.cache
def spellable() -> tuple[str, ...]:
    """The small letters that tokens consist of."""
    return tuple(sorted({w for t in tokens() if (w := t.lstrip(" ")) and len(w) > 1 and w.isascii() and w.isalpha() and w.islower()}))


def of_tokens(d: Draw) -> str:
    return "".join(d.any(tokens()) for _ in range(d.int(1, 4))).strip()


def vocabulary(d: Draw) -> list[Turn]:
    """Any tokens, each as often as another. A model can say only what it has learnt to say, and of the tokens one in four is
    hardly ever in an answer."""
    return d.any([repeat, layout, layout])(d, [of_tokens])


def make(d: Draw) -> list[Turn]:
    return d.any([repeat, lookup, lookup, select, letters, letters, letters, *[layout] * 5])(d)
