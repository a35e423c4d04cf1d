"""What everyday words have to do with each other: actions without parameters, and how people say that they need them. For training
alone, since a model that reads nothing else knows no other words. Text files of `ways`, one action a block:

    tool: water_lawn, lawnWater                       its names
    does: [Water|Sprinkle] the grass.                 its description
    near: dry, brown, drought                         words that have to do with it
    The grass looks thirsty.                          sentences of those who want it

They are tools of catalogue.py as well."""

import functools
import re

from . import drills, ways
from .draw import Draw, Turn, turn

SKILL = "needs"


@functools.cache
def _blocks() -> list[tuple[tuple[list[str], str, dict, list[str]], list[str]]]:
    """Every action as a row of catalogue.py, and its words."""
    out = []
    for file in sorted(ways.FOLDER.glob("needs_*.txt")):
        for block in re.split(r"\n\s*\n", file.read_text(encoding="utf-8").strip()):
            tool, does, near, *sentences = block.splitlines()
            row = tool.removeprefix("tool: ").split(", "), does.removeprefix("does: "), {}, sentences
            out.append((row, near.removeprefix("near: ").split(", ")))
    return out


@functools.cache
def rows() -> list[tuple[list[str], str, dict, list[str]]]:
    return [row for row, _ in _blocks()]


def beside(d: Draw, all_: list, n: int) -> list:
    """n of a list, those beside each other in half of the cases."""
    at = int(d.rng.random() * len(all_))
    near = list(range(max(0, at - 4), min(len(all_), at + 5)))
    chosen = {at}
    while len(chosen) < n:
        chosen.add(d.any(near) if d.chance(0.5) else d.int(0, len(all_) - 1))
    return [all_[i] for i in sorted(chosen, key=lambda _: d.rng.random())]


def _told(lines: list[str]) -> str:
    return "\n".join(f"{i}. {line}" for i, line in enumerate(lines, 1))


def _all_in_turn(n: int, user: str, answers: list[str]) -> list[Turn]:
    return [turn(SKILL, user, f"There are {n} tasks. I take one after the other.", "\n".join(answers), {}, ("ack",))]


def _only(word: str, at: int, offered) -> bool:
    """Whether a word belongs to one of some actions alone."""
    return not any(word in near or word in " ".join([*row[0], row[1]]).lower() for i, (row, near) in enumerate(offered) if i != at)


def names(d: Draw) -> list[Turn]:
    """Names of actions, and which of them does what people want, or has to do with a word."""
    offered = beside(d, _blocks(), d.int(2, d.any([3, 5, 8])))
    called = [d.any(row[0]) for row, _ in offered]
    does = [d.choose(row[1]) for row, _ in offered]
    asked, answers = [], []
    for _ in range(d.int(3, 10)):
        at = d.int(0, len(offered) - 1)
        row, near = offered[at]
        only = [w for w in near if _only(w, at, offered)]
        what = d.any(only) if only and d.chance(0.3) else d.choose(d.any(row[3])) if d.chance(0.85) else d.choose(row[1]).rstrip(".")
        if what not in asked:
            asked.append(what)
            answers.append(f"{len(asked)}:\n{called[at]} fits.")
    shown = d.any([called, [f"{c}: {x}" for c, x in zip(called, does)], [drills.prompted(c) for c in called],
                   [drills.prompted(c, description=x) for c, x in zip(called, does)]])
    return _all_in_turn(len(asked), d.ask(["Tools:\n{t}\n\nWhich one is for each of these?\n{q}", "{q}\n\nWhich of these is for each?\n{t}", "{t}\n\nFind what [helps|fits] in each case:\n{q}",
                                                  "People say this:\n{q}\n\nWhich of these do they [want|need]?\n{t}"], t="\n".join(shown), q=_told(asked)), answers)


def related(d: Draw) -> list[Turn]:
    """Words, and which of some others each has to do with."""
    offered = beside(d, _blocks(), d.int(2, d.any([4, 8])))
    picked = []
    for at, (_, near) in enumerate(offered):
        only = [w for w in near if _only(w, at, offered)]
        if len(only) > 1:
            picked.append(d.some(only, min(len(only), 4)))
    if len(picked) < 2:
        return related(d)
    pairs = [(w, p[0]) for p in picked for w in p[1:]]
    pairs = d.some(pairs, min(len(pairs), d.int(2, 12)))
    return _all_in_turn(len(pairs), d.ask(["{t}\n\nWhich of these words has most to do with each of the following?\n{q}", "{q}\n\nFor each of these, the word of this list that goes with it: {t}",
                                                  "Words: {t}\nWhat [goes|belongs] with each of these?\n{q}"], t=", ".join(p[0] for p in picked), q="\n".join(w for w, _ in pairs)),
                        [f"{w}: {x}" for w, x in pairs])


def meant(d: Draw) -> list[Turn]:
    """What people say, and in a few words what each of them wants."""
    chosen = beside(d, rows(), d.int(2, 7))
    return _all_in_turn(len(chosen), d.ask(["What does each of these people want?\n{q}", "{q}\n\nSay in [a few|plain] words what each of them wants.", "In other words, one after the other:\n{q}"],
                                                  q=_told([d.choose(d.any(row[3])) for row in chosen])), [f"{i}. {d.choose(row[1])}" for i, row in enumerate(chosen, 1)])


def make(d: Draw) -> list[Turn]:
    return d.any([names, names, related, meant])(d)
