"""Tools of any names for any wishes, for training: what a tool is there for is found by the words that the wish shares with it,
and a value by its kind and by what stands beside it. The tools of tools.py are wanted in many sentences of few forms; here both
are put together of parts that follow from nothing."""

import json

from .. import phrased_tools
from . import copying, schemas, tools, words
from .draw import Draw, Turn, invented, say

# Verbs of names and descriptions, as "show" and "shows"; many of them say nothing of what is done.
VERBS = """show get read list find check open close start stop set send book pay order print count weigh measure rename label mute call adopt water wash reserve look-up convert feed lift sort move clean
paint fill lock fetch store share file scan sign track plan post rate trim split merge mark map load log join hide guess grant freeze fold fix draw drop dial cut crop copy cook change carry calm buy build bring
bake ask adjust add watch view update turn tell switch ship seek save ring reset repair rent record publish play pick park notify mail light lend issue invite hire give flag drive deliver cast burn block bind""".split()
NOUNS = sorted({w for w in words.SHORT + words.LONG + words.OBJECTS + words.NATURE if len(w) > 2} - set("each ever even else most more once only very upon then this that just also both been".split()))
KINDS = "port stop line room who what where account visitor host album channel dish bed liters program place target source user label topic key owner group owner level code box unit floor door date hour time day size color mode type name title person member station track page file note amount".split()
FREE = ["at {v}", "for {v}", "from {v}", "to {v}", "in {v}", "of {v}", "called {v}", "with {v}", "on {v}", "named {v}", "by {v}", "near {v}", "about {v}", "{v}"]
BESIDE = ["{p} {v}", "the {p} {v}", "with the {p} {v}", "({p} {v})", "{p}: {v}", "at the {p} {v}", "for the {p} {v}", "from the {p} {v}", "the {p} is {v}", "{v} as the {p}", "the {p} called {v}", "in the {p} {v}"]
COUNTED = ["{v} {p}", "with {v} {p}", "for {v} {p}", "{p} {v}", "the {p} {v}", "of {v} {p}", "number {v}", "at {v}"]
CHOSEN = ["the {v} {p}", "{v}", "with the {v} {p}", "as {v}", "on {v}", "{p} {v}", "in {v}", "the {p} shall be {v}"]

ORDERS = ["{do} the {n} {x}", "{do} {n} {x}", "Please {do} the {n} {x}", "Can you {do} the {n} {x}", "I want to {do} the {n} {x}", "I need to {do} a {n} {x}", "We have to {do} the {n} {x}", "{x}, {do} the {n}", "Could you {do} my {n} {x}",
          "The {n} {x}, I want you to {do} it", "It is time to {do} the {n} {x}", "Would you {do} our {n} {x}", "Let us {do} the {n} {x}", "{do} it: the {n} {x}", "Help me {do} the {n} {x}", "Go and {do} the {n} {x}", "Do {do} the {n} {x}"]
QUESTIONS = ["What is the {n} {x}?", "Which {n} is there {x}?", "How {a} is the {n} {x}?", "Where is the {n} {x}?", "When is the {n} {x}?", "Who has the {n} {x}?", "Is there a {n} {x}?", "What about the {n} {x}?", "How many {n} are there {x}?",
             "Do we have a {n} {x}?", "Does the {n} {x} work?", "Is the {n} {x} {a}?", "Why is the {n} {x} so {a}?", "How long does the {n} {x} take?", "What does the {n} {x} say?"]
WISHES = ["I need the {n} {x}.", "The {n} {x}, please.", "I am looking for the {n} {x}.", "Give me the {n} {x}.", "Tell me about the {n} {x}.", "We want the {n} {x}.", "I would like a {n} {x}.", "{n} {x}", "The {n} {x} is too {a}.", "The {n} {x} must be {a}.",
          "Somebody asked for the {n} {x}.", "A {n} {x} would be nice.", "I wait for the {n} {x}.", "{name} wants the {n} {x}.", "It is about the {n} {x}.", "I take the {n} {x}.", "My {n} {x} is {a}, see to it.", "{x}: the {n} please."]
DESCRIBED = ["{Does} the {n}.", "{Does} a {n}.", "{Do} the {n} of the {m}.", "{Do} a {n} and tell the {m}.", "{Does} which {n} there is.", "The {n} of a {m}.", "{Do} {n} data.", "Use this for the {n}.", "{Does} how {a} the {n} is.", "Tool for the {n}.", "{Do} the {n} for the user.",
             "{Does} the {n} in the {m}."]


# Names of tools of evaluations: a name of any parts could be one of them.
HELD_OUT = {t[0] for t in phrased_tools.TOOLS}


class Parameter:
    """A parameter of any name: its schema, and a value with what users say of it."""

    def __init__(self, d: Draw, alone: bool):
        self.name = d.any([d.any(KINDS), d.any(KINDS), d.any(NOUNS), f"{d.any(NOUNS)}_{d.any(['id', 'name', 'no', 'code'])}", d.any(NOUNS) + d.any(NOUNS).title()])
        self.kind, self.alone = d.any(["string", "string", "string", "integer", "integer", "enum", "array"]), alone
        self.choices = d.some(NOUNS, d.int(2, 5)) if self.kind == "enum" else None
        self.schema = {"type": {"enum": "string"}.get(self.kind, self.kind)}
        if self.choices:
            self.schema["enum"] = self.choices
        if self.kind == "array":
            self.schema["items"] = {"type": "string"}
        if d.chance(0.4):
            self.schema["description"] = d.any([f"The {self.label()}", f"Which {self.label()}", f"{self.label().title()} of it", f"{self.label()} to use", d.any(NOUNS).title()])

    def label(self) -> str:
        out = "".join(c if not c.isupper() else " " + c.lower() for c in self.name)
        return out.removesuffix("_id").removesuffix("_no").replace("_", " ")

    def value(self, d: Draw):
        if self.kind == "integer":
            return d.int(1, d.any([20, 99, 999, 9999]))
        if self.kind == "enum":
            return d.any(self.choices)
        if self.kind == "array":
            return d.some(d.any([words.SHORT, words.NAMES, words.FOODS]), d.int(2, 4))
        return d.any([lambda: invented(d), lambda: invented(d), lambda: d.any(words.NAMES), lambda: d.any(words.CITIES), lambda: d.any(NOUNS), lambda: copying.identifier(d), lambda: f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}",
                      lambda: d.any(words.DAYS), lambda: " ".join(d.some(NOUNS, 2))])()

    def said(self, d: Draw, v) -> str:
        """The value with what tells whose it is: nothing but its kind where it is the only one of that."""
        forms = {"integer": COUNTED, "enum": CHOSEN, "array": BESIDE}.get(self.kind, FREE if self.alone and d.chance(0.6) else BESIDE)
        return d.any(forms).format(p=self.label(), v=words.listed(v) if isinstance(v, list) else v)


class Free:
    """A tool of any name."""

    def __init__(self, d: Draw, nouns: set):
        while (noun := d.any([d.any(NOUNS), d.any(NOUNS), invented(d).lower()])) in nouns:
            pass
        nouns.add(noun)
        self.noun, self.verb = noun, d.any(VERBS).replace("-", "_")
        n = d.any([1, 1, 1, 2, 2, 3])
        self.parameters = list({p.name: p for p in (Parameter(d, n == 1) for _ in range(n))}.values())
        style = d.any([lambda: f"{self.verb}_{noun}", lambda: f"{noun}_{self.verb}", lambda: self.verb + noun.title(), lambda: self.verb.title() + noun.title(), lambda: f"{noun}_{d.any(NOUNS)}", lambda: f"{noun}-{self.verb}", lambda: noun + d.any(NOUNS).title(),
                       lambda: f"{d.any(NOUNS)}_{noun}", lambda: f"mcp__{noun}__{self.verb}", lambda: f"{self.verb}_{d.any(NOUNS)}"])
        while (name := style()) in HELD_OUT:
            pass
        self.name = name
        do = self.verb.replace("_", " ")
        does = do + ("es" if do.endswith(("s", "x", "ch", "sh")) else "s")
        described = d.any(DESCRIBED).replace("{Does}", does.capitalize()).replace("{Do}", do.capitalize()).replace("{n}", noun).replace("{m}", d.any(NOUNS)).replace("{a}", d.any(words.ADJECTIVES))
        required = [p.name for p in self.parameters if d.chance(0.75)] or [self.parameters[0].name]
        schema = {"type": "object", "properties": {p.name: p.schema for p in self.parameters}, "required": required}
        if d.chance(0.5):
            schema = schemas.dressed(d, schema)
        self.required = required
        self.spec = {"type": "function", "function": {"name": self.name, "description": described, "parameters": schema}}

    def wish(self, d: Draw) -> tuple[str, dict]:
        """A sentence and the arguments that it gives."""
        given = {p.name: p.value(d) for p in self.parameters if p.name in self.required or d.chance(0.5)}
        parts = [p.said(d, given[p.name]) for p in self.parameters if p.name in given]
        d.rng.shuffle(parts)
        frame = d.any(d.any([ORDERS, ORDERS, QUESTIONS, WISHES]))
        between = d.any([" ", " ", ", ", " and "])
        text = frame.replace("{do}", self.verb.replace("_", " ")).replace("{x}", between.join(parts)).replace("{n}", self.noun).replace("{a}", d.any(words.ADJECTIVES)).replace("{name}", d.any(words.NAMES))
        text = text[0].upper() + text[1:] if d.chance(0.8) else text
        return text + (d.any([".", ".", "", "!"]) if text[-1] not in ".?!" else ""), given

    def call(self, d: Draw, specs) -> Turn:
        user, given = self.wish(d)
        arguments = {k: given[k] for k in self.spec["function"]["parameters"]["properties"] if k in given}
        result = d.any([{d.any(NOUNS): d.any(["ok", "done", "open", "closed"])}, {d.any(NOUNS): d.int(0, 999)}, {d.any(NOUNS): invented(d), d.any(NOUNS): d.int(0, 99)}])
        told = words.listed([f"the {k} is {v}" for k, v in result.items()]) + "."
        told = told[0].upper() + told[1:]
        fits = f"{self.name} fits: {', '.join(arguments)}."
        reply = [say(tools.LOOK + fits, "", [(self.name, arguments)]), {"role": "tool", "content": json.dumps(result)}, say(f"I have the result. I tell it: {told}", told)]
        return Turn(tools.CHOOSE, user, reply, tools.expect_calls([(self.name, arguments)]), ("calls", [(self.name, arguments)], [str(v) for v in result.values()]), specs)


def talk(d: Draw) -> list[Turn]:
    """Wishes to up to eight such tools; one in ten is for something that none of them does."""
    nouns: set = set()
    offered = [Free(d, nouns) for _ in range(d.int(1, d.any([2, 4, 8])))]
    offered = list({x.name: x for x in offered}.values())
    specs, turns = [x.spec for x in offered], []
    for _ in range(d.int(1, 8)):
        if d.chance(0.1):
            user, _ = (other := Free(d, set(nouns))).wish(d)
            turns.append(Turn(tools.CHOOSE, user, [say(f"{tools.LOOK}{tools.NONE_FITS} The user wants: {other.verb.replace('_', ' ')} {other.noun}.", tools.NO_TOOL)],
                              {"tools": [], "text": r"(?i)(no tool|cannot|can't|not able|don't have|do not have)"}, ("no tool",), specs))
        else:
            turns.append(d.any(offered).call(d, specs))
    return turns
