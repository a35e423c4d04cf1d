"""Short instructions on a text, a word or a list."""

from . import composed, words
from .draw import Draw, Turn, exactly, has, invented, turn

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
    if not d.heldout and d.chance(0.5):
        return d.until_fresh(lambda: any_word(d), task)
    return d.until_fresh(lambda: d.any(pool), task)


def any_word(d: Draw) -> str:
    """A word on a list or on none, of one token or several, up to twelve letters: users count the letters of any."""
    while True:
        w = d.any([lambda: d.any(words.WORDS), lambda: invented(d).lower(), lambda: d.any(words.SHORT) + d.any(words.SHORT), lambda: d.any(words.SHORT) + d.any(["s", "er", "ing", "ed", "ness", "ly", "berry", "land", "room", "ship"])])()
        if 3 <= len(w) <= 12 and w.isalpha() and w.isascii():
            return w


def _items(d: Draw, low=3, high=6) -> list[str]:
    pool = d.any([words.FOODS, words.ANIMALS, words.COLORS, words.OBJECTS, words.SHORT, words.NAMES, words.CITIES])
    return d.until_fresh(lambda: d.some(pool, d.int(low, high)), "items")


def _quoted(d: Draw, text: str) -> str:
    """A text as a user sets it apart."""
    return d.any(["\"{}\"", "{}", "'{}'", "{}", "\n{}", "\n\n{}"]).format(text)


# Wordings that training puts together beside those of the lists below, since one word more or less must not make another task of it.
POLITELY = "[Please |Could you |Can you |Now |OK, |I want you to |Your task is to |||||]"
COMPOSED = {
    "repeat": POLITELY + "[return|write|give me|type|say|output|print|send back] "
        "[this|these words|the words|this text|the same text|this line|the same][ again| back| unchanged| exactly| once more| as it is||]: {q}",
    "upper": POLITELY + "[write|put|give me|show|turn|make|change] [this|these words|this text|the text|it][ for me||| again] "
        "[in|into|all in] [upper case|uppercase|capitals|capital letters|big letters|all caps|uppercase letters]: {q}",
    "lower": POLITELY + "[write|put|give me|show|turn|make|change] [this|these words|this text|the text|it][ for me||| again] "
        "[in|into|all in] [lower case|lowercase|small letters|lowercase letters]: {q}",
    "reverse_word": POLITELY + "[write|spell|say|read|show me|give me|turn around|flip|reverse] "
        "[the word |the letters of |||]{q} [backwards|in reverse|from back to front|from right to left|from the end|from the last letter to the first|the other way around].",
    "spell": "[The word|My word|The word I mean|It] is {q}. [Now spell|Spell|Please spell|How do I spell] it[ out| letter by letter| for me||][.|?|]",
    "count_letters": "[What is the |Tell me the |Give me the |The |I need the |]"
        "[length|letter count|number of letters|count of letters] [of|in|for] [the word |]{q}[?|.|, please|, in letters|]",
    "sort_words": POLITELY + "[sort|order|arrange|list|put|write] [these|these words|them|the words|this list] "
        "[alphabetically|from a to z|by alphabet|in alphabetical order|by their first letter]: {q}",
    "nth": "[Which|What|Tell me which|Give me the one that] [is|comes|stands] {n} [in|on] [this|my|the] list[?||]: {q}",
    "join": POLITELY + "[join|connect|link|combine|put together|write] [these|these words|them|the words|all of these] "
        "[with|using] {n} [between them|in between|as separator|between the words|]: {q}",
    "unique": POLITELY + "[write|give me|list|show|return] [this list|these words|the list|my list|the words|these] "
        "[without repeats|without duplicates|with every word only once|with each item once|without double entries]: {q}",
    "replace": POLITELY + "[replace {o} with {n}|replace the word {o} by {n}|change {o} to {n}|swap {o} for {n}|"
        "write {n} instead of {o}|put {n} where {o} is|use {n} for {o}] [in this|in this text|here|in these words|in this line|]: {q}",
}


def repeat(d: Draw) -> Turn:
    x = _sentence(d, 1, 8)
    user = d.ask([
        "[Please |Can you |]repeat [this|the following|after me|these words]: {q}", "[Please |]say [exactly |]this: {q}",
        "Repeat this [text|sentence] [word for word|exactly]: {q}", "Write [exactly |just |]this [back|again]: {q}",
        "[Please |]echo [this|the text]: {q}", "Say {q}", "Copy this [text|line]: {q}", "Give me back [exactly |]this text: {q}",
        "I want you to repeat: {q}", "Repeat: {q}", "[Answer|Reply] with [exactly |just |only ]this: {q}", "Type out the following: {q}",
        "Say the [words|following words]: {q}", "[Just |]output this text: {q}", "Return the text unchanged: {q}", "Parrot this: {q}",
        "[Could you|Would you] [please |]repeat [this|that] back to me: {q}", "[Hey|Hi|OK], [please |]say [this|the following] back to me: {q}",
        "{q}\n\nRepeat [that|this|the line above][ word for word| exactly|][, please|].", "{q}\nSay that [again|back to me][, please|].",
        "Text: {q}\n[Repeat|Copy|Echo] it [exactly|unchanged|word for word].",
        "[I am testing something|This is a test|Just a test]: [repeat|echo|write] exactly {q}", "Echo: {q}", "Copy: {q}",
        "Now [write|type|copy] the same text [again|once more]: {q}",
        "Can you [copy|type|write] [this|the following] [exactly as it is|unchanged|without changes]: {q}", "Don't change anything, [just |]repeat: {q}",
        "[Please |]give this text back [unchanged|as it is|word for word]: {q}",
        "I [want|need] [exactly this text|this text unchanged|the same text] back: {q}", "Your [answer|reply] [should|must] be [exactly |only |]this: {q}",
        "[Answer|Reply] with nothing but: {q}", "[Only|Just] [say|write|type] {q}", "ok so [just |]repeat what I [say|write|type]: {q}",
        "Quick test: [echo|copy|return] [this|the following] [text|line]: {q}", "Say after me: {q}",
        "[Please |]print [this|the text|the following text]: {q}", "Print exactly: {q}", "Return [exactly |]these words: {q}",
        "I will say something and you [repeat|echo] it: {q}", "Here is a [text|line|sentence]: {q}\n[Please |]return it [unchanged|as it is].",
        "What I want you to [say|write] is: {q}", "Please answer with the same [words|text|line] that I give you: {q}",
    ], way="instruct.repeat", compose=composed.either(COMPOSED["repeat"], composed.instruction("repeat", "it")), q=_quoted(d, x))
    return turn(SKILL, user, f"I repeat the text as it is: {x}", x, exactly(x), ("repeat", x))


def upper(d: Draw) -> Turn:
    x = _sentence(d, 1, 6)
    user = d.ask([
        "[Please |]write [this|the following] in [upper case|uppercase|capital letters|capitals]: {q}", "Make this [upper case|uppercase|all caps]: {q}",
        "[Turn|Convert|Change] [this|the text] [to|into] [upper case|uppercase|capital letters]: {q}", "Upper case: {q}", "Uppercase this: {q}",
        "Put {q} in [upper case|capitals|all caps].", "Give me this [text |]in [capital letters|all caps]: {q}", "Capitalize every letter of this: {q}",
        "How does this look in [upper case|uppercase|capitals]: {q}", "Write all letters as capitals: {q}",
        "[Could you|Can you|Would you] [write|put|give me] this in [upper case|uppercase|capitals|all caps]: {q}", "All caps: {q}",
        "In [capitals|capital letters|all caps][, please|]: {q}", "{q}\n\n[Write|Put|Turn] that [in|into] [upper case|capitals|capital letters][, please|].",
        "{q}\nNow in [uppercase|all caps|capital letters].", "Text: {q}\nMake it [all caps|upper case|uppercase].",
        "I need [this|this text] in [capitals|upper case|uppercase letters]: {q}",
        "[I need this for a form|This is for a sign|It is for a poster], [please write|write|put] it in [capitals|all caps|upper case]: {q}",
        "[Hey|OK|Hi], [make|turn|change] this [all upper case|to capitals|into capital letters]: {q}",
        "[Please |]capitalize [all letters|every letter|all of this]: {q}", "[Change|Turn|Convert] every letter [to|into] [a capital|upper case]: {q}",
        "What is this in [upper case|capital letters|capitals]: {q}", "[Please |]type [this|the following] with caps lock on: {q}",
        "[Use|Write with] only capital letters: {q}", "Big letters[ only|, please|]: {q}", "Write this in big letters: {q}",
        "Uppercase[ version|, please|]: {q}", "Give me the uppercase version of this: {q}", "ok so [this|this text] should be in [upper case|all caps]: {q}",
        "Rewrite [this|the text] with [all capitals|all letters in upper case|only capitals]: {q}", "Shout this, I mean write it in [capitals|all caps]: {q}",
        "How do I write this in [capitals|capital letters|uppercase]? {q}", "Answer with this text in [capitals|uppercase|all caps]: {q}",
    ], way="instruct.upper", compose=composed.either(COMPOSED["upper"], composed.instruction("upper", "it")), q=_quoted(d, x))
    return turn(SKILL, user, _changed(x, str.upper), x.upper(), exactly(x.upper()), ("upper", x))


def _changed(text: str, change) -> str:
    """A thought that changes a text word by word."""
    return ", ".join(f"{w}: {change(w)}" for w in text.split()) + "."


def lower(d: Draw) -> Turn:
    x = _sentence(d, 1, 6)
    x = x.upper() if d.chance(0.5) else x.title()
    user = d.ask([
        "[Please |]write [this|the following] in [lower case|lowercase|small letters]: {q}", "Make this [lower case|lowercase]: {q}",
        "[Turn|Convert|Change] [this|the text] [to|into] [lower case|lowercase|small letters]: {q}", "Lower case: {q}", "Lowercase this: {q}",
        "Put {q} in [lower case|small letters].", "Give me this [text |]in [small letters|lower case]: {q}", "Remove the capitals from this: {q}",
        "How does this look in [lower case|lowercase]: {q}", "Write all letters small: {q}",
        "[Could you|Can you|Would you] [write|put|give me] this in [lower case|lowercase|small letters]: {q}", "All small letters: {q}",
        "In [lower case letters|lowercase letters|small letters][, please|]: {q}",
        "{q}\n\n[Write|Put|Turn] that [in|into] [lower case|small letters|lowercase][, please|].", "{q}\nNow in [lowercase|small letters|lower case].",
        "Text: {q}\nMake it [all lower case|lowercase|lower case].", "I need [this|this text] in [lower case|small letters|lowercase letters]: {q}",
        "[I need this for a form|This is for a file name|It is for an address], [please write|write|put] it in [lower case|small letters|lowercase]: {q}",
        "[Hey|OK|Hi], [make|turn|change] this [all lower case|to small letters|into lowercase]: {q}", "No capitals[, please|]: {q}",
        "[Write|Type] this without capitals: {q}", "[Change|Turn|Convert] every letter [to|into] [a small one|lower case]: {q}",
        "What is this in [lower case|small letters|lowercase]: {q}", "[Please |]type [this|the following] with caps lock off: {q}",
        "[Use|Write with] only small letters: {q}", "Take [the|all] capitals out of this: {q}", "Lowercase[ version|, please|]: {q}",
        "Give me the lowercase version of this: {q}", "ok so [this|this text] should be in [lower case|small letters]: {q}",
        "Rewrite [this|the text] with [no capitals|all letters in lower case|only small letters]: {q}",
        "Somebody wrote this with capitals, [change it to|make it] [lower case|lowercase|small letters]: {q}",
        "How do I write this in [lower case|small letters|lowercase]? {q}", "Answer with this text in [lower case|lowercase|small letters]: {q}",
    ], way="instruct.lower", compose=composed.either(COMPOSED["lower"], composed.instruction("lower", "it")), q=_quoted(d, x))
    return turn(SKILL, user, _changed(x, str.lower), x.lower(), exactly(x.lower()), ("lower", x))


def reverse_words(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(2, 6)), "reversed words")
    r = x[::-1]
    user = d.ask([
        "[Please |]reverse the [order of the |]words[ in this|]: {q}", "Write these words in [reverse|backward|the opposite] order: {q}",
        "[Put|Give me] the words [in reverse order|backwards]: {q}", "Say the words from last to first: {q}", "Reverse the word order of {q}",
        "Turn the order of these words around: {q}", "List these words backwards: {q}", "Words in reverse: {q}",
        "[Could you|Can you|Would you] [reverse|turn around|flip] the order of [these|the] words: {q}",
        "[Last word first|Last word first, first word last]: {q}", "Words from last to first: {q}", "Reverse order of words[, please|]: {q}",
        "{q}\n\n[Reverse|Flip|Turn around] the [word order|order of the words].", "{q}\nNow the [same |]words [in reverse order|from last to first].",
        "Text: {q}\n[Write|Say|Give me] its words in [reverse|the opposite] order.", "[Hey|OK|Hi], [write|say|list] these words in reverse order: {q}",
        "Start with the last word and end with the first: {q}", "[Write|Give|List] the words [of this |]starting with the last [one|word]: {q}",
        "[I am testing something|This is a puzzle]: [write|put] the words in [reverse|backward] order: {q}", "[Please |]flip the word order: {q}",
        "[Turn|Change] this so that the last word comes first: {q}", "Rewrite this with the words in [reverse|the opposite] order: {q}",
        "Reverse these words[, not their letters|]: {q}", "What are these words in reverse order? {q}",
        "How does this [read|look] with the words from last to first: {q}", "I [need|want] these words in [reverse|the opposite] order: {q}",
        "Swap the order of the words, last to first: {q}", "[Please |]put the last word first, and so on: {q}", "ok so reverse the order: {q}",
        "Say this with its words backwards, from the last word to the first: {q}", "Order of words reversed: {q}",
        "Give me the words the other way around, last one first: {q}",
    ], way="instruct.reverse_words", compose=composed.instruction("reverse_words"), q=_quoted(d, " ".join(x)))
    return turn(SKILL, user, f"The words are {', '.join(x)}. From last to first: {', '.join(r)}.", " ".join(r), exactly(" ".join(r)),
                ("reverse_words", x))


def reverse_word(d: Draw) -> Turn:
    x = _word(d, "reversed word", 6)
    user = d.ask([
        "[Please |]reverse the [word|letters of the word|letters of]: {q}", "Spell {q} backwards.", "Write the word {q} backwards.", "Reverse {q}",
        "What is {q} [spelled |written |]backwards?", "Write {q} from the last letter to the first.", "Give me the letters of {q} in reverse order.",
        "[Can you |Please ]write {q} in reverse[?|.]", "Flip the letters of {q}.",
        "{q} backwards", "{q} in reverse[, please|]", "Backwards: {q}", "{q} from back to front[, please|].",
        "[Could you|Can you|Would you] [spell|write|say] {q} backwards?", "How do you [spell|write] {q} backwards?", "[Hey|OK|Hi], what is {q} in reverse?",
        "[Please |]reverse [the letters in|the spelling of] {q}.", "Turn {q} around, letter by letter.", "[Turn|Flip] the word {q} around.",
        "Read {q} from [right to left|back to front].", "[Write|Spell] {q} from [right to left|back to front].", "What word do I get if I reverse {q}?",
        "What do you get [if|when] you [reverse|flip|turn around] the letters of {q}?", "The word is {q}. [Write|Spell|Say] it backwards.",
        "My word: {q}\n[Reverse|Flip] its letters.", "[This is a puzzle|It is for a game]: [reverse|flip|write backwards] the word {q}.",
        "[I need|I want|Give me] {q} [spelled |written |]backwards.", "[Start|Begin] with the last letter and [spell|write] {q} backwards.",
        "Mirror the word {q}.", "Mirror {q}, last letter first.", "ok so how does {q} look backwards?",
        "How does {q} read from the last letter to the first?", "Last letter first: {q}",
    ], way="instruct.reverse_word", compose=composed.either(COMPOSED["reverse_word"], composed.instruction("reverse_word", "word")), q=f'"{x}"' if d.chance(0.5) else x)
    r = x[::-1]
    shown = f"The letters are {' '.join(x)}. From the end: {' '.join(r)}."
    t = turn(SKILL, user, shown, r, {"text": r"(^|\s)" + f"[\"'`]?{r}[\"'`]?[.!]?$"}, ("reverse_word", x))
    t.reply[0]["letters"] = (r,)
    t.reply[0]["worked"] = f"{shown} That makes {r}."
    return t


def spell(d: Draw) -> Turn:
    x = _word(d, "spelled word")
    user = d.ask([
        "[Please |]spell [the word |]{q}.", "How do you spell {q}?", "Spell out {q} letter by letter.", "What are the letters of {q}?",
        "Write {q} with spaces between the letters.", "[Please |]list the letters [of|in] {q}.", "Break {q} into letters.",
        "Which letters does the word {q} have?",
        "[Could you|Can you|Would you] spell [the word |]{q}[ for me|]?", "How is {q} spelled?", "How is the word {q} written, letter by letter?",
        "{q}, letter by letter[, please|].", "Spelling of {q}[, please|]?", "What is the spelling of {q}?", "Letters of {q}[, please|].",
        "[Hey|OK|Hi], how do [you|I] spell [the word |]{q}?", "[I need|Give me|Tell me] the spelling of {q}.",
        "[Give me|Tell me|Write] the letters of {q}[, one by one| one at a time|].", "[Write|Say|Spell] {q} one letter at a time.",
        "[I need this for a form|I am on the phone|It is for a form]: [spell|spell out] {q}.", "The word is {q}. [Spell it|Spell it out|List its letters].",
        "My word: {q}\nSpell it[ letter by letter| out|].", "Quick question: how do you spell {q}?",
        "[Split|Separate|Break up] {q} into [its |single ]letters.", "[Take|Pull] {q} apart, letter by letter.",
        "[Put|Leave] a space between the letters of {q}.", "Spell it: {q}", "[Please |]spell out: {q}", "ok so which letters are in {q}[, in order|]?",
        "I don't know how to spell {q}, [tell me|help me|please help].", "What letters [make up|are in] the word {q}?",
        "[Show|Name] [me |]the letters of {q} in order.", "[Show|Write] {q} with its letters apart.",
    ], way="instruct.spell", compose=composed.either(COMPOSED["spell"], composed.instruction("spell", "word")), q=f'"{x}"' if d.chance(0.5) else x)
    return turn(SKILL, user, f"The word is {x}, one letter at a time.", " ".join(x), {"text": "(?i)^" + "[ ,.-]+".join(x) + r"\.?$"}, ("spell", x))


def count_words(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(1, 9)), "counted words")
    n = len(x)
    user = d.ask([
        "How many words [are in this|are there|does this have|are in this sentence]: {q}", "Count the words[ in this| in this text|]: {q}",
        "[Please |]count how many words this [text |sentence |]has: {q}", "What is the [number of words|word count] [of this|in this]: {q}",
        "Tell me how many words this is: {q}", "Number of words: {q}", "Word count[, please|]: {q}", "I need the number of words here: {q}",
        "[Could you|Can you|Would you] count the words [here|for me|in this]: {q}", "How many words: {q}",
        "{q}\n\nHow many words [is that|are that|are there|does that have]?", "{q}\nCount [the|these] words[, please|].",
        "Text: {q}\nHow many words does it have?", "Text: {q}\n[Give|Tell] me the word count.", "[Hey|OK|Hi], how many words [do you see here|are here]: {q}",
        "Quick question: how many words [are in|does this have|are there in this]: {q}",
        "[I need this for a form|There is a limit of words|It is for an essay]: [count the words|how many words are there] here: {q}",
        "[Tell me|Find|Give me] the number of words [in this text|here|in this line]: {q}",
        "[Tell me|Find|Give me] the word count[ of this text| of this line|]: {q}", "How long is this text[, in words|, counted in words]: {q}",
        "[Please |]tell me how many words [I wrote|there are|you see]: {q}", "I wrote this: {q}\nHow many words [are that|is it|did I write]?",
        "Count these words[ for me|, please|]: {q}", "[Please |]count [them|all words]: {q}", "What number of words does this [line|text] have: {q}",
        "ok so how many words [is this|are these]: {q}", "Words in this text: how many? {q}", "The number of words in {q} is what?",
        "This [line|sentence|text] has how many words? {q}", "Do you know how many words this has? {q}", "Count word by word: {q}",
    ], way="instruct.count_words", compose=composed.instruction("count_words"), q=_quoted(d, " ".join(x)))
    steps = ", ".join(f"{w} {i + 1}" for i, w in enumerate(x))
    answer = f"{n} word{'s' if n > 1 else ''}."
    return turn(SKILL, user, f"I count: {steps}.", answer, has(str(n)), ("count_words", x))


def count_letters(d: Draw) -> Turn:
    x = _word(d, "counted letters")
    user = d.ask([
        "How many letters [are in|does] [the word |]{q}[ have|]?", "Count the letters [in|of] [the word |]{q}.",
        "[Please |]count how many letters {q} has.", "What is the length of [the word |]{q}?", "How long is the word {q}?",
        "Tell me the number of letters in {q}.", "Number of letters in {q}?", "{q}: how many letters?",
        "[Could you|Can you|Would you] count the letters [in|of] {q}[ for me|]?", "How many letters: {q}", "{q}, how many letters is that?",
        "How many letters long is [the word |]{q}?", "Letter count of {q}[, please|]?", "What is the letter count [of|for] [the word |]{q}?",
        "[Hey|OK|Hi], how many letters [are in|are there in] {q}?", "Quick question: how many letters does {q} have?",
        "[It is for a crossword|I need this for a puzzle]: how many letters [has|are in|does it take to write] {q}?",
        "[Find|Give me|Tell me] the length of [the word |]{q}[, in letters|].", "What is the number of letters [in|of] {q}?",
        "[Find|Count|Give me] the number of letters [in|of] the word {q}.", "The word is {q}. How many letters [does it have|is that|are there]?",
        "My word: {q}\n[Count its letters|How long is it]?", "With how many letters [is|do you write] {q}?", "The word {q} has how many letters?",
        "Length of {q}?", "Length of the word {q}, please.", "ok so how long is {q}, [in letters|counted in letters]?",
        "Do you know how many letters {q} has?", "[Please |]tell me how long the word {q} is.", "[Please |]tell me how many letters there are in {q}.",
        "Count all letters of {q}.",
    ], way="instruct.count_letters", compose=composed.either(COMPOSED["count_letters"], composed.instruction("count_letters", "word")), q=f'"{x}"' if d.chance(0.5) else x)
    steps = ", ".join(f"{c} {i + 1}" for i, c in enumerate(x))
    t = turn(SKILL, user, f"I count: {steps}.", f"{len(x)} letters.", {"text": rf"(^|[^\d]){len(x)}( letters)?\.?$"}, ("count_letters", x))
    t.reply[0]["worked"] = f"{steps}. {len(x)} letters."  # a token does not show its letters
    return t


def count_letter(d: Draw) -> Turn:
    x = _word(d, "counted letter")
    c = d.any(x) if d.chance(0.85) else d.any("abcdeilmnorst")
    n = x.count(c)
    user = d.ask([
        "How many times [does|is] the letter {c} [appear |]in {q}?", "How many {c}'s are in [the word |]{q}?", "Count the letter {c} in {q}.",
        "How often does {c} occur in [the word |]{q}?", "Number of {c} in {q}?", "In the word {q}, how many {c} are there?",
        "[Please |]count how often the letter {c} is in {q}.", "How many letters {c} does {q} have?",
        "[Could you|Can you|Would you] count the letter {c} in [the word |]{q}?", "How many {c}: {q}", "{q}: how many {c}'s?",
        "{q}: how often is the letter {c} in it?", "How many times is {c} in {q}?", "How many times do you see [the letter |]{c} in [the word |]{q}?",
        "[Hey|OK|Hi], how many {c}'s does {q} have?", "Quick question: how many {c}'s are [there |]in {q}?",
        "[Count|Find] [every|each] {c} in {q}. How many [are there|is that]?", "[Give me|Tell me|Find] the number of {c}'s in [the word |]{q}.",
        "What is the number of letters {c} in {q}?", "The word is {q}. How many {c}'s [does it have|are in it]?",
        "My word: {q}\nHow often does [the letter |]{c} occur?", "[It is for a game|It is for a puzzle]: how many times does {c} appear in {q}?",
        "How often do I need the letter {c} to write {q}?", "How often is {c} used in [the word |]{q}?", "How many of the letters [of|in] {q} are {c}?",
        "[Tell me|Do you know] how many {c}'s are in {q}?", "[Tell me|Do you know] how often the letter {c} appears in {q}?", "Count {c} in {q}[, please|].",
        "ok so how many times does {c} occur in {q}?", "If I write {q}, how many times do I write {c}?",
        "[Look at|Take] the word {q}. How many times [do you find|is there] [the letter|a letter] {c}?", "The word {q} has how many {c}'s?",
    ], way="instruct.count_letter", compose=composed.instruction("count_letter", "word"), q=f'"{x}"' if d.chance(0.5) else x, c=c)
    steps, k = [], 0
    for letter in x:
        k += letter == c
        steps.append(f"{letter} {k}" if letter == c else letter)
    shown = f"{', '.join(steps)}. That makes {n}."
    t = turn(SKILL, user, f"I look for {c}: {shown}", f"{n}.", {"text": rf"(^|[^\d]){n}\.?$"}, ("count_letter", x, c))
    t.reply[0]["worked"] = shown
    return t


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
        "[Could you|Can you|Would you] [sort|order|arrange] [these|these words|this list] [alphabetically|by alphabet|from a to z]: {q}",
        "Sorted[ by alphabet| alphabetically| from a to z]: {q}", "From a to z: {q}", "[By alphabet|In alphabetical order][, please|]: {q}",
        "{q}\n\n[Sort|Order|Arrange] [these|them|this list] alphabetically.", "{q}\nPut [these|them] in [alphabetical order|order from a to z][, please|].",
        "{q}: sort by alphabet", "[Here are some words|Here is a list|My list]: {q}\n[Sort|Order] [them|the words] by alphabet.",
        "[Hey|OK|Hi], [put|arrange|sort] [these words|these|my list] [in alphabetical order|from a to z]: {q}",
        "[I need this for an index|It is for a list of names|It is for a catalogue]: [sort|order] [these|the words] alphabetically: {q}",
        "Alphabetize [this list|these words|these]: {q}", "[Please |]alphabetize: {q}",
        "What is the alphabetical order of [these words|these|this list]? {q}", "How [are these words|is this list] sorted alphabetically? {q}",
        "Which of these comes first in the alphabet, which next? Sort them: {q}",
        "[Give me|I want|I need] [these words|these|the list] in alphabetical order: {q}",
        "List [these words|these|them] [alphabetically|from a to z|in alphabetical order]: {q}", "Order from a to z: {q}",
        "Order by alphabet[, please|]: {q}", "Quick question: what is the alphabetical order of {q}?",
        "ok so sort [these|this list] [for me|from a to z|please]: {q}", "Sort the following [words|list] by their first letter: {q}",
        "[Order|Arrange] the words by their first letter: {q}", "Rewrite this list in alphabetical order: {q}",
        "[Please |]bring [these words|this list] into alphabetical order: {q}",
    ], way="instruct.sort_words", compose=composed.either(COMPOSED["sort_words"], composed.instruction("sort_words", "them")), q=", ".join(x))
    thought = "The first letters in order: " + ", ".join(f"{w[0]} {w}" for w in r) + "."
    return turn(SKILL, user, thought, ", ".join(r), exactly(", ".join(r)), ("sort_words", x))


def sort_numbers(d: Draw) -> Turn:
    high = d.any([20, 99, 99, 500])
    x = d.until_fresh(lambda: d.some(range(1, high + 1), d.int(3, 5)), "sorted numbers")
    down = d.chance(0.35)
    r = sorted(x, reverse=down)
    up = ["[Please |]sort these numbers: {q}", "Sort [these|the numbers] [from small to large|from smallest to largest|in ascending order|ascending]: {q}",
          "Put these numbers in [ascending |increasing |]order: {q}", "Order these numbers from low to high: {q}", "Sort: {q}",
          "Arrange [these numbers|them] from the smallest to the largest: {q}", "Numbers in rising order[, please|]: {q}", "[Please |]order these numbers: {q}",
          "[Could you|Can you|Would you] [sort|order|arrange] these numbers[ for me| from small to large|]: {q}", "Sorted: {q}",
          "[In ascending order|Ascending|In rising order][, please|]: {q}", "Smallest first: {q}",
          "{q}\n\n[Sort|Order|Arrange] [these|them] [from small to large|from low to high|with the smallest first].",
          "{q}\nPut [these|them] in [ascending|rising|increasing] order[, please|].", "{q}: sort [ascending|from small to large|from low to high]",
          "[Here are some numbers|My numbers|These are the numbers]: {q}\n[Sort|Order] them [from low to high|from the smallest up].",
          "[Hey|OK|Hi], [sort|order] these [numbers|from the smallest to the largest]: {q}",
          "[I need this for a table|It is for a chart]: [sort|order|arrange] the numbers from [low to high|small to large]: {q}",
          "[List|Write] [these|these numbers|the numbers] [with the smallest first|from the smallest up|from small to large]: {q}",
          "[Give me|I want|I need] these numbers in [ascending|rising|increasing] order: {q}", "What is the ascending order of these numbers? {q}",
          "What are these numbers sorted from smallest to largest? {q}", "How do these numbers look in [rising|ascending] order: {q}",
          "[From low to high|From small to large][, please|]: {q}", "[Please |]arrange in [ascending|increasing] order: {q}",
          "Line these numbers up from [low to high|smallest to largest]: {q}", "Line up these numbers, the smallest first: {q}",
          "ok so sort these[ numbers|] for me: {q}", "Rewrite this list of numbers in [ascending|rising] order: {q}",
          "[Please |]bring these numbers into [ascending|rising|increasing] order: {q}", "Order by size, [smallest|the smallest] first: {q}",
          "Sort by size, starting with the smallest: {q}"]
    falling = ["[Please |]sort these numbers [from large to small|in descending order|from largest to smallest]: {q}", "Sort descending: {q}",
               "Put these numbers in [descending|decreasing] order: {q}", "Order these numbers from high to low: {q}",
               "Arrange [these numbers|them] from the largest to the smallest: {q}", "Numbers in falling order[, please|]: {q}",
               "Sort these with the largest first: {q}", "List these numbers, biggest first: {q}",
               "[Could you|Can you|Would you] [sort|order|arrange] these numbers from [large to small|high to low|largest to smallest]: {q}",
               "[In descending order|Descending|In falling order][, please|]: {q}", "Largest first: {q}",
               "{q}\n\n[Sort|Order|Arrange] [these|them] [from large to small|from high to low|with the largest first].",
               "{q}\nPut [these|them] in [descending|falling|decreasing] order[, please|].", "{q}: sort [descending|from large to small|from high to low]",
               "[Here are some numbers|My numbers|These are the numbers]: {q}\n[Sort|Order] them [from high to low|from the largest down].",
               "[Hey|OK|Hi], [sort|order] these from the [largest|biggest] to the smallest: {q}",
               "[I need this for a table|These are scores]: [sort|order|arrange] the numbers from [high to low|large to small]: {q}",
               "[List|Write] [these|these numbers|the numbers] [with the largest first|from the largest down|from large to small]: {q}",
               "[Give me|I want|I need] these numbers in [descending|falling|decreasing] order: {q}", "What is the descending order of these numbers? {q}",
               "What are these numbers sorted from largest to smallest? {q}", "How do these numbers look in [falling|descending] order: {q}",
               "[From high to low|From large to small][, please|]: {q}", "[Please |]arrange in [descending|decreasing] order: {q}",
               "Line these numbers up from [high to low|largest to smallest]: {q}", "Line up these numbers, the biggest first: {q}",
               "ok so sort these from the biggest [down|to the smallest]: {q}", "Rewrite this list of numbers in [descending|falling] order: {q}",
               "[Please |]bring these numbers into [descending|falling|decreasing] order: {q}", "Order by size, [largest|the largest] first: {q}",
               "Sort by size, starting with the [largest|biggest]: {q}"]
    user = d.ask(falling if down else up, way="instruct.sort_down" if down else "instruct.sort_up", compose=composed.instruction("sort_down" if down else "sort_up", "numbers"), q=", ".join(map(str, x)))
    name = "largest" if down else "smallest"
    steps, rest = [], x
    for n in r[:-1]:  # each is the least, or the most, of those that are left
        steps.append(f"{', '.join(map(str, rest))}: {'' if steps else f'the {name} is '}{n}.")
        rest = [k for k in rest if k != n]
    thought = " ".join([*steps, f"Then {r[-1]}."])
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
        "[Could you|Can you|Would you] [tell|give] me the {n} [item|one|word] [of|in] this list: {q}", "The {n} [one|item|entry][, please|]: {q}",
        "{n} [item|entry|word]: {q}", "{q}\n\n[Give me|Tell me|Name|Pick] the {n} [one|item|entry].", "{q}: what is the {n} [one|item|entry]?",
        "{q}\nOnly the {n} [one|item|word][, please|].", "My list: {q}. [What|Which one] is the {n}?",
        "I have [a list|these items|these]: {q}. [Which one|What] [is|comes] {n}?", "[Hey|OK|Hi], [what|which one] is the {n} [in|of] this list: {q}",
        "Quick question: [what|which one] is the {n} [item|entry] of {q}?",
        "[It is for a quiz|I need one item only|I must choose one]: [name|give me|tell me] the {n} of these: {q}",
        "[Name|Take|Choose|Pick] the {n} of [these|these items|these words]: {q}",
        "Which [item|word|entry] [comes|is] {n} [here|in this list|in the list]? {q}", "What comes {n} in this list: {q}",
        "What [stands|is] in {n} place [here|in this list]: {q}", "[Look at|Read|Here is] the list {q}. Which [item|entry|one] is {n}?",
        "If the list is {q}, [what|which one] is the {n} item?", "[Find|Show me|Select] the {n} [entry|item|element]: {q}",
        "[Find|Select|Take] the {n} [entry|item|element] [of|from] this list: {q}", "Items: {q}\n[Select|Show|Return] the {n}[ one|].",
        "[Answer|Reply] with the {n} [item|entry|element] only: {q}", "[Answer|Reply] with the {n} of these and nothing else: {q}",
        "ok so which is the {n} [item|one|entry] here: {q}", "I [want|need] [only |]the {n} [item|entry|one] of this list: {q}",
        "[Do you know|Can you say] which one is {n}: {q}",
    ], way="instruct.nth", compose=composed.either(COMPOSED["nth"], composed.instruction("nth", "it")), q=", ".join(x), n=words.ORDINALS[i])
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
        "[Could you|Can you|Would you] [tell|give] me the {n} word of this: {q}", "The {n} word of {q}", "The {n} word[, please|]: {q}",
        "{q}\n\n[What|Which] is the {n} word?", "{q}\n[Name|Give me|Tell me] the {n} word[, please|].",
        "Text: {q}\n[Give me|Return|Show] the {n} word[ only|].", "Text: {q}\nWhich word is {n}?",
        "[Hey|OK|Hi], what is the {n} word [here|of this text|in this]: {q}", "Quick question: which is the {n} word [here|of this text|in this]: {q}",
        "[Find|Show me|Take|Select] the {n} word [of this line|of the text|here]: {q}",
        "Leave out all but the {n} word: {q}", "[Please |]return [only |just |]the {n} word [of|from] this: {q}",
        "[Please |]return nothing but the {n} word: {q}", "In this line, which word is {n}? {q}", "In this text, what is the {n} word? {q}",
        "I [need|want] to know the {n} word of this: {q}", "Read this and [tell me|give me|name] the {n} word: {q}",
        "[It is for a game|This is a puzzle]: [find|name|pick] the {n} word [of this|here]: {q}", "ok so what is the {n} word: {q}",
        "[Do you know|Can you say] what the {n} word of this is? {q}", "[Take|Pick|Select] only the {n} word from this: {q}",
        "[Write|Say|Copy] only the {n} word of this: {q}", "[Write|Say|Copy] the {n} word[ of this sentence|] and leave out the rest: {q}",
    ], way="instruct.first_last", compose=composed.instruction("first_last"), q=_quoted(d, " ".join(x)), n="last" if last else "first")
    return turn(SKILL, user, f"The words are {', '.join(x)}. The {'last' if last else 'first'} is {w}.", w, exactly(w), ("first_last", x, last))


def join(d: Draw) -> Turn:
    x = _items(d, 2, 5)
    sep, name = d.any([("-", "a dash"), ("-", "-"), ("+", "a plus"), ("/", "a slash"), ("_", "an underscore"), (";", ";"), ("+", "+"), ("/", "/")])
    user = d.ask([
        "[Please |]join [these words|these|them] with {n}: {q}", "Join the words with {n} between them: {q}", "Connect these [words |]with {n}: {q}",
        "Put {n} between these words: {q}", "Combine these words[ into one string|] using {n}: {q}", "Glue these together with {n}: {q}",
        "Make one [text|string] of these words with {n} between: {q}", "Write these words joined by {n}: {q}",
        "[Could you|Can you|Would you] [join|connect|link] these [words |]with {n}: {q}", "Joined with {n}: {q}", "[With|Using] {n} in between: {q}",
        "{q}\n\n[Join|Connect|Link] [them|these|these words] with {n}.", "{q}\nNow put {n} between [them|the words].", "{q}: [join|connect|combine] with {n}",
        "My words: {q}\n[Join|Combine|Glue] them with {n}.", "[Hey|OK|Hi], [join|link|connect] [these|these words] using {n}: {q}",
        "[I need this for a file name|I need one string|It is for a label]: [join|combine] [these|the words] with {n}: {q}",
        "[Please |]link [these|these words|the words] with {n}: {q}", "Use {n} to [join|connect|link] [these|these words]: {q}",
        "Separate [these|the words] [by|with] {n}: {q}", "Write [these|the words] [separated by|with] {n} and no spaces: {q}",
        "Write [them|the words] in one piece, with {n} between: {q}", "Make [it |]one [word|string], with {n} as separator: {q}",
        "[Join|Combine], separator {n}: {q}", "Separator {n}: join {q}", "[Turn|Make] [these|these words] into one [text|string], separated by {n}: {q}",
        "[Insert|Place] {n} between [these|these words|the words]: {q}", "[Insert|Place] {n} between each of these: {q}",
        "How do these look joined [by|with] {n}? {q}", "What do you get if you join [these|these words] with {n}? {q}",
        "ok so one string, joined [by|with] {n}: {q}", "Stick [these|these words] together with {n}: {q}",
        "Give me [these|these words] joined [by|with] {n}: {q}",
    ], way="instruct.join", compose=composed.either(COMPOSED["join"], composed.instruction("join", "them")), q=", ".join(x) if d.chance(0.7) else " ".join(x), n=name)
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
        "[Could you|Can you|Would you] remove the [duplicates|repeats|repeated words] [here|from this list]: {q}", "No [duplicates|repeats][, please|]: {q}",
        "Without [duplicates|repeats|repeated words]: {q}", "{q}\n\n[Remove|Delete|Take out] the [duplicates|repeats].",
        "{q}\n[Keep|List|Write] each [of them |word |]only once.", "{q}: without [duplicates|repeats]",
        "My list: {q}\n[Remove|Delete|Drop] the repeats.",
        "[Hey|OK|Hi], [delete|drop|remove] the [duplicates|repeats|double entries] from this list: {q}",
        "[I need this for a shopping list|My list has things twice|Some words are there twice]. [Remove|Delete|Take out] the [duplicates|repeats]: {q}",
        "[Please |]deduplicate: {q}", "Deduplicate [these|these words|my list]: {q}", "[Delete|Drop|Strike] [all |the ]duplicates: {q}",
        "[Drop|Remove|Delete] every word that was there before: {q}", "[Clean up|Clean] this list, each word [only |just |]once: {q}",
        "Unique [words|items][ only|, please|]: {q}", "[Give me|List|Show] the unique [words|items|entries] [of this list|here]: {q}",
        "[Give me|Write|Return] this list without [duplicates|repeats|double entries]: {q}",
        "[What are|Which are] the different [words|items] [here|in this list]? {q}", "What [remains|is left] of this list without [duplicates|repeats]? {q}",
        "[Write|List] the different words, each [only |]once: {q}", "ok so some of these [are double|repeat], [remove|drop] the repeats: {q}",
        "[Make|Return] a list where every [word|item] is there only once: {q}", "Every [word|item] only once[, please|]: {q}",
        "[Throw|Take] out all [duplicates|double entries]: {q}",
    ], way="instruct.unique", compose=composed.either(COMPOSED["unique"], composed.instruction("unique", "them")), q=", ".join(x))
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
    thing = d.any(words.OBJECTS)
    others = {
        "email address": [f"{name} wrote to us from {value}", f"Write to {name} at {value}", f"{name} can be reached at {value}", f"The new address of {name} is {value}",
                          f"Please send the invoice to {value}, {name} will read it", f"Mail for {name} goes to {value}", f"{name} uses {value} for work", f"Our contact is {name}, {value}"],
        "phone number": [f"You can call {name} at {value}", f"{name} can be reached under {value}", f"Call {value} and ask for {name}", f"The number of {name} is {value}",
                         f"{name} called from {value}", f"If you are late, ring {name} at {value}", f"For questions there is {name}, {value}", f"{name} left {value} as a number to call back"],
        "order number": [f"{name} asks about order {value}", f"Where is order {value}, asks {name}", f"{name} has not received order {value}", f"The parcel with order {value} is for {name}",
                         f"{name} wants to cancel order {value}", f"We shipped order {value} to {name}", f"{name} paid for order {value}", f"There is a problem with order {value} of {name}"],
        "price": [f"{name} paid {value} for the {thing}", f"The {thing} costs {value}, says {name}", f"{name} sold the {thing} for {value}", f"For {value} {name} will give us the {thing}",
                  f"{name} bought the {thing}, it was {value}", f"{name} saw the {thing} for {value}", f"The bill of {name} says {value} for the {thing}", f"{name} asks {value} for the {thing}"],
        "date": [f"{name} will come on {value}", f"{name} leaves on {value}", f"The meeting with {name} is on {value}", f"{name} has an appointment on {value}", f"{name} was born on {value}",
                 f"{name} must pay on {value}", f"We will see {name} on {value}", f"The visit of {name} begins on {value}"],
        "room number": [f"{name} sits in room {value}", f"You will find {name} in room {value}", f"{name} has moved to room {value}", f"The lesson of {name} is in room {value}",
                        f"Please bring the keys of room {value} to {name}", f"{name} booked room {value}", f"We meet {name} in room {value}", f"In room {value} there is a bag of {name}"],
        "city": [f"{name} moved to {value} last year", f"{name} travels to {value} every month", f"{name} will fly to {value} soon", f"The train takes {name} to {value}",
                 f"We sent {name} to {value} for a week", f"{name} drove to {value} with a friend", f"{name} came back to {value}", f"{name} wants to go to {value} by train"],
        "age": [f"{name} is {value} years old", f"{name} is {value} now", f"{name} is {value} and a member of the club", f"Our neighbour {name} is {value} years old",
                f"{name}, who is {value}, came with a friend", f"This year {name} is {value}", f"{name} is {value} years of age", f"The doctor says that {name} is {value}"],
        "color": [f"{name} has a {value} {thing}", f"{name} still has a {value} {thing}", f"My friend {name} has a {value} {thing} at home", f"In the office {name} has a {value} {thing}",
                  f"{name} has a {value} {thing} and looks after it well", f"I heard that {name} has a {value} {thing}", f"Since Monday {name} has a {value} {thing}", f"{name} has a {value} {thing} to sell"],
        "time": [f"{name} arrives at {value}", f"The train of {name} leaves at {value}", f"{name} will call us at {value}", f"At {value} {name} starts work", f"{name} wants to meet at {value}",
                 f"Dinner with {name} is at {value}", f"We pick up {name} at {value}", f"The lesson of {name} ends at {value}"],
    }
    tail = d.any(["", f". {name} likes {d.any(words.HOBBIES)}", f". {name} works as {words.a(d.any(words.JOBS))}", ", as far as we know"])
    text = d.any(others[kind]) + tail + "."
    user = d.ask([
        "[What is|Give me|Tell me|Find] the {k} in this [text|sentence|message]: {q}", "Extract the {k}: {q}", "[Please |]extract the {k} from this [text|note]: {q}",
        "Which {k} [is in|does] this text[ name|]: {q}", "{q}\n\nWhat is the {k}?", "Text: {q}\nGive only the {k}.", "[Answer|Reply] with the {k} only: {q}",
        "Pull the {k} out of this: {q}",
        "[Could you|Can you|Would you] [find|give me|tell me] the {k} in this: {q}", "The {k} in this [text|message|note]: {q}", "The {k}[, please|]: {q}",
        "{q}\n\n[Extract|Find|Give me|Tell me] the {k}.", "{q}\nOnly the {k}[, please|].", "{q}\n{k}?", "Message: {q}\n[Extract|Find|Give me] the {k}.",
        "Note: {q}\nWhat is the {k}?", "[Hey|OK|Hi], what [is|was] the {k} [here|in this message|in this note]: {q}",
        "Quick question: what is the {k} [here|in this text|in this]: {q}",
        "[I need this for a form|I have to fill in a form|It is for a table]: [find|extract|give me] the {k} in this [text|note]: {q}",
        "[Read|Look at] this[ message| note|] and [tell me|give me|find] the {k}: {q}", "I [got|received] this [message|note]: {q} What is the {k}?",
        "I [need|want] the {k} from this [text|message|note]: {q}", "[Find|Get|Take] the {k} [from|out of] this: {q}", "[Pull out|Get|Take out] the {k}: {q}",
        "Get me the {k} from this [message|note|line]: {q}", "[Please |]pull the {k} from this [text|line|message]: {q}",
        "[Copy|Write down|Return] [only |just |]the {k} from this [text|line|message]: {q}", "[Show|Return|Copy] [only |just |]the {k}: {q}",
        "What {k} [does this text give|is in this text|is in this note]? {q}", "Which {k} do you [find|see|read] in this: {q}",
        "Do you [find|see] the {k} here? {q}", "ok so here is a [note|message]: {q} What's the {k}?",
        "From this [text|sentence|note], [extract|take|return] the {k}: {q}",
    ], way="instruct.extract", compose=composed.instruction("extract"), q=text, k=kind)
    return turn(SKILL, user, f"The text says: {text} The {kind} is {value}.", value, exactly(value), ("extract", text, kind))


def replace(d: Draw) -> Turn:
    x = d.until_fresh(lambda: d.some(words.SENTENCE_WORDS, d.int(3, 6)), "replaced")
    old, new = d.any(x), d.any([w for w in words.SHORT if w not in x])
    r = [new if w == old else w for w in x]
    user = d.ask([
        "[Please |]replace {o} [with|by] {n}[ in this|]: {q}", "Change {o} to {n}[ in this text|]: {q}", "In this text, write {n} instead of {o}: {q}",
        "Swap the word {o} for {n}: {q}", "Put {n} where it says {o}: {q}", "Rewrite this with {n} in place of {o}: {q}",
        "Replace the word {o} with the word {n}: {q}", "Use {n} instead of {o} here: {q}",
        "[Could you|Can you|Would you] [replace|exchange] {o} [with|by] {n} [here|in this]: {q}", "{o} becomes {n}: {q}",
        "{q}\n\n[Replace|Exchange] {o} [with|by] {n}.", "{q}\nNow with {n} instead of {o}[, please|].", "Text: {q}\n[Change|Turn] {o} [to|into] {n}.",
        "Text: {q}\n[Swap|Exchange] {o} for {n}.", "[Hey|OK|Hi], [change|turn] {o} into {n}[ in this| in this line|]: {q}",
        "[I made a mistake|I got a word wrong|There is a wrong word]: {o} should be {n}. [Correct|Change] it: {q}",
        "The word {o} is wrong, [it should be|use|write] {n}: {q}", "[Exchange|Swap] {o} for {n}[ in this| here|]: {q}",
        "[Please |]exchange the word {o} for {n}: {q}", "[Where|Wherever] it says {o}, [write|put|use] {n}: {q}",
        "[Find|Look for] {o} and [replace it with|change it to|make it] {n}: {q}", "Every {o} [should be|becomes|must be] {n}: {q}",
        "[Write|Give me|Return] this [text |]with {n} instead of {o}: {q}", "[Take out|Remove] {o} and put {n} in its place: {q}",
        "Put {n} in place of {o}: {q}", "How does this [read|look] with {n} instead of {o}: {q}",
        "What is this text if {o} [becomes|is replaced by|is changed to] {n}? {q}", "ok so replace {o}, the new word is {n}: {q}",
        "The old word is {o}, the new [word|one] is {n}. [Replace it|Rewrite this]: {q}", "Old word: {o}. New word: {n}. Text: {q}",
        "[Substitute|Put] {n} for {o}[ in this| here|]: {q}", "Rewrite this so that {o} [becomes|is] {n}: {q}",
        "[I want|I need] {n} where {o} is[ now|]: {q}",
    ], way="instruct.replace", compose=composed.either(COMPOSED["replace"], composed.instruction("replace", "it")), q=" ".join(x), o=f'"{old}"' if d.chance(0.4) else old, n=f'"{new}"' if d.chance(0.4) else new)
    return turn(SKILL, user, ", ".join(f"{w} becomes {new}" if w == old else f"{w} stays" for w in x) + ".", " ".join(r), exactly(" ".join(r)), ("replace", x, old, new))


ALL = [repeat, repeat, upper, lower, reverse_words, reverse_words, reverse_word, reverse_word, spell, count_words, count_words, count_letters, count_letter,
       sort_words, sort_words, sort_numbers, sort_numbers, nth, nth, first_last, join, unique, extract, extract, replace]
PRACTISED = [upper, lower, lower, reverse_word, reverse_word, spell, count_letter, count_letter, count_letters, count_words, sort_words, sort_words,
             sort_numbers, sort_numbers, sort_numbers, join, unique, unique, replace, replace, replace]


def make(d: Draw) -> Turn:
    return d.task(ALL, PRACTISED)(d)
