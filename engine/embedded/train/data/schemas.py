"""Schemas: answers in JSON of a schema that is shown, and the many ways in which programs write a schema.

What a model of this size can promise is form and what the text says. So the values follow few rules: a member that the
text names has its value; a member for words of one's own (a summary, a reason, a message) has a sentence of the text; one that
the text says nothing about is "unknown", 0, false, null or an empty list. Every string ends."""

import copy
import json
import re

from . import ways, words
from .draw import Draw, Turn, turn

SKILL = "schema"

# Members that a text names: names that programs give them, a description, and the key of FACTS that they take.
NAMED = {
    "name": ["name", "full_name", "person", "fullName", "first_name", "customer", "user_name", "contact", "who"], "age": ["age", "years", "age_years", "personAge"],
    "city": ["city", "town", "location", "home_city", "place", "residence", "cityName"], "job": ["job", "profession", "occupation", "jobTitle", "role"], "color": ["color", "colour", "item_color", "paint"],
    "price": ["price", "cost", "amount", "price_usd", "totalPrice", "dollars"], "item": ["item", "product", "object", "article", "itemName", "thing"], "count": ["count", "quantity", "number", "howMany", "pieces"],
    "day": ["day", "weekday", "dayOfWeek", "on_day"], "animal": ["animal", "pet", "species"], "food": ["food", "dish", "meal", "favourite_food"], "month": ["month", "in_month", "birth_month"],
    "hobby": ["hobby", "activity", "pastime"], "id": ["id", "order_id", "number_id", "orderNumber", "ticket"],
}
INTEGERS = {"age", "price", "count", "id"}
DESCRIPTIONS = {"name": "[Name of the person|The name|Who it is about]", "age": "[Age in years|How old|The age]", "city": "[Name of the city|The city|Where it is]", "job": "[What they work as|The job]", "color": "[The colour|Which colour]",
                "price": "[Price in dollars|What it costs]", "item": "[The thing|Name of the product]", "count": "[How many|Number of pieces]", "day": "[Day of the week|Which day]", "animal": "[Kind of animal|The animal]",
                "food": "[What is eaten|The food]", "month": "[Name of the month|Which month]", "hobby": "[What they like to do|The hobby]", "id": "[The number|Number of the order]"}
# Members whose value is a sentence of the text, and those that it never names.
OWN_WORDS = ["summary", "reason", "message", "note", "comment", "description", "text", "quote", "source", "evidence", "explanation", "sentence", "content", "details", "caption", "remark", "answer_text", "abstract"]
UNSAID = {"string": ["nickname", "street", "company", "country", "brand", "website", "language", "department", "material", "model", "category_name", "middle_name", "email", "address", "title", "author"],
          "integer": ["zip", "floor", "year", "weight", "height", "score", "rating", "distance", "duration", "temperature"],
          "boolean": ["verified", "premium", "archived", "is_member", "newsletter", "refunded", "married", "insured"],
          "array": ["tags", "children", "keywords", "aliases", "links", "phones", "errors", "notes"]}
LISTS = ["items", "things", "list", "entries", "elements", "values", "mentions"]
FEELINGS = ["sentiment", "mood", "opinion", "tone", "feeling"]
PLAIN_WORDS = words.NATURE + words.OBJECTS + words.FOODS + words.ANIMALS + words.ADJECTIVES  # no program calls a member so
OPAQUE = 0.45  # in training, of the members
TELLING = {name for names in [*NAMED.values(), OWN_WORDS, *UNSAID.values(), LISTS, FEELINGS] for name in names}
ROOT_TITLES = ["Person", "Answer", "Result", "Record", "Entry", "Extraction", "Order", "Profile", "Data", "Response", "Output", "Info"]


def annotated(d: Draw, s: dict, key: str, text: str = "", always: bool = False) -> dict:
    """A schema with what generators of schemas add, in another order at times: a text that says what the member is for, always or at
    times, and what no value depends on."""
    s = dict(s)
    if text and (always or d.chance(0.5)):
        s["description"] = d.fill(text)
    if d.chance(0.15):
        s["title"] = key.replace("_", " ").title()
    if d.chance(0.04) and s.get("type") == "string":
        s["examples"] = [d.any(words.SHORT)]
    if d.chance(0.05) and s.get("type") == "integer":
        s["minimum"] = 0
    if d.chance(0.05) and s.get("type") == "string" and "enum" not in s:
        s["maxLength"] = d.any([100, 200, 500])
    items = list(s.items())
    if d.chance(0.3):
        d.rng.shuffle(items)
    return dict(items)


def nullable(d: Draw, s: dict) -> dict:
    """A schema that takes null too, in one of three ways."""
    if "enum" in s or d.chance(0.5):
        return {"anyOf": [s, {"type": "null"}]} if d.chance(0.8) else {"oneOf": [s, {"type": "null"}]}
    return {**s, "type": [s["type"], "null"]}


def wrapped(d: Draw, properties: dict, required: list[str], defs: dict | None = None) -> dict:
    """An object of these properties, as one of many programs writes it."""
    s: dict = {"type": "object", "properties": properties}
    if required:
        s["required"] = required
    if d.chance(0.55):
        s["additionalProperties"] = False
    if d.chance(0.2):
        s["title"] = d.pick(ROOT_TITLES)
    if defs:
        s["$defs"] = defs
    items = list(s.items())
    if d.chance(0.25):
        d.rng.shuffle(items)
    return dict(items)


def dressed(d: Draw, parameters: dict) -> dict:
    """The parameters of a tool, as another program would write the same: values that fit are the same ones."""
    p = copy.deepcopy(parameters)
    defs: dict = {}
    for key, s in p["properties"].items():
        s = annotated(d, s, key)
        if "enum" in s and d.chance(0.2):
            name = key.title().replace("_", "")
            defs[name] = {k: v for k, v in s.items() if k != "description"}
            s = {"$ref": f"#/$defs/{name}", **({"description": s["description"]} if "description" in s else {})}
        elif key not in p["required"] and d.chance(0.25):
            s = nullable(d, s)
            if d.chance(0.5):
                s["default"] = None
        p["properties"][key] = s
    return wrapped(d, p["properties"], p["required"], defs)


class Member:
    """A member of an answer: its name, its schema and the value that follows from the text."""

    def __init__(self, key: str, schema: dict, value):
        self.key, self.schema, self.value = key, schema, value


# Sentences that the members are about; each names its facts.
SENTENCES = ["{name} is {age} years old and lives in {city}.", "{name} from {city} works as {job}.", "{name} bought the {item} for {price} dollars on {day}.", "The {item} is {color} and costs {price} dollars.",
             "{name} keeps the {color} {animal} in {city}.", "On {day} {name} travels to {city}.", "{name}, {age}, likes {hobby} and {food}.", "Order {id}: {count} times {food} for {name}.", "In {month} {name} moved to {city} with the {animal}.",
             "{name} sold {count} of the {item} in {color}.", "Number {id} is {name}, the {job} from {city}.", "Every {day} {name} spends hours on {hobby}.", "{name} was born in {month} and is {age} now.", "We need {count} of the {item} by {day}.",
             "The {color} {item} was left in {city} in {month}.", "{name} pays {price} dollars for {food} each {day}.", "The {animal} of {name} eats {food}.", "{name} asked about {id}, the {item} for {price} dollars."]
VALUES = {
    "name": lambda d: d.pick(words.NAMES), "age": lambda d: d.int(5, 95), "city": lambda d: d.pick(words.CITIES), "job": lambda d: d.any(words.JOBS), "color": lambda d: d.any(words.COLORS), "price": lambda d: d.int(2, 900),
    "item": lambda d: d.any(words.OBJECTS), "count": lambda d: d.int(2, 99), "day": lambda d: d.any(words.DAYS), "animal": lambda d: d.any(words.ANIMALS), "food": lambda d: d.any(words.FOODS), "month": lambda d: d.any(words.MONTHS),
    "hobby": lambda d: d.any(words.HOBBIES), "id": lambda d: d.int(100, 9999),
}
FILLERS = ["The day was {a}.", "The {o} stood near the {n}.", "Everybody liked the {a} {o}.", "Nobody saw the {n}.", "The weather was {a}.", "The {n} was {a}.", "We talked about the {o}."]
MOODS = {"positive": ["I love it.", "It works very well.", "Great, I would buy it again.", "Very good, thank you."], "negative": ["It broke after two days.", "I want my money back.", "This is bad.", "It does not work at all."]}
ASKS = ["{t}", "{t}", "{t}\n\n[Fill in the fields|Extract the data|Fill in the form].", "[Extract|Read] [the data|everything] from this: {t}", "[Text|Input|Note|Message]: {t}", "[Put|Turn] this into the schema: {t}", "[What do you read in this|Analyse this]? {t}",
        "{t}\nAnswer in the given form.", "[Please |]structure this: {t}", "Fill the object from this [text|note]: {t}", "Here is the text: {t}", "Parse this: {t}", "[Record|Store] this: {t}", "Data entry: {t}"]


def _opaque(d: Draw) -> str:
    """At times in training, a member's name that says nothing, or something else: what it is for stands in its description alone, or
    in the values that it may have."""
    from . import copying
    if d.heldout or not d.chance(OPAQUE):
        return ""
    kinds = [copying.identifier, lambda d: d.any(PLAIN_WORDS), lambda d: d.any(ways.of(f"schema.unsaid.{d.any(list(UNSAID))}"))]
    while (name := d.any(kinds)(d)) in TELLING:
        pass
    return name


def _named(d: Draw, facts: dict, key: str) -> Member:
    kind = "integer" if key in INTEGERS else "string"
    opaque, value = _opaque(d), facts[key]
    name = opaque or d.written(f"schema.member.{key}", NAMED[key])
    s: dict = {"type": kind}
    if kind == "integer" and d.chance(0.25):
        s["type"] = "number"
    pool = {"color": words.COLORS, "day": words.DAYS, "month": words.MONTHS}.get(key)
    if pool and d.chance(0.4):
        choices = list(dict.fromkeys([value, *d.some(pool, d.int(2, 5))]))
        d.rng.shuffle(choices)
        s["enum"] = choices
    s = annotated(d, s, name, DESCRIPTIONS[key] if d.heldout else d.written(f"schema.describe.{key}", [DESCRIPTIONS[key]]), bool(opaque) and "enum" not in s)
    return Member(name, nullable(d, s) if d.chance(0.12) else s, value)


def _own(d: Draw, sentences: list[str]) -> Member:
    opaque = _opaque(d)
    name = opaque or d.written("schema.own", OWN_WORDS)
    first = re.split(r"(?<=[.!?]) (?=[A-Z])", sentences[0])[0]
    return Member(name, annotated(d, {"type": "string"}, name, "[One sentence|In a few words|The text it rests on|A short text]", bool(opaque)), first)


def _unsaid(d: Draw, listed: bool) -> Member:
    kind = d.any(["string", "string", "string", "integer", "boolean", "array"])
    if kind == "array" and listed and not d.heldout:  # whose list is it? A name that nobody has read does not say
        kind = "string"
    opaque = _opaque(d)
    name = opaque or d.written(f"schema.unsaid.{kind}", UNSAID[kind])
    s: dict = {"type": kind}
    if kind == "array":
        s["items"] = {"type": "string"}
    value = {"string": "unknown", "integer": 0, "boolean": False, "array": []}[kind]
    s = annotated(d, s, name, f"[The |]{d.any(d.mine(UNSAID[kind])).replace('_', ' ')}" if opaque else "", bool(opaque))
    if d.chance(0.3):
        return Member(name, nullable(d, s), None)
    return Member(name, s, value)


def _mood(d: Draw, sentences: list[str]) -> Member:
    mood = d.any(list(MOODS))
    sentences.append(d.choose(d.written(f"schema.mood.{mood}", MOODS[mood], parted=False)))
    name = _opaque(d) or d.written("schema.feeling", FEELINGS)
    choices = d.any([["positive", "negative"], ["negative", "positive"], ["positive", "neutral", "negative"]])
    return Member(name, annotated(d, {"type": "string", "enum": choices}, name), mood)


def _list(d: Draw, sentences: list[str]) -> Member:
    """A list that the text has."""
    x = d.until_fresh(lambda: d.some(d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.NAMES]), d.int(2, 5)), "schema list")
    sentences.append(d.any(["There are {x}.", "We saw {x}.", "Do not forget {x}.", "They talked about {x}.", "On the table: {x}."]).format(x=words.listed(x)))
    opaque = _opaque(d)
    name = opaque or d.written("schema.list", LISTS)
    s: dict = {"type": "array", "items": {"type": "string"}}
    if d.chance(0.2):
        s["minItems"] = 1
    return Member(name, annotated(d, s, name, "[All that the text lists|The things that are listed|What stands in a row]" if opaque else "", bool(opaque) and d.chance(0.5)), x)


def _object(members: list[Member], d: Draw, defs: dict | None = None) -> tuple[dict, dict]:
    required = [m.key for m in members]
    if d.chance(0.15):  # what may be left out is given all the same
        required = [k for k in required if d.chance(0.6)]
    return wrapped(d, {m.key: m.schema for m in members}, required, defs), {m.key: m.value for m in members}


def _nested(d: Draw, members: list[Member], defs: dict) -> list[Member]:
    """Some of the members in an object of their own, in its place or in $defs."""
    if len(members) < 3 or not d.chance(0.25):
        return members
    inner = members[:d.int(2, len(members) - 1)]
    schema, value = _object(inner, d)
    name = d.pick(["person", "record", "subject", "entry", "info", "owner", "about", "main"])
    if any(m.key == name for m in members):
        return members
    if d.chance(0.4):
        defs[name.title()] = schema
        schema = {"$ref": f"#/$defs/{name.title()}"}
    return [Member(name, schema, value), *members[len(inner):]]


def meant(schema: dict, key: str) -> dict:
    """The schema of an object's member, by its reference if it is one."""
    s = schema["properties"][key]
    return schema["$defs"][s["$ref"].rsplit("/", 1)[1]] if "$ref" in s else s


def drawn(d: Draw) -> tuple[dict, dict, str]:
    """A schema, the value that follows from a text, and the text."""
    pattern = d.choose(d.written("schema.sentence", SENTENCES, parted=False))
    keys = [k for k in VALUES if "{" + k + "}" in pattern]
    facts = d.until_fresh(lambda: {k: VALUES[k](d) for k in keys}, "schema facts")
    sentences = [pattern.format(**facts)]
    members = [_named(d, facts, k) for k in d.some(keys, d.int(1, len(keys)))]
    if d.chance(0.2):
        members.append(_mood(d, sentences))
    if listed := d.chance(0.2):
        members.append(_list(d, sentences))
    for _ in range(d.any([0, 0, 1, 2])):
        sentences.append(d.fill(d.written("schema.filler", FILLERS, parted=False), a=d.any(words.ADJECTIVES), o=d.any(words.OBJECTS), n=d.any(words.NATURE)))
    if d.chance(0.5):
        members.append(_own(d, sentences))
    members += [_unsaid(d, listed) for _ in range(d.any([0, 0, 1, 1, 2, 3]))]
    members = list({m.key: m for m in members}.values())
    d.rng.shuffle(members)
    defs: dict = {}
    members = _nested(d, members, defs)
    schema, value = _object(members, d, defs)
    return schema, value, " ".join(sentences)


def _thought(value: dict) -> str:
    return "The keys are " + words.listed(list(value)) + "."


def make(d: Draw) -> list[Turn]:
    """A text and an answer of a schema, at times a second one."""
    turns = []
    schema, value, text = drawn(d)
    user = d.ask(ASKS, way="schema", t=text)
    first = turn(SKILL, user, _thought(value), json.dumps(value), {"json": value}, ("schema", schema, value, text))
    first.schema = schema
    turns.append(first)
    return turns


def drill(d: Draw) -> list[Turn]:
    """Any keys with values of any kind: an object of strings that end, whatever is in them."""
    from . import copying
    n = d.int(2, 8)
    keys = list(dict.fromkeys(d.any([copying.identifier(d), d.any(words.WORDS), d.any(OWN_WORDS), d.any(words.LONG)]) for _ in range(n)))
    values = [d.any([lambda: d.int(0, 9999), lambda: d.chance(0.5), lambda: d.any(copying.KINDS)(d), lambda: " ".join(d.some(words.SENTENCE_WORDS, d.int(2, 8)))])() for _ in keys]
    value = dict(zip(keys, values))
    kind = {bool: "boolean", int: "integer", str: "string"}
    schema = wrapped(d, {k: annotated(d, {"type": kind[type(v)]}, k) for k, v in value.items()}, list(value))
    order = list(value.items())
    d.rng.shuffle(order)
    said = d.any(["\n", "; ", ", "]).join(f"{k}{d.any([': ', ' = ', ' is '])}{json.dumps(v) if not isinstance(v, str) else v}" for k, v in order)
    t = turn(SKILL, d.ask(["{t}", "[Values|Data|Input]: {t}", "{t}\n\nFill in the object.", "Write these values as the schema has them: {t}"], t=said), _thought(value), json.dumps(value), {"json": value}, ("schema", schema, value, said))
    t.schema = schema
    return [t]
