"""The rendering against the engine's recorded one, and what of it is learnt."""

import pathlib
import unittest

from .. import bpe, data, pack, render

ROOT = pathlib.Path(__file__).resolve().parents[3]

# The conversation "after the loop" of engine/template's tests.
NOOP = {"function": {"name": "noop", "arguments": {}}}
WEATHER = {"function": {"name": "get_weather", "arguments": {
    "city": "Zürich <b>&", "days": 3, "ok": True, "no": False, "nil": None, "f": 1.5, "big": 123456789012345678901, "list": [1, "zwei", {"z": 1, "a": [True, None]}],
    "obj": {"b": "\u2028\x01\"\\/", "a": {}}, "text": "line 1\nline 2\t'q'", "empty": "", "neg": 0, "exp": 100000.0}}}
LOOP = [
    {"role": "user", "content": "Hi ☃ <think>&</think>?"}, {"role": "assistant", "content": "t", "tool_calls": [NOOP]}, {"role": "tool", "content": "1"},
    {"role": "assistant", "content": "u", "tool_calls": [NOOP, WEATHER]}, {"role": "tool", "content": "2"}, {"role": "tool", "content": "3"},
    {"role": "assistant", "content": "ok"}, {"role": "user", "content": "next <tool_response>"},
    {"role": "assistant", "content": "m", "reasoning_content": "n", "tool_calls": [NOOP]}, {"role": "tool", "content": "4"},
]


class TestRender(unittest.TestCase):
    def setUp(self):
        self.tokenizer = bpe.Tokenizer.load(str(bpe.VOCABULARY))

    def test_golden(self):
        golden = (ROOT / "template" / "testdata" / "builtin.golden").read_text(encoding="utf-8")
        for thinking in (True, False):
            part = golden.split(f"======== after the loop, thinking {str(thinking).lower()}\n")[1].split("\n======== ")[0]
            tools = [{"type": "function", "function": {"name": "noop", "parameters": {}}}]
            self.assertEqual(render.prompt(LOOP, tools, thinking).rstrip("\n"), part.rstrip("\n"))

    def test_mask_is_what_the_assistant_says(self):
        for c in data.conversations(21, 400, "train"):
            ids, mask = render.tokens(c, self.tokenizer)
            self.assertEqual(self.tokenizer.decode(ids), render.text(c))
            if not any("letters" in m for m in c["messages"]):
                self.assertEqual(ids, self.tokenizer.encode(render.text(c)))
            said, run = [], []
            for i, learnt in zip(ids, mask):
                if learnt:
                    run.append(i)
                elif run:
                    said, run = said + [self.tokenizer.decode(run)], []
            self.assertFalse(run)  # the template ends with a line break that is not learnt
            answers = [m for m in c["messages"] if m["role"] == "assistant" and m.get("learnt", True)]
            self.assertEqual(len(said), len(answers))
            for text, m in zip(said, answers):
                self.assertTrue(text.endswith("<|im_end|>"))
                self.assertIn(m["content"], text)
                self.assertNotIn("<|im_start|>", text)
            if c["thinking"]:
                self.assertTrue(said[-1].startswith(answers[-1]["reasoning_content"] + "\n</think>\n\n" + answers[-1]["content"]))
            elif not answers[-1].get("tool_calls"):
                self.assertEqual(said[-1], answers[-1]["content"] + "<|im_end|>")

    def test_last_answer_follows_the_prompt_of_the_engine(self):
        for c in data.conversations(22, 300, "train"):
            if c["as_asked"]:
                continue
            before = [m for m in c["messages"]][:-1]
            self.assertTrue(render.text(c).startswith(render.prompt(before, c["tools"], c["thinking"], schema=c["schema"])))

    def test_every_answer_as_it_is_asked_for(self):
        seen = {True: 0, False: 0}
        for c in data.conversations(23, 300, "train"):
            said = [m for m in c["messages"] if m["role"] == "assistant"]
            if not c["as_asked"] or len(said) == 1:
                continue
            seen[c["thinking"]] += 1
            parts = render.text(c).split(render.HEADER)[1:]
            self.assertEqual(len(parts), len(said))
            for part, m in zip(parts, said):
                self.assertTrue(part.startswith("<think>\n" + (m["reasoning_content"] if c["thinking"] else "") + "\n</think>\n\n" + m["content"]), part)
                self.assertTrue(m.get("learnt", True))
        self.assertGreater(min(seen.values()), 10)

    def test_letters_of_a_word_backwards_are_tokens(self):
        said = {"role": "assistant", "content": "map: p a m, pam.", "reasoning_content": "", "letters": ("pam",)}
        c = {"messages": [{"role": "user", "content": "pam"}, said], "tools": None, "thinking": False, "as_asked": False}
        ids, learnt = render.tokens(c, self.tokenizer)
        self.assertEqual([self.tokenizer.decode([i]) for i, on in zip(ids, learnt) if on][-6:], [" ", "p", "a", "m", ".", "<|im_end|>"])
        self.assertEqual(self.tokenizer.decode(ids), render.text(c))

    def test_packing_does_not_depend_on_the_parts(self):
        whole = pack.pack(1, 700, "train", "core-1.1", str(bpe.VOCABULARY), 1)
        self.assertEqual(len(whole["tokens"]), len(whole["mask"]))
        self.assertEqual(len(whole["starts"]), 700)
        i = 600
        c = next(data.conversations(1, 1, "train", first=i))
        ids, mask = render.tokens(c, self.tokenizer)
        at = whole["starts"][i]
        self.assertEqual(whole["tokens"][at: at + len(ids)].tolist(), ids)
        self.assertEqual(whole["mask"][at: at + len(ids)].tolist(), [int(m) for m in mask])


if __name__ == "__main__":
    unittest.main()
