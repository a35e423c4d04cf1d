"""Questions about facts that are given in the conversation, close by or thousands of tokens earlier."""

from . import words
from .draw import Draw, Turn, has, turn

NEAR, FAR = "context", "context_far"

# A relation: how it is stated, asked and answered. {n} is who or what it is
# about, {v} the value.
RELATIONS = {
    "city": (["{n} lives in {v}.", "{n} has a flat in {v}.", "The home of {n} is in {v}."],
             ["Where does {n} live?", "[In which|Which] city does {n} live[ in|]?", "[What|Which] city is the home of {n}?", "Do you know where {n} lives?", "Where is {n}'s home?"],
             "{n} lives in {v}.", words.CITIES),
    "job": (["{n} works as {v}.", "{n} is {v}.", "{n} earns a living as {v}."],
            ["What does {n} do [for a living|for work]?", "What is {n}'s [job|profession|work]?", "[Which|What] job does {n} have?", "What is the profession of {n}?", "What does {n} work as?"],
            "{n} works as {v}.", [words.a(j) for j in words.JOBS]),
    "pet": (["{n} has {v}.", "{n} keeps {v} at home.", "{n} owns {v} as a pet."],
            ["What pet does {n} [have|own|keep]?", "Which animal does {n} [have|own]?", "What animal lives with {n}?", "Which pet belongs to {n}?", "What is {n}'s pet?"],
            "{n} has {v}.", [words.a(x) for x in words.ANIMALS]),
    "food": (["The favourite food of {n} is {v}.", "{n} likes {v} best of all foods.", "{n}'s favourite food is {v}."],
             ["What is {n}'s favourite food?", "What food does {n} like best?", "Which food is the favourite of {n}?", "What does {n} like to eat most?", "What is the favourite food of {n}?"],
             "The favourite food of {n} is {v}.", words.FOODS),
    "hobby": (["{n} enjoys {v} at the weekend.", "The hobby of {n} is {v}.", "In the evening {n} likes {v}."],
              ["What is {n}'s hobby?", "What does {n} [like|enjoy] doing?", "What is the hobby of {n}?", "Which hobby does {n} have?", "What does {n} do for fun?"],
              "The hobby of {n} is {v}.", words.HOBBIES),
    "birthday": (["{n} was born in {v}.", "The birthday of {n} is in {v}.", "{n} has a birthday in {v}."],
                 ["In which month was {n} born?", "When is {n}'s birthday?", "Which month is {n}'s birthday in?", "What month was {n} born in?", "When is the birthday of {n}?"],
                 "The birthday of {n} is in {v}.", words.MONTHS),
    "age": (["{n} is {v} years old.", "The age of {n} is {v}.", "{n} has turned {v}."],
            ["How old is {n}?", "What is {n}'s age?", "What age is {n}?", "Tell me the age of {n}.", "How many years old is {n}?"],
            "{n} is {v} years old.", [str(i) for i in range(5, 96)]),
    "phone": (["The phone number of {n} is {v}.", "{n} can be called at {v}.", "{n}'s number is {v}."],
              ["What is {n}'s phone number?", "What number do I call to reach {n}?", "How can I call {n}?", "What is the [phone |]number of {n}?", "Which phone number does {n} have?"],
              "The phone number of {n} is {v}.", None),
    "room": (["{n} sits in room {v}.", "The office of {n} is room {v}.", "You find {n} in room {v}."],
             ["In which room is {n}?", "Which room does {n} sit in?", "What is {n}'s room number?", "What room is {n}'s office?", "Where is the office of {n}?"],
             "{n} is in room {v}.", None),
    "colour": (["{n} drives a {v} car.", "The car of {n} is {v}.", "{n} has a {v} car."],
               ["What colour is {n}'s car?", "What color is the car of {n}?", "Which colour does {n}'s car have?", "What is the colour of {n}'s car?", "What colour car does {n} drive?"],
               "The car of {n} is {v}.", words.COLORS),
}
THINGS = {
    "place": (["The {n} is in the {v}.", "Somebody put the {n} in the {v}.", "The {n} is kept in the {v}."],
              ["Where is the {n}?", "Where can I find the {n}?", "In which place is the {n}?", "Do you know where the {n} is?", "Where is the {n} kept?"],
              "The {n} is in the {v}.", words.PLACES + words.CONTAINERS),
    "price": (["The {n} costs {v} dollars.", "The price of the {n} is {v} dollars.", "They sell the {n} for {v} dollars."],
              ["How much [is|does] the {n}[ cost|]?", "What is the price of the {n}?", "What does the {n} cost?", "How many dollars is the {n}?", "How expensive is the {n}?"],
              "The {n} costs {v} dollars.", [str(i) for i in range(2, 400)]),
    "colour": (["The {n} is {v}.", "The colour of the {n} is {v}.", "They painted the {n} {v}."],
               ["What colour is the {n}?", "What is the colour of the {n}?", "Which colour does the {n} have?", "What color is the {n}?", "Tell me the colour of the {n}."],
               "The {n} is {v}.", words.COLORS),
    "owner": (["The {n} belongs to {v}.", "{v} is the owner of the {n}.", "The owner of the {n} is {v}."],
              ["Who owns the {n}?", "Whose {n} is it?", "Who does the {n} belong to?", "Who is the owner of the {n}?", "To whom does the {n} belong?"],
              "The {n} belongs to {v}.", words.NAMES),
}
CODES = {
    "code": (["The code of the {n} is {v}.", "The secret code of the {n} is {v}.", "Use {v} as the code of the {n}.", "Remember: the {n} has the code {v}."],
             ["What is the code of the {n}?", "Which code does the {n} have?", "What code opens the {n}?", "Tell me the code of the {n}.", "What was the code of the {n}?", "I forgot the code of the {n}. What is it?"],
             "The code of the {n} is {v}.", None),
}
CODED = "safe gate vault locker garage elevator bike alarm printer archive server laboratory".split()


class Fact:
    def __init__(self, d: Draw, used: set):
        while True:
            kind = d.rng.random()
            if kind < 0.6:
                relation, subject = d.any(list(RELATIONS)), d.pick(words.NAMES)
                table = RELATIONS
            elif kind < 0.88:
                relation, subject, table = d.any(list(THINGS)), d.any(words.OBJECTS), THINGS
            else:
                relation, subject, table = "code", d.any(CODED), CODES
            if (relation, subject) not in used:
                break
        used.add((relation, subject))
        self.relation, self.subject = relation, subject
        self.stated, self.asked, self.answered, values = table[relation]
        number = {"phone": lambda: f"{d.int(100, 999)}-{d.int(1000, 9999)}", "room": lambda: str(d.int(2, 499)), "code": lambda: str(d.int(100, 99999))}
        self.value = number[relation]() if values is None else d.any(values)
        self.statement = d.any(self.stated).format(n=subject, v=self.value)

    def question(self, d: Draw) -> str:
        return d.ask(self.asked, n=self.subject)

    def answer(self) -> str:
        return self.answered.format(n=self.subject, v=self.value)

    def expect(self) -> dict:
        v = self.value
        for article in ("a ", "an "):
            if v.startswith(article):
                v = v[len(article):]
        return has(v)

    def task(self, text) -> tuple:
        return ("context", text, self.relation, self.subject, self.value)


def distractors(d: Draw, n: int, used: set) -> list[str]:
    """Sentences that state facts nobody asks for, or tell a little."""
    out = []
    for _ in range(n):
        kind = d.rng.random()
        if kind < 0.6:
            out.append(Fact(d, used).statement)
        elif kind < 0.8:
            out.append(f"The {d.any(words.ADJECTIVES)} {d.any(words.ANIMALS)} {d.any(words.VERBS)} near the {d.any(words.NATURE)}.")
        elif kind < 0.9:
            out.append(f"On {d.any(words.DAYS)} {d.any(words.NAMES)} bought {d.int(2, 30)} {words.plural(d.any(words.FOODS))} at the market.")
        else:
            out.append(f"{d.any(words.NAMES)} and {d.any(words.NAMES)} talked about {d.any(words.HOBBIES)} for {d.int(2, 9)} hours.")
    return out


def paragraphs(d: Draw, sentences: list[str]) -> str:
    """Sentences as running text, as lines or as notes."""
    style = d.rng.random()
    if style < 0.15 and len(sentences) < 30:
        return "\n".join("- " + s for s in sentences)
    if style < 0.25 and len(sentences) < 30:
        return "\n".join(sentences)
    out, i = [], 0
    while i < len(sentences):
        n = d.int(4, 12)
        out.append(" ".join(sentences[i: i + n]))
        i += n
    return "\n\n".join(out)


ASKS = ["{t}\n\n{q}", "{t}\n\nQuestion: {q}", "[Read this|Here is a text|Read the text]: {t}\n\n{q}", "[Text|Context|Notes]: {t}\n[Question|Q]: {q}", "{q}\n\n{t}",
        "[Answer from|Use] this text: {t}\n\n{q}", "{q} Here is what I know: {t}", "These are my notes.\n{t}\n{q}", "Given this: {t} {q}",
        "I have some facts. {t} Now tell me: {q}", "Information:\n{t}\n\n{q}"]


def near(d: Draw, many: int | None = None) -> Turn:
    used: set = set()
    fact = Fact(d, used)
    n = d.int(0, 12) if many is None else many
    sentences = distractors(d, n, used)
    missing = d.chance(0.12)
    if not missing:
        sentences.insert(d.int(0, len(sentences)), fact.statement)
    elif not sentences:
        sentences = distractors(d, 2, used)
    text = paragraphs(d, sentences)
    user = d.ask(ASKS, t=text, q=fact.question(d))
    return answered(NEAR, user, fact, text, missing)


def several(d: Draw) -> list[Turn]:
    """A text and one question or more about it, some of which it does not answer."""
    if d.chance(0.4):
        return [near(d)]
    used: set = set()
    facts = [Fact(d, used) for _ in range(d.int(2, 6))]
    missing = [d.chance(0.12) for _ in facts]
    sentences = distractors(d, d.int(0, 8), used)
    for fact, gone in zip(facts, missing):
        if not gone:
            sentences.insert(d.int(0, len(sentences)), fact.statement)
    sentences = sentences or distractors(d, 2, used)
    text = paragraphs(d, sentences)
    turns = [read_first(d, text)] if d.chance(0.15) else []
    for fact, gone in zip(facts, missing):
        user = fact.question(d) if turns else d.ask(ASKS, t=text, q=fact.question(d))
        turns.append(answered(NEAR, user, fact, text, gone))
    return turns


NOT_SAID = "The text does not say that."


def answered(skill: str, user: str, fact: Fact, text: str, missing: bool) -> Turn:
    if missing:
        expect = {"text": r"(?i)(not say|not (know|mention|state)|don't know|no information)"}
        return turn(skill, user, "I look for it, but there is nothing about that.", NOT_SAID, expect, ("missing", text, fact.subject, fact.relation))
    return turn(skill, user, f"I look for it and find: {fact.statement}", fact.answer(), fact.expect(), fact.task(text))


READ = ["[Please |]read this text. I will ask you about it later.\n\n{t}", "Here are [my |some |]notes[ for later|]:\n\n{t}", "Keep this in mind:\n\n{t}",
        "This is a long text. Just say when you have read it.\n\n{t}", "Remember [this|these facts]: {t}", "I paste some information first.\n{t}",
        "Read [this|the following] first, then I will ask.\n{t}", "Store this for our talk:\n\n{t}", "{t}\n\nDid you read that?"]
TAKEN = "I have read it. What do you want to know?"


def read_first(d: Draw, text: str) -> Turn:
    return turn(NEAR, d.ask(READ, t=text), "It is a text to keep in mind. There is no question yet.", TAKEN, {"text": r"\w"}, ("ack",))


def far(d: Draw, sentences: int) -> list[Turn]:
    """A text of so many sentences (about twelve tokens each), and questions whose facts stand near its
    beginning; the text is in the question's message or a turn before."""
    used: set = set()
    facts = [Fact(d, used) for _ in range(d.int(1, 4))]
    lines = distractors(d, sentences, used)
    for f in facts:
        at = d.int(0, max(1, len(lines) // 8)) if d.chance(0.6) else d.int(0, len(lines))
        lines.insert(at, f.statement)
    text = paragraphs(d, lines)
    turns = []
    if d.chance(0.5):
        turns.append(read_first(d, text))
    for i, f in enumerate(facts):
        q = f.question(d)
        user = d.ask([p for p in ASKS if not p.startswith("{q}")], t=text, q=q) if i == 0 and not turns else q
        turns.append(answered(FAR, user, f, text, False))
    return turns


def far_at_start(d: Draw, sentences: int) -> list[Turn]:
    """One question at the end about a fact that is the first or second sentence: the held-out measure."""
    used: set = set()
    fact = Fact(d, used)
    lines = distractors(d, sentences, used)
    lines.insert(d.int(0, 1), fact.statement)
    text = "\n\n".join(" ".join(lines[i: i + 8]) for i in range(0, len(lines), 8))
    return [answered(FAR, d.ask(["{t}\n\n{q}", "{t}\n\nQuestion: {q}", "Text: {t}\nQ: {q}", "Information:\n{t}\n\n{q}"], t=text, q=fact.question(d)), fact, text, False)]


def make(d: Draw) -> Turn:
    return near(d)
