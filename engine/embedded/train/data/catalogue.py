"""Tools with sentences that say a need and not always a tool's words, for training alone: text files of `ways`, one tool a block.

    tool: check_stock, getStock                                 its names
    does: [See|Check] how many pieces of an article are left.   its description
    article string word: Name of the article                    a parameter: its name, type and kind of values
    least integer 2..50: Least number
    Is there enough {article}, {least} or more?                 sentences, each with all parameters

The kind of a boolean is `on`, and {name?phrase if so:phrase if not} says it."""

import functools
import re

from . import copying, needs, tools, ways, words
from .draw import Draw, Turn

_PARAMETER = re.compile(r"(\w+) (string|integer|number|boolean|array) ([^:]+): (.+)$")
_SAID = re.compile(r"\{(\w+)\?([^{}:]*):([^{}]*)\}")
LANGUAGES = "German French Spanish Italian Dutch Polish Swedish Turkish Greek Danish Finnish Portuguese Japanese Korean Arabic Russian Czech Hungarian".split()
COUNTRIES = "Norway Spain Italy Poland Greece Portugal Ireland Denmark Austria Chile Peru Kenya India Canada Japan Mexico Egypt Iceland Latvia Malta".split()
CURRENCIES = "EUR USD GBP CHF JPY SEK NOK DKK PLN CZK CAD AUD".split()
TOP_LEVEL = ["com", "org", "net", "example", "io"]


def _some_words(d: Draw, low: int, high: int) -> str:
    return " ".join(d.some(words.SHORT + words.OBJECTS + words.FOODS, d.int(low, high)))


KINDS = {
    "city": lambda d: d.pick(words.CITIES), "name": lambda d: d.pick(words.NAMES), "word": lambda d: d.any(d.any([words.OBJECTS, words.SHORT, words.FOODS, words.ANIMALS, words.LONG])),
    "words": lambda d: _some_words(d, 2, 4), "title": lambda d: _some_words(d, 1, 4).title() if d.chance(0.5) else _some_words(d, 1, 4),
    "date": lambda d: f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}", "time": lambda d: f"{d.int(0, 23):02}:{d.any(['00', '15', '30', '45', '10', '20', '05'])}", "day": lambda d: d.any(words.DAYS),
    "email": lambda d: f"{d.pick(words.NAMES).lower()}{d.any(['', d.int(1, 99)])}@{d.any(words.SHORT)}.{d.any(TOP_LEVEL)}", "url": lambda d: f"https://{d.any(words.SHORT)}.{d.any(TOP_LEVEL)}/{d.any(words.SHORT)}", "path": tools.path,
    "id": lambda d: d.any([lambda: f"{chr(d.int(65, 90))}-{d.int(100, 9999)}", lambda: f"{chr(d.int(65, 90))}{chr(d.int(65, 90))}{d.int(10, 99999)}", lambda: str(d.int(100, 99999)), lambda: copying.identifier(d), lambda: copying.long_number(d)])(),
    "code": lambda d: "".join(d.any("ABCDEFGHJKLMNPQRSTUVWXYZ23456789") for _ in range(d.int(4, 8))), "phone": lambda d: f"{d.int(100, 999)}-{d.int(1000, 9999)}",
    "currency": lambda d: d.any(CURRENCIES), "language": lambda d: d.any(LANGUAGES), "country": lambda d: d.any(COUNTRIES), "color": lambda d: d.any(words.COLORS),
}


def _slot(kind: str, values: str, description: str) -> tools.Slot:
    if kind == "boolean":
        return tools.Slot(kind, description, None, lambda d: d.chance(0.5))
    if kind in ("integer", "number"):
        low, high = (float(x) for x in values.split(".."))
        whole = lambda d: d.int(int(low), int(high))
        return tools.Slot(kind, description, None, whole if kind == "integer" else lambda d: whole(d) if d.chance(0.5) else round(d.rng.uniform(low, high), 1))
    if kind == "array":
        pools = [words.NAMES] if values == "names" else [words.SHORT, words.FOODS, words.OBJECTS, words.ANIMALS]
        return tools.Slot(kind, description, None, lambda d: d.some(d.any(pools), d.int(2, 4)))
    if "|" in values:
        choices = values.split("|")
        return tools.Slot("enum", description, None, lambda d: d.any(choices), choices)
    return tools.Slot(kind, description, None, KINDS[values])


@functools.cache
def rows() -> list[tuple[list[str], str, dict[str, tools.Slot], list[str]]]:
    """Names, description, parameters and sentences of every tool."""
    out = []
    for file in sorted(ways.FOLDER.glob("tools_*.txt")):
        for block in re.split(r"\n\s*\n", file.read_text(encoding="utf-8").strip()):
            lines = block.splitlines()
            names, does = lines[0].removeprefix("tool: ").split(", "), lines[1].removeprefix("does: ")
            slots, at = {}, 2
            while at < len(lines) and (m := _PARAMETER.match(lines[at])):
                slots[m[1]] = _slot(m[2], m[3].strip(), m[4])
                at += 1
            out.append((names, does, slots, lines[at:]))
    return out


def _filled(d: Draw, sentence: str, values: dict) -> str:
    sentence = _SAID.sub(lambda m: m[2] if values[m[1]] else m[3], sentence)
    return d.ask([sentence], **{k: words.listed(v) if isinstance(v, list) else v for k, v in values.items()})


def tool(d: Draw, row) -> tools.Tool:
    """A tool of a row, of which all parameters are said; in one of ten wishes its description and their names say them."""
    names, does, slots, sentences = row
    plain = slots and not any(s.kind in ("boolean", "array") for s in slots.values())

    def sentence(d: Draw, t: tools.Tool, values: dict) -> str:
        if plain and d.chance(0.1):
            return d.fill(tools.labelled(d, t, values), **values)
        return _filled(d, d.any(sentences), values)
    t = tools.Tool(d.any(names), d.fill(does), slots, list(slots), sentence, None, d)
    t.verb, t.noun = "", names[0]
    t.values = lambda d: {k: s.value(d) for k, s in slots.items()}
    return t


def _rows(d: Draw, n: int) -> list:
    """n tools, those of one field beside each other in half of the cases, for which there are others; in one of three conversations some or
    all of them have no parameters."""
    plain = d.rng.random()
    if plain < 0.2:
        return needs.beside(d, needs.rows(), n)
    few = d.int(1, n - 1) if plain < 0.33 and n > 1 else 0
    out = needs.beside(d, rows(), n - few) + (needs.beside(d, needs.rows(), few) if few else [])
    d.rng.shuffle(out)
    return out


def talk(d: Draw) -> list[Turn]:
    """Wishes to up to eight of them; one in ten is for something that none of them does."""
    *drawn, left = _rows(d, d.int(1, d.any([2, 4, 8])) + 1)
    offered = [tool(d, row) for row in drawn]
    if len({x.name for x in offered}) < len(offered):
        return talk(d)
    turns = []
    for _ in range(d.int(1, 8)):
        kind = d.rng.random()
        if kind < 0.04 and (wishes := ways.of("tools.none")):
            wish = d.ask(wishes, city=d.pick(words.CITIES), name=d.pick(words.NAMES), date=KINDS["date"](d))
            turns.append(tools.unfulfilled(wish, wish.rstrip(".!?"), offered))
        elif kind < 0.1:
            other = tool(d, left)
            turns.append(tools.refused(tools.wanted_call(d, other)[0], other, offered))
        else:
            turns.append(tools.called(d, offered, d.any(offered), tools.CHOOSE))
    return turns
