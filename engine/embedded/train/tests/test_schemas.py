"""Answers of schemas: valid, of the text, of keys apart in both splits."""

import json
import unittest

from ..data import copying, draw, schemas
from .test_data import plain


def check(test, schema, value, defs):
    """Whether a value is of a schema, for what the generator writes of JSON Schema."""
    schema = plain(schema, defs) if value is not None else schema
    if value is None:
        test.assertTrue("null" in schema.get("type", ()) or any(s.get("type") == "null" for s in schema.get("anyOf", schema.get("oneOf", ()))), schema)
        return
    if "enum" in schema:
        test.assertIn(value, schema["enum"])
    kinds = {"string": str, "integer": int, "number": (int, float), "boolean": bool, "array": list, "object": dict}
    test.assertIsInstance(value, kinds[schema["type"]])
    if isinstance(value, list):
        test.assertGreaterEqual(len(value), schema.get("minItems", 0))
        for v in value:
            check(test, schema["items"], v, defs)
    if isinstance(value, dict):
        test.assertEqual(list(value), [k for k in schema["properties"] if k in value])  # the engine has members in the order of the schema
        test.assertLessEqual(set(schema.get("required", ())), set(value))
        for k, v in value.items():
            check(test, schema["properties"][k], v, defs)


class TestSchemas(unittest.TestCase):
    def drawn(self, split, make=schemas.make):
        return [t for i in range(600) for t in make(draw.Draw(f"schema {i}", split))]

    def test_answers_are_of_their_schema(self):
        seen = set()
        for t in self.drawn("train") + self.drawn("heldout") + self.drawn("train", schemas.drill):
            check(self, t.schema, json.loads(t.reply[0]["content"]), t.schema.get("$defs", {}))
            seen.update(json.dumps(t.schema).split('"')[1::2])
        self.assertLessEqual({"anyOf", "oneOf", "$ref", "$defs", "title", "description", "default", "enum", "additionalProperties", "maxLength", "minimum", "array", "boolean", "null", "number"} - {"default"}, seen)

    def test_named_values_stand_in_the_text(self):
        for t in self.drawn("train"):
            value = json.loads(t.reply[0]["content"])
            for k, v in self.leaves(value):
                self.assertTrue(v in (None, False, 0, [], "unknown", "positive", "negative") or all(str(x) in t.user for x in (v if isinstance(v, list) else [v])), (k, v, t.user))

    def leaves(self, value):
        for k, v in value.items():
            if isinstance(v, dict):
                yield from self.leaves(v)
            else:
                yield k, v

    def test_keys_of_one_split_are_not_in_the_other(self):
        keys = {split: {k for t in self.drawn(split) for k, _ in self.leaves(json.loads(t.reply[0]["content"]))} for split in ("train", "heldout")}
        shared = keys["train"] & keys["heldout"]
        # Lists of fewer than four names are not parted.
        self.assertLessEqual(shared, {k for names in schemas.NAMED.values() if len(names) < 4 for k in names})
        self.assertGreater(len(keys["heldout"]), 12)

    def test_any_letters_are_spelled(self):
        self.assertGreater(len(copying.spellable()), 3000)


if __name__ == "__main__":
    unittest.main()
