"""Yes or no about a text that is given: what it says, what it says otherwise, and what it does not say."""

from . import context, ways
from .draw import Draw, Turn, turn

SKILL = "yes_no"

# How one asks whether it is so, by what Fact.key is: {n} is who or what it is about, {v} the value. And what the text says.
ASKED = {
    "city": ["If I visit {n}, do I go to {v}?", "Does a letter to {n} go to {v}?", "Does {n} sleep in {v}?", "Does {n} live in {v}?", "Is {v} the home of {n}?", "Is {n}'s home in {v}?", "Is {n} living in {v}?", "Is {v} where {n} lives?"],
    "job": ["Does {n} get paid as {v}?", "At work, is {n} {v}?", "Does {n} work as {v}?", "Is {n} {v}?", "Is {n} {v} by profession?", "Is {n}'s job that of {v}?"],
    "pet": ["Does {n} feed {v}?", "Does {v} live with {n}?", "Does {n} have {v}?", "Does {n} [own|keep] {v}?", "Is {n}'s pet {v}?", "Has {n} got {v}?"],
    "food": ["Would {n} order {v}?", "Should I cook {v} for {n}?", "Does {n} like {v} [best|most]?", "Is {v} the favourite food of {n}?", "Is {n}'s favourite food {v}?", "Is it {v} that {n} likes best?"],
    "hobby": ["Does {n} spend the evenings with {v}?", "Is {n} fond of {v}?", "Is {v} the hobby of {n}?", "Does {n} enjoy {v}?", "Is {n}'s hobby {v}?", "Does {n} like {v}?"],
    "birthday": ["Does {n} get presents in {v}?", "Is {v} the birth month of {n}?", "Was {n} born in {v}?", "Is {n}'s birthday in {v}?", "Is the birthday of {n} in {v}?", "Is {v} the month in which {n} was born?"],
    "age": ["Did {n} live for {v} years?", "Is {v} how old {n} is?", "Is {n} {v} years old?", "Is {n} {v}?", "Is {v} the age of {n}?", "Is {n}'s age {v}?"],
    "phone": ["Do I dial {v} for {n}?", "Is {n} at {v}, by phone?", "Is {v} the phone number of {n}?", "Is {n}'s number {v}?", "Does {n} have the number {v}?", "Can I call {n} at {v}?"],
    "room": ["Will I find {n} at room {v}?", "Do I have to go to room {v} for {n}?", "Is {n} in room {v}?", "Does {n} sit in room {v}?", "Is {v} the room of {n}?", "Is {n}'s office room {v}?"],
    "car": ["Is {v} the paint of {n}'s car?", "Does {n} drive something {v}?", "Is {n}'s car {v}?", "Does {n} drive a {v} car?", "Is the car of {n} {v}?", "Does {n} have a {v} car?"],
    "place": ["Did somebody put the {n} in the {v}?", "Does one find the {n} in the {v}?", "Is the {n} in the {v}?", "Is the {v} where the {n} is?", "Do they keep the {n} in the {v}?", "Can I find the {n} in the {v}?"],
    "price": ["Does one pay {v} dollars for the {n}?", "Does the {n} cost {v} dollars?", "Is the price of the {n} {v} dollars?", "Is the {n} {v} dollars?", "Do I pay {v} dollars for the {n}?"],
    "colour": ["Did they paint the {n} {v}?", "Has the {n} got a {v} colour?", "Is the {n} {v}?", "Is the colour of the {n} {v}?", "Is {v} the color of the {n}?", "Does the {n} have the colour {v}?"],
    "owner": ["Is the {n} that of {v}?", "Do I ask {v} about the {n}?", "Does the {n} belong to {v}?", "Is {v} the owner of the {n}?", "Does {v} own the {n}?", "Is it {v} who owns the {n}?"],
    "code": ["Do I enter {v} at the {n}?", "Does the {n} open with {v}?", "Is {v} the code of the {n}?", "Is the code of the {n} {v}?", "Does the {n} have the code {v}?", "Does {v} open the {n}?"],
}
WHETHER = ["Is it true that {s}?", "True or not: {s}?", "Is this right: {s}?", "Yes or no: {s}?", "{s}, yes or no?", "Someone says that {s}. Is that so?", "I think that {s}. Am I right?", "Does the text say that {s}?"]
AROUND = ["{x}", "{x}", "{x}", "{x} Yes or no?", "{x} [Answer|Reply] with yes or no.", "{x} Please answer yes or no.", "[Answer|Say] yes or no. {x}", "[Tell me|Quick question]: {x}", "Yes or no? {x}"]


def _question(d: Draw, fact: context.Fact, value: str) -> str:
    if not d.heldout and (written := ways.of(f"yesno.{fact.key}")) and d.chance(0.5):
        asked = d.fill(d.any(written), n=fact.subject, v=value)
    elif d.chance(0.3):  # a statement as the text might have it
        statement = d.any(fact.stated).format(n=fact.subject, v=value).rstrip(".")
        kept = statement if statement.startswith((fact.subject, value)) else statement[0].lower() + statement[1:]
        asked = d.any(WHETHER).replace("{s}", kept)
    else:
        asked = d.fill(d.any(ASKED[fact.key]), n=fact.subject, v=value)
    return d.choose(d.any(AROUND)).replace("{x}", asked) if not d.heldout else asked


def other_value(d: Draw, fact: context.Fact) -> str:
    """A value of the same relation that the fact does not have."""
    while True:
        other = context.Fact(d, set(), like=fact)
        if other.relation == fact.relation and other.value != fact.value:
            return other.value


def judged(d: Draw, fact: context.Fact, text: str, asked: str, kind: str, user: str) -> Turn:
    """kind is yes, no or missing."""
    if kind == "missing":
        return turn(SKILL, user, f"I look for {fact.about()}, but there is nothing about that.", context.NOT_SAID, {"text": r"(?i)(not say|not (know|mention|state)|don't know|no information)"},
                    ("missing", text, fact.subject, fact.relation))
    answer = f"Yes, {fact.answer()}" if kind == "yes" else f"No, {fact.answer()}"
    thought = f"I look for {fact.about()} and find: {fact.statement} Asked is {asked}: {kind}."
    return turn(SKILL, user, thought, _joined(answer, fact), {"text": rf"(?i)^{kind}\b"}, ("verdict", text, fact.statement, asked, kind))


def _joined(answer: str, fact: context.Fact) -> str:
    """Behind a comma a sentence goes on with a small letter, if it does not begin with a name."""
    at = answer.index(", ") + 2
    return answer if answer[at:].startswith((fact.subject, fact.value)) and not answer[at:].startswith("The ") else answer[:at] + answer[at].lower() + answer[at + 1:]


def several(d: Draw, most: int = 5) -> list[Turn]:
    """A text and one question or more about it."""
    used: set = set()
    facts = [context.Fact(d, used) for _ in range(d.int(1, most))]
    kinds = [d.any(["yes", "yes", "no", "no", "missing"]) for _ in facts]
    sentences = context.distractors(d, d.int(0, 8), used)
    for fact, kind in zip(facts, kinds):
        if kind != "missing":
            sentences.insert(d.int(0, len(sentences)), fact.statement)
    sentences = sentences or context.distractors(d, 2, used)
    text, turns = context.paragraphs(d, sentences), []
    questions = list(zip(facts, kinds))
    if not d.heldout and most > 1:  # the same once more, in other words: what is asked decides, not what it is about
        questions += [(fact, d.any(["yes", "no"]) if kind != "missing" else kind) for fact, kind in questions for _ in range(d.int(0, 2))]
        d.rng.shuffle(questions)
    for fact, kind in questions:
        asked = other_value(d, fact) if kind == "no" else fact.value
        question = _question(d, fact, asked)
        user = question if turns else d.ask(context.ASKS, way="around", t=text, q=question)
        turns.append(judged(d, fact, text, asked, kind, user))
    return turns


def make(d: Draw) -> Turn:
    return several(d, 1)[0]
