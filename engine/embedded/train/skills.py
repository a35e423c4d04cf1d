"""The held-out cases of each skill, in the form that `corebench skills` reads.

    python -m train.skills --out skills.jsonl

Every case comes from the held-out split of the generator, and none whose last
question a large sample of training conversations has, in any case and with
any punctuation.
"""

import argparse
import json
import re

from . import bpe, data
from .data import context, draw, system, tools

# How many cases; half of them think.
CASES = {
    "greet": 40, "instruct": 150, "arithmetic": 150, "context": 150, "context_far": 20, "facts": 40, "memory": 40, "tool_choice": 150, "tool_result": 40,
    "json": 40, "unknown": 40, "agent": 14, "foreign": 100,
}
FAR_TOKENS = 4000  # from the fact to the question
SHORT = "^.{1,300}$"  # what a short answer is


def plain(text: str) -> str:
    """A question without what does not make it another one."""
    return " ".join(re.findall(r"\w+", text.lower())) or text


def questions(seed: int, n: int, first: int = 0) -> set[str]:
    """The questions of a training sample."""
    asked = set()
    for c in data.conversations(seed, n, "train", first=first):
        asked.update(hash(plain(m["content"])) for m in c["messages"] if m["role"] == "user")
    return asked


def far_turn(d: draw.Draw, tokenizer) -> list:
    """A text whose fact stands at least FAR_TOKENS in front of the question."""
    state, n = d.rng.getstate(), 340
    while True:
        d.rng.setstate(state)
        turns = context.far_at_start(d, n)
        _, text, _, subject, value = turns[0].task
        at = next(m.start() for m in re.finditer(re.escape(value), text) if subject in text[max(0, m.start() - 80): m.end() + 80])
        if len(tokenizer.encode(text[at:], special=False)) >= FAR_TOKENS:
            return turns
        n += 10


def turns_of(d: draw.Draw, skill: str, tokenizer) -> tuple[list, str | None]:
    if skill == "context_far":
        return far_turn(d, tokenizer), None
    if skill == "tool_result":
        return [tools.call(d, tools.RESULT, 2)], None
    if skill == "tool_choice":
        return tools.make(d), system.short(d) if d.chance(0.3) else None
    if skill == "agent":
        return data.turns_of(d, "agent")[0], system.agent(d, d.int(12, 25))
    return data.turns_of(d, skill)[0], system.short(d) if d.chance(0.3) else None


def message(m: dict, thinking: bool, calls: list[str]) -> dict:
    """A message of the chat template as one of the messages protocol; calls are ids that wait for a result."""
    if m["role"] == "tool":
        text, error = m["content"], m["content"].startswith("Error: ")
        block = {"type": "tool_result", "tool_use_id": calls.pop(0), "content": text.removeprefix("Error: ")}
        return {"role": "user", "content": [{**block, "is_error": True} if error else block]}
    if "tool_calls" not in m:
        return {"role": m["role"], "content": m["content"] if thinking else m.get("worked", m["content"])}
    blocks = [{"type": "thinking", "thinking": m["reasoning_content"]}] if thinking else []
    for i, c in enumerate(m["tool_calls"]):
        calls.append(f"toolu_{i}")
        blocks.append({"type": "tool_use", "id": calls[-1], "name": c["function"]["name"], "input": c["function"]["arguments"]})
    return {"role": "assistant", "content": blocks}


def messages(turns, skill: str, thinking: bool) -> list[dict]:
    """All up to what the model is asked for: the last answer, or the first calls of the last turn."""
    out, calls = [], []
    for t in turns:
        said = [{"role": "user", "content": t.user}, *t.reply]
        if t is turns[-1]:
            said = said[:-1] if skill == tools.RESULT else said[:1]
        for m in said:
            new = message(m, thinking, calls)
            if out and out[-1]["role"] == new["role"] == "user":  # results of one answer go together
                out[-1]["content"] += new["content"]
            else:
                out.append(new)
    return out


def case(skill: str, name: str, turns, prompt: str | None, thinking: bool) -> dict:
    body: dict = {"system": prompt} if prompt else {}
    offered = next((t.tools for t in turns if t.tools), None)
    if offered:
        body["tools"] = [{"name": f["name"], "description": f["description"], "input_schema": f["parameters"]} for f in (t["function"] for t in offered)]
    if not thinking:
        body["thinking"] = {"type": "disabled"}
    body["messages"] = messages(turns, skill, thinking)
    expect = dict(turns[-1].expect)
    if skill == "foreign":
        expect = {"text": SHORT, "stop": "end_turn"}
    return {"skill": skill, "name": name, "body": body, "expect": expect}


def cases(seed: int, counts: dict[str, int], asked: set[str], tokenizer):
    """Draws cases until there are enough whose question is not in asked, no two alike."""
    for skill, n in counts.items():
        made, i, seen = 0, 0, set()
        while made < n:
            d = draw.Draw(f"case {skill} {seed} {i}", "heldout")
            i += 1
            turns, prompt = turns_of(d, skill, tokenizer)
            question = plain(turns[-1].user)
            if skill == "memory" and len(turns) < 3 or hash(question) in asked or question in seen and i < 50 * n:
                continue
            seen.add(question)
            yield case(skill, f"{skill} {made + 1}", turns, prompt, made % 2 == 0)
            made += 1


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--only", help="one skill")
    p.add_argument("--cases", type=int, help="how many of each skill")
    p.add_argument("--sample", type=int, default=200000, help="training conversations to stay clear of")
    p.add_argument("--out", required=True)
    o = p.parse_args()
    counts = {k: o.cases or n for k, n in CASES.items() if o.only in (None, k)}
    if not counts:
        p.error(f"--only is {o.only}, want one of {', '.join(CASES)}")
    tokenizer = bpe.Tokenizer.load(str(bpe.VOCABULARY))
    with open(o.out, "w", encoding="utf-8") as f:
        for c in cases(o.seed, counts, questions(1, o.sample), tokenizer):
            f.write(json.dumps(c, ensure_ascii=False, separators=(",", ":")) + "\n")


if __name__ == "__main__":
    main()
