"""Ways to say what the models promise that no training conversation has: sentences of another form than those of the
generator, written apart from it. `promises.py` makes cases of them, and a test fails where training has one of them.

A list is for one maker of the generator; its slots are those that the maker fills."""

INSTRUCT = {
    "repeat": ["Would you be able to send me exactly what stands here: {q}", "My words are {q}, now let me hear them from you.", "Act like an echo for the line {q}", "I say {q} - your turn, the same please.",
               "The only thing your reply may contain is {q}", "Mirror my message, which is {q}", "Let the next thing you write be {q}"],
    "upper": ["The sign painter needs this with nothing but capitals: {q}", "Take {q} and let every letter be a capital.", "If this were on a poster in capitals, how would it read? {q}", "I prefer big letters, so show me {q} that way.",
              "Everything in upper case from here on: {q}", "Make it loud, all caps: {q}", "Capital letters are missing in {q}, put them in everywhere."],
    "lower": ["The keyboard was stuck on capitals, so give me {q} without any.", "Take {q} and let every letter be a small one.", "My file names have no capitals, so what becomes of {q}", "Everything in lower case from here on: {q}",
              "I prefer small letters, so show me {q} that way.", "Too many capitals in {q}, lower them all please."],
    "reverse_words": ["Let the words of this line march the other way, last one in front: {q}", "Which line do I get when the final word goes to the front and so on? {q}", "The words stand the wrong way around, last should be first: {q}",
                      "Walk through this line from its end and give me the words: {q}", "Line of words, from back to front please: {q}"],
    "reverse_word": ["If {q} is read from its end, what do you get?", "Hold {q} in front of a mirror, which letters do I see from left to right?", "From the last letter on, how is {q} written?", "The letters of {q} go home in the other order, write that.",
                     "Give {q} to me back to front, please."],
    "spell": ["On the phone I would need {q} with every letter named, please.", "Take the word {q} apart into its letters for my little sister.", "One after another, which letters stand in {q}?", "Let me have {q} as single letters.",
              "The teacher asks for {q}, one letter after the other."],
    "count_words": ["I may use only few words, so how many did I use in this: {q}", "Please be my word counter for the line {q}", "If each word costs a dollar, how many dollars is this? {q}", "Of how many words is this made: {q}",
                    "How large is the count of words for {q}"],
    "count_letters": ["For a crossword I need to know the length of {q} in letters.", "If each letter of {q} costs a dollar, how many dollars is that?", "Of how many letters is {q} made?", "How many boxes do I need to write {q}, one letter in each?",
                      "Letters in {q}, all in all?"],
    "count_letter": ["Going through {q}, how many times do I meet the letter {c}?", "If I take every {c} out of {q}, how many did I take?", "Is the letter {c} in {q}, and how many times?", "For each {c} in {q} I put a stone in a bag. How many stones are there?",
                     "The number of times {c} stands in {q} is what?"],
    "sort_words": ["The words got mixed up, the dictionary order would be nice: {q}", "Which order would an index have for {q}", "File these the way a library does, a before b: {q}", "Words starting with early letters come first, so how does {q} go?",
                   "Please line these up the way the alphabet goes: {q}"],
    "sort_numbers up": ["Small ones to the front, big ones to the back: {q}", "If these stand in a row by size, the tiny one first, what is the row? {q}", "Climb from the lowest of these to the highest: {q}", "A rising row of {q}, please."],
    "sort_numbers down": ["Big ones to the front, small ones to the back: {q}", "If these stand in a row by size, the huge one first, what is the row? {q}", "Go down from the highest of these to the lowest: {q}", "A falling row of {q}, please."],
    "nth": ["Counting from the left, the {n} thing in {q} is what?", "They wait in this order: {q}. Who or what is {n}?", "My finger points to the {n} of {q}, what is it?", "Only the {n} matters to me. {q}"],
    "first_last": ["Leave me nothing but the {n} word of this: {q}", "With which word do I have to do if I want the {n} of this line? {q}", "I read only the {n} word of {q}, so what did I read?", "Keep the {n} word, lose the others: {q}"],
    "join": ["I want {n} to stand where one ends and the next begins: {q}", "No spaces, just {n} to hold these together: {q}", "Make a chain of these where each link is {n}: {q}", "Between each two of these put {n}, all on one line: {q}"],
    "unique": ["Some of these I wrote more than one time, so let each stay a single time: {q}", "Show me what kinds there are in {q}, none of them two times.", "A list where nothing comes back a second time, made from {q}", "Strike whatever I said before: {q}"],
    "extract": ["Somebody left this note, and all I care about is the {k}: {q}", "Out of everything in here I only need the {k}. {q}", "{q} So the {k} would be?", "For the field \"{k}\" in my form, what do I write? {q}", "Scan this for the {k}: {q}"],
    "replace": ["Wherever you meet {o}, it has to be {n} from now on: {q}", "I do not like {o}, say {n}: {q}", "Same line, but {n} takes over from {o}: {q}", "Let {n} play the part of {o} in this: {q}", "Out goes {o}, in comes {n}: {q}"],
}

ARITHMETIC = {
    "add": ["{a} apples and {b} apples in one bag make how many?", "When {b} joins {a}, which number do we have?", "Put {a} on top of {b} and say the number.", "My first bill is {a}, my second one {b}; the sum of both, please.", "If you had to put {a} {s} {b} into one number?"],
    "subtract": ["From {a} somebody takes {b}; which number stays?", "Out of {a} seats {b} are taken, so how many are free?", "How far down is it from {a} to {b}? I mean {a} minus {b}.", "If you had to put {a} {s} {b} into one number?", "My budget was {a} and {b} is gone; the rest, please."],
    "multiply": ["{a} boxes with {b} eggs in each, so how many eggs?", "Which number do I get from {a} rows of {b}?", "If you had to put {a} {s} {b} into one number?", "{b} for each of {a} people makes how many?"],
    "divide": ["{a} sweets for {b} children, the same for each. How many does one child get?", "If you had to put {a} {s} {b} into one number?", "In how many steps of {b} do I reach {a}?", "A rope of {a} meters is cut into {b} pieces, how long is one?"],
    "compare": ["Here we have {a} and there {b}; who is {w}?", "If {a} meets {b}, which of the two is {w}?", "Put {a} next to {b} and point to the {w} one.", "Two friends have {a} and {b} points. Which of these is {w}?"],
    "extreme": ["Among all of these, one is the {w}, and it is? {q}", "Look through {q} and bring me the {w} one.", "Point to the {w}: {q}", "If only the {w} of these wins, who wins? {q}"],
    "story": [],  # its sentences are the task
}

# Questions about a text: by what context.Fact.key is.
CONTEXT = {
    "city": ["If I sent {n} a postcard, to which city would it go?", "Where would I have to travel to see {n} at home?", "The place {n} calls home is?"],
    "job": ["What would {n} write under profession on a form?", "With which work does {n} earn money?", "At a party {n} is asked about work. What is the answer?"],
    "pet": ["Which animal waits at home for {n}?", "What kind of pet belongs to {n}?", "Does the text name an animal that {n} has? Which?"],
    "food": ["What should I cook if {n} comes to dinner?", "Which dish makes {n} happy?", "Given the choice, what would {n} eat?"],
    "hobby": ["What fills the free time of {n}?", "In free hours, what would we see {n} doing?", "What does {n} do just for joy?"],
    "birthday": ["In which part of the year do we bring {n} a cake?", "Which month should I mark for {n}'s birthday?", "When does {n} turn a year older?"],
    "age": ["How many candles would be on the cake of {n}?", "If you asked {n} about age, which number would you hear?", "How many years old would {n} be?"],
    "phone": ["Which digits do I dial for {n}?", "I want to ring {n}; what do I dial?", "Under which number does {n} pick up?"],
    "room": ["On which door do I knock to see {n}?", "I am looking for {n} in the building. Which room?", "Which room number stands at the door of {n}?"],
    "car": ["What paint has the car of {n}?", "I look for the car of {n} on the street; which colour must I look for?", "Of which colour is what {n} drives?"],
    "place": ["Where would I look for the {n}?", "Somebody hid the {n}; where?", "In which place does the {n} lie?"],
    "price": ["How much money must I bring for the {n}?", "What would the shop ask for the {n}?", "Which amount buys the {n}?"],
    "colour": ["If you saw the {n}, which colour would you see?", "What does the {n} look like, as for its colour?", "Of which colour is the {n}?"],
    "owner": ["Whom do I ask if I want to use the {n}?", "To which person do I bring back the {n}?", "Under whose name do I find the {n}?"],
    "code": ["What do I type to open the {n}?", "Which digits does the {n} want?", "The {n} asks me for a code. What do I enter?"],
}
CONTEXT_AROUND = ["Somebody told me this. {t} So, {q}", "{q} Here is all that I have got:\n{t}", "Study these lines.\n\n{t}\n\nThen reply: {q}", "<text>\n{t}\n</text>\n{q}", "A few things you should know first. {t}\n\n{q}", "{t}\n\nFrom these lines alone: {q}"]

YES_NO = {
    "city": ["Would I find {n} at home in {v}?", "Do they say that {n}'s home is {v}?"], "job": ["Would {n} write {v} under profession?", "Does {n} make money as {v}?"], "pet": ["Does {v} wait at home for {n}?", "Is the animal at {n}'s home {v}?"],
    "food": ["Would {v} make {n} happy at dinner?", "Is what {n} loves to eat {v}?"], "hobby": ["Is {v} what {n} does in free hours?", "Would we see {n} at {v}?"], "birthday": ["Do we bring {n} a cake in {v}?", "Does {n} turn a year older in {v}?"],
    "age": ["Would there be {v} candles on the cake of {n}?", "Has {n} reached the age of {v}?"], "phone": ["Do I reach {n} if I dial {v}?", "Are {v} the digits for {n}?"], "room": ["Do I knock at door {v} to see {n}?", "If I go to {v}, will {n} sit there?"],
    "car": ["Is what {n} drives {v}?", "Would the car of {n} look {v}?"], "place": ["If I look in the {v}, will the {n} be there?", "Does the {n} lie in the {v}?"], "price": ["Are {v} dollars what the {n} costs?", "Will {v} dollars buy the {n}?"],
    "colour": ["Would you call the {n} {v}?", "Does the {n} look {v}?"], "owner": ["Do I bring the {n} back to {v}?", "Does {v} have the {n} as property?"], "code": ["Do I type {v} to open the {n}?", "Does {v} work for the {n}?"],
}

MEMORY = {  # told, asked
    "name": (["Before we begin: people here know me as {v}.", "On my badge it says {v}."], ["Which name stands on my badge, would you say?", "If you had to greet me by name, which one?"]),
    "colour": (["Paint my room {v} and I am happy, it is the colour I like best.", "Nothing beats {v} as a colour, if you ask me."], ["You want to paint my room in what I like best. Which colour is it?", "Which paint would make me happy?"]),
    "city": (["My flat is in {v}, in case you wonder.", "These days I call {v} my home."], ["If you sent me a postcard, which city would be on it?", "Which city do I call my home these days?"]),
    "pet": (["At home {v} is waiting, that is the name of my pet.", "When I call {v}, my pet comes running."], ["Which name do I call when my pet should come?", "Who is waiting for me at home, my pet I mean?"]),
    "number": (["The number in my head is {v}, hold on to it.", "Write {v} on a note for me, I need that number."], ["Which number is in my head?", "What did I want you to write on a note?"]),
    "word": (["Our password for today shall be {v}.", "If anybody asks, the word is {v}."], ["Somebody asks for the word. What do we say?", "Which password did we agree on today?"]),
}

GREET = {  # by the thought of the row in data/identity.py
    "The user greets me. I greet back and offer help.": ["Well hello, nice to see you here!", "Knock knock, hello in there!", "A good day to you, little model!", "Hi hi hi, here I am!"],
    "The user asks who I am.": ["With whom do I have the honour?", "Before we start, which model do I have here?", "Please say in a few words who you are.", "Under what name do I put you down?"],
    "The user asks what I can do.": ["For which tasks are you any good?", "What would be worth asking you?", "Which jobs can I hand to you?", "What are the things that you are able to do for us?"],
    "The user asks about my limits.": ["Where do your limits lie?", "How far can I trust what you say?", "Do you sometimes get things wrong?", "What should I better not ask of you?"],
    "The user asks who made me.": ["Which people stand behind you?", "From where do you come, who made you?", "Who may call you their work?", "Did a company train you, and which?"],
    "The user asks if I am a person.": ["Is there a human on the other end?", "Am I writing with a person or with a machine?", "Do you have a heart and hands like a human?"],
    "The user asks how I am.": ["Is all well on your side today?", "And how is your day so far?", "How do you do today?"],
    "The user thanks me.": ["Many thanks, that was kind of you.", "I thank you from my heart!", "Big thanks for your help!"],
    "The user says goodbye.": ["I have to leave now, goodbye!", "That was it for today, see you!", "Until next time, bye!"],
    "The user asks about languages. I only know English.": ["In which languages may I write to you?", "Would you understand me in French?", "Is there any language but English that you know?"],
    "The user wants a joke. I know one.": ["Make me laugh with a joke!", "A joke would be nice now.", "Do you have a joke in store?"],
}

FACTS = {  # by the list in data/facts.py; {x} is what is asked about
    "CAPITALS": ["The government of {x} sits in its capital, which is?", "I fly to {x} and want to see the capital. Which city is that?", "Which city would you mark as the capital on a map of {x}?"],
    "OPPOSITES": ["I do not mean {x}, I mean the opposite. Which word is it?", "If something is not {x} but the very opposite, what is it?"],
    "YOUNG": ["The little one of a {x} has its own name, and it is?", "When a {x} has a baby, what do we call the baby?"],
    "SOUNDS": ["On the farm I hear a {x}. Which sound does it make?", "Which noise comes from a {x}?"],
    "LEGS": ["How many legs carry a {x}?", "A {x} needs shoes, one for each leg. How many?"],
}

UNKNOWN = {
    "person": ["My neighbour talks about {x} all the time. Who might that be?", "Does the name {x} tell you anything?", "Write down what you know of {x}."],
    "thing": ["Somebody gave me a {x}. What might that be?", "In a shop I saw a {x}, what does one do with it?", "Is {x} a word that you know, and what does it mean?"],
    "place": ["My uncle moved to {x}. Where on the map do I find that?", "Do you have an idea where {x} might be?", "Which capital does {x} have?"],
    "future": ["Look ahead to the year {y}: what will be new?", "It is {y} and somebody won the election. Who?", "Tell my fortune for {y}."],
    "live": ["Look out of the window in {c}: does it rain?", "Which hour is it in {c} while I write this?", "Check for me what happened in {c} this morning."],
}

JSON = {
    "given": ["My script wants an object, and these are its fields: {p}", "Hand me this in curly brackets, as JSON: {p}", "If this were a JSON object, how would it be written? {p}", "Fields for the JSON object - {p}"],
    "extracted": ["Out of this line I need {k} in a JSON object: {t}", "{t} My program wants {k}, so hand me JSON.", "Read this line, keep {k}, and hand it over as JSON: {t}"],
    "array": ["In square brackets, as JSON, please: {p}", "My script wants an array in JSON, and its items are {p}", "If {p} were a JSON array, how would it be written?"],
    "records": ["Each of these is one object with {a} and {b}; hand me all in a JSON array: {p}", "My script wants a JSON array whose objects have {a} and {b}: {p}"],
    "computed": ["My script wants the sum of {a} and {b} as JSON, under the key {k}.", "{a} and {b} make how much? Hand it over as JSON with the key {k}."],
}

PICK = {
    "nth": ["Counting from the start, what do you meet as the {n} in here? {q}", "They stand in this order:\n{q}\n\nWho or what is the {n}?", "My finger is on the {n} of these, so what does it point to? {q}"],
    "last": ["Going through all of these, where do we end? {q}", "At the very end of this row stands what? {q}", "{q}\n\nAfter all the others there is one more, which?"],
    "beside after": ["{q}\n\nMy finger is on {w}; one step further, what do I touch?", "Who or what stands behind {w} in this row? {q}", "We just had {w}, so it is whose turn now? {q}"],
    "beside before": ["{q}\n\nMy finger is on {w}; one step back, what do I touch?", "Who or what was there just before {w} in this row? {q}"],
    "by_letter": ["Somebody thinks of one of these, and it starts with {c}. What is it? {q}", "{q}\n\nI forgot the word, but its first letter was {c}."],
    "there": ["I am looking for {w}. Did I put it on this list? {q}", "Would I find {w} among these? {q}", "{q}\n\nDid somebody write {w} on it?"],
}

SCHEMA = ["My service takes only data, so this is what came in: {t}", "{t}\n\nHand this over as data.", "A customer wrote to us: {t}", "What I heard today: {t}", "From the log: {t}", "Make data out of this line for my program. {t}"]

# What the models are not for: big tasks, the world of today, other languages, noise.
FOREIGN = ["My novel is about {t}; write the opening pages.", "As a lawyer, what would you tell me about {t}?", "Draft a contract that covers {t} and {u}.", "I run a shop; give me a marketing plan built on {t}.", "Settle a bet: is {t} older than {u}?",
           "In the style of a pirate, lecture me on {t}.", "What did the papers write about {t} this week?", "Give a talk on {t} with slides.", "Which stocks profit from {t}?", "Rank the ten best films about {t} and say why.",
           "Prove that {t} leads to {u}.", "How do I get a job in {t}?", "Rewrite this for a magazine: {t} is more than {u}.", "Was ist {t} und warum?", "Pourquoi {t} est important?", "Explica {t} por favor", "Cos'e {t}?",
           "fix: panic in {v}.go line {i}, why", "SELECT * FROM {v} JOIN {w} ON id = {i}; make it faster", "regex that matches {v} but not {w}", "docker compose for {v} and {w}", "for i in range({i}): {v}(i)  # what is wrong",
           "{v} {w} {v} {w} {v}", "{i}{i}{i} {v}?? {w}!!", "asdf {v} qwer {w} zxcv", "...", "{v}{w}{i}", "((( {v} )))", "\U0001F600 {v} \U0001F680", "TL;DR {t}", "{t}!!!", "{t}", "I am sad about {t} and do not know what to do with {u}.",
           "My {v} is broken and the {w} too, and on top of that my boss wants {t} by Monday, what now", "Should my daughter study {t} or {u}?", "Is it legal to {v} in front of a {w}?", "How many people die of {t} each year?",
           "Give me the lyrics of a song about {t}.", "Write a will for me that mentions {t}.", "Which pills help against {t}?", "Act as my therapist: {t} makes me nervous.", "Simulate a debate between a {v} and a {w} on {t}.",
           "Continue: \"It was {t} that changed everything, because", "Summarise the last hundred years of {t}.", "Explain this meme: {v} but {w}", "Rate my essay on {t} from one to ten.", "Invent a game with {t}, {v} and {w} and its full rules."]
