"""The promises are asked in sentences, of tools and of schemas that no training conversation has. Templates and vocabulary are
parted here, not sentences: a template that training has, whatever it is filled with, fails."""

import json
import pathlib
import random
import re
import unittest
from unittest import mock

from .. import data, phrased_tools, phrasings, promises
from ..data import catalogue, draw, needs, schemas

FILE = pathlib.Path(__file__).resolve().parents[2] / "promises.jsonl"
N = 12000  # training conversations that are read
POLITE = "please can could would you now ok okay hey hi hello so well me for to the a an i want need".split()


def skeleton(pattern: str) -> tuple[str, ...]:
    """The words of a template, its slots as one mark, without those that are there for politeness: two of the same are one form."""
    words = re.findall(r"\w+", re.sub(r"\{\w+\}", " _ ", pattern).lower())
    return tuple(w for w in words if w not in POLITE)


def expansions(pattern: str, most: int = 40) -> set[str]:
    """A template with its options taken, all ways if there are few."""
    d = draw.Draw(pattern, "train")
    return {d.choose(pattern) for _ in range(most if "[" in pattern else 1)}


def held_out() -> set[str]:
    """All templates of phrasings.py, and those in which tools and answers of schemas are wanted."""
    def leaves(x):
        if isinstance(x, str):
            yield x
        elif isinstance(x, dict):
            for v in x.values():
                yield from leaves(v)
        elif isinstance(x, (list, tuple)):
            for v in x:
                yield from leaves(v)
    out = {t for name in dir(phrasings) if name.isupper() for t in leaves(getattr(phrasings, name))}
    out |= {s for t in phrased_tools.TOOLS for s, _ in t[3]} | set(phrased_tools.WISHES_FOR_NONE) | {s for _, asks in phrased_tools.SCHEMAS for s in asks}
    return out


def sentence(template: str) -> str:
    """What matches a template that was filled in: a payload at its begin or end may be long, a value between words has three at most."""
    pieces = re.split(r"\{\w+\}", template)
    out = re.escape(pieces[0])
    for i, piece in enumerate(pieces[1:], 1):
        inner = i > 1 or pieces[0]
        out += (r"\S+(?: \S+){0,2}" if inner and piece.strip() else r".{1,60}?") + re.escape(piece)
    return out


class TestPromises(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        """Reads training conversations and writes down every template that a question was made of, and what was called and filled in."""
        cls.trained, cls.lists, cls.users, cls.tools, cls.keys = set(), set(), [], set(), set()
        plain = draw.Draw.ask

        def ask(d, patterns, /, compose=None, **values):
            cls.lists.add(tuple(patterns))
            return plain(d, patterns, compose, **values)

        def careless(d, pattern):  # the template that was drawn, its options taken
            cls.trained.add(skeleton(pattern))
            return pattern
        with mock.patch.object(draw.Draw, "ask", ask), mock.patch.object(draw.Draw, "_careless", careless):
            for c in data.conversations(404, N, "train"):
                cls.users += [m["content"] for m in c["messages"] if m["role"] == "user"]
                cls.tools.update(t["function"]["name"] for t in c["tools"] or ())
                if c["schema"]:
                    cls.keys.update(c["schema"]["properties"])
        for patterns in cls.lists:
            for p in draw._wordings(patterns)[0]:
                cls.trained.update(map(skeleton, expansions(p)))

    def test_no_template_is_trained(self):
        self.assertGreater(len(self.trained), 20000)
        leaked = [t for t in held_out() if any(c.isalpha() for c in re.sub(r"\{\w+\}", "", t)) and skeleton(t) in self.trained and len(set(skeleton(t)) - {"_"}) > 0]
        self.assertEqual(leaked, [])

    def test_a_template_that_is_trained_is_found(self):
        for planted in ("Spell {q} backwards.", "Please write this in capitals: {q}", "What is the capital of {x}?", "{t}\n\nFill in the fields."):
            self.assertIn(skeleton(planted), self.trained, planted)

    def test_no_trained_sentence_is_of_a_held_out_template(self):
        """The sentence itself: words of a template in front of its first slot, between slots and behind the last, in this order."""
        long = [t for t in held_out() if len(re.sub(r"\{\w+\}", "", t)) > 14]
        patterns = re.compile("|".join("(?:" + sentence(t) + ")" for t in long), re.I | re.S)
        # Wordings are short; of a text that they stand beside only the ends count.
        found = [u for u in self.users if patterns.fullmatch(u if len(u) < 400 else u[:200] + u[-200:])]
        self.assertEqual(found, [])

    def test_no_tool_and_no_key_is_trained(self):
        self.assertEqual({t[0] for t in phrased_tools.TOOLS} & self.tools, set())
        asked = {k for s, _ in phrased_tools.SCHEMAS for k in s.get("properties", {})}
        self.assertLess(len(asked & self.keys), len(asked) // 4, asked & self.keys)

    def test_no_written_tool_is_held_out(self):
        """All of the text files, drawn here or not: other names, and no sentence with the words of a held-out one."""
        rows = [*catalogue.rows(), *needs.rows()]
        self.assertEqual({t[0] for t in phrased_tools.TOOLS} & {n for row in rows for n in row[0]}, set())
        held = {skeleton(s) for t in phrased_tools.TOOLS for s, _ in t[3]} | {skeleton(w) for w in phrased_tools.WISHES_FOR_NONE}
        self.assertEqual([s for row in rows for s in row[3] if any(skeleton(e) in held for e in expansions(s))], [])

    def test_the_committed_cases_are_those_of_the_seed(self):
        committed = FILE.read_text(encoding="utf-8").splitlines()
        made = [json.dumps(c, ensure_ascii=False, separators=(",", ":")) for c in promises.cases(1, promises.CASES)]
        self.assertEqual(len(committed), sum(promises.CASES.values()))
        self.assertEqual([c for c, m in zip(committed, made) if c != m][:2], [])

    def test_every_template_is_asked(self):
        asked = [c["body"]["messages"][-1]["content"] for c in promises.cases(1, {k: n for k, n in promises.CASES.items() if k not in ("schemas", "new tool_choice", "new tool_result")})]
        asked = [a for a in asked if isinstance(a, str)]
        rng, missing = random.Random(1), 0
        some = rng.sample(sorted(t for t in held_out() - {s for x in phrased_tools.TOOLS for s, _ in x[3]} - {s for _, x in phrased_tools.SCHEMAS for s in x} if len(t) > 25), 60)
        for t in some:
            pattern = re.compile(".*?".join(map(re.escape, re.split(r"\{\w+\}", t))), re.S)
            missing += not any(pattern.search(a) for a in asked)
        self.assertLess(missing, 30)  # which ones are drawn is chance


class TestExpectations(unittest.TestCase):
    def test_a_result_is_told_in_any_words_and_no_longer_value_is_it(self):
        for i in range(promises.CASES["new tool_result"]):
            (t,) = promises.MAKERS["new tool_result"](f"longer {i}", i)
            answer = t.reply[-1]["content"]
            self.assertRegex(answer, "(?s)" + t.expect["text"])
            self.assertRegex(" ".join(map(str, json.loads(t.reply[-2]["content"]).values())), t.expect["text"])
            for v in map(str, json.loads(t.reply[-2]["content"]).values()):
                for longer in (f"1{v}", f"{v}1"):
                    self.assertNotRegex(answer.replace(v, longer), "(?s)" + t.expect["text"])

    def test_a_schema_is_filled_in_as_the_text_says(self):
        """What the text says counts, and nothing that only the generator decides."""
        def fits(rule, v):
            if "properties" in rule:
                return set(rule["required"]) <= set(v) <= set(rule["properties"]) and all(fits(rule["properties"][k], x) for k, x in v.items())
            return v == rule["const"] if "const" in rule else v not in rule["not"]["enum"] if "not" in rule else isinstance(v, str) and v != ""

        def others(rule, v):  # answers that have something else in one member, and whether that one is open
            for k, x in v.items():
                r = rule["properties"][k]
                for other, is_open in others(r, x) if isinstance(x, dict) else [(f"{x}!", "const" not in r)]:
                    yield {**v, k: other}, is_open
        counts, nested = {True: 0, False: 0}, 0
        for i in range(300):
            (t,) = promises.MAKERS["new schema"](f"told {i}", i)
            rule, value = t.expect["schema"], json.loads(t.reply[-1]["content"])
            self.assertTrue(fits(rule, value), t.user)
            for other, is_open in others(rule, value):
                self.assertEqual(fits(rule, other), is_open, (t.user, other))
                counts[is_open] += 1
            for k, r in rule["properties"].items():
                for said in promises._said(value) if "not" in r else ():  # what is said of another member
                    self.assertFalse(fits(rule, {**value, k: said}), (t.user, k))
            nested += any(isinstance(x, dict) for x in value.values())
        self.assertGreater(min(*counts.values(), nested), 20)

    def test_goodbye_does_not_say_how_one_is(self):
        thoughts = list(phrasings.GREET)
        (t,) = promises.MAKERS["new greet"]("how", thoughts.index("The user asks how I am."))
        self.assertRegex(t.reply[-1]["content"], "(?s)" + t.expect["text"])
        self.assertNotRegex("Goodbye! Come back any time.", "(?s)" + t.expect["text"])


if __name__ == "__main__":
    unittest.main()
