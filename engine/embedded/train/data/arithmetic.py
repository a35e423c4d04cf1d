"""Arithmetic on whole numbers; the thought has the steps, in one form for each operation."""

from . import words
from .draw import Draw, Turn, has, turn

SKILL = "arithmetic"


def add_steps(a: int, b: int) -> str:
    """Column by column from the right, with what is carried."""
    x, y = str(max(a, b))[::-1], str(min(a, b))[::-1]
    carry, steps = 0, []
    for i, c in enumerate(x):
        q = int(y[i]) if i < len(y) else 0
        s = int(c) + q + carry
        left = f"{c} + {q}" + (" + 1" if carry else "") + f" = {s}"
        carry = s // 10
        steps.append(left + f", write {s % 10}" + (", carry 1" if carry else ""))
    if carry:
        steps.append("write 1")
    return ". ".join(steps) + f". So {a} + {b} = {a + b}."


def subtract_steps(a: int, b: int) -> str:
    """Column by column from the right, with what is borrowed; a smaller number first turns the sign."""
    if a < b:
        return f"{a} is less than {b}, so I take {a} from {b} and put a minus. " + _columns(b, a) + f". So {a} - {b} = {a - b}."
    return _columns(a, b) + f". So {a} - {b} = {a - b}."


def _columns(a: int, b: int) -> str:
    x, y = str(a)[::-1], str(b)[::-1]
    borrow, steps = 0, []
    for i, c in enumerate(x):
        p, q = int(c), int(y[i]) if i < len(y) else 0
        take = f"{q} + 1 = {q + 1}, " if borrow else ""
        q += borrow
        borrow = p < q
        steps.append(f"{take}{p + 10} - {q} = {p + 10 - q}, borrow 1" if borrow else f"{take}{p} - {q} = {p - q}")
    return ". ".join(steps)


def multiply_steps(a: int, b: int) -> str:
    if a <= 12 and b <= 12:
        return f"{a} * {b} = {a * b}."
    big, small = max(a, b), min(a, b)
    parts = [int(c) * 10 ** (len(str(big)) - 1 - i) for i, c in enumerate(str(big)) if c != "0"]
    steps, total = [], 0
    for p in parts:
        steps.append(f"{p} * {small} = {p * small}")
        if total:
            steps.append(f"{total} + {p * small} = {total + p * small}")
        total += p * small
    return ", ".join(steps) + f". So {a} * {b} = {a * b}."


def compare_steps(a: int, b: int) -> str:
    x, y = str(a), str(b)
    if len(x) != len(y):
        return f"{a} has {len(x)} digit{'s' * (len(x) > 1)}, {b} has {len(y)}. So {max(a, b)} is larger."
    for i, (p, q) in enumerate(zip(x, y)):
        if p != q:
            return f"Both have {len(x)} digit{'s' * (len(x) > 1)}. Digit {i + 1}: {p} and {q}. So {max(a, b)} is larger."
    return "They are the same."


def _worked(t: Turn, a: int, b: int, steps: str) -> Turn:
    """Of numbers that nobody computes at a glance, the steps are the answer where no thought has them."""
    if max(a, b) > 99:
        t.reply[0]["worked"] = steps
    return t


def _number(d: Draw, digits: int) -> int:
    return d.int(10 ** (digits - 1) if digits > 1 else 1, 10 ** digits - 1)


def _pair(d: Draw, kind: str) -> tuple[int, int]:
    return d.until_fresh(lambda: (_number(d, d.any([1, 2, 2, 3, 3, 3, 4])), _number(d, d.any([1, 2, 2, 3, 3, 3, 4]))), kind)


def _of(d: Draw, patterns, symbol: str, a: int, b: int) -> str:
    common = ["[What is|What's|Compute|Calculate|How much is|Work out|Please calculate] {a} {s} {b}[?|]", "{a} {s} {b}", "{a} {s} {b} =", "{a} {s} {b} = ?", "{a}{s}{b}",
              "Tell me [what |the result of |]{a} {s} {b}[ is|].", "Solve {a} {s} {b}.", "I need {a} {s} {b}."]
    return d.ask(common if d.chance(0.5) else patterns, a=a, b=b, s=symbol)


def add(d: Draw) -> Turn:
    a, b = _pair(d, "+")
    user = _of(d, ["[What is|What's|How much is|Compute] {a} plus {b}?", "[Please |]add {a} and {b}.", "Add {b} to {a}.", "[What is|Give me|Find] the sum of {a} and {b}[?|.]",
                   "{a} and {b} together[ make what|]?", "What do you get if you add {a} and {b}?", "Sum: {a}, {b}", "What is {a} increased by {b}?"], "+", a, b)
    return _worked(turn(SKILL, user, add_steps(a, b), f"{a} + {b} = {a + b}.", _equals(a + b), ("add", a, b)), a, b, add_steps(a, b))


def subtract(d: Draw) -> Turn:
    a, b = _pair(d, "-")
    if a < b and d.chance(0.85):
        a, b = d.until_fresh(lambda: tuple(sorted((_number(d, d.any([2, 2, 3, 3, 4])), _number(d, d.any([1, 2, 2, 3, 3]))), reverse=True)), "-")
    user = _of(d, ["[What is|What's|How much is|Compute] {a} minus {b}?", "[Please |]subtract {b} from {a}.", "Take {b} away from {a}.", "Take {b} from {a}.",
                   "[What is|Give me|Find] the difference [of|between] {a} and {b}[?|.]", "What is left of {a} if you take away {b}?", "What is {a} less {b}?",
                   "What is {a} decreased by {b}?"], "-", a, b)
    return _worked(turn(SKILL, user, subtract_steps(a, b), f"{a} - {b} = {a - b}.", _equals(a - b), ("subtract", a, b)), a, b, subtract_steps(a, b))


def multiply(d: Draw) -> Turn:
    kind = d.rng.random()
    pair = (lambda: (d.int(1, 12), d.int(1, 12))) if kind < 0.5 else (lambda: (d.int(11, 99), d.int(2, 9)))
    a, b = pair() if kind < 0.5 else d.until_fresh(pair, "*")  # nobody computes the small table: it is known whole
    if d.chance(0.3):
        a, b = b, a
    user = _of(d, ["[What is|What's|How much is|Compute] {a} times {b}?", "[Please |]multiply {a} by {b}.", "[What is|Give me|Find] the product of {a} and {b}[?|.]",
                   "{a} times {b}", "What do you get if you multiply {a} and {b}?", "Multiply {a} and {b}.", "{a} multiplied by {b}?", "How much are {a} times {b}?"],
               d.any(["*", "*", "x"]), a, b)
    # Only the small table is known by heart.
    return _worked(turn(SKILL, user, multiply_steps(a, b), f"{a} * {b} = {a * b}.", _equals(a * b), ("multiply", a, b)), a, b if max(a, b) <= 12 else 100, multiply_steps(a, b))


def divide(d: Draw) -> Turn:
    """Out of the small table, without a rest."""
    q, b = d.int(1, 12), d.int(1, 12)
    a = q * b
    user = _of(d, ["[What is|What's|How much is|Compute] {a} divided by {b}?", "[Please |]divide {a} by {b}.", "How many times does {b} go into {a}?", "{a} divided by {b}", "What do you get if you divide {a} by {b}?",
                   "Share {a} among {b}. How much does each get?", "What is the quotient of {a} and {b}?", "Split {a} into {b} equal parts."], "/", a, b)
    return turn(SKILL, user, f"{q} * {b} = {a}, so {a} / {b} = {q}.", f"{a} / {b} = {q}.", _equals(q), ("divide", a, b))


def _equals(n: int) -> dict:
    """The answer ends with the number."""
    return {"text": rf"(^|[^\d.-]){n}\.?$" if n >= 0 else rf"(^|[^\d.])-{-n}\.?$"}


def compare(d: Draw) -> Turn:
    while True:
        n = d.any([1, 2, 2, 3, 3, 4])
        a, b = d.until_fresh(lambda: (_number(d, n), _number(d, n if d.chance(0.7) else d.any([2, 3]))), "<")
        if a != b:
            break
    smaller = d.chance(0.4)
    word = d.any(["smaller", "less", "lower"]) if smaller else d.any(["larger", "bigger", "greater", "more"])
    user = d.ask([
        "Which [number |]is {w}[,|:] {a} or {b}?", "[What|Which] is {w}: {a} or {b}?", "Is {a} or {b} {w}?", "Compare {a} and {b}. Which is {w}?",
        "{a} or {b}, which is {w}?", "Tell me which is {w}: {a} or {b}.", "Of {a} and {b}, which is {w}?", "Which of these is {w}: {a}, {b}?",
        "Between {a} and {b}, which one is {w}?",
    ], a=a, b=b, w=word)
    r, name = (min(a, b), "smaller") if smaller else (max(a, b), "larger")
    thought = compare_steps(a, b)
    if smaller:
        thought += f" The smaller one is {r}."
    return turn(SKILL, user, thought, f"The {name} number is {r}.", has(str(r), absent=(str(a + b - r),)), ("compare", a, b, smaller))


def extreme(d: Draw) -> Turn:
    low = d.chance(0.5)
    top = d.any([30, 99, 999])
    x = d.until_fresh(lambda: d.some(range(1, top + 1), d.int(3, 6)), "extreme")
    word = d.any(["smallest", "lowest", "least"]) if low else d.any(["largest", "biggest", "highest"])
    user = d.ask([
        "[What is|Which is|Find|Give me|Tell me] the {w} [number |of these numbers |number in this list |][here|]: {q}", "{w} number: {q}",
        "Which of these numbers is the {w}: {q}", "{q}: which is the {w}?", "Pick the {w} number: {q}", "Numbers: {q}. Which is the {w}?",
        "From {q}, which number is the {w}?", "Name the {w} of these numbers: {q}",
    ], q=", ".join(map(str, x)), w=word)
    r, name, best = (min(x), "smallest", x[0]) if low else (max(x), "largest", x[0])
    steps = [str(best)]
    for n in x[1:]:
        best = min(best, n) if low else max(best, n)
        steps.append(f"{n}: {best}")
    return turn(SKILL, user, f"I go through the list: {', '.join(steps)}. The {name} is {r}.", f"The {name} number is {r}.",
                has(str(r), absent=tuple(str(n) for n in x if n != r)), ("extreme", x, low))


STORIES = {
    "add": [
        "{n} has {a} {o} and [gets|buys|finds] {b} more. How many {o} does {n} have [now|in the end]?",
        "There are {a} {o} in the {p}. {n} brings {b} more. How many {o} are there now?",
        "{n} has {a} {o}. {m} has {b} {o}. How many {o} do they have together?",
        "{n} counted {a} {o} on {day} and {b} on the next day. How many {o} did {n} count in total?",
        "A box holds {a} {o}, another box holds {b}. How many {o} are in both boxes?",
        "{n} read {a} pages yesterday and {b} pages today. How many pages is that in all?",
        "{n} [saved|earned] {a} dollars and then {b} dollars more. How many dollars does {n} have?",
        "First {a} people came, then {b} more. How many people are here?",
        "{n} bought {a} {o}. Then {m} gave {n} another {b}. How many {o} does {n} have now?",
    ],
    "subtract": [
        "{n} has {a} {o} and [gives|hands] {b} to {m}. How many {o} does {n} have left?",
        "There are {a} {o} in the {p}. {n} takes {b} away. How many {o} are left?",
        "{n} had {a} {o} but lost {b}. How many {o} remain?",
        "{n} has {a} dollars and spends {b}. How many dollars are left?",
        "Of {a} {o}, {b} were sold. How many {o} are left?",
        "A book has {a} pages. {n} has read {b}. How many pages are left?",
        "{a} people were in the {p}, then {b} left. How many people are still there?",
        "{n} needs {a} {o} and already has {b}. How many more does {n} need?",
        "{n} baked {a} cookies and {m} ate {b}. How many cookies are left?",
    ],
    "multiply": [
        "{n} has {a} boxes with {b} {o} each. How many {o} is that?",
        "One ticket costs {a} dollars. How much do {b} tickets cost?",
        "There are {a} rows of {b} chairs. How many chairs are there?",
        "{n} walks {a} miles every day. How many miles is that in {b} days?",
        "Each of {a} children gets {b} {o}. How many {o} are needed?",
        "A shelf holds {a} {o}. How many {o} do {b} shelves hold?",
        "{n} reads {a} pages an hour. How many pages does {n} read in {b} hours?",
        "{a} bags hold {b} {o} each. How many {o} are in all bags?",
        "{n} buys {b} {o} for {a} dollars each. How many dollars does {n} pay?",
    ],
}


def story(d: Draw) -> Turn:
    kind = d.any(["add", "subtract", "multiply"])
    if kind == "multiply":
        a, b = d.int(2, 12), d.int(2, 10)
    else:
        a, b = d.until_fresh(lambda: (d.int(2, d.any([20, 99, 300])), d.int(1, d.any([20, 99]))), kind)
        if kind == "subtract" and a < b:
            a, b = b, a
    n, m = d.some(words.NAMES, 2, split=True)
    pattern = d.ask(STORIES[kind], a=a, b=b, n=n, m=m, o=words.plural(d.any(words.OBJECTS + words.FOODS)), p=d.any(words.PLACES), day=d.any(words.DAYS))
    r = {"add": a + b, "subtract": a - b, "multiply": a * b}[kind]
    sign = {"add": "+", "subtract": "-", "multiply": "*"}[kind]
    steps = {"add": add_steps, "subtract": subtract_steps, "multiply": multiply_steps}[kind](a, b)
    return _worked(turn(SKILL, pattern, f"I must compute {a} {sign} {b}. {steps}", f"{a} {sign} {b} = {r}.", _equals(r), (kind, a, b)), a, b, steps)


ALL = [add, add, add, subtract, subtract, subtract, multiply, multiply, divide, compare, extreme, story, story]


def make(d: Draw) -> Turn:
    return d.any(ALL)(d)
