"""The committed cases: apart from what is trained, far enough, and drawn alike every time."""

import json
import pathlib
import unittest

from .. import bpe, skills
from ..data import needs
from .test_promises import expansions

FILE = pathlib.Path(__file__).resolve().parents[2] / "skills.jsonl"


def question(case) -> str:
    """The last thing that the user said; behind it there may be calls and their results."""
    return next(m["content"] for m in reversed(case["body"]["messages"]) if m["role"] == "user" and isinstance(m["content"], str))


class TestSkills(unittest.TestCase):
    def setUp(self):
        self.cases = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]

    def test_counts(self):
        counts = {}
        for c in self.cases:
            counts[c["skill"]] = counts.get(c["skill"], 0) + 1
        self.assertEqual(counts, skills.CASES)

    def test_no_question_is_trained(self):
        trained, seen = skills.questions(99, 15000), 0
        for c in self.cases:
            self.assertNotIn(hash(skills.plain(question(c))), trained, c["name"])
            seen += isinstance(c["body"]["messages"][-1]["content"], list)
        self.assertGreaterEqual(seen, skills.CASES["tool_result"])

    def test_no_need_is_a_question(self):
        """All that the text files have, drawn in this seed or not."""
        asked = {skills.plain(question(c)) for c in self.cases}
        self.assertEqual([s for row in needs.rows() for s in row[3] if any(skills.plain(x) in asked for x in {s, *expansions(s)})], [])

    def test_far_is_far(self):
        tokenizer = bpe.Tokenizer.load(str(bpe.VOCABULARY))
        for c in self.cases:
            if c["skill"] == "context_far":
                self.assertGreater(len(tokenizer.encode(c["body"]["messages"][-1]["content"])), skills.FAR_TOKENS)

    def test_cases_depend_on_the_seed_alone(self):
        tokenizer = bpe.Tokenizer.load(str(bpe.VOCABULARY))
        draw = lambda seed: list(skills.cases(seed, {"instruct": 5, "tool_choice": 5, "tool_result": 5}, set(), tokenizer))
        self.assertEqual(draw(5), draw(5))
        self.assertNotEqual(draw(5), draw(6))


if __name__ == "__main__":
    unittest.main()
