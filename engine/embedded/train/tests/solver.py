"""Answers of tasks found in another way than the generator's, from the task and the user's words alone."""

import json
import re
from fractions import Fraction


def solve(task: tuple, user: str):
    """The answer's pattern, or None where the task has no one answer."""
    kind, *rest = task
    return RULES[kind](user, *rest) if kind in RULES else None


def _is(text) -> str:
    return "^" + re.escape(str(text)) + r"\.?$"


def _ends(n) -> str:
    return r"(^|[^\d-])" + re.escape(str(n)) + r"\.?$"


def _merge_sort(x):
    if len(x) < 2:
        return list(x)
    a, b = _merge_sort(x[: len(x) // 2]), _merge_sort(x[len(x) // 2:])
    out = []
    while a and b:
        out.append((a if a[0] <= b[0] else b).pop(0))
    return out + a + b


def _swap_case(text, to_upper):
    table = dict(zip("abcdefghijklmnopqrstuvwxyz", "ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
    if not to_upper:
        table = {v: k for k, v in table.items()}
    return "".join(table.get(c, c) for c in text)


def _product(a, b):
    return sum(a for _ in range(b))


def _numbers(user):
    return [int(n) for n in re.findall(r"-?\d+", user)]


def _extract(user, text, kind):
    assert text in user
    found = {
        "email address": r"[\w.]+@[\w.]+\w", "phone number": r"\d{3}-\d{4}", "order number": r"(?<=order )\d+", "price": r"\d+\.\d+ dollars", "date": r"(?<=on )[A-Z]\w+ \d+",
        "room number": r"(?<=room )\d+", "city": r"(?<=to )[A-Z]\w+", "age": r"(?<=is )\d+", "color": r"(?<=has a )\w+", "time": r"\d+:\d+",
    }[kind]
    return _is(re.search(found, text).group())


def _context(user, text, relation, subject, value):
    """Every line of the text about the subject and the relation must say the value, and one does."""
    lines = [s for s in re.split(r"(?<=[.!?])\s+", text) if re.search(rf"\b{re.escape(subject)}\b", s)]
    assert any(value in s for s in lines), (subject, value)
    return r"\b" + re.escape(value.removeprefix("a ").removeprefix("an ")) + r"\b"


def _listed(user, x):
    """A list of which every thing is in the user's words, in this order."""
    at = 0
    for w in x:
        at = user.lower().index(w.lower(), at) + len(w)
    return x


def _first_letters(user, x):
    return _is(", ".join(_merge_sort(x)))


RULES = {
    "repeat": lambda u, x: _is(x) if x in u else None, "upper": lambda u, x: _is(_swap_case(x, True)), "lower": lambda u, x: _is(_swap_case(x, False)),
    "reverse_words": lambda u, x: _is(" ".join(x[i] for i in range(len(x) - 1, -1, -1))), "reverse_word": lambda u, x: rf"(^|makes ){''.join(reversed(x))}\.?$",
    "spell": lambda u, x: _is(" ".join(list(x))), "count_words": lambda u, x: rf"^{sum(1 for _ in x)} words?\.$", "count_letters": lambda u, x: rf"(^|\. ){sum(1 for _ in x)} letters\.$",
    "count_letter": lambda u, x, c: rf"(^|makes ){len(x) - len(x.replace(c, ''))}\.$", "sort_words": _first_letters,
    "sort_numbers": lambda u, x, down: _is(", ".join(map(str, _merge_sort(x)[::-1] if down else _merge_sort(x)))),
    "nth": lambda u, x, i: _is(x[i]) if re.search(["first", "second", "third", "fourth", "fifth", "sixth"][i], u, re.I) else None,
    "first_last": lambda u, x, last: _is(x[-1] if last else x[0]) if ("last" if last else "first") in u.lower() else "the question says which", "join": lambda u, x, sep: _is("".join(w if i == 0 else sep + w for i, w in enumerate(x))),
    "unique": lambda u, x: _is(", ".join(w for i, w in enumerate(x) if w not in x[:i])), "extract": _extract,
    "replace": lambda u, x, old, new: _is(re.sub(rf"(?<!\S){old}(?!\S)", new, " ".join(x))),
    "add": lambda u, a, b: _ends(int(Fraction(a) + Fraction(b))), "subtract": lambda u, a, b: r"(^|[^\d])" + re.escape(str(-(b - a))) + r"\.?$", "multiply": lambda u, a, b: _ends(_product(a, b)),
    "divide": lambda u, a, b: _ends(next(q for q in range(a + 1) if _product(q, b) == a)), "compare": lambda u, a, b, smaller: r"\b" + str(_merge_sort([a, b])[0 if smaller else 1]) + r"\.$", "extreme": lambda u, x, low: r"\b" + str(_merge_sort(x)[0 if low else -1]) + r"\.$",
    "context": _context, "missing": lambda u, text, subject, relation: "not say",
    "told": lambda u, kind, v: re.escape(v) if v in u else None, "asked": lambda u, kind, v: re.escape(v), "untold": lambda u, kind: "not told", "fact": lambda u, key: "(?i)" + key,
    **dict.fromkeys(("pick", "pick after", "pick before"), lambda u, x, i: r"(^|is )" + re.escape(_listed(u, x)[i - 1]) + r"\.?$"), "in list": lambda u, x, w: "^Yes" if any(w == y for y in x) else "^No",
    "verdict": lambda u, text, statement, asked, kind: ("^Yes" if re.search(rf"(?<!\w){re.escape(asked)}(?!\w)", statement) else "^No") if statement in text else None, "schema": lambda u, schema, value, text: "^" + re.escape(json.dumps(value)) + "$",
    "json": lambda u, value: "^" + re.escape(json.dumps(value)) + "$", "json from": lambda u, text, o: "^" + re.escape(json.dumps(o)) + "$",
}


def thought_is_sound(thought: str) -> bool:
    """Every equation of a thought holds, and a number that is told of a list is its least or its greatest."""
    for many, one in re.findall(r"((?:\d+, )+\d+): (?:the \w+ is )?(\d+)", thought):
        numbers = list(map(int, many.split(", ")))
        if int(one) not in (min(numbers), max(numbers)):
            return False
    for left, right in re.findall(r"((?:\d+ [-+*/] )+\d+) = (-?\d+)", thought):
        total, sign = None, "+"
        for part in left.split():
            if part in "+-*/":
                sign = part
                continue
            n = Fraction(part)
            total = n if total is None else {"+": total + n, "-": total - n, "*": total * n, "/": total / (n or 1)}[sign]
        if total != Fraction(right):
            return False
    return True
