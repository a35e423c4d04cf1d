"""What stands in the text files of `data/ways` is whole: slots, options, names, and nothing that nobody asks for."""

import collections
import re
import unittest
from unittest import mock

from .. import data
from ..data import catalogue, draw, lexicon, needs, schemas, synonyms, tools, ways

SLOT = re.compile(r"\{(\w+)\}")
# Slots that a wording may have or not, by what a name begins with.
SOME = {"unknown": {"y", "c"}, "story": {"n", "m", "o", "p", "day"}, "tools": {"city", "name", "date"},
        "schema": set(schemas.VALUES)}


class TestWays(unittest.TestCase):
    def test_every_wording_has_the_slots_of_its_name(self):
        self.assertGreater(len(ways.sections()), 100)
        for name, lines in ways.sections().items():
            want = sorted(max((SLOT.findall(draw.Draw(line, "train").choose(line)) for line in lines), key=len))
            for line in lines:
                d = draw.Draw(line, "train")
                for _ in range(4):
                    slots = sorted(SLOT.findall(d.choose(line)))
                    free = SOME.get(name.split(".")[0], set())
                    self.assertEqual([s for s in slots if s not in free], [s for s in want if s not in free], (name, line))
                self.assertNotRegex(d.choose(line), r"[\[\]|]|  ", name)
                self.assertTrue(line.isascii(), line)

    def test_texts_for_schemas_say_several_things(self):
        for line in ways.of("schema.sentence"):
            slots = SLOT.findall(draw.Draw(line, "train").choose(line))
            self.assertEqual((len(set(slots)), set(slots) - set(schemas.VALUES)), (len(slots), set()), line)
            self.assertGreater(len(slots), 1, line)

    def test_every_name_is_asked_for(self):
        asked, plain = set(), ways.of

        def of(name):
            asked.add(name)
            return plain(name)
        with mock.patch.object(ways, "of", of):
            for i in range(5000):
                data.drawn(3, i, "train")
        self.assertEqual(set(ways.sections()) - asked, set())

    def test_no_held_out_question_is_of_them(self):
        with mock.patch.object(ways, "of", side_effect=AssertionError("asked for")):
            for i in range(500):
                data.drawn(4, i, "heldout")

    def test_every_tool_is_whole(self):
        self.assertGreater(len(catalogue.rows()), 150)
        names = [n for row in catalogue.rows() for n in row[0]]
        self.assertEqual([n for n in names if not re.fullmatch(r"[a-zA-Z0-9_-]{1,64}", n)], [])
        for row in catalogue.rows():
            for sentence in row[3]:
                said = re.findall(r"\{(\w+)[?}]", sentence)
                self.assertEqual(set(said), set(row[2]), sentence)
            d = draw.Draw(str(row[0]), "train")
            for _ in range(5):
                user, arguments = tools.wanted_call(d, catalogue.tool(d, row))
                self.assertNotRegex(user, r"[\[\]|{}]", row[0])
                self.assertEqual(list(arguments), list(row[2]))

    def test_every_need_is_whole(self):
        names, sentences = [n for row in needs.rows() for n in row[0]], [s for row in needs.rows() for s in row[3]]
        self.assertGreater(len(needs.rows()), 800)
        self.assertEqual([n for n in names if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9_-]{2,63}", n)], [])
        for several in (names, sentences):
            self.assertEqual([x for x, n in collections.Counter(several).items() if n > 1], [])
        for row, near in needs._blocks():
            self.assertGreater(min(len(row[0]), len(near), len(row[3])), 2, row)
            self.assertEqual([w for w in near if not re.fullmatch("[a-z]+", w)], [], row)
            for text in (row[1], *row[3]):
                self.assertNotRegex(draw.Draw(text, "train").choose(text), r"[\[\]|{}\\]|  ", row)
                self.assertTrue(text.isascii(), text)

    def test_a_word_is_of_one_of_those_on_offer(self):
        for i in range(300):
            t, = needs.related(draw.Draw(str(i), "train"))
            for line in t.reply[0]["content"].splitlines():
                word, other = line.split(": ")
                having = [near for _, near in needs._blocks() if word in near and other in near]
                self.assertTrue(having, line)


class TestLexicon(unittest.TestCase):
    def test_every_word_has_a_meaning_of_other_words(self):
        entries = lexicon.entries()
        self.assertGreater(len(entries), 2500)
        self.assertEqual([w for w, n in collections.Counter(w for w, _, _ in entries).items() if n > 1], [])
        for word, meaning, near in entries:
            self.assertRegex(word, "^[a-z-]+$")
            self.assertRegex(meaning, r"^[a-z0-9][A-Za-z0-9' ,;()-]+$", word)
            self.assertNotIn(word, re.findall(r"[a-z-]+", meaning))
            self.assertTrue(2 <= len(near) == len(set(near)) and word not in near, word)
            self.assertEqual([x for x in near if not re.fullmatch("[a-z-]+", x)], [], word)

    def test_every_answer_is_of_its_word(self):
        known = {word: (meaning, near) for word, meaning, near in lexicon.entries()}
        for i in range(200):
            d = draw.Draw(str(i), "train")
            t, = lexicon.explained(d)
            self.assertTrue(all(known[word][0] == meaning for word, meaning in (line.split(": ") for line in t.reply[0]["content"].splitlines())))
            t, = lexicon.related(d)
            self.assertTrue(all(x in known[word][1] for x, word in (line.split(": ") for line in t.reply[0]["content"].splitlines())))
            t, = lexicon.alike(d)
            self.assertTrue(all(known[word][1][0] == others.split(", ")[0] for word, others in (line.split(": ") for line in t.reply[0]["content"].splitlines())))
            t, = lexicon.found(d)
            meanings = dict(re.findall(r"^(\d+)\. (.*)$", t.user, re.MULTILINE))
            for number, word in re.findall(r"^(\d+)\. (.*)$", t.reply[0]["content"], re.MULTILINE):
                self.assertIn(meanings[number], known[word][0].split("; "))
                self.assertIn(word, t.user)
            t, = lexicon.sorted_out(d)
            self.assertTrue(all(re.match(lexicon.KINDS[kind], known[word][0]) for word, kind in (line.split(": ") for line in t.reply[0]["content"].splitlines())))
            t, = lexicon.named(d)
            for shown, name in (line.split(": ") for line in t.reply[0]["content"].splitlines()):
                start = shown.lower()[:2]  # what is left of every word when it ends otherwise
                self.assertRegex(name.lower(), start)
                self.assertIn(name, t.user)


class TestSynonyms(unittest.TestCase):
    def test_a_phrase_is_in_one_group(self):
        lines = [line.split(", ") for line in (ways.FOLDER / "synonyms.txt").read_text(encoding="utf-8").splitlines()]
        self.assertGreater(len(lines), 200)
        self.assertEqual([p for p, n in collections.Counter(p for line in lines for p in line).items() if n > 1], [])
        self.assertEqual([line for line in lines if len(line) < 2 or any(not re.fullmatch(r"[A-Za-z' -]+", p) for p in line)], [])

    def test_slots_and_options_stay(self):
        some = 0
        for name, lines in ways.sections().items():
            for line in lines[::9]:
                d = draw.Draw(line, "train")
                text = d.choose(line)
                other = synonyms.swapped(d, text)
                some += other != text
                self.assertEqual(SLOT.findall(other), SLOT.findall(text), (name, other))
        self.assertGreater(some, 500)

    def test_what_stands_in_their_place(self):
        d = draw.Draw(1, "train")
        said = {synonyms.swapped(d, "An image of {picture}, please. PLEASE do not overpicture.") for _ in range(60)}
        self.assertIn("A photo of {picture}, kindly. PLEASE do not overpicture.", said)
        self.assertEqual({re.sub("An? (image|picture|photograph|photo)", "X", s) for s in said},
                         {"X of {picture}, please. PLEASE do not overpicture.", "X of {picture}, kindly. PLEASE do not overpicture."})

    def test_training_alone_has_them(self):
        with mock.patch.object(synonyms, "swapped", side_effect=AssertionError("asked for")):
            for i in range(300):
                data.drawn(5, i, "heldout")
            with self.assertRaises(AssertionError):
                for i in range(300):
                    data.drawn(5, i, "train")


if __name__ == "__main__":
    unittest.main()
