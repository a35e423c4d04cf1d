"""What the user said earlier in the same conversation, corrected at times."""

from . import words
from .draw import Draw, Turn, has, turn

SKILL = "memory"

# told: how the user says it; kept: what the assistant answers; asked: the question
# later; answer. {v} is the value.
THINGS = {
    "name": (["[Hi|Hello|Hey], [my name is|I am|I'm] {v}.", "My name is {v}.", "I am {v}.", "[You can call|Please call|Call] me {v}.", "They call me {v}.", "I'm {v}, by the way.",
              "It's {v} here.", "Hello! {v} is my name.", "The name is {v}."], "Nice to meet you, {v}.",
             ["What is my name?", "What was my name[ again|]?", "What did I say my name was?", "Do you remember my name?", "Who am I?", "Can you tell me my name?",
              "How am I called?", "Say my name.", "What's my name?"], "Your name is {v}.", words.NAMES),
    "colour": (["My favourite colour is {v}.", "I like the color {v} best.", "The colour I like most is {v}.", "{v} is my favourite color.", "I love the colour {v}.", "My favorite color is {v}."],
               "I will remember that your favourite colour is {v}.",
               ["What is my favourite colour?", "Which colour do I like best?", "What was my favorite color?", "Do you remember my favourite colour?", "What colour do I like?", "Tell me my favourite color."],
               "Your favourite colour is {v}.", words.COLORS),
    "animal": (["My favourite animal is the {v}.", "I like the {v} best of all animals.", "The animal I love most is the {v}.", "My favorite animal is the {v}.", "No animal is better than the {v}."],
               "I will remember that your favourite animal is the {v}.",
               ["What is my favourite animal?", "Which animal do I like best?", "What animal did I say I like?", "Do you remember my favorite animal?", "Tell me my favourite animal."],
               "Your favourite animal is the {v}.", words.ANIMALS),
    "food": (["My favourite food is {v}.", "I like {v} best of all foods.", "I love to eat {v}.", "My favorite food is {v}.", "There is nothing better to eat than {v}."],
             "I will remember that your favourite food is {v}.",
             ["What is my favourite food?", "What do I like to eat?", "Which food did I say I like?", "Do you remember my favorite food?", "Tell me my favourite food."],
             "Your favourite food is {v}.", words.FOODS),
    "city": (["I live in {v}.", "My home is in {v}.", "I am from {v}.", "I moved to {v}.", "My city is {v}.", "I'm living in {v}."], "I will remember that you live in {v}.",
             ["Where do I live?", "Which city do I live in?", "What city did I say I live in?", "Do you remember where I live?", "What is my city?", "Where is my home?"],
             "You live in {v}.", words.CITIES),
    "job": (["I work as {v}.", "I am {v} by profession.", "My job: I am {v}.", "I earn my money as {v}.", "I'm {v} for a living."], "I will remember that you work as {v}.",
            ["What is my job?", "What do I do for a living?", "What did I say my job was?", "Do you remember my profession?", "What do I work as?"],
            "You work as {v}.", [words.a(j) for j in words.JOBS]),
    "pet": (["My pet is called {v}.", "I have a pet, its name is {v}.", "The name of my pet is {v}.", "My pet's name is {v}.", "I call my pet {v}."],
            "I will remember that your pet is called {v}.",
            ["What is my pet called?", "What is the name of my pet?", "What is my pet's name?", "Do you remember the name of my pet?", "How do I call my pet?"],
            "Your pet is called {v}.", words.NAMES),
    "age": (["I am {v} years old.", "My age is {v}.", "I just turned {v}.", "I'm {v} years old.", "I have been alive for {v} years."], "I will remember that you are {v} years old.",
            ["How old am I?", "What is my age?", "What did I say my age was?", "Do you remember how old I am?", "Tell me my age."], "You are {v} years old.",
            [str(i) for i in range(6, 96)]),
    "number": (["My lucky number is {v}.", "Remember the number {v}.", "Keep the number {v} in mind.", "The number to remember is {v}.", "Please note the number {v}."],
               "I will remember the number {v}.",
               ["What is the number?", "Which number did I tell you?", "What number should you remember?", "Do you remember the number?", "Tell me the number I gave you."],
               "The number is {v}.", [str(i) for i in range(10, 1000)]),
    "word": (["The secret word is {v}.", "Remember the word {v}.", "Our code word is {v}.", "Keep the word {v} in mind.", "The password is {v}."], "I will remember the word {v}.",
             ["What is the [secret |code |]word?", "Which word did I tell you?", "What word should you remember?", "Do you remember the word?", "Tell me the word I gave you."],
             "The word is {v}.", words.SHORT + words.NATURE),
}
CORRECTIONS = ["[Actually|Sorry|No|Wait], [it is|it's|I meant] {v}.", "I made a mistake, it is {v}.", "Correction: {v}.", "That was wrong. It is {v}.",
               "Hm, not {o} but {v}.", "I was wrong, it's {v}, not {o}.", "Oh, I meant to say {v}.", "Please change that to {v}.", "No, it is not {o}. It is {v}."]
UNKNOWN = "You have not told me that."


def told(d: Draw, kind: str, value: str) -> Turn:
    user = d.ask(THINGS[kind][0], v=value)
    answer = THINGS[kind][1].format(v=value)
    return turn(SKILL, user, f"The user tells me something: {value}. I keep it in mind.", answer, has(_core(value)), ("told", kind, value))


def _core(value: str) -> str:
    return value.split(" ", 1)[1] if value.startswith(("a ", "an ")) else value


def _value(d: Draw, kind: str) -> str:
    return d.pick(THINGS[kind][4])


def corrected(d: Draw, kind: str, old: str, value: str) -> Turn:
    user = d.ask(CORRECTIONS, v=value, o=old)
    return turn(SKILL, user, f"The user corrects {old} to {value}.", THINGS[kind][1].format(v=value), has(_core(value)), ("told", kind, value))


def asked(d: Draw, kind: str, value: str | None) -> Turn:
    user = d.ask(THINGS[kind][2])
    if value is None:
        return turn(SKILL, user, "The user has not said that.", UNKNOWN, {"text": r"(?i)(not (told|said|know)|don't know|haven't)"}, ("untold", kind))
    return turn(SKILL, user, f"The user said it earlier: {value}.", THINGS[kind][3].format(v=value), has(_core(value)), ("asked", kind, value))


def talk(d: Draw, between) -> list[Turn]:
    """Things told, other turns between, and questions. between makes one other turn."""
    kinds = d.some(list(THINGS), d.int(1, 4))
    known: dict[str, str] = {}
    turns = []
    for kind in kinds:
        known[kind] = _value(d, kind)
        turns.append(told(d, kind, known[kind]))
        if d.chance(0.25):
            old, known[kind] = known[kind], _value(d, kind)
            if known[kind] == old:
                continue
            turns.append(corrected(d, kind, old, known[kind]))
        if d.chance(0.4):
            turns.append(between(d))
    for _ in range(d.int(0, 3)):
        turns.append(between(d))
    for kind in d.some(list(known), d.int(1, len(known))):
        turns.append(asked(d, kind, known[kind]))
    if d.chance(0.15):
        kind = d.any([k for k in THINGS if k not in known])
        turns.append(asked(d, kind, None))
    return turns
