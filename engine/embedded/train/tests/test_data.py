"""The generator: determinism, the split, and every answer against a solver that knows only the task."""

import collections
import itertools
import json
import re
import unittest
from unittest import mock

from .. import bpe, data, render
from ..data import context, copying, draw, drills, tools
from . import solver

N = 6000
TOKENIZER = bpe.Tokenizer.load(str(bpe.VOCABULARY))


def plain(schema, defs):
    """A schema without its dressing: what a reference is to, what is not null."""
    if "$ref" in schema:
        return defs[schema["$ref"].removeprefix("#/$defs/")]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return schema[key][0]
    kind = schema["type"]
    return {**schema, "type": next(k for k in kind if k != "null")} if isinstance(kind, list) else schema


def turns(split, n=N, seed=11):
    for i in range(n):
        yield from data.drawn(seed, i, split)[0]


def said(split, n=N, seed=11):
    """The same, each with the words in which its answer is: the user's, and of questions about one list all of them."""
    for i in range(n):
        words = ""
        for t in data.drawn(seed, i, split)[0]:
            words = words + "\n" + t.user if t.skill == "pick" else t.user
            yield t, words


class TestData(unittest.TestCase):
    def test_same_seed_same_conversations(self):
        a = list(data.conversations(3, 200, "train"))
        self.assertEqual(a, list(data.conversations(3, 200, "train")))
        self.assertEqual(a[150:], list(data.conversations(3, 50, "train", first=150)))
        self.assertNotEqual(a, list(data.conversations(4, 200, "train")))

    def test_answers(self):
        solved = 0
        for split in ("train", "heldout"):
            for t, words in said(split):
                answer = t.reply[-1]["content"]
                want = solver.solve(t.task, words)
                if want is not None:
                    solved += 1
                    self.assertRegex(answer, want, (t.task, t.user))
                for m in t.reply:
                    self.assertTrue(solver.thought_is_sound(m.get("reasoning_content", "")), m)
                    if "worked" in m:
                        self.assertTrue(solver.thought_is_sound(m["worked"]), m)
                        self.assertRegex(m["worked"], want, (t.task, t.user))
                    self.assertNotIn("\n\n", m["content"] if m["role"] == "assistant" else "")
        self.assertGreater(solved, N)

    def test_expectations_accept_the_answer(self):
        for t in turns("heldout"):
            if t.expect.get("tools"):
                first = t.reply[0]
                made = [{"name": c["function"]["name"], "input": c["function"]["arguments"]} for c in first["tool_calls"]]
                self.assertEqual(made, t.expect["tools"])
                continue
            answer = t.reply[-1]["content"]
            if "text" in t.expect:
                self.assertRegex(answer, "(?s)" + t.expect["text"], t.user)
            if "not" in t.expect:
                self.assertNotRegex(answer, "(?s)" + t.expect["not"], t.user)
            if "json" in t.expect:
                self.assertEqual(json.loads(answer), t.expect["json"])

    def test_calls_fit_their_schema_and_the_words_of_the_user(self):
        seen, names = 0, set()
        for i in range(N):
            conversation = data.flat(*data.drawn(12, i, "train"))
            for at, m in enumerate(conversation["messages"]):
                for c in m.get("tool_calls", ()):
                    seen += 1
                    user = next(x["content"] for x in reversed(conversation["messages"][:at]) if x["role"] == "user")
                    names.add(c["function"]["name"])
                    self.check_call(c["function"], conversation["tools"], user)
        self.assertGreater(seen, 300)
        self.assertGreater(len(names), 200)

    def test_thoughts_name_the_tool_that_is_called(self):
        seen = collections.Counter()
        for i in range(2 * N):
            conversation = data.flat(*data.drawn(13, i, "train"))
            offered = {t["function"]["name"] for t in conversation["tools"] or ()}
            for m in conversation["messages"] if conversation["thinking"] else ():
                name, fits, rest = m.get("reasoning_content", "").removeprefix(tools.LOOK).partition(" fits")
                calls = [c["function"] for c in m.get("tool_calls", ())]
                if not fits or not offered:
                    self.assertFalse(calls)
                    continue
                if name == "No tool":
                    seen["none"] += 1
                    self.assertFalse(calls)
                    continue
                seen["a call" if calls else "missing"] += 1
                self.assertIn(name, offered)
                self.assertEqual({c["name"] for c in calls} | {name}, {name})
                given = re.findall(r"\w+: (.*?)\." if len(calls) == 2 else r"^: (.*?)\.", rest)
                if calls:
                    self.assertEqual(given, [", ".join(c["arguments"]) for c in calls if c["arguments"]])
                else:
                    self.assertIn(" is missing, I ask for it.", rest)
        self.assertEqual(set(seen), {"a call", "missing", "none"})
        self.assertGreater(min(seen.values()), 30)

    def check_call(self, call, tools, user):
        match = [t["function"] for t in tools if t["function"]["name"] == call["name"]]
        self.assertEqual(len(match), 1)
        schema = match[0]["parameters"]
        arguments = call["arguments"]
        self.assertLessEqual(set(schema.get("required", ())), set(arguments))
        self.assertEqual([k for k in schema["properties"] if k in arguments], list(arguments))
        for k, v in arguments.items():
            s = plain(schema["properties"][k], schema.get("$defs", {}))
            if isinstance(v, list):
                self.assertEqual((s["type"], s["items"]), ("array", {"type": "string"}))
                self.assertTrue(all(x.lower() in user.lower() for x in v), (call, user))
                continue
            kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool}[s["type"]]
            self.assertIsInstance(v, kinds)
            if "enum" in s:
                self.assertIn(v, s["enum"])
            if not isinstance(v, bool):
                self.assertIn(str(v).lower(), user.lower(), (call, user))

    def test_no_prompt_of_one_split_is_in_the_other(self):
        # What nothing can be held out of: the small tables.
        prompt = lambda i, split: json.dumps([m["content"] for m in data.flat(*data.drawn(5, i, split))["messages"] if m["role"] == "user"])
        train = {prompt(i, "train") for i in range(20000)}
        shared = [p for p in {prompt(i, "heldout") for i in range(3000)} if p in train]
        self.assertEqual([p for p in shared if not re.search(r"\b\d{1,2} ?[*x/] ?\d{1,2}\b", p)], [])

    def test_every_skill_is_drawn(self):
        seen = {}
        for c in data.conversations(2, 6000, "train"):
            seen.setdefault(c["skill"], set()).add(c["thinking"])
        self.assertEqual({k for k, v in seen.items() if len(v) == 2},
                         {"greet", "instruct", "arithmetic", "context", "context_far", "facts", "memory", "tool_choice", "json", "unknown", "foreign", "copy", "drill", "pick", "yes_no", "schema", "needs", "lexicon"})

    def test_what_is_trained_alone_is_never_held_out(self):
        shares = {k: 1 for k in [*data.TRAINED_ALONE, "greet"]}
        self.assertEqual({c["skill"] for c in data.conversations(3, 60, "heldout", shares=shares)}, {"greet"})

    def test_drills_compute(self):
        seen = lists = 0
        for i in range(2000):
            answers = [t.reply[-1]["content"] for t in drills.make(draw.Draw(f"drill {i}", "train"))]
            seen += " = " in answers[0]
            lists += bool(re.match(r"\d+, \d+.*: \d+", answers[0]))
            self.assertTrue(all(map(solver.thought_is_sound, answers)), answers)
        self.assertGreater(seen, 250)
        self.assertGreater(lists, 60)

    def test_choices_are_by_the_words_of_the_names(self):
        parts = lambda name: collections.Counter(w.lower().rstrip("s") for w in re.findall("[A-Z]?[a-z]+", name))
        seen, by_hand = collections.Counter(), {row[0][0].replace("_", " ") for row in tools.HAND}
        for i in range(300):
            t = drills.choices(draw.Draw(f"choices {i}", "train"))[0]
            for part in t.reply[0]["content"].rstrip(".").split(".\n"):
                wish, found = part.split(":\n")
                if wish in by_hand:  # their names have other words
                    continue
                seen[found == "No tool fits"] += 1
                fitting = [n for n in re.findall(r"[\w-]+", t.user) if n != n.lower() or re.search("[_-]", n) if parts(wish) <= parts(n)]
                self.assertEqual(found, f"{fitting[0]} fits" if fitting else "No tool fits", t.user)
        self.assertGreater(min(seen.values()), 100)

    def test_drills_of_calls_name_tools_and_what_users_said(self):
        seen = collections.Counter()
        for i in range(300):
            t = drills.calls(draw.Draw(f"calls {i}", "train"))[0]
            asked = re.findall(r"(?ms)^(\d+)\. (.*?)(?=^\d+\. |\Z)", t.user)  # one wish may have several lines
            answers = re.split(r"(?m)^(?=\d+:$)", t.reply[0]["content"])[1:]
            self.assertEqual([n for n, _ in asked], [a.split(":")[0] for a in answers])
            for (_, user), answer in zip(asked, answers):
                found, *values = answer.strip().split("\n")[1:]
                name, _, given = found.rstrip(".").partition(" fits: ")
                seen["none" if found == "No tool fits." else "values" if values else "names"] += 1
                if found == "No tool fits.":
                    self.assertFalse(values)
                    continue
                self.assertIn(name.removesuffix(" fits"), t.user)
                self.assertIn(values[::2], ([], [f"{k}:" for k in given.split(", ")]))
                for v in values[1::2]:
                    said = json.loads(v) if v.startswith("[") else [v]
                    self.assertTrue(v in ("true", "false") or all(x.lower() in user.lower() for x in said), (user, answer))
        self.assertGreater(min(seen.values()), 100)

    def test_drills_of_questions_say_what_is_not_there(self):
        seen = collections.Counter()
        for i in range(200):
            t = drills.questions(draw.Draw(f"questions {i}", "train"))[0]
            text = re.sub(r"(?m)^\d+\. .*$", "", t.user)  # without the questions
            asked = re.findall(r"(?m)^(\d+)\. ", t.user)
            answers = [a.partition(": ") for a in t.reply[0]["content"].split("\n")]
            self.assertEqual(asked, [n for n, _, _ in answers])
            for n, _, answer in answers:
                seen[answer == context.NOT_SAID] += 1
                if answer != context.NOT_SAID:
                    value = re.findall(r"[\w-]+", answer.removesuffix(" dollars.").removesuffix(" years old."))[-1]
                    self.assertRegex(text, rf"\b{value}\b")
        self.assertGreater(min(seen.values()), 200)

    def test_drills_of_presence_are_right(self):
        seen = collections.Counter()
        for i in range(300):
            t = drills.present(draw.Draw(f"present {i}", "train"))[0]
            for word, answer in re.findall("(?m)^(.*): (yes|no)$", t.reply[0]["content"]):
                listed = t.user.count(word) - t.reply[0]["content"].count(word)  # in what is asked it stands as often as in the answer
                seen[answer] += 1
                self.assertEqual(listed > 0, answer == "yes", (word, t.user))
        self.assertGreater(min(seen.values()), 200)

    def test_words_to_be_spelled_are_drawn_again_where_none_is_short(self):
        with mock.patch.object(copying, "spellable", lambda: ("x" * 13,)), mock.patch.object(copying, "invented", side_effect=itertools.cycle(["Abcdefghijklm", "Ann"])):
            answers = [copying.letters(draw.Draw(f"short {i}", "train"))[0].reply[0]["content"].lower() for i in range(12)]
        self.assertGreater(sum(a.startswith("ann: ") for a in answers), 2)

    def test_lookup_knows_what_is_not_in_the_list(self):
        seen = collections.Counter()
        for i in range(200):
            turns = copying.lookup(draw.Draw(f"lookup {i}", "train"))
            for t in turns:
                sought, missing, _ = t.reply[0]["reasoning_content"].removeprefix("I look for ").partition(", but there is nothing about that.")
                seen[bool(missing)] += 1
                if missing:
                    for kept in turns:
                        self.assertNotEqual(kept.reply[0]["content"], sought)
                    self.assertEqual(t.reply[0]["content"], "The list does not say that.")
                else:
                    self.assertIn(t.reply[0]["content"], turns[0].user)
        self.assertGreater(min(seen.values()), 100)

    def test_lists_in_other_layouts_hold_the_same(self):
        letters = lambda text: re.sub("[^A-Za-z]|name(?==)", "", text)
        several = 0
        for i in range(500):
            turns = copying.layout(draw.Draw(f"layout {i}", "train"))
            answers = [letters(t.reply[0]["content"]) for t in turns]
            self.assertEqual(len(set(answers)), 1, turns)
            self.assertIn(answers[0], letters(turns[0].user))
            several += len(turns) > 1 and bool(answers[0])
        self.assertGreater(several, 250)

    def test_names_of_tools_follow_from_what_they_do_where_they_are_asked(self):
        def follows(name, verb, noun):
            return name in [style(verb, noun) for style in tools.NAME_STYLES]
        made = {split: [follows(tools.generic(d, "send", "ticket").name, "send", "ticket") for i in range(300) for d in [draw.Draw(f"name {i}", split)]] for split in ("train", "heldout")}
        self.assertTrue(all(made["heldout"]))
        self.assertTrue(60 < made["train"].count(False) < 120, made["train"].count(False))

    def test_no_composed_wording_is_held_out(self):
        wordings = ["[There|Here] are {a} {o}. {b} left.", "{n} has {a}. How many are there?", "How many?", "There are how many {o}?", "How many are left of {a}?", "How many {o} are there?"]
        held = draw._wordings(tuple(wordings))[1]
        self.assertEqual(held, ("How many {o} are there?",))
        made = {draw.Draw(i, "train").ask(wordings, compose=lambda d: d.any(["how many {o} are there?", "How many {o} [are|were] there?"]), a=1, b=2, o="{o}", n="Ann") for i in range(300)}
        self.assertIn("How many {o} were there?", made)
        self.assertNotIn("How many {o} are there?", made)

    def test_words_too_many_or_too_few_leave_values_and_what_decides(self):
        d, text, made = draw.Draw(4, "train"), "Could you tell me in a word what comes right before the smallest of these", set()
        given = collections.Counter(text.split())
        for _ in range(500):
            got = d._garbled(text)
            self.assertTrue(got.startswith("Could ") and got.endswith(" these"), got)
            words, lost = collections.Counter(got.split()), given - collections.Counter(got.split())
            self.assertFalse(draw.NEEDED & set(lost), got)
            self.assertLessEqual((words - given).total() + lost.total(), 2)
            made.add(((words - given).total(), lost.total()))
        self.assertGreaterEqual(made, {(1, 0), (0, 1), (1, 1), (2, 0), (0, 2)})
        asked = lambda split: [draw.Draw(i, split).ask(["Please tell me now which one of them stands first: {q}"] * 3, q="a b, c") for i in range(600)]
        count = lambda split: sum(len(q.split()) != 13 for q in asked(split))
        with mock.patch.object(draw, "SWAPPED", 0):
            self.assertTrue(60 < count("train") < 120, count("train"))
        self.assertEqual(count("heldout"), 0)

    def test_nothing_is_in_itself(self):
        """A basket is a thing, and a place for things."""
        basket = mock.Mock(subject="basket", table=context.THINGS)
        facts = [context.Fact(draw.Draw(i, "train"), set(), like=basket) for i in range(2000)]
        self.assertNotIn("basket", {fact.value for fact in facts})
        self.assertIn("box", {fact.value for fact in facts})

    def test_composed_questions_of_every_relation_name_the_subject(self):
        d, made = draw.Draw(5, "train"), collections.defaultdict(set)
        for _ in range(6000):
            fact = context.Fact(d, set())
            made[fact.key].add(fact.composed(d))
        for of_all in (context.SOUGHT, context.VALUE_FIRST, context.NAMED):
            self.assertEqual(set(made), set(of_all))
        for key, questions in made.items():
            self.assertGreater(len(questions), 50, key)
            self.assertTrue(all(q.count("{n}") == 1 and "{x}" not in q and q[-1] in ".?" for q in questions), questions)

    def test_statements_that_begin_with_the_value_are_of_training_alone(self):
        for split, some in (("train", True), ("heldout", False)):
            d, stated = draw.Draw(6, split), 0
            for _ in range(2000):
                fact = context.Fact(d, set())
                self.assertTrue(fact.subject in fact.statement and fact.value in fact.statement, fact.statement)
                stated += fact.statement not in [s.format(n=fact.subject, v=fact.value) for s in fact.stated]
            self.assertEqual(stated > 0, some)

    def test_long_texts_say_several_things_about_one_subject(self):
        alike = asked = 0
        for i in range(40):
            turns = context.far(draw.Draw(f"far {i}", "train"), 60)
            text, thoughts = turns[0].user, set()
            for t in turns:
                if t.skill == context.FAR:
                    _, _, relation, subject, value = t.task
                    statements = [s for s in re.split(r"(?<=[.])\s+", text) if subject in s]
                    alike += len(statements) > 1
                    asked += 1
                    self.assertTrue(any(value in s for s in statements), t)
                    thoughts.add(t.reply[0]["reasoning_content"].partition(" and find: ")[0])
            self.assertEqual(len(thoughts), len(turns) - (turns[0].skill != context.FAR))  # no two look for the same
        self.assertGreater(alike, asked // 3)

    def test_the_vocabulary_is_said(self):
        ids = set()
        for c in data.conversations(7, 1500, "train", shares={"vocabulary": 1}):
            new, learnt = render.tokens(c, TOKENIZER)
            ids.update(i for i, l in zip(new, learnt) if l)
        tokens = {TOKENIZER.encode(t)[0] for t in copying.tokens() if len(TOKENIZER.encode(t)) == 1}
        self.assertGreater(len(tokens), 7000)
        self.assertGreater(len(ids & tokens), 0.9 * len(tokens))


if __name__ == "__main__":
    unittest.main()
