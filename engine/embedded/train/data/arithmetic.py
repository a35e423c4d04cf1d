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


# A task as a part of a sentence, and sentences around it: for training alone.
TASKS = {"+": ["{a} plus {b}", "the sum of {a} and {b}", "{a} and {b} [together|in all|added up]", "{a} with {b} [added|on top|more]", "{b} [on top of|added to|more than] {a}", "{a} and another {b}", "{a} {s} {b}", "[the total|both] of {a} and {b} [together|]", "{a} [coins|books|days|people] and {b} [more|others]"],
         "-": ["{a} minus {b}", "the difference of {a} and {b}", "{a} without {b}", "{a} with {b} taken away", "{b} [less than|off|taken from] {a}", "{a} less {b}", "{a} {s} {b}", "what stays of {a} [without|after losing] {b}", "{a} [seats|coins|days] less {b} that are [taken|gone|over]"],
         "*": ["{a} times {b}", "the product of {a} and {b}", "{a} multiplied by {b}", "{b} times {a}", "{a} {s} {b}", "{a} [rows|groups|bags|boxes] of {b}", "{b} for each of {a}", "{a} taken {b} times", "{b} [coins|eggs|books|children] in each of {a} [boxes|bags|rooms]"],
         "/": ["{a} divided by {b}", "the quotient of {a} and {b}", "{a} [shared|split] by {b}", "{a} {s} {b}", "[one part of|a share of] {a} cut into {b} parts", "{a} in {b} equal parts, one of them", "{a} [apples|coins|cards] for each of {b} [people|friends|boxes] in equal parts", "the part of one of {b} who share {a}"]}
SAYINGS = ["What is {x}?", "{x}?", "I need {x}.", "Tell me {x}.", "How much is {x}?", "Which number is {x}?", "{x} [makes|gives|is] what?", "[Say|Write|Give me] {x} as one number.", "Work out {x}.", "[Please |]calculate {x}.", "Do you know {x}?",
           "What do I get for {x}?", "Find {x}.", "The [result|number] for {x}, please.", "[Can|Could] you say how much {x} is?", "{x}: how much?", "My number is {x}. Which one is it?", "In one number: {x}."]


# What ways.py calls a sum of a sign.
OPERATIONS = {"+": "add", "-": "subtract", "*": "multiply", "x": "multiply", "/": "divide"}


def _phrased(d: Draw, symbol: str) -> str:
    said = d.choose(d.any(SAYINGS)).replace("{x}", d.choose(d.any(TASKS["*" if symbol == "x" else symbol])))
    return said[0].upper() + said[1:]


def _of(d: Draw, patterns, symbol: str, a: int, b: int) -> str:
    common = ["[What is|What's|Compute|Calculate|How much is|Work out|Please calculate] {a} {s} {b}[?|]", "{a} {s} {b}", "{a} {s} {b} =", "{a} {s} {b} = ?", "{a}{s}{b}",
              "Tell me [what |the result of |]{a} {s} {b}[ is|].", "Solve {a} {s} {b}.", "I need {a} {s} {b}.",
              "[Hey|OK|Hi], [what is|how much is|what's] {a} {s} {b}?",
              "[Could you|Can you|Would you] [compute|calculate|work out|solve] {a} {s} {b}[?| for me?]", "[Please |]work out {a} {s} {b} for me.",
              "Quick question: [what's|what is|how much is] {a} {s} {b}?",
              "[It is for my homework|I need this for a form|I have no calculator]: [what is|how much is|what's] {a} {s} {b}?",
              "[Compute|Calculate|Solve]: {a} {s} {b}", "What does {a} {s} {b} [give|make|equal|come to]?", "What do you get for {a} {s} {b}?",
              "What is the [result|answer|value] of {a} {s} {b}?", "[Give me|Find|I need] the [result|answer|value] of {a} {s} {b}.",
              "[Do you know|Can you tell me|Tell me] what {a} {s} {b} [is|makes|gives]?", "{a} {s} {b}, [what is that|how much is that|what does it make]?",
              "{a} {s} {b} is [what|how much]?", "{a} {s} {b} equals?", "{a} {s} {b}[, please|, quickly].", "Result of {a} {s} {b}?",
              "Value of {a} {s} {b}[, please|]?", "ok so {a} {s} {b} is what?", "[Find|Get] {a} {s} {b}.",
              "[Help me with|I can't solve|I am stuck with] {a} {s} {b}.", "Task: {a} {s} {b}", "Do the math: {a} {s} {b}", "[Please |]evaluate {a} {s} {b}.",
              "Evaluate: {a} {s} {b}", "[Answer|Solve] this: {a} {s} {b}"]
    return d.ask(common if d.chance(0.5) else patterns, way=f"arithmetic.{OPERATIONS[symbol]}", compose=lambda d: _phrased(d, symbol), a=a, b=b, s=symbol)


def add(d: Draw) -> Turn:
    a, b = _pair(d, "+")
    user = _of(d, ["[What is|What's|How much is|Compute] {a} plus {b}?", "[Please |]add {a} and {b}.", "Add {b} to {a}.", "[What is|Give me|Find] the sum of {a} and {b}[?|.]",
                   "{a} and {b} together[ make what|]?", "What do you get if you add {a} and {b}?", "Sum: {a}, {b}", "What is {a} increased by {b}?",
                   "{a} plus {b}", "{a} plus {b}, [what is that|how much is that|what does it make]?", "[Hey|OK|Hi], [what is|how much is] {a} plus {b}?",
                   "[Could you|Can you|Would you] [add|sum up|add up] {a} and {b}[ for me|]?", "Add up {a} and {b}.", "[Please |]sum up {a} and {b}.",
                   "[Add|Add up]: {a}, {b}", "Add {b} to {a}. What [is it|is the total|do you get]?",
                   "[What is|Give me|Find|I need] the total of {a} and {b}[?|.]", "Total of {a} and {b}?", "Sum of {a} and {b}[, please|]?",
                   "What [total|sum] do {a} and {b} [make|give]?", "What do {a} and {b} [add up to|come to|make] together?",
                   "How much [is|are] {a} and {b} [together|in total|in all]?", "How much do {a} and {b} make [together|in total]?",
                   "I have {a} and get {b} more. How much is that [together|in total]?", "If I add {b} to {a}, what do I [get|have]?",
                   "What do I get when I add {a} to {b}?", "Start with {a} and add {b}.", "Take {a}, add {b}, and [tell me|give me] the [result|total|sum].",
                   "Increase {a} by {b}.", "Make {a} larger by {b}.", "What is {b} more than {a}?", "Which number is {b} more than {a}?",
                   "What number is larger than {a} by {b}?", "[It is for my homework|I need this for a bill]: [add|sum up|what is the sum of] {a} and {b}.",
                   "Quick question: what is {a} plus {b}?", "ok so {a} and another {b}, how much is that?",
                   "[Tell me|Work out|Calculate] the sum of {a} and {b}.", "[Tell me|Work out|Calculate] {a} plus {b}."], "+", a, b)
    return _worked(turn(SKILL, user, add_steps(a, b), f"{a} + {b} = {a + b}.", _equals(a + b), ("add", a, b)), a, b, add_steps(a, b))


def subtract(d: Draw) -> Turn:
    a, b = _pair(d, "-")
    if a < b and d.chance(0.85):
        a, b = d.until_fresh(lambda: tuple(sorted((_number(d, d.any([2, 2, 3, 3, 4])), _number(d, d.any([1, 2, 2, 3, 3]))), reverse=True)), "-")
    user = _of(d, ["[What is|What's|How much is|Compute] {a} minus {b}?", "[Please |]subtract {b} from {a}.", "Take {b} away from {a}.", "Take {b} from {a}.",
                   "[What is|Give me|Find] the difference [of|between] {a} and {b}[?|.]", "What is left of {a} if you take away {b}?", "What is {a} less {b}?",
                   "What is {a} decreased by {b}?",
                   "{a} minus {b}", "{a} minus {b}, [what is that|how much is that|what does it make]?", "[Hey|OK|Hi], [what is|how much is] {a} minus {b}?",
                   "[Could you|Can you|Would you] [subtract|take away|take] {b} from {a}[ for me|]?", "Subtract: {a} minus {b}",
                   "[Please |]take {b} off {a}.", "Take {b} off {a}. What [is left|remains|do you get]?",
                   "[Subtract|Take] {b} from {a}. What [is it|is left|remains]?", "[Work out|Tell me|I need] the difference [of|between] {a} and {b}.",
                   "Difference of {a} and {b}?", "Difference between {a} and {b}[, please|]?",
                   "I have {a} and [spend|lose|give away] {b}. How much [is left|remains]?", "If I take {b} from {a}, what [is left|remains|do I get]?",
                   "If I subtract {b} from {a}, what do I [get|have]?", "What do I get when I take {b} away from {a}?",
                   "Start with {a} and [subtract|take away] {b}.", "Take {a}, subtract {b}, and [tell me|give me] the [result|rest].", "Decrease {a} by {b}.",
                   "[Reduce|Lower] {a} by {b}.", "What is {a} reduced by {b}?", "Make {a} smaller by {b}.", "What is {b} less than {a}?",
                   "Which number is {b} less than {a}?", "What number is smaller than {a} by {b}?", "What remains of {a} after taking away {b}?",
                   "What remains if {b} is subtracted from {a}?", "[It is for my homework|I need this for a bill]: [subtract|take] {b} from {a}.",
                   "Quick question: what is {a} minus {b}?", "ok so {a} without {b}, how much is [that|left]?", "How much is {a} without {b}?",
                   "[Tell me|Work out|Calculate] {a} minus {b}."], "-", a, b)
    return _worked(turn(SKILL, user, subtract_steps(a, b), f"{a} - {b} = {a - b}.", _equals(a - b), ("subtract", a, b)), a, b, subtract_steps(a, b))


def multiply(d: Draw) -> Turn:
    kind = d.rng.random()
    pair = (lambda: (d.int(1, 12), d.int(1, 12))) if kind < 0.5 else (lambda: (d.int(11, 99), d.int(2, 9)))
    a, b = pair() if kind < 0.5 else d.until_fresh(pair, "*")  # nobody computes the small table: it is known whole
    if d.chance(0.3):
        a, b = b, a
    user = _of(d, ["[What is|What's|How much is|Compute] {a} times {b}?", "[Please |]multiply {a} by {b}.", "[What is|Give me|Find] the product of {a} and {b}[?|.]",
                   "{a} times {b}", "What do you get if you multiply {a} and {b}?", "Multiply {a} and {b}.", "{a} multiplied by {b}?", "How much are {a} times {b}?",
                   "{a} times {b}, [what is that|how much is that|what does it make]?", "[Hey|OK|Hi], [what is|how much is] {a} times {b}?",
                   "[Could you|Can you|Would you] multiply {a} [by|with|and] {b}[ for me|]?", "[Please |]take {a} times {b}.", "Multiply: {a}, {b}",
                   "Multiply {b} by {a}[, please|].", "Product of {a} and {b}[, please|]?", "[Work out|Tell me|I need] the product of {a} and {b}.",
                   "What [product|number] do {a} and {b} give, multiplied?", "What do {a} and {b} make if I multiply them?",
                   "What do I get when I multiply {a} by {b}?", "If I multiply {a} and {b}, what do I [get|have]?",
                   "If I take {a}, {b} times, how much is [it|that]?", "Take {a} and multiply it by {b}.", "Start with {a} and multiply by {b}.",
                   "What is {a} multiplied [by|with] {b}?", "How much is {a} multiplied by {b}?", "[Tell me|Work out|Calculate] {a} times {b}.",
                   "[Tell me|Work out|Calculate] {a} multiplied by {b}.",
                   "[It is for my homework|I need this for a bill]: [multiply|what is the product of] {a} and {b}.", "Quick question: what is {a} times {b}?",
                   "ok so {a} taken {b} times, how much is [it|that]?", "I have {b} times {a}. How much is that [in total|in all]?",
                   "How much is {b} times the number {a}?", "A grid of {b} by {a}, how many fields is that?", "How many are {a}, {b} times over?",
                   "Do you know what {a} times {b} is?", "{a} times {b} makes what?"],
               d.any(["*", "*", "x"]), a, b)
    # Only the small table is known by heart.
    return _worked(turn(SKILL, user, multiply_steps(a, b), f"{a} * {b} = {a * b}.", _equals(a * b), ("multiply", a, b)), a, b if max(a, b) <= 12 else 100, multiply_steps(a, b))


def divide(d: Draw) -> Turn:
    """Out of the small table, without a rest."""
    q, b = d.int(1, 12), d.int(1, 12)
    a = q * b
    user = _of(d, ["[What is|What's|How much is|Compute] {a} divided by {b}?", "[Please |]divide {a} by {b}.", "How many times does {b} go into {a}?", "{a} divided by {b}", "What do you get if you divide {a} by {b}?",
                   "Share {a} among {b}. How much does each get?", "What is the quotient of {a} and {b}?", "Split {a} into {b} equal parts.",
                   "{a} divided by {b}, [what is that|how much is that|what does it make]?", "[Hey|OK|Hi], [what is|how much is] {a} divided by {b}?",
                   "[Could you|Can you|Would you] divide {a} by {b}[ for me|]?", "Divide: {a} by {b}", "Quotient of {a} and {b}[, please|]?",
                   "[Work out|Tell me|I need|Find] the quotient of {a} and {b}.", "What do I get when I divide {a} by {b}?",
                   "If I divide {a} by {b}, what do I [get|have]?", "How often does {b} go into {a}?", "How often does {b} fit into {a}?",
                   "How many times does {b} fit into {a}?", "How many times is {b} contained in {a}?", "Take {a} and divide it by {b}.",
                   "Start with {a} and divide by {b}.", "[Tell me|Work out|Calculate] {a} divided by {b}.",
                   "[Split|Divide|Cut] {a} into {b} equal parts. How [much|large] is each part?",
                   "If {a} is [split|divided|shared] equally among {b}, how much does each get?",
                   "[Share|Split|Divide] {a} equally among {b}. How much [does each get|is that for each]?", "{a} is shared by {b}. How much does each get?",
                   "A bill of {a} dollars is split by {b}. How much does each pay?", "{a} in {b} equal groups, how many [are|is that] in each group?",
                   "How many groups of {b} can I make out of {a}?", "How many groups of {b} are in {a}?", "What times {b} makes {a}?",
                   "[It is for my homework|I need this for a bill]: divide {a} by {b}.", "Quick question: what is {a} divided by {b}?",
                   "ok so {a} shared by {b}, how much is that for each?", "Do you know what {a} divided by {b} is?", "{a} over {b}, how much is that?",
                   "What is {a} over {b}?"], "/", a, b)
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
        "{a} or {b}: [which|what] is {w}?", "{a} and {b}: which [one |]is {w}?", "{a} or {b}, [what|which number] is {w}?", "Which is {w}, {b} or {a}?",
        "Which one is {w}[,|:] {a} or {b}?", "[Hey|OK|Hi], which is {w}, {a} or {b}?", "Quick question: [which|what] is {w}, {a} or {b}?",
        "[Could you|Can you] tell me which is {w}, {a} or {b}?", "[It is for my homework|I need this for a game]: which [number |]is {w}, {a} or {b}?",
        "[Please |]compare {a} with {b} and [tell me|say] which [one |]is {w}.", "Compare the numbers {a} and {b}: which [one |]is {w}?",
        "[Compare|Look at|Take] {a} and {b}. [Tell me|Say] which [one |]is {w}.", "I have {a} and {b}. Which [one |]is {w}?",
        "There are two numbers, {a} and {b}. Which [one |]is {w}?", "Two numbers: {a}, {b}. Which is {w}?", "Numbers: {a} and {b}\nWhich [one |]is {w}?",
        "Is {a} {w} than {b}, or is {b} {w}?", "What is {w}, the number {a} or the number {b}?", "If you compare {a} and {b}, which [one |]is {w}?",
        "[Do you know|Can you say] which is {w}, {a} or {b}?", "Name the number that is {w}: {a} or {b}.",
        "[Pick|Choose|Give me] the number that is {w}: {a} or {b}.", "[Pick|Choose|Give me] the one that is {w}, {a} or {b}.",
        "ok so {a} or {b}, which one is {w}?", "[Answer|Reply] with the number that is {w}: {a} or {b}.", "I must know which is {w}, {a} or {b}.",
        "Of the two numbers {a} and {b}, which [one |]is {w}?", "One of {a} and {b} is {w}. Which one?",
    ], way="arithmetic.compare", compose="[Take|Look at|Here are|We have|There are|Think of|Read] {a} and {b}. [Point to|Show me|Tell me|Name|Write|Give me|Find|Say] [the one that is {w}|which one is {w}|which of them is {w}|the number that is {w}].", a=a, b=b, w=word)
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
        "[Could you|Can you|Would you] find the {w} [number|of these numbers]: {q}", "The {w} number[, please|]: {q}", "The {w} of these[ numbers|]: {q}",
        "{q}\n\nWhich [number |]is the {w}?", "{q}\n[Give me|Tell me|Find|Name] the {w} [one|number].", "{q}: [give me|tell me|find] the {w}",
        "My numbers: {q}. [What|Which one] is the {w}?", "Here are some numbers: {q}. [Find|Name|Pick] the {w}.",
        "[Hey|OK|Hi], [what|which one] is the {w} [of these|number here]: {q}", "Quick question: which of these is the {w}: {q}",
        "[These are scores|These are prices|I measured these]: {q}. Which is the {w}?", "Which number [in this list|of this list|here] is the {w}? {q}",
        "[Choose|Select|Take] the {w} [number|of these numbers|one]: {q}", "[Look for|Find|Search for] the {w} number in this list: {q}",
        "I [need|want] the {w} [number|one] of these: {q}", "[Which|What] is the {w} among [these|the numbers] {q}?",
        "Among {q}, which [number |]is the {w}?", "Of {q}, which [number |]is the {w}?", "Out of these numbers, [which|what] is the {w}: {q}",
        "[Show me|Return|Select] the {w} of these: {q}", "[Answer|Reply] with the {w} number: {q}",
        "Go through this list and [find|tell me|name] the {w} number: {q}", "[Read|Look at] these numbers and [find|tell me|name] the {w}: {q}",
        "ok so what's the {w} number here: {q}", "Do you [see|know] which of these is the {w}? {q}", "List: {q}\nQuestion: [what|which] is the {w} number?",
    ], way="arithmetic.extreme", compose="[Among|Out of|From|Of|In|Between] [these|them|all of these|the numbers|this row], [give me|tell me|show me|name|find|say|write] the {w} [one|number|]: {q}", q=", ".join(map(str, x)), w=word)
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
        "{n} owns {a} {o}. {m} gives {n} {b} more. How many {o} does {n} own [now|in total]?",
        "In the [morning|first week] {n} sold {a} {o}, in the [afternoon|second week] {b}. How many were sold in total?",
        "There are {a} {o} on the table and {b} in the {p}. How many {o} are there [in all|in total|altogether]?",
        "{n} found {a} {o} in the {p} and {m} found {b}. How many did they find [together|in all]?",
        "A bus has {a} people in it. At the next stop {b} more get in. How many people are in the bus [now|then]?",
        "{n} walked {a} miles on {day} and {b} miles the day after. How many miles is that [in total|together]?",
        "A jar has {a} coins. {n} puts in {b} more. How many coins are in the jar now?",
        "One bill is {a} dollars, the other is {b} dollars. How many dollars are both bills [together|in total]?",
        "How many {o} are there if {n} has {a} and {m} has {b}?",
        "A tree is {a} years old. How old will it be in {b} years?",
        "{n} has {a} dollars. {m} has {b} dollars more than {n}. How many dollars does {m} have?",
        "{n} planted {a} trees last year and {b} trees this year. How many trees is that [in all|altogether]?",
        "We had {a} {o}, and {n} brought another {b}. How many {o} do we have [now|altogether]?",
        "The {p} has {a} chairs. {b} more are carried in. How many chairs are in the {p} now?",
        "{n} made {a} {o} and {m} made {b}. What is the total?",
        "{n} counts {a} {o} in one room and {b} in the next room. How many {o} are in both rooms?",
        "I had {a} {o}. {n} gave me {b} more. How many do I have now?",
        "{n} starts with {a} points and wins {b} more. How many points does {n} have [in the end|now]?",
        "A class has {a} students, another class has {b}. How many students are in both classes?",
        "{n} drove {a} miles before lunch and {b} miles after lunch. How far is that in total?",
        "On {day} {a} guests arrived, and {b} more came a day later. How many guests came in all?",
        "A train ticket costs {a} dollars and the hotel costs {b} dollars. How much does {n} pay in total?",
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
        "{n} owns {a} {o} and [sells|loses] {b}. How many {o} does {n} still have?",
        "{n} had {a} {o}. {m} took {b}. How many {o} does {n} have now?",
        "A jar has {a} coins. {n} takes out {b}. How many coins [are left|remain] in the jar?",
        "A bus has {a} people in it. At the next stop {b} get out. How many people are [still in the bus|left in the bus]?",
        "The way is {a} miles long. {n} has walked {b}. How many miles [are left|remain]?",
        "{n} has {a} dollars and pays {b} dollars for a book. How many dollars does {n} have left?",
        "{n} saved {a} dollars and spent {b} on {day}. How many dollars [are left|remain]?",
        "How many {o} are left if {n} has {a} and gives away {b}?",
        "A house is {a} years old. How old was it {b} years ago?",
        "{n} has {a} {o}, {m} has {b} fewer. How many {o} does {m} have?",
        "{n} has {a} points and {m} has {b}. How many more points does {n} have than {m}?",
        "We had {a} {o}, but {b} broke. How many {o} are still good?",
        "The {p} had {a} chairs. {n} carried {b} out. How many chairs are still in the {p}?",
        "I had {a} {o} and gave {b} to {n}. How many do I have left?",
        "{n} starts with {a} points and loses {b}. How many points does {n} have [in the end|now]?",
        "A class has {a} students. On {day} {b} were sick. How many students were not sick?",
        "A shop has {a} {o} and sells {b} on {day}. How many {o} does the shop have left?",
        "Of {a} guests, {b} went home early. How many guests [stayed|remained]?",
        "{n} picked {a} {o} and ate {b}. How many remain?",
        "A rope is {a} feet long. {n} cuts off {b} feet. How long is the rope now?",
        "{n} must write {a} letters and has finished {b}. How many letters [remain|are left to write]?",
        "{n} wants to save {a} dollars and has {b}. How many dollars are missing?",
        "A tank holds {a} litres. {n} uses {b}. How many litres are left?",
        "There were {a} {o} in the {p}. {n} sold {b}. How many are there now?",
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
        "{n} fills {b} bags with {a} {o} each. How many {o} is that [in all|in total]?",
        "There are {b} tables with {a} plates each in the {p}. How many plates are there?",
        "A box has {a} {o}. How many {o} are in {b} boxes?",
        "{n} earns {a} dollars an hour. How much does {n} earn in {b} hours?",
        "{n} saves {a} dollars every week. How many dollars is that after {b} weeks?",
        "A car has room for {a} people. How many people fit into {b} cars?",
        "Every day {n} sells {a} {o}. How many {o} does {n} sell in {b} days?",
        "One of these {o} costs {a} dollars. How much do {b} of them cost?",
        "{b} friends bring {a} {o} each. How many {o} do they bring [together|in all]?",
        "{n} plants {a} rows of {b} trees. How many trees is that?",
        "A book costs {a} dollars. {n} buys {b} of them. How much does {n} pay?",
        "In each of {b} rooms there are {a} {o}. How many {o} are there [in all|in total|altogether]?",
        "Each day {n} needs {a} {o}. How many {o} does {n} need for {b} days?",
        "{n} runs {b} rounds of {a} minutes each. How many minutes is that?",
        "{n} and {m} need {a} {o} for each guest. There are {b} guests. How many {o} do they need?",
        "{n} has {b} times as many {o} as {m}, and {m} has {a}. How many {o} does {n} have?",
        "A page has {a} pictures. How many pictures are on {b} pages?",
        "The {p} has {b} shelves. On each shelf are {a} {o}. How many {o} are there?",
        "{n} gives {a} {o} to each of {b} children. How many {o} does {n} give away?",
        "A train has {b} cars with {a} seats each. How many seats does it have?",
        "Each of {b} teams has {a} players. How many players are there [in all|in total]?",
        "How many {o} are in {b} baskets of {a} {o} each?",
        "How much does {n} pay for {b} {o} at {a} dollars each?",
        "I buy {b} {o}, and each one costs {a} dollars. How much is that in total?",
    ],
}


# Word problems put together of parts: what there is, what becomes of it and what is asked.
THERE_IS = ["{n} has {a} {o}", "{n} had {a} {o}", "There are {a} {o} in the {p}", "There were {a} {o} in the {p}", "[I|We] had {a} {o}", "[I|We] have {a} {o}",
            "The {p} has {a} {o}", "{n} owns {a} {o}", "{n} bought {a} {o}", "{n} starts with {a} {o}", "On {day} there were {a} {o} in the {p}", "{a} {o} were in the {p}"]
LESS = ["{m} [took|takes] {b}[ away| of them|]", "{m} sold {b}[ of them|]", "{m} sells {b}", "{b} [were|are] [sold|lost|eaten|stolen|given away|taken away|used]", "{b} [broke|are gone]",
        "{m} [ate|eats] {b}[ of them|]", "{m} gave {b} away", "{m} gives {b} away", "{m} [lost|loses|used|uses] {b}", "{m} carried {b} out", "{m} threw {b} away"]
MORE = ["{m} [brought|brings] {b} more", "{m} [brought|brings] another {b}", "{m} [adds|added|buys|finds|found|made] {b} more", "{b} more [came|arrived|are added|were added|are brought]", "{m} puts in {b} more",
        "{m} gave {b} more", "{m} gives another {b}"]
THEN = [". ", ". Then ", ". On {day} ", ", and ", ", but then ", ". Later "]
LEFT = [" How many {o} are left?", " How many are left?", " How many are there now?", " How many {o} are there now?", " How many remain?", " How many {o} are still there?", " What is left?", " How many {o} does that leave?"]
NOW = [" How many {o} are there now?", " How many are there now?", " How many are there [in total|in all|altogether]?", " How many {o} is that [now|together|in all]?", " What is the total?", " How many are there in the end?"]
BOTH = ["{n} has {a} {o}, {m} has {b}. How many {o} [do they have|is that|are there] [together|in total|in all|altogether]?", "{n} has {a} {o} and {m} has {b}. How many {o} [are there|do they have|is that][ together| in all|]?",
        "How many {o} do {n} and {m} have [together|in total|in all] if {n} has {a} and {m} has {b}?", "If {n} has {a} {o} and {m} has {b}, how many {o} [are there|is that|do they have][ together|]?",
        "{n} [made|found|sold|bought|picked|counted] {a} {o} and {m} {b}. How many [were there|are there|is that] [together|in all|in total]?",
        "With the {a} {o} of {n} and the {b} of {m}, how many {o} are there?", "How many {o} are in the {p} if {n} [brings|brought] {a} and {m} {b}?"]
TIMES = ["{a} [boxes|bags|rows|shelves|groups|tables] with {b} {o} [each|in each]. How many {o} [is that|are there][ in all|]?", "[Each|Every one] of {a} [boxes|people|bags|children] has {b} {o}. [How many in all|How many are there together|What is the total]?",
         "{n} [buys|packs|sees|sells] {b} {o} on each of {a} days. How many [is that|is that in all]?", "{n} has {a} [boxes|bags]. In each there are {b} {o}. How many {o} does {n} have?"]
COMPOSED = {"multiply": lambda d: d.any(TIMES), "add": lambda d: d.any(BOTH) if d.chance(0.4) else d.any(THERE_IS) + d.any(THEN) + d.any(MORE) + "." + d.any(NOW),
            "subtract": lambda d: d.any(THERE_IS) + d.any(THEN) + d.any(LESS) + "." + d.any(LEFT)}


SIGNS = {"add": "+", "subtract": "-", "multiply": "*"}


def story(d: Draw) -> Turn:
    kind = d.any(["add", "subtract", "multiply"])
    if kind == "multiply":
        a, b = d.int(2, 12), d.int(2, 10)
    else:
        a, b = d.until_fresh(lambda: (d.int(2, d.any([20, 99, 300])), d.int(1, d.any([20, 99]))), kind)
        if kind == "subtract" and a < b:
            a, b = b, a
    n, m = d.some(words.NAMES, 2, split=True)
    user = d.ask(STORIES[kind], way=f"story.{kind}", compose=COMPOSED.get(kind), a=a, b=b, n=n, m=m, o=words.plural(d.any(words.OBJECTS + words.FOODS)), p=d.any(words.PLACES), day=d.any(words.DAYS))
    r = {"add": a + b, "subtract": a - b, "multiply": a * b}[kind]
    sign = SIGNS[kind]
    steps = {"add": add_steps, "subtract": subtract_steps, "multiply": multiply_steps}[kind](a, b)
    return _worked(turn(SKILL, user, f"I must compute {a} {sign} {b}. {steps}", f"{a} {sign} {b} = {r}.", _equals(r), (kind, a, b)), a, b, steps)


ALL = [add, add, add, subtract, subtract, subtract, multiply, multiply, divide, compare, extreme, story, story]
PRACTISED = [add, subtract, subtract, divide, divide, compare, extreme, extreme, extreme, story, story]


def make(d: Draw) -> Turn:
    return d.task(ALL, PRACTISED)(d)
