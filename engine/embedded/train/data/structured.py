"""Answers in JSON: objects with given keys, lists, from the words of the user. No fence, nothing around it."""

import json

from . import words
from .draw import Draw, Turn, turn

SKILL = "json"

FIELDS = {
    "name": (lambda d: d.pick(words.NAMES), "the name is {v}"), "age": (lambda d: d.int(5, 95), "the age is {v}"), "city": (lambda d: d.any(words.CITIES), "the city is {v}"),
    "job": (lambda d: d.any(words.JOBS), "the job is {v}"), "color": (lambda d: d.any(words.COLORS), "the color is {v}"), "price": (lambda d: d.int(1, 900), "the price is {v}"),
    "item": (lambda d: d.any(words.OBJECTS), "the item is {v}"), "count": (lambda d: d.int(1, 99), "the count is {v}"), "day": (lambda d: d.any(words.DAYS), "the day is {v}"),
    "animal": (lambda d: d.any(words.ANIMALS), "the animal is {v}"), "food": (lambda d: d.any(words.FOODS), "the food is {v}"), "active": (lambda d: d.chance(0.5), "active is {v}"),
    "id": (lambda d: d.int(1, 9999), "the id is {v}"), "month": (lambda d: d.any(words.MONTHS), "the month is {v}"), "hobby": (lambda d: d.any(words.HOBBIES), "the hobby is {v}"),
}


def _shown(v) -> str:
    return {True: "true", False: "false"}[v] if isinstance(v, bool) else str(v)


def _done(user, thought, value, task) -> Turn:
    return turn(SKILL, user, thought, json.dumps(value), {"json": value}, task)


def given(d: Draw) -> Turn:
    """Keys and values as the user lists them."""
    o = d.until_fresh(lambda: {k: FIELDS[k][0](d) for k in d.some(list(FIELDS), d.int(1, 4))}, "object")
    parts = words.listed([FIELDS[k][1].format(v=_shown(v)) for k, v in o.items()]) if d.chance(0.5) else ", ".join(f"{k} {_shown(v)}" for k, v in o.items())
    user = d.ask(["[Please |]write [this|the following] as [JSON|a JSON object]: {p}.", "[Make|Give me|Create] a JSON object: {p}.", "JSON, please: {p}.", "Turn this into JSON: {p}.", "[Answer|Reply] [only |]with [a JSON object|JSON]: {p}.",
                  "As JSON: {p}", "{p}. Write that as JSON.", "Return JSON for this: {p}.", "Format this as a JSON object: {p}.", "I need JSON where {p}."], p=parts)
    return _done(user, f"The keys are {words.listed(list(o))}.", o, ("json", o))


SENTENCES = [("{name} is {age} years old and lives in {city}.", "name age city"), ("{name} from {city} likes {food}.", "name city food"), ("{name} works as {job} in {city}.", "name job city"), ("{name} bought the {item} for {price} dollars.", "name item price"),
             ("The {item} is {color} and costs {price} dollars.", "item color price"), ("{name} has a {color} {animal}.", "name color animal"), ("On {day} {name} will meet us in {city}.", "day name city"), ("{name}, {age}, enjoys {hobby}.", "name age hobby"),
             ("We have {count} of the {item} in {color}.", "count item color"), ("Order {id}: {count} times {food}.", "id count food"), ("{name} was born in {month} and is {age} now.", "name month age"), ("The {animal} of {name} is {age} years old.", "animal name age")]


def extracted(d: Draw) -> Turn:
    """Given keys, values from a sentence."""
    pattern, keys = d.any(SENTENCES)
    o = d.until_fresh(lambda: {k: FIELDS[k][0](d) for k in keys.split()}, "extracted object")
    text = pattern.format(**o)
    chosen = d.some(keys.split(), d.int(1, 3))
    o = {k: o[k] for k in chosen}
    user = d.ask(["[Extract|Get|Take] {k} from this text as JSON: {t}", "{t}\n\n[Give me|Return|Write] [a JSON object|JSON] with the keys {k}.", "[Answer|Reply] with a JSON object with the keys {k}. Text: {t}", "Text: {t}\nJSON keys: {k}", "Fill a JSON object with {k}: {t}",
                  "Read this: {t} Give me {k} as JSON.", "From {t} make JSON with {k}.", "Which {k} does this text have? [Answer|Reply] in JSON. {t}", "{t} Put {k} into a JSON object."], k=words.listed(chosen), t=text)
    return _done(user, "From the text: " + ", ".join(f"{k} is {v}" for k, v in o.items()) + ".", o, ("json from", text, o))


def array(d: Draw) -> Turn:
    numbers = d.chance(0.3)
    x = d.until_fresh(lambda: d.some(range(100), d.int(2, 6)) if numbers else d.some(d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.COLORS, words.CITIES, words.NAMES]), d.int(2, 5)), "array")
    shown = ", ".join(map(str, x)) if d.chance(0.6) else words.listed(x)
    user = d.ask(["[Please |]write [this list|these] as a JSON [array|list]: {p}", "JSON [array|list] of: {p}", "[Make|Give me|Create] a JSON [array|list] [of|with] {p}.", "Turn this list into JSON: {p}", "[Answer|Reply] with a JSON array of {p}.", "{p}: as a JSON [array|list], please.",
                  "Return [these|them] as a JSON [array|list]: {p}", "Format as a JSON array: {p}", "I need {p} in a JSON array."], p=shown)
    return _done(user, f"There are {len(x)} items.", x, ("json", x))


def records(d: Draw) -> Turn:
    keys = d.any([("name", "age"), ("item", "price"), ("name", "city"), ("food", "count"), ("animal", "color")])
    rows = d.until_fresh(lambda: [{k: FIELDS[k][0](d) for k in keys} for _ in range(d.int(2, 3))], "records")
    text = ", ".join(f"{r[keys[0]]} {r[keys[1]]}" for r in rows)
    user = d.ask(["[Write|Make|Give me] a JSON [array|list] of objects with the keys {a} and {b}: {p}", "JSON [array|list] of objects, keys {a} and {b}: {p}", "Turn this into a list of JSON objects ({a}, {b}): {p}", "As a JSON array with {a} and {b} for each: {p}", "{p}\nMake JSON objects with {a} and {b}, in one array.",
                  "Each pair is {a} and {b}. [Answer|Reply] with a JSON array of objects. {p}", "Return a JSON array, each object with {a} and {b}: {p}"], a=keys[0], b=keys[1], p=text)
    return _done(user, f"There are {len(rows)} objects with {keys[0]} and {keys[1]}.", rows, ("json", rows))


def computed(d: Draw) -> Turn:
    """A plain answer in a given key."""
    a, b = d.until_fresh(lambda: (d.int(1, 60), d.int(1, 60)), "json sum")
    key = d.any(["result", "answer", "sum", "value", "total"])
    user = d.ask(["What is {a} + {b}? [Answer|Reply] in JSON with the key {k}.", "Compute {a} + {b} and return JSON with the key {k}.", "[Give me|Return] a JSON object with the key {k}: the sum of {a} and {b}.", "JSON with the key {k}: {a} plus {b}", "Add {a} and {b}. Output: JSON, key {k}."], a=a, b=b, k=key)
    from .arithmetic import add_steps
    return _done(user, f"{add_steps(a, b)} The key is {key}.", {key: a + b}, ("json", {key: a + b}))


def make(d: Draw) -> Turn:
    return d.any([given, given, extracted, extracted, array, array, records, computed])(d)
