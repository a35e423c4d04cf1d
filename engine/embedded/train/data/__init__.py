"""The conversations that the embedded models learn from: seeded, deterministic, of our own words.

conversations(seed, n, split) draws n of them. Conversation i depends on the
seed, the split and i alone, so parts can be made anywhere and in any order.
A "heldout" conversation uses wordings, names and payloads that no "train" one
has (draw.py says how they are parted).
"""

import copy

from . import arithmetic, catalogue, composed, context, copying, drills, facts, freetools, identity, instruct, lexicon, lists, memory, needs, schemas, structured, system, tools, unknown, verdicts
from .draw import Draw, Turn

# Makers of one turn that can stand anywhere in a conversation without tools.
SIMPLE = {
    "greet": identity.make, "instruct": instruct.make, "arithmetic": arithmetic.make, "context": context.make,
    "facts": facts.make, "json": structured.make, "unknown": unknown.make_unknown, "foreign": unknown.make_foreign,
    "pick": lists.make, "yes_no": verdicts.make,
}
# Makers that can stand beside tools of any kind: none of these is what a tool does.
BESIDE_TOOLS = ["greet", "instruct", "context", "facts"]

# Shares of conversations by the skill of their last question.
SHARES = {
    "greet": 44, "instruct": 180, "arithmetic": 60, "context": 45, "context_far": 10, "facts": 34, "memory": 24, "tool_choice": 130,
    "tool_none": 4, "json": 36, "unknown": 12, "foreign": 16, "agent": 10, "copy": 40, "vocabulary": 60, "drill": 80,
    "pick": 80, "yes_no": 50, "schema": 120, "needs": 80, "lexicon": 80,
}
TRAINED_ALONE = {"needs", "lexicon"}  # no held-out conversation is of these
THINKING_SHARE = 0.6
ANSWERED_AT_ONCE = {"pick": 0.4, "yes_no": 0.4}  # shares that think, of skills that need practice without
# Skills whose questions may have something around them that does not belong to them: it says nothing that they could be about.
SURROUNDED = ("instruct", "arithmetic", "json", "facts", "unknown", "pick")


def _one(d: Draw, skill: str) -> Turn:
    d.around = composed.surrounded if skill in SURROUNDED else None
    try:
        return SIMPLE[skill](d)
    finally:
        d.around = None


def _simple(d: Draw) -> Turn:
    more = [] if d.heldout else ["pick", "yes_no", "pick", "yes_no"]
    return _one(d, d.any(["greet", "instruct", "instruct", "arithmetic", "arithmetic", "facts", "json", "unknown", "context", *more]))


def _before(d: Draw, skill: str) -> list[Turn]:
    """Other turns in front of the question that counts."""
    if skill in ("memory", "context_far") or d.chance(0.62):
        return []
    return [_simple(d) for _ in range(d.any([1, 1, 1, 2, 2, 3, 5]))]


def turns_of(d: Draw, skill: str) -> tuple[list[Turn], str | None]:
    """The turns of a conversation whose last one is of this skill, and its system prompt."""
    if skill == "memory":
        return memory.talk(d, _between), system.prompt(d)
    if skill == "context_far":
        return context.far(d, d.any([40, 60, 80, 100, 120, 150, 150, 200, 250, 340, 340])), None if d.chance(0.7) else system.short(d)
    if skill == "copy":
        return copying.make(d), system.short(d) if d.chance(0.2) else None
    if skill == "vocabulary":
        return copying.vocabulary(d), None
    if skill == "needs":
        return needs.make(d), None
    if skill == "lexicon":
        return lexicon.make(d), None
    if skill == "drill":
        return drills.make(d), system.short(d) if d.chance(0.2) else None
    if skill == "context":
        return _before(d, skill) + context.several(d), system.prompt(d)
    if skill == "yes_no":
        return _before(d, skill) + verdicts.several(d), system.prompt(d)
    if skill == "pick":
        return _before(d, skill) + lists.several(d), system.prompt(d)
    if skill == "schema":
        return schemas.drill(d) if not d.heldout and d.chance(0.3) else schemas.make(d), system.short(d) if d.chance(0.3) else None
    if skill == "agent":
        return _agent(d), system.agent(d, d.any([10, 20, 30, 40, 60, 100]))
    if skill == "tool_choice":
        calls = tools.make(d) if d.heldout else d.rng.choices([tools.make, freetools.talk, catalogue.talk], [24, 22, 54])[0](d)
        return _with_tools(d, calls), system.prompt(d)
    if skill == "tool_none":
        offered, _ = tools.offer(d, tools.some(d))
        t = SIMPLE[d.any(BESIDE_TOOLS)](d)
        t.tools = [x.spec for x in offered]
        if isinstance(t.expect, dict):
            t.expect = {**t.expect, "tools": []}
        t.reply[0]["reasoning_content"] = "No tool is needed. " + t.reply[0]["reasoning_content"]
        return [t], system.prompt(d)
    return _before(d, skill) + [_one(d, skill)], system.prompt(d)


def _between(d: Draw) -> Turn:
    """A turn between what is told and what is asked; a long text at times."""
    return context.near(d, d.int(20, 90)) if d.chance(0.08) else _simple(d)


def _with_tools(d: Draw, calls: list[Turn]) -> list[Turn]:
    """The tools stay on offer; talk before the calls, and at times thanks after them."""
    out = [SIMPLE[d.any(["greet", "facts", "instruct"])](d) for _ in range(d.any([0, 0, 0, 0, 1, 2]))] + calls
    if d.chance(0.1):
        out.append(identity.make(d))
    return out


def _agent(d: Draw) -> list[Turn]:
    """A simple request behind the long system prompt of a coding agent, with its tools or without."""
    if d.chance(0.5):
        return [SIMPLE[d.any(["greet", "instruct", "arithmetic", "facts", "context"])](d)]
    coding = [r for r in tools.HAND if r[0][0] in ("read_file", "write_file", "run_command", "grep", "list_directory", "web_search")]
    chosen = d.some(coding, d.int(3, len(coding)))
    while any(tools._confusable(_named(a), _named(b)) for i, a in enumerate(chosen) for b in chosen[:i]):
        chosen = d.some(coding, d.int(2, 4))
    offered = [tools.hand(d, r) for r in chosen]
    if d.chance(0.3):
        t = SIMPLE[d.any(["greet", "instruct", "facts"])](d)
        t.reply[0]["reasoning_content"] = "No tool is needed. " + t.reply[0]["reasoning_content"]
        t.expect = {**t.expect, "tools": []}
    else:
        tool = d.any(offered)
        user, arguments = tools.wanted_call(d, tool)
        t = tools.answered_call(d, tool, user, arguments)
    t.tools = [x.spec for x in offered]
    return [t]


class _named:
    def __init__(self, row):
        self.verb, self.noun = "", row[0][0]


def flat(turns: list[Turn], prompt: str | None, thinking: bool) -> dict:
    """The conversation in chat-template form."""
    messages = [{"role": "system", "content": prompt}] if prompt else []
    as_asked = len(turns[-1].user) % 4 > 0 if thinking else len(turns[-1].user) % 2 == 0
    for t in turns:
        messages.append({"role": "user", "content": t.user})
        for m in t.reply:
            m = copy.copy(m)
            worked = m.pop("worked", None)
            if not thinking:
                m.pop("reasoning_content", None)
                m["content"] = worked or m["content"]
            elif worked and t is not turns[-1] and not as_asked:
                m["learnt"] = False  # its thought is not shown any more, and without it is guessing
            messages.append(m)
    offered = [t.tools for t in turns if t.tools]
    return {"skill": turns[-1].skill, "thinking": thinking, "tools": offered[0] if offered else None, "schema": turns[-1].schema,
            "messages": messages, "as_asked": as_asked}


def drawn(seed: int, i: int, split: str, name: str = "core-1.1", shares: dict[str, int] | None = None) -> tuple[list[Turn], str | None, bool]:
    """Conversation i as turns, its system prompt, and whether it thinks."""
    shares = shares or SHARES
    d = Draw(f"{split} {seed} {i}", split, name)
    if d.heldout:
        shares = {k: n for k, n in shares.items() if k not in TRAINED_ALONE}
    skill = d.rng.choices(list(shares), list(shares.values()))[0]
    turns, prompt = turns_of(d, skill)
    return turns, prompt, d.chance(ANSWERED_AT_ONCE.get(skill, THINKING_SHARE))


def conversations(seed: int, n: int, split: str, name: str = "core-1.1", first: int = 0, shares: dict[str, int] | None = None):
    """Yields conversations first to first+n of a seed. Name is what the model calls itself; shares
    replace SHARES, for models too small or runs too short for all skills."""
    for i in range(first, first + n):
        yield flat(*drawn(seed, i, split, name, shares))
