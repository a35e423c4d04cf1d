"""Drills: small tasks of one kind, several at once; learnt from, never asked in an evaluation.

A conversation with one sum in it is mostly prompt. Here the answer does the same thing again and again, in the words
that the thoughts of the skills have, so most of what is read is learnt from.
"""

import json

from . import arithmetic, context, copying, tools, words
from .draw import Draw, Turn, invented, turn

SKILL = "drill"


def _numbered(d: Draw, tasks: list[str]) -> str:
    """Tasks as a user lists them."""
    style = d.any(["; ", ", ", "\n", "number"])
    return "\n".join(f"{i + 1}. {t}" for i, t in enumerate(tasks)) if style == "number" else style.join(tasks)


def _drill(d: Draw, patterns, tasks: list[str], answers: list[str], between: str = "\n") -> list[Turn]:
    return [turn(SKILL, d.ask(patterns, q=_numbered(d, tasks)), f"There are {len(tasks)} tasks. I take one after the other.", between.join(answers), {}, ("ack",))]


# What a pair of numbers is called where the skills part pairs into trained and held-out ones.
KINDS = {"+": ("+", "add", "json sum"), "-": ("-", "subtract"), "*": ("*",)}


def _pair(d: Draw, sign: str, make) -> tuple[int, int]:
    """Two numbers, in training ones that no evaluation asks to add, subtract or multiply; of a difference the larger one is first."""
    while True:
        pair = make()
        if d.heldout or all(d.fresh([kind, p]) for kind in KINDS[sign] for p in (pair, pair[::-1])):
            return (max(pair), min(pair)) if sign == "-" else pair


def _sum(d: Draw) -> tuple[str, str]:
    """A small sum and its equation."""
    sign = d.any("+-*/")
    if sign in "+-":
        a, b = _pair(d, sign, lambda: (d.int(0, 19), d.int(0, 19)) if d.chance(0.4) else (d.int(1, 99), d.int(1, 99)))
        return f"{a} {sign} {b}", f"{a} {sign} {b} = {a + b if sign == '+' else a - b}"
    a, b = d.int(1, 12), d.int(1, 12)
    return (f"{a} * {b}", f"{a} * {b} = {a * b}") if sign == "*" else (f"{a * b} / {b}", f"{a * b} / {b} = {a}")


def sums(d: Draw) -> list[Turn]:
    pairs = [_sum(d) for _ in range(d.int(4, 14))]
    return _drill(d, ["[Compute|Calculate|Solve] [each|all] of these: {q}", "{q}\n\n[Compute|Solve] all of them.", "[My homework|All of these], please: {q}", "What are the results? {q}"],
                  [p[0] for p in pairs], [p[1] for p in pairs], d.any([". ", "\n", ", "]))


def steps(d: Draw) -> list[Turn]:
    """Larger sums, worked out column by column."""
    tasks, answers = [], []
    for _ in range(d.int(2, 5)):
        sign, n = d.any("++--*"), d.any([10, 100, 100, 1000])
        a, b = _pair(d, sign, lambda: (d.int(13, 99), d.int(2, 9)) if sign == "*" else (d.int(n, 10 * n - 1), d.int(1, 10 * n - 1)))
        tasks.append(f"{a} {sign} {b}")
        answers.append({"+": arithmetic.add_steps, "-": arithmetic.subtract_steps, "*": arithmetic.multiply_steps}[sign](a, b))
    return _drill(d, ["[Show|Write] the steps of each: {q}", "{q}\n\nStep by step, one after the other.", "Work out each of these with all steps: {q}", "[Compute|Solve] these, and show the steps: {q}"], tasks, answers)


def operations(d: Draw) -> list[Turn]:
    """What has to be computed in each of some word problems."""
    tasks, answers = [], []
    for _ in range(d.int(2, 6)):
        t = arithmetic.story(d)
        kind, a, b = t.task
        tasks.append(t.user)
        answers.append(f"{a} {arithmetic.SIGNS[kind]} {b}")
    return _drill(d, ["What must be computed in each of these? {q}", "{q}\n\nWrite only what has to be computed.", "Do not solve these, only write what to compute: {q}"], tasks, answers)


def sorts(d: Draw) -> list[Turn]:
    """Lists of words or numbers, each in order."""
    numbers = d.chance(0.6)
    tasks, answers = [], []
    down = d.chance(0.3)
    for _ in range(d.int(2, 5)):
        pool = range(d.any([30, 100, 1000])) if numbers else d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.SHORT, words.WORDS])
        x = d.some(pool, d.int(2, 5))
        tasks.append(", ".join(map(str, x)))
        answers.append(", ".join(map(str, sorted(x, reverse=down))))
    order = ("the largest first" if down else "the smallest first") if numbers else ("from z to a" if down else "from a to z")
    return [turn(SKILL, d.ask(["Sort each line, {o}:\n{q}", "{q}\n\n[Sort|Order] every line, {o}.", "[Every line|Each list] in order, {o}:\n{q}"], q="\n".join(tasks), o=order),
                 f"There are {len(tasks)} lines. I take one after the other.", "\n".join(answers), {}, ("ack",))]


def _changed(d: Draw, x: list[str]) -> tuple[str, str]:
    """Something that can be done to a list of words, and what comes of it."""
    kind, w = d.int(0, 9), d.any(x)
    if kind == 0:
        new = d.any(words.SHORT)
        return f"{new} instead of {w}", " ".join(new if y == w else y for y in x)
    if kind == 1:
        return f"without {w}", " ".join(y for y in x if y != w)
    if kind == 2:
        return "in capitals", " ".join(x).upper()
    if kind == 3:
        return "backwards", " ".join(x[::-1])
    if kind == 4:
        return "how many words", str(len(x))
    if kind == 5:
        return "the first word", x[0]
    if kind == 6:
        return "the last word", x[-1]
    if kind == 7:
        i = d.int(1, len(x))
        return f"word number {i}", x[i - 1]
    if kind == 8:
        sign = d.any(["-", "+", "/", "_", ";"])
        return f"joined with {sign}", sign.join(x)
    return "from a to z", " ".join(sorted(x))


def changes(d: Draw) -> list[Turn]:
    """One list of words, and one thing after the other done to it."""
    x = d.some(words.SENTENCE_WORDS if d.chance(0.6) else words.WORDS, d.int(2, 8))
    pairs = [_changed(d, x) for _ in range(d.int(3, 8))]
    text = " ".join(x)
    first, rest = pairs[0], pairs[1:]
    turns = [turn(SKILL, d.any([f"The words are: {text}\nGive me them {first[0]}.", f"{text}: {first[0]}", f"{text}\n\n{first[0]}"]), f"The words are {text}.", first[1], {}, ("ack",))]
    return turns + [turn(SKILL, d.any([f"Now {w}.", f"{w.capitalize()}.", f"And {w}?", w]), f"The words are {text}.", said, {}, ("ack",)) for w, said in rest]


def doubles(d: Draw) -> list[Turn]:
    """Lists without the words that come again."""
    tasks, answers = [], []
    for _ in range(d.int(2, 5)):
        x = d.some(d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.SHORT, words.NAMES]), d.int(2, 5))
        more = x + d.some(x, d.int(0, min(3, len(x))))
        d.rng.shuffle(more)
        tasks.append(", ".join(more))
        answers.append(", ".join(dict.fromkeys(more)))
    return [turn(SKILL, d.ask(["Each line without repeats:\n{q}", "{q}\n\nEvery line again, each word once.", "Remove the [repeats|duplicates] from every line:\n{q}"], q="\n".join(tasks)),
                 f"There are {len(tasks)} lines. I take one after the other.", "\n".join(answers), {}, ("ack",))]


SPELLED = [w for w in words.WORDS if 3 <= len(w) <= 8]


def backwards(d: Draw) -> list[Turn]:
    """Words with their letters, and from the end."""
    x = d.some([w for w in SPELLED if d.fresh(["reversed word", w])], d.int(2, 7))
    spelled = d.chance(0.6)
    show = (lambda w: f"{w}: {' '.join(w)}, {' '.join(w[::-1])}, {w[::-1]}") if spelled else (lambda w: f"{w}: {w[::-1]}")
    t = turn(SKILL, d.ask(["[Reverse|Turn around] each of these words[, letter by letter|]: {q}", "{q}: [each of them|every word] backwards[, with its letters|].",
                           "Every word backwards: {q}"], q=", ".join(x)), f"There are {len(x)} words. I take one after the other.", ". ".join(map(show, x)) + ".", {}, ("ack",))
    t.reply[0]["letters"] = tuple(w[::-1] for w in x)
    return [t]


def numbers(d: Draw) -> list[Turn]:
    """Lists of numbers, and of each the least or the most; pairs more often than others."""
    tasks, answers = [], []
    low = d.chance(0.5)
    for _ in range(d.int(3, 10)):
        top = d.any([20, 99, 99, 500, 1000, 10000])
        x = d.some(range(1, top), d.any([2, 2, 2, 3, 4, 5]))
        while not d.heldout and not (d.fresh(["<", x]) and d.fresh(["extreme", x])):
            x = d.some(range(1, top), len(x))
        tasks.append(", ".join(map(str, x)))
        answers.append(f"{', '.join(map(str, x))}: {min(x) if low else max(x)}")
    word = d.any(["smallest", "least", "lowest", "smaller"] if low else ["largest", "biggest", "highest", "larger", "greater"])
    return [turn(SKILL, d.ask(["The {w} number of [each|every] line:\n{q}", "{q}\n\nOf [each|every] line the {w} number.", "Which is the {w} in each line?\n{q}", "[Line by line|Each line], the {w} number:\n{q}"],
                              q="\n".join(tasks), w=word), f"There are {len(tasks)} lines. I take one after the other.", "\n".join(answers), {}, ("ack",))]


def exchanges(d: Draw) -> list[Turn]:
    """Lines of words with one word in place of another, where a line has it."""
    old, new = d.some(words.SHORT, 2)
    tasks, answers = [], []
    for _ in range(d.int(2, 5)):
        x = [w for w in d.some(words.SENTENCE_WORDS, d.int(2, 6)) if w != new and w != old]
        if d.chance(0.75) or not x:
            x.insert(d.int(0, len(x)), old)
        tasks.append(" ".join(x))
        answers.append(" ".join(new if w == old else w for w in x))
    return [turn(SKILL, d.ask(["In every line, write {n} instead of {o}:\n{q}", "{q}\n\nReplace {o} [with|by] {n} in every line.", "Change {o} to {n} in each line:\n{q}", "{o} becomes {n}:\n{q}", "Put {n} in place of {o}:\n{q}",
                               "Exchange {o} for {n} in these lines:\n{q}", "The word {o} is wrong, write {n}:\n{q}"], q="\n".join(tasks), o=old, n=new),
                 f"There are {len(tasks)} lines. In each of them {old} becomes {new}.", "\n".join(answers), {}, ("ack",))]


def _telling(offered: list[tools.Tool]) -> list[tools.Tool]:
    """Those whose names say what they do."""
    return [x for x in offered if x.noun in x.name.lower() or not x.verb]


def choices(d: Draw) -> list[Turn]:
    """Names of tools, and which of them does each of some things."""
    offered = _telling(tools.offer(d, d.int(2, 8))[0]) or [tools.hand(d, d.any(tools.HAND))]
    wanted = d.some(offered, d.int(1, len(offered))) + [_other(d, offered) for _ in range(d.int(0, 3))]
    d.rng.shuffle(wanted)
    asked = [tools.action(x) for x in wanted]
    lines = "\n".join(prompted(x.name) for x in offered)
    names = d.any([json.dumps([x.name for x in offered]), lines, lines, "\n".join(x.name for x in offered)])
    return [turn(SKILL, d.ask(["Tools:\n{t}\n\nWhich one [does|fits] each of these?\n{q}", "{q}\n\nWhich of these tools does each of them?\n{t}", "{t}\n\nFind the tool for each: {q}", "For each of these, the tool that does it: {q}\nTools:\n{t}"],
                              t=names, q=_numbered(d, asked)), f"There are {len(asked)} tasks. I take one after the other.",
                 "\n".join(f"{a}:\n{tools.fits(x) if x in offered else tools.NONE_FITS}" for a, x in zip(asked, wanted)), {}, ("ack",))]


def prompted(name: str, **rest) -> str:
    """A tool as the chat template has it: a line of JSON, and then its name."""
    return json.dumps({"name": name, **rest}) + "\n" + name


def _as_json(x: tools.Tool, described: bool) -> str:
    description = {"description": x.spec["function"]["description"]} if described else {}
    return prompted(x.name, **description, parameters=list(x.slots))


def _as_call(x: tools.Tool, described: bool) -> str:
    return f"{x.name}({', '.join(x.slots)})" + (f": {x.spec['function']['description']}" if described else "")


def calls(d: Draw) -> list[Turn]:
    """What users say to tools, all at once: which tool, which of its parameters, and at times what these are. Schemas are left out,
    which are most of what a model reads where it has tools."""
    offered, _ = tools.offer(d, d.int(2, 7))
    described, valued = d.chance(0.6), d.chance(0.5)
    able = tools.distinct(offered if described else _telling(offered))
    if not able:
        offered = able = [tools.hand(d, d.any(tools.HAND))]
    elif not described:
        offered = able
    asked, answers = [], []
    for i in range(1, d.int(3, 7) + 1):
        x = d.any(able)
        other = tools.unlike(d, offered, x) if d.chance(0.22) else None
        user, arguments = tools.wanted_call(d, other or x)
        asked.append(f"{i}. {user}")
        answers.append(f"{i}:\n{tools.NONE_FITS if other else tools.fits(x, arguments)}")
        if valued and not other:
            answers += [f"{k}:\n{v if isinstance(v, str) else json.dumps(v)}" for k, v in arguments.items()]
    form = _as_json if d.chance(0.6) else _as_call
    how = d.any(["with all values", "and the values", "with what is given"] if valued else ["and the names of what is given", "without values", "and its parameters"])
    return [turn(SKILL, d.ask(["Tools:\n{t}\n\nWhich one is called for each of these, {h}?\n{q}", "{q}\n\nWhich of these tools is called for each, {h}?\n{t}", "{t}\n\nFind the tool for each, {h}:\n{q}", "For each of these the tool to call, {h}:\n{q}\nTools:\n{t}"],
                              t="\n".join(form(x, described) for x in offered), q="\n".join(asked), h=how), f"There are {len(asked)} tasks. I take one after the other.", "\n".join(answers), {}, ("ack",))]


def _other(d: Draw, offered):
    """A tool that does what none of those on offer does, but often something like it."""
    while True:
        x = d.any(offered)
        other = tools.generic(d, *((d.any(list(tools.VERBS)), x.noun) if d.chance(0.5) else (x.verb, d.any(tools.NOUNS)))) if x.verb else tools.offer(d, 1)[1]
        if all(tools.action(y) != tools.action(other) for y in offered):
            return other


def questions(d: Draw) -> list[Turn]:
    """A text and questions about it, one in three of which it does not answer."""
    used: set = set()
    facts = [context.Fact(d, used) for _ in range(d.int(3, 9))]
    missing = [d.chance(0.35) for _ in facts]
    sentences = [f.statement for f, gone in zip(facts, missing) if not gone] + context.distractors(d, d.int(1, 8), used)
    d.rng.shuffle(sentences)
    asked = "\n".join(f"{i}. {f.question(d)}" for i, f in enumerate(facts, 1))
    answers = [f"{i}: {context.NOT_SAID if gone else f.answer()}" for i, (f, gone) in enumerate(zip(facts, missing), 1)]
    return [turn(SKILL, d.ask(["{t}\n\n[Answer all of these|My questions]:\n{q}", "{q}\n\n[Answer|Find the answers] from this[ text|]: {t}", "Text: {t}\n\nQuestions:\n{q}", "Answer these from the text below, one after the other.\n{q}\n\n{t}"],
                              t=context.paragraphs(d, sentences), q=asked), f"There are {len(facts)} questions. I take one after the other.", "\n".join(answers), {}, ("ack",))]


def present(d: Draw) -> list[Turn]:
    """Which of some words are in a text or a list: what a model that looks for the nearest one never learns."""
    if d.chance(0.5):
        used: set = set()
        facts = [context.Fact(d, used) for _ in range(d.int(2, 8))]
        text = context.paragraphs(d, [f.statement for f in facts])
        there = [f.subject for f in facts]
        others = [context.Fact(d, used).subject for _ in there]
    else:
        kinds = d.any([copying.KINDS, copying.PLAIN, [invented], [copying.identifier], [copying.number]])
        there, others = (copying.things(d, d.int(2, 14), kinds) for _ in range(2))
        text = d.any([", ", "\n", " ", "; "]).join(there)
    others = [w for w in others if w not in text]
    asked = list(dict.fromkeys(d.some(there, d.int(1, min(len(there), 6))) + d.some(others, d.int(0, min(len(others), 6)))))
    d.rng.shuffle(asked)
    return [turn(SKILL, d.ask(["{t}\n\n[Which of these are in it|Is it in there], yes or no?\n{q}", "Say yes or no for each: is it in the text?\n{q}\n\nText: {t}", "Text: {t}\n\nDoes it mention these?\n{q}", "{q}\n\nWhich of them does this mention? Yes or no for each.\n{t}"],
                              t=text, q="\n".join(asked)), f"There are {len(asked)} words. I take one after the other.",
                 "\n".join(f"{w}: {'yes' if w in there else 'no'}" for w in asked), {}, ("ack",))]


def make(d: Draw) -> list[Turn]:
    return d.any([sums, sums, steps, steps, steps, operations, operations, sorts, sorts, sorts, numbers, numbers, exchanges, changes, changes, doubles, doubles, backwards, backwards,
                  *[choices] * 5, *[calls] * 4, *[questions] * 5, *[present] * 4])(d)
