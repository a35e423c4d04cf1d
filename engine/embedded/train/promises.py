"""The cases of what the models promise, in sentences that no training conversation has: templates, tools and schemas of
`phrasings.py` and `phrased_tools.py`, with names and values of the held-out part.

    python -m train.promises --out promises.jsonl

Skills: "new S" is a skill of the generator (or a promise that `skills.jsonl` has no cases of) in new sentences; "schemas" are
answers of 200 schemas with free strings, of which form and end are asked; "loops" are 500 prompts that are not for these models,
of which an end without circles is asked.
"""

import argparse
import json

from . import phrased_tools, phrasings, skills
from .data import arithmetic, context, draw, facts, identity, instruct, lists, memory, schemas, structured, tools, unknown, verdicts, words

CASES = {"new greet": 40, "new instruct": 126, "new arithmetic": 60, "new context": 60, "new yes_no": 40, "new pick": 60, "new memory": 30, "new facts": 30, "new unknown": 30, "new json": 40,
         "new schema": 40, "new tool_choice": 110, "new tool_result": 20, "schemas": 200, "loops": 500}


class Phrased(draw.Draw):
    """A held-out source of choices that says everything in one of the templates it is given."""

    def __init__(self, seed, templates):
        super().__init__(seed, "heldout")
        self.templates = list(templates)

    def ask(self, patterns, /, compose=None, **values) -> str:
        return self.fill(self.rng.choice(self.templates), **values) if self.templates else super().ask(patterns, **values)


def _until(make, fits):
    while not fits(t := make()):
        pass
    return t


def _instruct(seed, i):
    kinds = list(phrasings.INSTRUCT)
    kind = kinds[i % len(kinds)]
    d, name = Phrased(seed, phrasings.INSTRUCT[kind]), kind.split()[0]
    return [_until(lambda: getattr(instruct, name)(d), lambda t: not kind.endswith(("up", "down")) or t.task[2] == kind.endswith("down"))]


def _arithmetic(seed, i):
    kind = list(phrasings.ARITHMETIC)[i % len(phrasings.ARITHMETIC)]
    return [getattr(arithmetic, kind)(Phrased(seed, phrasings.ARITHMETIC[kind]))]


def _text(d, used, missing, fact):
    sentences = context.distractors(d, d.int(2, 10), used)
    if not missing:
        sentences.insert(d.int(0, len(sentences)), fact.statement)
    return context.paragraphs(d, sentences)


def _context(seed, i):
    d, used = draw.Draw(seed, "heldout"), set()
    fact, missing = context.Fact(d, used), d.chance(0.15)
    text = _text(d, used, missing, fact)
    question = d.any(phrasings.CONTEXT[fact.key]).replace("{n}", fact.subject)
    return [context.answered("context", d.any(phrasings.CONTEXT_AROUND).replace("{t}", text).replace("{q}", question), fact, text, missing)]


def _yes_no(seed, i):
    d, used = draw.Draw(seed, "heldout"), set()
    fact, kind = context.Fact(d, used), ["yes", "no", "yes", "no", "missing"][i % 5]
    text = _text(d, used, kind == "missing", fact)
    asked = verdicts.other_value(d, fact) if kind == "no" else fact.value
    question = d.any(phrasings.YES_NO[fact.key]).replace("{n}", fact.subject).replace("{v}", asked)
    return [verdicts.judged(d, fact, text, asked, kind, d.any(phrasings.CONTEXT_AROUND).replace("{t}", text).replace("{q}", question))]


def _pick(seed, i):
    kind = list(phrasings.PICK)[i % len(phrasings.PICK)]
    d, name = Phrased(seed, phrasings.PICK[kind]), kind.split()[0]
    wanted = lambda t: not kind.startswith("beside") or t.task[0] == f"pick {kind.split()[1]}"
    return [_until(lambda: getattr(lists, name)(d), wanted)]


def _memory(seed, i):
    kind = list(phrasings.MEMORY)[i % len(phrasings.MEMORY)]
    said, asked = phrasings.MEMORY[kind]
    d = Phrased(seed, [])
    value = memory._value(d, kind)
    d.templates = said
    turns = [memory.told(d, kind, value)]
    d.templates = []
    turns += [identity.make(d) for _ in range(d.int(0, 2))]
    d.templates = asked
    return [*turns, memory.asked(d, kind, value)]


def _greet(seed, i):
    rows = {row[1]: row for row in identity.ROWS}
    thought = list(phrasings.GREET)[i % len(phrasings.GREET)]
    _, thought, answer, pattern = rows[thought]
    d = Phrased(seed, phrasings.GREET[thought])
    pattern = pattern.replace("(fine|well|good)", r"\b(fine|well|good)\b")  # "Goodbye!" does not say how one is; skills.jsonl stays as it is
    return [draw.turn("greet", d.ask([]), thought, answer, {"text": pattern.replace("{m}", r"core-1\.1")}, ())]


def _facts(seed, i):
    kind = list(phrasings.FACTS)[i % len(phrasings.FACTS)]
    d = Phrased(seed, phrasings.FACTS[kind])
    x, y = d.any(facts._pairs(getattr(facts, kind)))
    return [draw.turn("facts", d.ask([], x=x), "", y, draw.has(y), ())]


def _unknown(seed, i):
    kind = list(phrasings.UNKNOWN)[i % len(phrasings.UNKNOWN)]
    return [getattr(unknown, kind)(Phrased(seed, phrasings.UNKNOWN[kind]))]


def _json(seed, i):
    kind = list(phrasings.JSON)[i % len(phrasings.JSON)]
    return [getattr(structured, kind)(Phrased(seed, phrasings.JSON[kind]))]


def told(schema: dict, value: dict, text: list) -> dict:
    """The JSON schema of all answers to schema that say what the text says, which is value without what the generator alone decides:
    which sentence a summary is, and what stands in a member that the text says nothing about and that takes no null. Of such a member
    is asked that nothing stands there that the text says of another one, which is text."""
    def rule(key, v):
        if isinstance(v, dict):
            return told(schemas.meant(schema, key), v, text)
        if key in schemas.OWN_WORDS:
            return {"type": "string", "minLength": 1}
        if v is not None and any(key in names for names in schemas.UNSAID.values()):
            return {"not": {"enum": [None, *text]}}
        return {"const": v}
    return {"type": "object", "properties": {k: rule(k, v) for k, v in value.items()}, "required": schema.get("required", []), "additionalProperties": False}


def _said(value: dict) -> list:
    """What the text says of its members."""
    out = []
    for k, v in value.items():
        if isinstance(v, dict):
            out += _said(v)
        elif v is not None and k not in schemas.OWN_WORDS and not any(k in names for names in schemas.UNSAID.values()):
            out.append(v)
    return out


def _schema(seed, i):
    (t,) = schemas.make(Phrased(seed, phrasings.SCHEMA))
    _, schema, value, _ = t.task
    t.expect = {"schema": told(schema, value, _said(value))}
    return [t]


def _values(d) -> dict:
    return {"city": d.pick(words.CITIES), "name": d.pick(words.NAMES), "n": d.int(100, 9999), "m": d.int(6, 22), "word": d.any(words.LONG), "thing": d.any(words.FOODS), "day": d.any(words.DAYS),
            "list": d.some(words.SHORT, d.int(2, 3)), "date": f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}"}


def _spec(tool) -> dict:
    name, description, schema, _ = tool
    return {"type": "function", "function": {"name": name, "description": description, "parameters": schema}}


def _offered(d, tool, n):
    offered = [tool, *d.some([t for t in phrased_tools.TOOLS if t is not tool], n - 1)] if tool else d.some(phrased_tools.TOOLS, n)
    d.rng.shuffle(offered)
    return [_spec(t) for t in offered]


def _tool_choice(seed, i):
    d = draw.Draw(seed, "heldout")
    values = _values(d)
    if i % 11 == 10:  # what no tool does
        expect = {"tools": [], "text": r"(?i)(no tool|cannot|can't|not able|don't have|do not have)"}
        return [draw.Turn("tool_choice", phrased_tools.filled(d.any(phrased_tools.WISHES_FOR_NONE), values), [draw.say("", "")], expect, (), _offered(d, None, d.int(1, 6)))]
    tool = phrased_tools.TOOLS[i % len(phrased_tools.TOOLS)]
    sentence, arguments = tool[3][i // len(phrased_tools.TOOLS) % len(tool[3])]
    call = (tool[0], phrased_tools.filled(arguments, values))
    return [draw.Turn("tool_choice", phrased_tools.filled(sentence, values), [draw.say("", "", [call])], tools.expect_calls([call]), (), _offered(d, tool, d.int(1, 6)))]


def _tool_result(seed, i):
    d = draw.Draw(seed, "heldout")
    (t,) = _tool_choice(seed, i if i % 11 != 10 else i + 1)
    result = d.any([{"level": d.int(1, 99)}, {"reference": d.int(1000, 99999), "state": "confirmed"}, {"place": d.pick(words.CITIES), "open": f"{d.int(6, 11)}:00"}])
    answer = ("The " + " and the ".join(f"{k} is {v}" for k, v in result.items()) + ".")
    t.skill, t.expect = tools.RESULT, {"text": "(?i)" + ".*".join(rf"\b{v}\b" for v in result.values())}
    t.reply += [{"role": "tool", "content": json.dumps(result)}, draw.say("", answer)]
    return [t]


def _schemas(seed, i):
    d = draw.Draw(seed, "heldout")
    schema, asks = phrased_tools.SCHEMAS[i % len(phrased_tools.SCHEMAS)]
    t = draw.Turn("schemas", phrased_tools.filled(d.any(asks), _values(d)), [draw.say("", "")], {"schema": schema}, ())
    t.schema = schema
    return [t]


def _loops(seed, i):
    d = Phrased(seed, [phrasings.FOREIGN[i % len(phrasings.FOREIGN)]])
    topics = d.some(unknown.TOPICS, 2)
    user = d.ask([], t=topics[0], u=topics[1], v=d.any(words.SHORT), w=d.any(words.LONG), i=d.int(2, 99)) * (d.int(2, 12) if d.chance(0.08) else 1)
    return [draw.turn("loops", user, "", "", {"stop": "end_turn"}, ())]


MAKERS = {"new greet": _greet, "new instruct": _instruct, "new arithmetic": _arithmetic, "new context": _context, "new yes_no": _yes_no, "new pick": _pick, "new memory": _memory, "new facts": _facts, "new unknown": _unknown,
          "new json": _json, "new schema": _schema, "new tool_choice": _tool_choice, "new tool_result": _tool_result, "schemas": _schemas, "loops": _loops}


def case(skill: str, name: str, turns, thinking: bool) -> dict:
    c = skills.case(turns[-1].skill, name, turns, None, thinking)
    if turns[-1].schema:
        c["body"]["output_config"] = {"format": {"type": "json_schema", "schema": turns[-1].schema}}
    return {**c, "skill": skill}


def cases(seed: int, counts: dict[str, int]):
    for skill, n in counts.items():
        for i in range(n):
            yield case(skill, f"{skill} {i + 1}", MAKERS[skill](f"promise {skill} {seed} {i}", i), (i // 2) % 2 == i % 2)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="one skill")
    p.add_argument("--cases", type=int, help="how many of each skill")
    p.add_argument("--out", required=True)
    o = p.parse_args()
    counts = {k: o.cases or n for k, n in CASES.items() if o.only in (None, k)}
    if not counts:
        p.error(f"--only is {o.only}, want one of {', '.join(CASES)}")
    with open(o.out, "w", encoding="utf-8") as f:
        for c in cases(o.seed, counts):
            f.write(json.dumps(c, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
