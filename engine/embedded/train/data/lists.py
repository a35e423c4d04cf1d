"""Choosing from lists of ten to forty: the n-th, the one after another, the one that begins with a letter, whether one is there; and more questions about the same list."""

import functools
import re

from . import copying, ways, words
from .draw import Draw, Turn, exactly, turn

SKILL = "pick"

ORDINALS = """first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth fourteenth fifteenth sixteenth
seventeenth eighteenth nineteenth twentieth""".split()

POOLS = [words.FOODS, words.ANIMALS, words.OBJECTS, words.SHORT, words.LONG, words.NAMES, words.CITIES, words.SENTENCE_WORDS, words.JOBS]
EVERYTHING = sorted({w for p in POOLS for w in p})


class Given:
    """Draws of questions about one list. The first shows it; those behind it have wordings that do not."""

    def __init__(self, d: Draw, x: list[str], shown: tuple[str, bool]):
        self.d, self.x, self.shown, self.said = d, x, shown, False

    def __getattr__(self, name: str):
        return getattr(self.d, name)

    def ask(self, patterns, way: str, compose=None, **values) -> str:
        if self.said:
            return self.d.ask(AGAIN[way], compose=lambda d: d.any(_without_list(way)), **values)
        self.said = True
        return self.d.ask(patterns, way=way, compose=compose, **values)


@functools.cache
def _without_list(way: str) -> tuple[str, ...]:
    """Wordings that have the list in front or at their end, without it."""
    kept = (re.sub(r"^\{q\}(\\n|\s)*|(\\n|\s)*\{q\}$", "", w) for w in ways.of(way))
    return tuple(w for w in kept if "{q}" not in w and not w.endswith((":", "-", " of", " in", " from", " is", " to")))


AGAIN = {  # a question about the list above
    "pick.nth": ["[And|Now] the {n}[ one|]?", "[What|Which one] is the {n}[ one| of them|]?", "The {n}[ one|], please.", "[Tell|Give] me the {n}[ one|].", "[Which|What] is number {n}?", "Who or what comes {n}?", "And which one comes {n}?", "What stands in the {n} place?"],
    "pick.last": ["[And|Now] the last[ one|]?", "[What|Which one] is the last[ of them|]?", "The last one, please.", "How does the list end?", "What comes at the end?", "[Tell|Give] me the last[ one|]."],
    "pick.after": ["[And|Now] what comes [right |]after {w}?", "What follows {w}?", "[And|] after {w}?", "Which one comes [next|next after {w}|right behind {w}]? I mean after {w}.", "[Tell|Give] me the one after {w}.", "The one [after|behind] {w}[, please|]?",
                   "{w} is followed by what?", "Who or what comes after {w}?", "From {w} one further: which is it?", "What stands [right |]behind {w}?"],
    "pick.before": ["[And|Now] what comes [right |just |]before {w}?", "What precedes {w}?", "[And|] before {w}?", "[Tell|Give] me the one before {w}.", "The one [before|in front of] {w}[, please|]?", "{w} follows what?", "Who or what comes before {w}?",
                    "From {w} one back: which is it?", "What stands [right |]in front of {w}?", "Which one comes [first|earlier], [right|just] before {w}?"],
    "pick.by_letter": ["[And|Now] which one [begins|starts] with {c}?", "Which has {c} as its first letter?", "The one with {c} in front?", "With {c}?", "Which of them begins with [the letter |]{c}?", "[Tell|Give] me the one that [begins|starts] with {c}.", "One begins with {c}, which?"],
    "pick.there": ["[And|Now] is {w} [there|in it|in the list|one of them]?", "Is {w} on it?", "Does it have {w}?", "Do you see {w}?", "[Does|Did] {w} come up?", "Is there {w}?", "{w}, is that in it?", "Can you find {w} there?", "Yes or no: is {w} in the list?"],
}


def _things(d: Draw) -> list[str]:
    """Ten to forty different things, shorter lists more often."""
    if isinstance(d, Given):
        return d.x
    n = d.int(10, d.any([12, 16, 20, 30, 40]))
    if not d.heldout and d.chance(0.5):  # what no list has, or of all lists: a likely word is no guess there
        return copying.things(d, n) if d.chance(0.6) else d.some(EVERYTHING, n)
    pool = list(dict.fromkeys(d.any([p for p in POOLS if len(set(p)) >= n])))
    return d.until_fresh(lambda: d.some(pool, n), "long list")


def shown(d: Draw, x: list[str]) -> tuple[str, bool]:
    """A list as users write it, and whether every thing has its number."""
    if isinstance(d, Given):
        return d.shown
    numbered = ["\n".join(f"{i}. {w}" for i, w in enumerate(x, 1)), "\n".join(f"{i}) {w}" for i, w in enumerate(x, 1)), " ".join(f"{i}. {w}" for i, w in enumerate(x, 1))]
    plain = [", ".join(x), ", ".join(x), "\n".join(x), "\n".join("- " + w for w in x), "; ".join(x), words.listed(x)]
    return (d.any(numbered), True) if d.chance(0.35) else (d.any(plain), False)


def number(d: Draw, i: int) -> str:
    """The place i in words or digits."""
    end = "th" if 10 < i < 14 or i % 10 not in (1, 2, 3) else {1: "st", 2: "nd", 3: "rd"}[i % 10]
    return ORDINALS[i - 1] if i <= len(ORDINALS) and d.chance(0.6) else f"{i}{end}"


def _counted(x: list[str], i: int, to: str | None = None) -> str:
    """What finds the i-th: the count to it, or to another thing. What ends a count is said first."""
    end = x.index(to) + 1 if to else i
    return f"To {to or i}: " + ", ".join(f"{k} {w}" for k, w in enumerate(x[:end], 1)) + f". Number {i} is {x[i - 1]}."


def _picked(user: str, thought: str, x: list[str], i: int, worked: str | None = None, task: str = "pick") -> Turn:
    t = turn(SKILL, user, thought, x[i - 1], _last(x[i - 1]) if worked else exactly(x[i - 1]), (task, x, i))
    if worked:
        t.reply[0]["worked"] = worked
    return t


def _last(text: str) -> dict:
    """The answer is this, or ends with it."""
    inner = exactly(text)["text"].removeprefix("^").removesuffix("$")
    return {"text": r"(^|is |: )" + inner + "$"}


FRAMES = ["{do}: {q}", "{do}:\n{q}", "{q}\n\n{do}.", "{q}\n{do}.", "Here is [a|my|the] list:\n{q}\n\n{do}.", "[This is|I have] [a|the|my] list: {q}\n{do}.", "List: {q}\n{do}.", "Please {do_}: {q}", "[Could|Can] you {do_}? {q}",
          "I want you to {do_}: {q}", "Look at this list and {do_}: {q}", "From the list below, {do_}.\n\n{q}", "Items:\n{q}\n\nTask: {do_}"]


def _framed(parts: list[str]):
    def make(d: Draw) -> str:
        do = d.choose(d.any(parts))
        return d.any(FRAMES).replace("{do_}", do).replace("{do}", do[0].upper() + do[1:])
    return make


NTH = ["[tell|give|show] me the {n} [one|item|entry|of them]", "name the {n} [one|item|entry]", "pick the {n} [one|item|entry]", "find the {n} [one|item|entry|element]", "write down the {n} [one|item]",
       "say which one is the {n}", "say what stands in the {n} place", "return the {n} [element|item|entry]"]


def nth(d: Draw) -> Turn:
    x = _things(d)
    i = d.int(1, len(x))
    q, numbered = shown(d, x)
    user = d.ask(["[What|Which one] is the {n} [item|entry|one] of this list?\n{q}", "{q}\n\n[What|Which one] is the {n}[ one| item|]?", "The {n} [one|item] of these, please: {q}", "Which [item|entry] is the {n} here: {q}",
                  "What is the {n} thing in this list: {q}", "Count to the {n} item and name it: {q}", "Which one comes {n} in this list? {q}", "{q}\n\nThe {n}, please.", "Which of these is the {n}? {q}",
                  "I need the {n} item of this: {q}"], way="pick.nth", compose=_framed(NTH), q=q, n=number(d, i))
    if numbered:
        return _picked(user, f"I look for number {i}: {x[i - 1]}.", x, i)
    return _picked(user, _counted(x, i), x, i, _counted(x, i))


LAST = ["[tell|give|show] me the last [one|item|entry|of them]", "name the last [one|item|entry]", "pick the last [one|item|entry]", "say what [comes|stands] last", "return the last [element|item|entry]", "say how the list ends"]


def last(d: Draw) -> Turn:
    x = _things(d)
    user = d.ask(["[What|Which one] is the last [item|entry|one] of this list?\n{q}", "{q}\n\n[What|Which one] is the last[ one| item|]?", "The last [one|item] of these, please: {q}", "What comes last here: {q}",
                  "Which [item|entry] is at the end: {q}", "{q}\n\nWhat is at the end of the list?", "The list is: {q}. What is its last item?", "How does this list end? {q}"], way="pick.last", compose=_framed(LAST), q=shown(d, x)[0])
    return _picked(user, f"The list ends with {x[-1]}.", x, len(x))


AFTER = ["[tell|give|show] me [the one|what comes|what stands] [right |]after {w}", "name the [item|one|entry] that [follows|comes after] {w}", "find {w} and [tell|give] me the next one", "say what follows {w}", "pick the one behind {w}"]
BEFORE = ["[tell|give|show] me [the one|what comes|what stands] [right |just |]before {w}", "name the [item|one|entry] that comes before {w}", "find {w} and [tell|give] me the one before it", "say what comes before {w}", "pick the one in front of {w}"]


def beside(d: Draw) -> Turn:
    """The one after, or before, another."""
    x = _things(d)
    after = d.chance(0.6 if d.heldout else 0.45)  # what comes before is found less easily
    i = d.int(2, len(x))
    at, user_of = (x[i - 2], AFTER) if after else (None, BEFORE)
    if not after:
        i = d.int(1, len(x) - 1)
        at = x[i]
    asks = (["[What|Which one] comes [right |]after {w} in this list?\n{q}", "{q}\n\nWhat comes after {w}?", "Which [item|entry] follows {w} here: {q}", "After {w}, what is next? {q}", "The one after {w}, please: {q}",
             "{q}\n\nWhich one follows {w}?", "What is next to {w}, behind it? {q}"] if after else
            ["[What|Which one] comes [right |just |]before {w} in this list?\n{q}", "{q}\n\nWhat comes before {w}?", "Which [item|entry] is before {w} here: {q}", "Before {w}, what is there? {q}", "The one before {w}, please: {q}",
             "{q}\n\nWhich one is in front of {w}?", "What stands in front of {w}? {q}"])
    user = d.ask(asks, way="pick.after" if after else "pick.before", compose=_framed(user_of), q=(text := shown(d, x))[0], w=at)
    return _picked(user, _found_beside(x, i, at, text[1]), x, i, task="pick after" if after else "pick before")


def _found_beside(x: list[str], i: int, at: str, numbered: bool) -> str:
    """The way from `at` to the i-th. What stands in front of a thing, be it a number, cannot be found by it; so the one before is counted to."""
    if x.index(at) > i - 1:
        return _counted(x, i, to=at)
    return f"I look for {at}: {at}, {i} {x[i - 1]}." if numbered else f"I look for {at}: {at}, {x[i - 1]}."


LETTER = ["[tell|give|show] me the one that [begins|starts] with {c}", "name the [item|one|entry] that [begins|starts] with [the letter |]{c}", "find the [item|one|word] whose first letter is {c}", "pick the one with {c} as its first letter"]


def _alone(x: list[str]) -> list[int]:
    """The places of things that begin with a letter that no other begins with."""
    firsts = [w[0].lower() for w in x]
    return [i for i, c in enumerate(firsts, 1) if firsts.count(c) == 1 and c.isalpha()]


def by_letter(d: Draw) -> Turn:
    """The one that begins with a letter that no other begins with."""
    while not _alone(x := _things(d)):
        pass
    firsts, i = [w[0].lower() for w in x], d.any(_alone(x))
    user = d.ask(["[What|Which one] of these [begins|starts] with {c}?\n{q}", "{q}\n\nWhich one [begins|starts] with [the letter |]{c}?", "Which [item|word] here has {c} as its first letter: {q}", "Which of them starts with {c}: {q}",
                  "{q}\n\nOne of these begins with {c}. Which one?", "Something with {c} at the beginning, from this list: {q}", "Is there one that begins with {c}? Which one? {q}"],
                 way="pick.by_letter", compose=_framed(LETTER), q=shown(d, x)[0], c=d.any([firsts[i - 1], firsts[i - 1].upper()]))
    found = ", ".join(f"{w} {c}" for w, c in zip(x[:i], firsts))  # a letter alone brings up words that are on no list
    return _picked(user, f"To {firsts[i - 1]}: {found}.", x, i)


THERE = ["say if {w} is in [it|the list]", "tell me if {w} is in [it|the list|this list]", "tell me whether {w} is there", "check [if|whether] {w} is in [it|the list]", "look for {w} and say yes or no", "find out if {w} is one of them"]


def there(d: Draw) -> Turn:
    """Whether something is in a list."""
    x = _things(d)
    if yes := d.chance(0.5):
        w = d.any(x)
    else:
        while (w := d.any(_things(getattr(d, "d", d)))) in x or any(w in y or y in w for y in x):
            pass
    user = d.ask(["Is {w} in this list?\n{q}", "{q}\n\nIs {w} in the list?", "{q}\n\nIs {w} there?", "Does this list have {w}? {q}", "Do you see {w} in this list: {q}", "Is {w} one of these? {q}", "{q}\n\nIs {w} one of them, yes or no?",
                  "Yes or no: is {w} in here? {q}", "{q}\n\nDoes it have {w}?"], way="pick.there", compose=_framed(THERE), q=shown(d, x)[0], w=w)
    answer = f"Yes, {w} is in the list." if yes else f"No, {w} is not in the list."
    thought = f"I look for {w} and find it." if yes else f"I look for {w}, but it is not there."
    return turn(SKILL, user, thought, answer, {"text": r"(?i)^yes\b" if yes else r"(?i)^no\b"}, ("in list", x, w))


def make(d: Draw) -> Turn:
    if not d.heldout and d.chance(0.5):  # what goes wrong most often
        return d.any([beside, by_letter, there])(d)
    return d.any([nth, nth, nth, last, beside, beside, by_letter, there])(d)


def several(d: Draw) -> list[Turn]:
    """A list and one question or more about it."""
    if d.heldout or d.chance(0.45):
        return [make(d)]
    x = _things(d)
    given = Given(d, x, shown(d, x))
    kinds = [nth, last, beside, beside, beside, there, there, *[by_letter] * (2 if _alone(x) else 0)]
    return [d.any(kinds)(given) for _ in range(d.int(2, 10))]
