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
    sign = d.any([" ", " ", ": ", " is ", " = ", "="])
    parts = words.listed([FIELDS[k][1].format(v=_shown(v)) for k, v in o.items()]) if d.chance(0.5) else ", ".join(f"{k}{sign}{_shown(v)}" for k, v in o.items())
    user = d.ask(["[Please |]write [this|the following] as [JSON|a JSON object]: {p}.", "[Make|Give me|Create] a JSON object: {p}.", "JSON, please: {p}.", "Turn this into JSON: {p}.", "[Answer|Reply] [only |]with [a JSON object|JSON]: {p}.",
                  "As JSON: {p}", "{p}. Write that as JSON.", "Return JSON for this: {p}.", "Format this as a JSON object: {p}.", "I need JSON where {p}.",
                  "[Could you|Can you|Would you] [write this as|put this into|turn this into] [JSON|a JSON object]: {p}?", "JSON object: {p}",
                  "{p}\n\n[Write|Format|Return] that as [JSON|a JSON object].", "{p}\nNow as JSON[, please|].", "Data: {p}\n[Make|Give me|Return] JSON.",
                  "[Hey|OK|Hi], [make|write|create] JSON [of|from] this: {p}",
                  "[I need this for a config file|This is for a program|It is for a form]: [write|give me|make] a JSON object. {p}",
                  "[Convert|Change|Turn] this [to|into] [JSON|a JSON object]: {p}", "[Convert|Format] to JSON: {p}", "[Put|Pack] this into [JSON|a JSON object]: {p}",
                  "[Put|Pack] these values into [JSON|a JSON object]: {p}", "[Output|Return|Print] [only |]a JSON object[ for this|]: {p}", "[Output|Print] JSON: {p}",
                  "How does this look [as|in] JSON: {p}", "What is this as [JSON|a JSON object]? {p}", "[Please |]build a JSON object from this: {p}",
                  "Build JSON with these values: {p}", "[Store|Record] this as [JSON|a JSON object]: {p}", "[Write|Record] it as JSON: {p}",
                  "ok so I have these values: {p}. Make JSON[ of them|].", "I have this: {p}. [Give it to me|Return it|Write it] as [JSON|a JSON object].",
                  "Quick question: how is this written in JSON: {p}", "[Please |]answer in JSON: {p}", "My program reads JSON. [Convert|Write] this for it: {p}",
                  "Here are the values: {p}. [Create|Build|Output] a JSON object."], way="json.given", p=parts)
    return _done(user, f"The keys are {words.listed(list(o))}.", o, ("json", o))


SENTENCES = [("{name} is {age} years old and lives in {city}.", "name age city"), ("{name} from {city} likes {food}.", "name city food"), ("{name} works as {job} in {city}.", "name job city"), ("{name} bought the {item} for {price} dollars.", "name item price"),
             ("The {item} is {color} and costs {price} dollars.", "item color price"), ("{name} has a {color} {animal}.", "name color animal"), ("On {day} {name} will meet us in {city}.", "day name city"), ("{name}, {age}, enjoys {hobby}.", "name age hobby"),
             ("We have {count} of the {item} in {color}.", "count item color"), ("Order {id}: {count} times {food}.", "id count food"), ("{name} was born in {month} and is {age} now.", "name month age"), ("The {animal} of {name} is {age} years old.", "animal name age"),
             ("My friend {name} is {age} and comes from {city}.", "name age city"), ("In {month} {name} moved to {city}.", "month name city"), ("{name} sold {count} of the {item} on {day}.", "name count item day"),
             ("{name} spends every {day} on {hobby} in {city}.", "name day hobby city"), ("The price of the {item} is {price} dollars, ask for {name}.", "item price name"), ("Number {id} is {name} from {city}.", "id name city"),
             ("{name} keeps the {color} {animal} in {city}.", "name color animal city"), ("We meet on {day}, {name} brings {food}.", "day name food"), ("{name} is our {job} and will be {age} in {month}.", "name job age month"),
             ("A {color} {item} was lost in {city} on {day}.", "color item city day"), ("Customer {id} ordered the {item} in {color} for {price} dollars.", "id item color price"), ("{name} is {age}, works as {job} and likes {hobby}.", "name age job hobby"),
             ("Every {day} the {animal} gets {food} from {name}.", "day animal food name"), ("Ticket {id}: {name} travels to {city} in {month}.", "id name city month")]


# More ways to ask for some of what a sentence says, put together of parts: for training alone.
_PLEASE = "[|||Please |Could you |Can you |Now |Quick: |Hey, ]"
EXTRACT = "[" + "|".join([
    _PLEASE + "[extract|get|take|pull|find|read] [only |just ||]{k} [from|out of|in] [this|the] [text|sentence|note] [and return|and output|and write|and give me] [JSON|it as JSON|a JSON object]: {t}",
    _PLEASE + "[return|output|write|give me|make] [JSON|a JSON object] [with|that has|of] [only |just ||]{k} [from|of|in] this[ text| sentence| note|]: {t}",
    "{t} [Return|Output|Write|Give me|I need] [only |just ||]{k}[ of this| from this|], [as JSON|in JSON|as a JSON object].",
    "{t}\n\n[Extract|Get|Take|Find|Pull out|Fill in] [only |just ||]{k}, [as JSON|in JSON|as a JSON object].",
    _PLEASE + "read this [text|sentence|note] and [find|extract|take out] [only |just ||]{k}[, as JSON| in JSON]: {t}",
    "[Text|Sentence|Note|Input]: {t}\n[Keys|Wanted|Fields|Find]: {k}\n[JSON:|Answer in JSON.|Output: a JSON object]",
]) + "]"


def extracted(d: Draw) -> Turn:
    """Given keys, values from a sentence."""
    pattern, keys = d.any(SENTENCES)
    o = d.until_fresh(lambda: {k: FIELDS[k][0](d) for k in keys.split()}, "extracted object")
    text = pattern.format(**o)
    chosen = d.some(keys.split(), 1 if not d.heldout and d.chance(0.35) else d.int(1, 3))
    o = {k: o[k] for k in chosen}
    user = d.ask(["[Extract|Get|Take] {k} from this text as JSON: {t}", "{t}\n\n[Give me|Return|Write] [a JSON object|JSON] with the keys {k}.", "[Answer|Reply] with a JSON object with the keys {k}. Text: {t}", "Text: {t}\nJSON keys: {k}", "Fill a JSON object with {k}: {t}",
                  "Read this: {t} Give me {k} as JSON.", "From {t} make JSON with {k}.", "Which {k} does this text have? [Answer|Reply] in JSON. {t}", "{t} Put {k} into a JSON object.",
                  "[Could you|Can you|Would you] [extract|get|take] {k} from this as JSON: {t}", "{k} as JSON, please: {t}", "JSON with {k}[, please|]: {t}",
                  "{t}\n[Extract|Return|Output] {k} as JSON.", "{t}\n\nJSON object with {k}[, please|].",
                  "Note: {t}\n[Fill|Write|Output] a JSON object with the keys {k}.", "Sentence: {t}\nKeys: {k}\nOutput: JSON",
                  "[Hey|OK|Hi], [make|write] JSON with the keys {k} [from|out of] this: {t}",
                  "[I need this for a program|This is for a table|It is for a form]: [get|extract] {k} as JSON. {t}",
                  "[Read|Look at] this and [return|write|output] {k} as JSON: {t}", "[Please |]make a JSON object with the keys {k}. The text is: {t}",
                  "Keys: {k}. Text: {t} [Return|Write|Make] JSON.", "[Convert|Turn] this into JSON, keys {k}: {t}",
                  "[Convert|Turn] this sentence into a JSON object with {k}: {t}", "[Take|Pull] {k} out of this text and [return|output] JSON: {t}",
                  "[Find|Pull out] {k} and put [that|it] into JSON: {t}", "What does this say about {k}? [Answer|Reply] in JSON: {t}",
                  "[Please |]read this text and fill in {k}, as JSON: {t}", "I [need|want] a JSON object with {k} from this [text|sentence]: {t}",
                  "I [got|have] this text: {t} [Give me|Return] {k} in JSON.", "ok so JSON again, keys {k}, text: {t}",
                  "[Store|Record] {k} from this text as a JSON object: {t}", "[Find|Get] the values of {k} in this text. Output JSON. {t}",
                  "From this [sentence|text], build a JSON object with {k}: {t}", "Build JSON from the sentence, with the keys {k}: {t}"],
                 way="json.extracted", compose=EXTRACT, k=words.listed(chosen), t=text)
    return _done(user, "From the text: " + ", ".join(f"{k} is {v}" for k, v in o.items()) + ".", o, ("json from", text, o))


def array(d: Draw) -> Turn:
    numbers = d.chance(0.3)
    x = d.until_fresh(lambda: d.some(range(100), d.int(2, 6)) if numbers else d.some(d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.COLORS, words.CITIES, words.NAMES]), d.int(2, 5)), "array")
    shown = ", ".join(map(str, x)) if d.chance(0.6) else words.listed(x)
    user = d.ask(["[Please |]write [this list|these] as a JSON [array|list]: {p}", "JSON [array|list] of: {p}", "[Make|Give me|Create] a JSON [array|list] [of|with] {p}.", "Turn this list into JSON: {p}", "[Answer|Reply] with a JSON array of {p}.", "{p}: as a JSON [array|list], please.",
                  "Return [these|them] as a JSON [array|list]: {p}", "Format as a JSON array: {p}", "I need {p} in a JSON array.",
                  "[Could you|Can you|Would you] [write this as|turn these into|put these into] a JSON [array|list]: {p}", "JSON [array|list], please: {p}",
                  "As a JSON [array|list]: {p}", "{p}\n\n[Write|Format|Return] that as a JSON [array|list].", "{p}\nNow as a JSON [array|list][, please|].",
                  "List: {p}\n[Make|Return|Output] a JSON array.", "[Hey|OK|Hi], [make|write|create] a JSON [array|list] [of|from] these: {p}",
                  "[I need this for a config file|This is for a program|It is for a script]: [write|give me|make] a JSON [array|list] of {p}.",
                  "[Convert|Change] this [list |]to a JSON [array|list]: {p}", "[Convert|Turn] {p} into a JSON [array|list].", "[Put|Pack] {p} into a JSON [array|list].",
                  "[Put|Pack] these into a JSON [array|list]: {p}", "[Output|Return|Print] [only |]a JSON [array|list]: {p}",
                  "How does this list look as a JSON [array|list]: {p}", "What is this list as a JSON array? {p}", "[Please |]build a JSON [array|list] from: {p}",
                  "Build an array in JSON with {p}.", "[Store|Record] these [items |]as a JSON [array|list]: {p}",
                  "ok so I have {p}. Make a JSON [array|list][ of that|].", "I have these: {p}. [Give them to me|Return them|Write them] as a JSON [array|list].",
                  "Quick question: how is this list written in JSON: {p}", "My program reads JSON arrays. [Convert|Write] this for it: {p}",
                  "Here are the items: {p}. [Create|Build|Output] a JSON array.", "[Please |]answer with a JSON [array|list]: {p}", "List in JSON[, please|]: {p}"], way="json.array", p=shown)
    return _done(user, f"There are {len(x)} items.", x, ("json", x))


def records(d: Draw) -> Turn:
    keys = d.any([("name", "age"), ("item", "price"), ("name", "city"), ("food", "count"), ("animal", "color")])
    rows = d.until_fresh(lambda: [{k: FIELDS[k][0](d) for k in keys} for _ in range(d.int(2, 3))], "records")
    text = ", ".join(f"{r[keys[0]]} {r[keys[1]]}" for r in rows)
    user = d.ask(["[Write|Make|Give me] a JSON [array|list] of objects with the keys {a} and {b}: {p}", "JSON [array|list] of objects, keys {a} and {b}: {p}", "Turn this into a list of JSON objects ({a}, {b}): {p}", "As a JSON array with {a} and {b} for each: {p}", "{p}\nMake JSON objects with {a} and {b}, in one array.",
                  "Each pair is {a} and {b}. [Answer|Reply] with a JSON array of objects. {p}", "Return a JSON array, each object with {a} and {b}: {p}",
                  "[Could you|Can you] [write|make] a JSON [array|list] of objects with {a} and {b}: {p}", "JSON array, please, with {a} and {b}: {p}",
                  "{p}\n\n[Write|Return|Output] a JSON [array|list] of objects with the keys {a} and {b}.",
                  "{p}\nNow as JSON objects with {a} and {b}, in one [array|list].", "Data: {p}\nKeys: {a}, {b}\n[Make|Return|Output] a JSON array of objects.",
                  "[Hey|OK|Hi], [make|build] a JSON [array|list] of objects from this, keys {a} and {b}: {p}",
                  "[I need this for a program|This is a table]: {p}. [Make|Write] a JSON array of objects with {a} and {b}.",
                  "[Convert|Change|Turn] these pairs [to|into] a JSON [array|list] of objects with {a} and {b}: {p}",
                  "[Convert|Turn] each pair into a JSON object with {a} and {b}, all in one array: {p}",
                  "Pairs of {a} and {b}: {p}. [Write|Return] [them as |]a JSON array of objects.",
                  "The pairs are {a} and {b}. [Make|Build] an array of JSON objects: {p}",
                  "[Put|Pack] these pairs of {a} and {b} into JSON objects, in one [array|list]: {p}",
                  "[Please |]build an array of JSON objects, each with {a} and {b}: {p}", "[Output|Print] a JSON array with one object for each pair of {a} and {b}: {p}",
                  "One JSON object for each, with {a} and {b}, in an array: {p}", "ok so a JSON [array|list] of objects, {a} and {b}: {p}",
                  "I [need|want] a JSON [array|list] of objects, each with {a} and {b}: {p}", "Rows: {p}. Columns: {a}, {b}. [Output|Return] a JSON array of objects.",
                  "List of objects in JSON with {a} and {b}[, please|]: {p}"], way="json.records", a=keys[0], b=keys[1], p=text)
    return _done(user, f"There are {len(rows)} objects with {keys[0]} and {keys[1]}.", rows, ("json", rows))


def computed(d: Draw) -> Turn:
    """A plain answer in a given key."""
    a, b = d.until_fresh(lambda: (d.int(1, 60), d.int(1, 60)), "json sum")
    key = d.any(["result", "answer", "sum", "value", "total"])
    user = d.ask(["What is {a} + {b}? [Answer|Reply] in JSON with the key {k}.", "Compute {a} + {b} and return JSON with the key {k}.", "[Give me|Return] a JSON object with the key {k}: the sum of {a} and {b}.", "JSON with the key {k}: {a} plus {b}", "Add {a} and {b}. Output: JSON, key {k}.",
    "[Could you|Can you] add {a} and {b} and [answer|reply] in JSON with the key {k}?", "{a} + {b}, as JSON with the key {k}[, please|].", "{a} plus {b}? JSON, key {k}.",
    "[Compute|Calculate|Work out] {a} plus {b}. [Answer|Reply] with a JSON object, key {k}.", "What is {a} plus {b}? [Return|Output|Write] JSON with the key {k}.",
    "[Add|Sum up] {a} and {b}. [Return|Write] the [result|number] as JSON under the key {k}.", "[Hey|OK|Hi], what is {a} + {b}? As JSON, key {k}.",
    "[It is for a program|I need this for a script]: {a} + {b} as a JSON object with the key {k}.", "Key: {k}\nTask: {a} + {b}\nOutput: JSON",
    "[Answer|Reply] in JSON with the key {k}: how much is {a} + {b}?", "[Answer|Reply] with JSON only, key {k}. What is the sum of {a} and {b}?",
    "The sum of {a} and {b} as JSON, key {k}[, please|].", "JSON, key {k}: {a} + {b}", "I [need|want] the sum of {a} and {b} in JSON, with the key {k}.",
    "[Calculate|Work out] the sum of {a} and {b} and put it into JSON under {k}.", "Put the sum of {a} and {b} into a JSON object under the key {k}.",
    "How much is {a} plus {b}? Give me JSON with the key {k}.", "ok so {a} + {b}, in JSON, and the key is {k}.",
    "[Compute|Find] {a} + {b}. Output a JSON object whose key is {k}."], way="json.computed", a=a, b=b, k=key)
    from .arithmetic import add_steps
    return _done(user, f"{add_steps(a, b)} The key is {key}.", {key: a + b}, ("json", {key: a + b}))


def make(d: Draw) -> Turn:
    return d.task([given, given, extracted, extracted, array, array, records, computed], [records, records, computed, given, extracted, extracted])(d)
