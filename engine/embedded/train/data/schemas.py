"""Schemas: answers in JSON of a schema that is shown, and the many ways in which programs write a schema.

What a model of this size can promise is form and what the text says. So the values follow few rules: a member that the
text names has its value; a member for words of one's own (a summary, a reason, a message) has a sentence of the text; one that
the text says nothing about is "unknown", 0, false, null or an empty list. Every string ends."""

import copy
import functools
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
UNTOLD = 0.2  # in training, of the members for the name that a text is about
OTHER_NAMES = 0.4  # in training, of the members for words that the text does not say
NESTED = ["person", "record", "subject", "entry", "info", "owner", "about", "main"]
TELLING = {name for names in [*NAMED.values(), OWN_WORDS, *UNSAID.values(), LISTS, FEELINGS, NESTED] for name in names}
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
    """A member of an answer: its name, its schema and the value that follows from the text; what its value is in another text; the key
    of its fact and all values that this may have, if not any; and the members that it is an object of."""

    def __init__(self, key: str, schema: dict, value, again=None, fact: str = "", choices: list | None = None, inner: list | None = None):
        self.key, self.schema, self.value, self.fact, self.choices = key, schema, value, fact, choices
        self.again = again or (lambda text: value)
        self.leaves = inner or [self]


class Text:
    """What a text says: facts by their keys, one of MOODS, a list; in sentences, of which the first has the facts."""

    def __init__(self, facts: dict, sentences: list[str]):
        self.facts, self.sentences, self.mood, self.listed = facts, sentences, "", []

    def first(self) -> str:
        return re.split(r"(?<=[.!?]) (?=[A-Z])", self.sentences[0])[0]

    def feel(self, d: Draw):
        self.mood = d.any(list(MOODS))
        self.sentences.append(d.choose(d.written(f"schema.mood.{self.mood}", MOODS[self.mood], parted=False)))

    def list(self, d: Draw):
        self.listed = d.until_fresh(lambda: d.some(d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.NAMES]), d.int(2, 5)), "schema list")
        self.sentences.append(d.any(["There are {x}.", "We saw {x}.", "Do not forget {x}.", "They talked about {x}.", "On the table: {x}."]).format(x=words.listed(self.listed)))

    def fill_up(self, d: Draw):
        for _ in range(d.any([0, 0, 1, 2])):
            self.sentences.append(d.fill(d.written("schema.filler", FILLERS, parted=False), a=d.any(words.ADJECTIVES), o=d.any(words.OBJECTS), n=d.any(words.NATURE)))


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


def _meaningless(d: Draw, *more) -> str:
    """A member's name that says nothing, or of one of more kinds."""
    from . import copying
    while (name := d.any([copying.identifier, lambda d: d.any(PLAIN_WORDS), *more])(d)) in TELLING:
        pass
    return name


def _opaque(d: Draw) -> str:
    """At times in training, a member's name that says nothing, or something else: what it is for stands in its description alone, or
    in the values that it may have."""
    if d.heldout or not d.chance(OPAQUE):
        return ""
    return _meaningless(d, lambda d: d.any(ways.of(f"schema.unsaid.{d.any(list(UNSAID))}")))


def _named(d: Draw, facts: dict, key: str) -> Member:
    """A member that the text names. A string of which nothing says what it is for is the name that the text is about."""
    kind = "integer" if key in INTEGERS else "string"
    untold = key == "name" and not d.heldout and d.chance(UNTOLD)
    opaque, value = _meaningless(d) if untold else _opaque(d), facts[key]
    name = opaque or d.written(f"schema.member.{key}", NAMED[key])
    s: dict = {"type": kind}
    if kind == "integer" and d.chance(0.25):
        s["type"] = "number"
    pool = {"color": words.COLORS, "day": words.DAYS, "month": words.MONTHS}.get(key)
    if pool and d.chance(0.4):
        choices = list(dict.fromkeys([value, *d.some(pool, d.int(2, 5))]))
        d.rng.shuffle(choices)
        s["enum"] = choices
    described = "" if untold else DESCRIPTIONS[key] if d.heldout else d.written(f"schema.describe.{key}", [DESCRIPTIONS[key]])
    s = annotated(d, s, name, described, bool(opaque) and "enum" not in s)
    return Member(name, nullable(d, s) if d.chance(0.12) else s, value, lambda text: text.facts[key], key, s.get("enum"))


def _own(d: Draw, text: Text) -> Member:
    opaque = _opaque(d)
    name = opaque or d.written("schema.own", OWN_WORDS)
    s = annotated(d, {"type": "string"}, name, "[One sentence|In a few words|The text it rests on|A short text]", bool(opaque))
    return Member(name, s, text.first(), Text.first)


@functools.cache
def _other_names() -> tuple[str, ...]:
    """Members for a name that is not the one by which the text calls somebody."""
    return tuple(x for x in ways.of("schema.unsaid.string") if "name" in x.lower())


def _unsaid(d: Draw, listed: bool) -> Member:
    kind = d.any(["string", "string", "string", "integer", "boolean", "array"])
    if kind == "array" and listed and not d.heldout:  # whose list is it? A name that nobody has read does not say
        kind = "string"
    opaque = _opaque(d)
    name = opaque or d.written(f"schema.unsaid.{kind}", UNSAID[kind])
    if kind == "string" and not opaque and not d.heldout and d.chance(OTHER_NAMES):
        name = d.any(_other_names())
    s: dict = {"type": kind}
    if kind == "array":
        s["items"] = {"type": "string"}
    value = {"string": "unknown", "integer": 0, "boolean": False, "array": []}[kind]
    s = annotated(d, s, name, f"[The |]{d.any(d.mine(UNSAID[kind])).replace('_', ' ')}" if opaque else "", bool(opaque))
    if d.chance(0.3):
        return Member(name, nullable(d, s), None)
    return Member(name, s, value)


def _mood(d: Draw, text: Text) -> Member:
    text.feel(d)
    name = _opaque(d) or d.written("schema.feeling", FEELINGS)
    choices = d.any([["positive", "negative"], ["negative", "positive"], ["positive", "neutral", "negative"]])
    return Member(name, annotated(d, {"type": "string", "enum": choices}, name), text.mood, lambda text: text.mood)


def _list(d: Draw, text: Text) -> Member:
    """A list that the text has."""
    text.list(d)
    opaque = _opaque(d)
    name = opaque or d.written("schema.list", LISTS)
    s: dict = {"type": "array", "items": {"type": "string"}}
    if d.chance(0.2):
        s["minItems"] = 1
    return Member(name, annotated(d, s, name, "[All that the text lists|The things that are listed|What stands in a row]" if opaque else "", bool(opaque) and d.chance(0.5)), text.listed, lambda text: text.listed)


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
    name = d.pick(NESTED)
    if any(m.key == name for m in members):
        return members
    if d.chance(0.4):
        defs[name.title()] = schema
        schema = {"$ref": f"#/$defs/{name.title()}"}
    return [Member(name, schema, value, lambda text: {m.key: m.again(text) for m in inner}, inner=inner), *members[len(inner):]]


def meant(schema: dict, key: str) -> dict:
    """The schema of an object's member, by its reference if it is one."""
    s = schema["properties"][key]
    return schema["$defs"][s["$ref"].rsplit("/", 1)[1]] if "$ref" in s else s


def drawn(d: Draw) -> tuple[dict, list[Member], Text]:
    """A schema, its members with the values that follow from a text, and the text."""
    pattern = d.choose(d.written("schema.sentence", SENTENCES, parted=False))
    text = _told(d, pattern)
    members = [_named(d, text.facts, k) for k in d.some(list(text.facts), d.int(1, len(text.facts)))]
    if d.chance(0.2):
        members.append(_mood(d, text))
    if listed := d.chance(0.2):
        members.append(_list(d, text))
    text.fill_up(d)
    if d.chance(0.5):
        members.append(_own(d, text))
    members += [_unsaid(d, listed) for _ in range(d.any([0, 0, 1, 1, 2, 3]))]
    members = list({m.key: m for m in members}.values())
    d.rng.shuffle(members)
    defs: dict = {}
    members = _nested(d, members, defs)
    return _object(members, d, defs)[0], members, text


def _told(d: Draw, pattern: str) -> Text:
    """A text that begins with a sentence of this pattern."""
    facts = d.until_fresh(lambda: {k: VALUES[k](d) for k in VALUES if "{" + k + "}" in pattern}, "schema facts")
    return Text(facts, [pattern.format(**facts)])


@functools.cache
def _patterns(keys: frozenset) -> tuple[str, ...]:
    """The sentences of training that have all of these facts."""
    return tuple(p for p in (*SENTENCES, *ways.of("schema.sentence")) if all("{" + k + "}" in p for k in keys))


def _another(d: Draw, members: list[Member], before: Text) -> Text | None:
    """Another text with all that the members of a schema are about; None where the one that is drawn has not."""
    of_facts = [m for outer in members for m in outer.leaves if m.fact]
    patterns = _patterns(frozenset(m.fact for m in of_facts))
    text = _told(d, d.choose(d.any(patterns))) if patterns else None
    if not text or any(m.fact not in text.facts or m.choices and text.facts[m.fact] not in m.choices for m in of_facts):
        return None
    if before.mood:
        text.feel(d)
    if before.listed:
        text.list(d)
    text.fill_up(d)
    return text


def _thought(value: dict) -> str:
    return "The keys are " + words.listed(list(value)) + "."


def make(d: Draw) -> list[Turn]:
    """A text and an answer of a schema; in training, at times more texts for the same one, which say how much of an answer is the text's."""
    schema, members, text = drawn(d)
    texts = [text]
    if not d.heldout and d.chance(0.5):
        texts += [t for t in (_another(d, members, text) for _ in range(d.int(1, 5))) if t]
    turns = []
    for t in texts:
        value, said = {m.key: m.again(t) for m in members}, " ".join(t.sentences)
        turns.append(turn(SKILL, d.ask(ASKS, way="schema", t=said), _thought(value), json.dumps(value), {"json": value}, ("schema", schema, value, said)))
        turns[-1].schema = schema
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
