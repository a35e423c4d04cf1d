"""Short instructions on a text, a word or a list."""

from . import words
from .draw import Draw, Turn, exactly, has, turn

SKILL = "instruct"
# How a payload may be set apart from the instruction.
P = "[Please |Could you |Can you |Now |Your task: |]"


def _sentence(d: Draw, low=2, high=7) -> str:
    def make():
        n = d.int(low, high)
        kind = d.rng.random()
        if kind < 0.5:
            return " ".join(d.some(words.SENTENCE_WORDS, n))
        if kind < 0.8:
            s = f"The {d.any(words.ADJECTIVES)} {d.any(words.ANIMALS + words.OBJECTS)} {d.any(words.VERBS)}"
            if n > 4:
                s += f" near the {d.any(words.NATURE)}"
            return s
        return f"{d.any(words.NAMES)} likes {d.any(words.HOBBIES)} and {d.any(words.FOODS)}"
    return d.until_fresh(make, "sentence")


def _word(d: Draw, task: str, longest=8) -> str:
    """A word whose letters count. A held-out one is asked for in other tasks of training: a token does not
    show its letters, so somebody must have spelled it once."""
    pool = [w for w in words.WORDS if 3 <= len(w) <= longest]
    return d.until_fresh(lambda: d.any(pool), task)


def _items(d: Draw, low=3, high=6) -> list[str]:
    pool = d.any([words.FOODS, words.ANIMALS, words.COLORS, words.OBJECTS, words.SHORT, words.NAMES, words.CITIES])
    return d.until_fresh(lambda: d.some(pool, d.int(low, high)), "items")


def _quoted(d: Draw, text: str) -> str:
    """A text as a user sets it apart."""
    return d.any(["\"{}\"", "{}", "'{}'", "{}", "\n{}", "\n\n{}"]).format(text)


def repeat(d: Draw) -> Turn:
    x = _sentence(d, 1, 8)
    user = d.ask([
        "[Please |Can you |]repeat [this|the following|after me|these words]: {q}", "[Please |]say [exactly |]this: {q}",
        "Repeat this [text|sentence] [word for word|exactly]: {q}", "Write [exactly |just |]this [back|again]: {q}",
        "[Please |]echo [this|the text]: {q}", "Say {q}", "Copy this [text|line]: {q}", "Give me back [exactly |]this text: {q}",
        "I want you to repeat: {q}", "Repeat: {q}", "[Answer|Reply] with [exactly |just |only ]this: {q}", "Type out the following: {q}",
        "Say the [words|following words]: {q}", "[Just |]output this text: {q}", "Return the text unchanged: {q}", "Parrot this: {q}",
    ], q=_quoted(d, x))
    return turn(SKILL, user, f"I repeat the text as it is: {x}", x, exactly(x), ("repeat", x))


def upper(d: Draw) -> Turn:
    x = _sentence(d, 1, 6)
    user = d.ask([
        "[Please |]write [this|the following] in [upper case|uppercase|capital letters|capitals]: {q}", "Make this [upper case|uppercase|all caps]: {q}",
        "[Turn|Convert|Change] [this|the text] [to|into] [upper case|uppercase|capital letters]: {q}", "Upper case: {q}", "Uppercase this: {q}",
        "Put {q} in [upper case|capitals|all caps].", "Give me this [text |]in [capital letters|all caps]: {q}", "Capitalize every letter of this: {q}",
        "How does this look in [upper case|uppercase|capitals]: {q}", "Write all letters as capitals: {q}",
    ], q=_quoted(d, x))
    return turn(SKILL, user, f"In upper case, {x} becomes {x.upper()}", x.upper(), exactly(x.upper()), ("upper", x))


def lower(d: Draw) -> Turn:
    x = _sentence(d, 1, 6)
    x = x.upper() if d.chance(0.5) else x.title()
    user = d.ask([
        "[Please |]write [this|the following] in [lower case|lowercase|small letters]: {q}", "Make this [lower case|lowercase]: {q}",
        "[Turn|Convert|Change] [this|the text] [to|into] [lower case|lowercase|small letters]: {q}", "Lower case: {q}", "Lowercase this: {q}",
        "Put {q} in [lower case|small letters].", "Give me this [text |]in [small letters|lower case]: {q}", "Remove the capitals from this: {q}",
        "How does this look in [lower case|lowercase]: {q}", "Write all letters small: {q}",
    ], q=_quoted(d, x))
    return turn(SKILL, user, f"In lower case, {x} becomes {x.lower()}", x.lower(), exactly(x.lower()), ("lower", x))


def reverse_words(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(2, 6)), "reversed words")
    r = x[::-1]
    user = d.ask([
        "[Please |]reverse the [order of the |]words[ in this|]: {q}", "Write these words in [reverse|backward|the opposite] order: {q}",
        "[Put|Give me] the words [in reverse order|backwards]: {q}", "Say the words from last to first: {q}", "Reverse the word order of {q}",
        "Turn the order of these words around: {q}", "List these words backwards: {q}", "Words in reverse: {q}",
    ], q=_quoted(d, " ".join(x)))
    return turn(SKILL, user, f"The words are {', '.join(x)}. From last to first: {', '.join(r)}.", " ".join(r), exactly(" ".join(r)),
                ("reverse_words", x))


def reverse_word(d: Draw) -> Turn:
    x = _word(d, "reversed word", 6)
    user = d.ask([
        "[Please |]reverse the [word|letters of the word|letters of]: {q}", "Spell {q} backwards.", "Write the word {q} backwards.", "Reverse {q}",
        "What is {q} [spelled |written |]backwards?", "Write {q} from the last letter to the first.", "Give me the letters of {q} in reverse order.",
        "[Can you |Please ]write {q} in reverse[?|.]", "Flip the letters of {q}.",
    ], q=f'"{x}"' if d.chance(0.5) else x)
    return turn(SKILL, user, f"The letters are {' '.join(x)}. From the end: {' '.join(x[::-1])}.", x[::-1], exactly(x[::-1]), ("reverse_word", x))


def spell(d: Draw) -> Turn:
    x = _word(d, "spelled word")
    user = d.ask([
        "[Please |]spell [the word |]{q}.", "How do you spell {q}?", "Spell out {q} letter by letter.", "What are the letters of {q}?",
        "Write {q} with spaces between the letters.", "[Please |]list the letters [of|in] {q}.", "Break {q} into letters.",
        "Which letters does the word {q} have?",
    ], q=f'"{x}"' if d.chance(0.5) else x)
    return turn(SKILL, user, f"The word is {x}, one letter at a time.", " ".join(x), {"text": "(?i)^" + "[ ,.-]+".join(x) + r"\.?$"}, ("spell", x))


def count_words(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(1, 9)), "counted words")
    n = len(x)
    user = d.ask([
        "How many words [are in this|are there|does this have|are in this sentence]: {q}", "Count the words[ in this| in this text|]: {q}",
        "[Please |]count how many words this [text |sentence |]has: {q}", "What is the [number of words|word count] [of this|in this]: {q}",
        "Tell me how many words this is: {q}", "Number of words: {q}", "Word count[, please|]: {q}", "I need the number of words here: {q}",
    ], q=_quoted(d, " ".join(x)))
    steps = ", ".join(f"{w} {i + 1}" for i, w in enumerate(x))
    answer = f"{n} word{'s' if n > 1 else ''}."
    return turn(SKILL, user, f"I count: {steps}.", answer, has(str(n)), ("count_words", x))


def count_letters(d: Draw) -> Turn:
    x = _word(d, "counted letters")
    user = d.ask([
        "How many letters [are in|does] [the word |]{q}[ have|]?", "Count the letters [in|of] [the word |]{q}.",
        "[Please |]count how many letters {q} has.", "What is the length of [the word |]{q}?", "How long is the word {q}?",
        "Tell me the number of letters in {q}.", "Number of letters in {q}?", "{q}: how many letters?",
    ], q=f'"{x}"' if d.chance(0.5) else x)
    steps = ", ".join(f"{c} {i + 1}" for i, c in enumerate(x))
    return turn(SKILL, user, f"I count: {steps}.", f"{len(x)} letters.", has(str(len(x))), ("count_letters", x))


def count_letter(d: Draw) -> Turn:
    x = _word(d, "counted letter")
    c = d.any(x) if d.chance(0.85) else d.any("abcdeilmnorst")
    n = x.count(c)
    user = d.ask([
        "How many times [does|is] the letter {c} [appear |]in {q}?", "How many {c}'s are in [the word |]{q}?", "Count the letter {c} in {q}.",
        "How often does {c} occur in [the word |]{q}?", "Number of {c} in {q}?", "In the word {q}, how many {c} are there?",
        "[Please |]count how often the letter {c} is in {q}.", "How many letters {c} does {q} have?",
    ], q=f'"{x}"' if d.chance(0.5) else x, c=c)
    steps, k = [], 0
    for letter in x:
        k += letter == c
        steps.append(f"{letter} {k}" if letter == c else letter)
    return turn(SKILL, user, f"I look for {c}: {', '.join(steps)}. That makes {n}.", f"{n}.", has(str(n)), ("count_letter", x, c))


def sort_words(d: Draw) -> Turn:
    pool = d.any([words.FOODS, words.ANIMALS, words.OBJECTS, words.SHORT, words.NATURE])

    def make():  # two words with the same first letter are hard to tell apart
        x = d.some(pool, d.int(3, 5))
        return x if len({w[0] for w in x}) == len(x) else make()
    x = d.until_fresh(make, "sorted words")
    r = sorted(x)
    user = d.ask([
        "[Please |]sort [these words|this list|these] alphabetically: {q}", "Sort [these|the words] [by alphabet|from a to z|in alphabetical order]: {q}",
        "Put [these|these words|the list] in alphabetical order: {q}", "[Please |]order [these words|this list] alphabetically: {q}",
        "Alphabetical order[, please|]: {q}", "Arrange these words from a to z: {q}", "Which order do these words have in a dictionary? {q}",
        "Sort: {q}", "Give me this list sorted alphabetically: {q}",
    ], q=", ".join(x))
    thought = "The first letters in order: " + ", ".join(f"{w[0]} {w}" for w in r) + "."
    return turn(SKILL, user, thought, ", ".join(r), exactly(", ".join(r)), ("sort_words", x))


def sort_numbers(d: Draw) -> Turn:
    high = d.any([20, 99, 99, 500])
    x = d.until_fresh(lambda: d.some(range(1, high + 1), d.int(3, 5)), "sorted numbers")
    down = d.chance(0.35)
    r = sorted(x, reverse=down)
    up = ["[Please |]sort these numbers: {q}", "Sort [these|the numbers] [from small to large|from smallest to largest|in ascending order|ascending]: {q}",
          "Put these numbers in [ascending |increasing |]order: {q}", "Order these numbers from low to high: {q}", "Sort: {q}",
          "Arrange [these numbers|them] from the smallest to the largest: {q}", "Numbers in rising order[, please|]: {q}", "[Please |]order these numbers: {q}"]
    falling = ["[Please |]sort these numbers [from large to small|in descending order|from largest to smallest]: {q}", "Sort descending: {q}",
               "Put these numbers in [descending|decreasing] order: {q}", "Order these numbers from high to low: {q}",
               "Arrange [these numbers|them] from the largest to the smallest: {q}", "Numbers in falling order[, please|]: {q}",
               "Sort these with the largest first: {q}", "List these numbers, biggest first: {q}"]
    user = d.ask(falling if down else up, q=", ".join(map(str, x)))
    name = "largest" if down else "smallest"
    thought = f"The {name} is {r[0]}, then " + ", then ".join(map(str, r[1:])) + "."
    answer = ", ".join(map(str, r))
    return turn(SKILL, user, thought, answer, exactly(answer), ("sort_numbers", x, down))


def nth(d: Draw) -> Turn:
    x = _items(d)
    i = d.int(0, len(x) - 1)
    user = d.ask([
        "[What is|Which is|Give me|Tell me] the {n} [word|item|one|entry] [of this list|in this list|here]: {q}", "Pick the {n} [item|word|one]: {q}",
        "From this list, [pick|take|choose|name] the {n} [item|word]: {q}", "Here is a list: {q}. [What is|Name|Give me] the {n} [item|one][?|.]",
        "{q}\n\nWhich [one|item] is the {n}?", "List: {q}\nQuestion: what is the {n} item?", "The {n} [item|element] of {q}?",
        "[Please |]return only the {n} [item|element|word] from: {q}",
    ], q=", ".join(x), n=words.ORDINALS[i])
    thought = ", ".join(f"{k + 1} {w}" for k, w in enumerate(x[: i + 1])) + f". Number {i + 1} is {x[i]}."
    return turn(SKILL, user, thought, x[i], exactly(x[i]), ("nth", x, i))


def first_last(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(2, 7)), "first and last")
    last = d.chance(0.5)
    w = x[-1] if last else x[0]
    user = d.ask([
        "[What is|Which is|Tell me|Give me] the {n} word [of|in] [this|this sentence|the text]: {q}", "{n} word only: {q}", "[Please |]name the {n} word: {q}",
        "Which word is {n} here: {q}", "Pick the {n} word[ of this|]: {q}", "[Answer|Reply] with the {n} word of this text: {q}", "I want the {n} word: {q}",
        "Only the {n} word, please: {q}",
    ], q=_quoted(d, " ".join(x)), n="last" if last else "first")
    return turn(SKILL, user, f"The words are {', '.join(x)}. The {'last' if last else 'first'} is {w}.", w, exactly(w), ("first_last", x, last))


def join(d: Draw) -> Turn:
    x = _items(d, 2, 5)
    sep, name = d.any([("-", "a dash"), ("-", "-"), ("+", "a plus"), ("/", "a slash"), ("_", "an underscore"), (";", ";"), ("+", "+"), ("/", "/")])
    user = d.ask([
        "[Please |]join [these words|these|them] with {n}: {q}", "Join the words with {n} between them: {q}", "Connect these [words |]with {n}: {q}",
        "Put {n} between these words: {q}", "Combine these words[ into one string|] using {n}: {q}", "Glue these together with {n}: {q}",
        "Make one [text|string] of these words with {n} between: {q}", "Write these words joined by {n}: {q}",
    ], q=", ".join(x) if d.chance(0.7) else " ".join(x), n=name)
    return turn(SKILL, user, f"I put {sep} between {words.listed(x)}.", sep.join(x), exactly(sep.join(x)), ("join", x, sep))


def unique(d: Draw) -> Turn:
    def make():
        x = _items(d, 2, 4)
        x += d.some(x, d.int(1, 2))
        d.rng.shuffle(x)
        return x
    x = d.until_fresh(make, "duplicates")
    r = list(dict.fromkeys(x))
    user = d.ask([
        "[Please |]remove the [duplicates|repeated words|double entries][ from this list|]: {q}", "Remove duplicates: {q}",
        "[List|Give me] [each of these|every word] [only |just |]once: {q}", "Take out the [repeats|duplicates]: {q}", "Delete the words that come twice: {q}",
        "Keep each word only once: {q}", "Deduplicate this list: {q}", "Which different [words|items] are in this list? {q}",
    ], q=", ".join(x))
    seen, steps = set(), []
    for w in x:
        steps.append(f"{w} was there" if w in seen else f"{w} is new")
        seen.add(w)
    return turn(SKILL, user, ", ".join(steps) + ".", ", ".join(r), exactly(", ".join(r)), ("unique", x))


def extract(d: Draw) -> Turn:
    name = d.pick(words.NAMES)
    kind, value = d.until_fresh(lambda: d.any([
        ("email address", f"{name.lower()}{d.int(1, 99)}@{d.any(['mail', 'post', 'home', 'work'])}.example"),
        ("phone number", f"{d.int(100, 999)}-{d.int(1000, 9999)}"), ("order number", str(d.int(1000, 99999))),
        ("price", f"{d.int(1, 99)}.{d.int(10, 99)} dollars"), ("date", f"{d.any(words.MONTHS)} {d.int(1, 28)}"),
        ("room number", str(d.int(10, 499))), ("city", d.any(words.CITIES)), ("age", str(d.int(5, 90))),
        ("color", d.any(words.COLORS)), ("time", f"{d.int(1, 12)}:{d.int(10, 59)}")]), "extracted")
    others = {"email address": f"{name} wrote to us from {value}", "phone number": f"You can call {name} at {value}", "order number": f"{name} asks about order {value}",
              "price": f"{name} paid {value} for the {d.any(words.OBJECTS)}", "date": f"{name} will come on {value}", "room number": f"{name} sits in room {value}",
              "city": f"{name} moved to {value} last year", "age": f"{name} is {value} years old", "color": f"{name} has a {value} {d.any(words.OBJECTS)}",
              "time": f"{name} arrives at {value}"}
    tail = d.any(["", " and likes " + d.any(words.HOBBIES), " and works as " + words.a(d.any(words.JOBS)), ", as far as we know"])
    text = others[kind] + tail + "."
    user = d.ask([
        "[What is|Give me|Tell me|Find] the {k} in this [text|sentence|message]: {q}", "Extract the {k}: {q}", "[Please |]extract the {k} from this [text|note]: {q}",
        "Which {k} [is in|does] this text[ name|]: {q}", "{q}\n\nWhat is the {k}?", "Text: {q}\nGive only the {k}.", "[Answer|Reply] with the {k} only: {q}",
        "Pull the {k} out of this: {q}",
    ], q=text, k=kind)
    return turn(SKILL, user, f"The text says: {text} The {kind} is {value}.", value, exactly(value), ("extract", text, kind))


def replace(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(3, 6)), "replaced")
    old, new = d.any(x), d.any([w for w in words.SHORT if w not in x])
    r = [new if w == old else w for w in x]
    user = d.ask([
        "[Please |]replace {o} [with|by] {n}[ in this|]: {q}", "Change {o} to {n}[ in this text|]: {q}", "In this text, write {n} instead of {o}: {q}",
        "Swap the word {o} for {n}: {q}", "Put {n} where it says {o}: {q}", "Rewrite this with {n} in place of {o}: {q}",
        "Replace the word {o} with the word {n}: {q}", "Use {n} instead of {o} here: {q}",
    ], q=" ".join(x), o=f'"{old}"' if d.chance(0.4) else old, n=f'"{new}"' if d.chance(0.4) else new)
    return turn(SKILL, user, f"The word {old} becomes {new}.", " ".join(r), exactly(" ".join(r)), ("replace", x, old, new))


ALL = [repeat, repeat, upper, lower, reverse_words, reverse_words, reverse_word, reverse_word, spell, count_words, count_words, count_letters, count_letter,
       sort_words, sort_words, sort_numbers, sort_numbers, nth, nth, first_last, join, unique, extract, extract, replace]


def make(d: Draw) -> Turn:
    return d.any(ALL)(d)
