"""Short instructions put together of parts, for training alone: what is to be done, said in one of many ways, in one of
many frames. A user's sentence is rarely one of a list, but its parts mostly are known.

A part has {it} for the text, the list or the word; a frame says where that stands and puts a word in its place."""

from . import words
from .draw import Draw

# Frames in which the payload stands apart: {do} begins a sentence, {do_} goes on in one.
APART = ["{do}: {q}", "{do}: {q}", "{do}:\n{q}", "{do}:\n\n{q}", "{q}\n\n{do}.", "{q}\n{do}.", "{q} - {do_}", "Please {do_}: {q}", "{do}, please: {q}", "Can you {do_}? {q}", "Could you please {do_}: {q}",
         "I [want|need] you to {do_}: {q}", "I would like you to {do_}. Here it is: {q}", "Your task: {do_}. Input: {q}", "Task: {do}\nInput: {q}", "Input: {q}\nTask: {do}", "Input: {q}\nOutput:\n{do}.",
         "Here is [my|the] [input|text|line|data]: {q}\n{do}.", "This is [my|the] [input|text|line|data]: {q}. Now {do_}.", "Take this and {do_}: {q}", "For the following, {do_}: {q}", "Let us {do_}: {q}",
         "[First|Next|Now], {do_}: {q}", "[Help me|Help me out], I have to {do_}: {q}", "What do I get if I {do_}? {q}", "What happens if you {do_}? {q}", "I give you this: {q}. {do}.", "Given: {q}. {do}.",
         "Without any comment, {do_}: {q}", "{do}. Nothing else. {q}", "{do}. Only the [result|answer], please. {q}", "Exercise: {do_}. {q}", "Here comes something. {do}: {q}", "{q}\n---\n{do}."]

# What is to be done, by kind; each with {it} once at most.
PARTS = {
    "repeat": "let me hear {it} again|do as an echo does|answer with {it} and nothing else|hand {it} back to me|say the same words as I do|repeat {it}|say {it} again|write {it} again|give {it} back|copy {it}|return {it} as {i} [is|was]|write {it} down unchanged|say {it} back to me|type {it} once more|send {it} back|echo {it}",
    "upper": "print {it} as on a sign, in capitals|give every letter its capital form|use no small letters, only big ones|put the caps lock on and type {it}|[write|put|turn|change] {it} [in|into] [capitals|capital letters|upper case]|make {it} all [capitals|upper case|caps]|make every letter of {it} [big|a capital|upper case]|use [capitals|capital letters] for all of {it}|"
             "[capitalize|uppercase] all of {it}|show {it} in [upper case|capitals]|replace the small letters of {it} by capitals",
    "lower": "take the capitals away|print {it} with no capitals at all|give every letter its small form|use no big letters, only small ones|turn the caps off for {it}|[write|put|turn|change] {it} [in|into] [small letters|lower case|lowercase]|make {it} all [lower case|small|lowercase]|make every letter of {it} [small|lower case]|use [small letters|no capitals] in {it}|"
             "lowercase all of {it}|show {it} in [lower case|small letters]|replace the capitals of {it} by small letters",
    "reverse_words": "let the last word lead and the first word end|go through the words from the end to the start|turn the row of words so that its end comes first|put the final word first and go on like that|[turn|change] the order of the words around|[write|say|give] the words from the last to the first|begin with the last word and end with the first one|put the words in the opposite order|"
                     "reverse the order of the words|list the words in reverse|read the words from the end|write the last word first, then the one before it, and so on",
    "reverse_word": "write the letters from the end to the start|show {it} as a mirror would|go through {it} from its last letter to its first|flip {it} around|[write|spell|read|say] {it} [backwards|from the end|from right to left|in reverse]|turn the letters of {it} around|put the letters of {it} in reverse order|reverse {it}|"
                    "start {it} at its last letter|give me {it} with the last letter first",
    "spell": "name every letter of {it}, in order|take {it} apart|go through {it} letter after letter|give me {it} as separate letters|say the letters that {it} is made of|[spell|spell out] {it}|[write|say|give me|list] the letters of {it}|write {it} letter by letter|split {it} into letters|put a space behind each letter of {it}|show me each letter of {it}",
    "count_words": "say of how many words {it} is made|be a word counter|give the length in words|tell me how many words I used|count the words|count how many words there are|tell me how many words {i} [is|has]|say how many words you see|give me the number of words|find out how many words there are|work out the word count",
    "count_letters": "say of how many letters {it} is made|tell me how many boxes {it} fills, one letter each|measure {it} in letters|tell me how many letters I need to write {it}|count the letters of {it}|tell me how many letters {it} has|say how long {it} is, in letters|give me the number of letters of {it}|find the length of {it}|count how many letters {it} has",
    "sort_words": "line {them} up by the alphabet|put {them} as an index would|file {them} by letter, a before b|give {them} in the order of the alphabet|sort {them} [by alphabet|alphabetically|from a to z]|put {them} in [alphabetical order|order from a to z]|order {them} by their first letter|bring {them} into alphabetical order|arrange {them} as in a dictionary",
    "sort_up": "put small numbers in front and big ones behind|climb from the lowest to the highest|make a rising row of {them}|let the least one lead|sort {them} [from small to large|from low to high|upwards]|put the smallest first and the largest last|order {them} by size|arrange {them} from the smallest up|put {them} in [rising|ascending|increasing] order|begin with the smallest and go up",
    "sort_down": "put big numbers in front and small ones behind|go down from the highest to the lowest|make a falling row of {them}|let the greatest one lead|sort {them} [from large to small|from high to low|downwards]|put the largest first and the smallest last|order {them} by size, largest first|arrange {them} from the largest down|"
                 "put {them} in [falling|descending|decreasing] order|begin with the largest and go down",
    "nth": "count to the {n} and stop there|tell me what comes {n} from the left|leave out all but the {n} [one|item]|point at the {n} [one|item]|[give|tell|show] me the {n} [one|item|entry]|pick the {n} [one|item|entry]|choose the {n} [one|item|entry]|name the {n} [one|item|entry]|write only the {n} [one|item|entry]|find the {n} [one|item|entry]|take the {n} [one|item|entry] and leave the rest",
    "first_last": "keep the {n} word and drop the rest|leave only the {n} word|read out the {n} word|let all but the {n} word go|[give|tell|show] me the {n} word|write the {n} word only|pick out the {n} word|name the {n} word|find the {n} word|say the {n} word and no other",
    "join": "make a chain of {them} with {n} as the link|let {n} stand between one and the next|hold {them} together with {n}, no spaces|write {n} wherever one ends and another begins|put {n} between {them}|join {them} with {n}|connect {them} by {n}|write {them} in one piece with {n} in between|make one text of {them}, with {n} between|use {n} to [join|link|connect] {them}|glue {them} together with {n}",
    "unique": "let each stay once|strike what came before already|show what kinds there are, each once|make a list in which nothing comes twice|[remove|take out|drop|delete] what is there twice|write each of {them} only once|leave out all repeats|[remove|take out|drop|delete] the [repeats|duplicates|double ones]|keep one of each|list {them} without repeats",
    "extract": "give me just the {k}, nothing else matters|fill in the field {k}|tell me only the {k}|[find|give me|tell me|write down|copy|read off|pick out] the {k}|say what the {k} is|look for the {k}|take the {k} from {it}|answer with the {k} alone|show the {k} and nothing else",
    "replace": "from now on let {o} be {n}|say {n} where I said {o}|let {n} take over from {o}|correct it, I mean {n} and not {o}|throw {o} out and let {n} in|[replace|exchange] {o} [by|with] {n}|[change|turn] {o} [to|into] {n}|write {n} for {o}|put {n} in the place of {o}|swap {o} for {n}|let {n} stand where {o} is|take out {o} and write {n}|make {n} out of {o}",
    "count_letter": "say how many of the letters of {it} are {c}|go through {it}, note each {c} and count them|tell me how many {c} I need to write {it}|count the letter {c} in {it}|tell me how often {c} is in {it}|say how many times {it} has a {c}|find every {c} in {it} and count them|give me the number of {c} in {it}|work out how many {c}'s {it} has",
}
IT = {"it": ["it", "this", "the text", "this text", "the line", "that"], "them": ["them", "these", "the words", "these words", "the list"], "numbers": ["them", "these", "the numbers", "these numbers"],
      "word": ["the word", "this word", "it"]}


def instruction(kind: str, over: str = "it"):
    """What makes a wording of the parts of a kind, for Draw.ask; over is what the payload is."""
    def make(d: Draw) -> str:
        do = d.choose(d.any(_split(PARTS[kind])))
        named = d.any(IT[over])
        do = do.replace("{it}", named).replace("{them}", named).replace("{i}", "it")
        frame = d.choose(d.any(APART))
        return frame.replace("{do_}", do).replace("{do}", do[0].upper() + do[1:])
    return make


def _split(parts: str) -> list[str]:
    """Cuts at the bars that stand outside of brackets."""
    out, depth = [""], 0
    for c in parts:
        depth += (c == "[") - (c == "]")
        if c == "|" and not depth:
            out.append("")
        else:
            out[-1] += c
    return out


def either(*makers):
    """One of several ways to make a wording: a pattern, or what makes one."""
    def make(d: Draw) -> str:
        maker = d.any(makers)
        return maker(d) if callable(maker) else maker
    return make


# What users say around a question that is not part of it. {w} is a person, {o} a thing, {p} a place, {d} a day.
BEFORE = ["{w} [needs|wants|asked for|is waiting for] this[ by {d}| for the {o}| in the {p}||].", "[This is|It is] for [my {o}|a {o}|the {p}|school|work|a game|{w}].", "I am [writing|making|preparing|planning|painting] a {o}[ for {w}| in the {p}||].",
          "[Listen|Look|Right|Well|Now then|So|Okay|Hello there|Good morning|One more thing|A small thing|Here we go],", "[My teacher|My boss|My sister|My friend|{w}] [says|asks|wrote|told me]:", "[In the {p}|On {d}|Yesterday|This morning] {w} [asked me|wanted to know].",
          "[I cannot do it myself|I got stuck|I lost my {o}|I have no time|My {o} is broken], so:", "If [the {o}|my {o}|{w}] is [ready|here|late] on {d}, I need this.", "Imagine [a {o}|{w} in the {p}].", "For the {o} [I need|we need|{w} needs] one thing.",
          "You are [good|quick|clever] at this.", "[Help me|Do me a favour|Be so kind]:", "[A question|A task|A puzzle|An exercise] for you:", "[Step one|Number {n}|Task {n}|Exercise {n}|Question {n}]:", "[Before I go to the {p}|When I was in the {p}|While {w} sleeps],"]
BEHIND = ["[Thank you|Thanks|Many thanks|That is all|No hurry|I need it today|I need it by {d}].", "[{w}|My boss|The teacher] [is waiting|wants to see it|will read it].", "[It is for|This is for] [the {o}|my {o}|{w}|work|school].", "[Just that|Only that], please.", "Then I go to the {p}.", "[I hope|I think] you can do it."]


def surrounded(d: Draw, pattern: str) -> str:
    """A wording with something around it that does not belong to the question, on sides where no payload is that would run into it."""
    def said(parts):
        text = d.choose(d.any(parts))
        return text.format(w=d.any(words.NAMES), o=d.any(words.OBJECTS), p=d.any(words.PLACES), d=d.any(words.DAYS), n=d.int(1, 9))
    if pattern[:1] not in "{\"'" and d.chance(0.8):
        pattern = said(BEFORE) + d.any([" ", " ", " ", "\n"]) + pattern
    if pattern[-1:] in ".?!" and pattern[-2:-1] != "}" and d.chance(0.5):
        pattern = pattern + " " + said(BEHIND)
    return pattern
