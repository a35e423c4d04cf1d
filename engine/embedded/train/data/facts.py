"""A few hundred common facts, each with several ways to ask."""

from . import words
from .draw import Draw, Turn, has, turn

SKILL = "facts"

CAPITALS = """Afghanistan:Kabul Albania:Tirana Algeria:Algiers Argentina:Buenos_Aires Armenia:Yerevan Australia:Canberra Austria:Vienna
Bangladesh:Dhaka Belarus:Minsk Belgium:Brussels Bhutan:Thimphu Bulgaria:Sofia Canada:Ottawa Chile:Santiago China:Beijing Colombia:Bogota
Croatia:Zagreb Cuba:Havana Cyprus:Nicosia Denmark:Copenhagen Ecuador:Quito Egypt:Cairo Estonia:Tallinn Ethiopia:Addis_Ababa Finland:Helsinki
France:Paris Georgia:Tbilisi Germany:Berlin Ghana:Accra Greece:Athens Hungary:Budapest Iceland:Reykjavik India:New_Delhi Indonesia:Jakarta
Iran:Tehran Iraq:Baghdad Ireland:Dublin Italy:Rome Jamaica:Kingston Japan:Tokyo Jordan:Amman Kenya:Nairobi Latvia:Riga Lebanon:Beirut
Libya:Tripoli Lithuania:Vilnius Luxembourg:Luxembourg Malta:Valletta Mexico:Mexico_City Mongolia:Ulaanbaatar Morocco:Rabat Nepal:Kathmandu
Norway:Oslo Pakistan:Islamabad Peru:Lima Poland:Warsaw Portugal:Lisbon Romania:Bucharest Russia:Moscow Senegal:Dakar Serbia:Belgrade
Slovakia:Bratislava Slovenia:Ljubljana Spain:Madrid Sweden:Stockholm Syria:Damascus Thailand:Bangkok Tunisia:Tunis Turkey:Ankara
Ukraine:Kyiv Uruguay:Montevideo Venezuela:Caracas Vietnam:Hanoi Zambia:Lusaka Zimbabwe:Harare"""
CONTINENTS = """France:Europe Germany:Europe Italy:Europe Spain:Europe Poland:Europe Sweden:Europe Norway:Europe Portugal:Europe Greece:Europe
Ireland:Europe Japan:Asia China:Asia India:Asia Vietnam:Asia Nepal:Asia Thailand:Asia Mongolia:Asia Pakistan:Asia Kenya:Africa Ghana:Africa
Morocco:Africa Nigeria:Africa Ethiopia:Africa Senegal:Africa Zambia:Africa Algeria:Africa Brazil:South_America Peru:South_America Chile:South_America
Argentina:South_America Colombia:South_America Ecuador:South_America Canada:North_America Mexico:North_America Cuba:North_America"""
CURRENCIES = "Germany:the_euro France:the_euro Italy:the_euro Spain:the_euro Japan:the_yen India:the_rupee Mexico:the_peso Switzerland:the_franc Sweden:the_krona Norway:the_krone Denmark:the_krone Poland:the_zloty Russia:the_ruble China:the_yuan Turkey:the_lira"
LANGUAGES = "France:French Germany:German Italy:Italian Spain:Spanish Portugal:Portuguese Brazil:Portuguese Mexico:Spanish Japan:Japanese Poland:Polish Sweden:Swedish Greece:Greek Russia:Russian Austria:German Argentina:Spanish Norway:Norwegian Denmark:Danish Hungary:Hungarian Turkey:Turkish"
OBJECT_COLORS = "grass:green snow:white milk:white coal:black blood:red banana:yellow lemon:yellow carrot:orange tomato:red strawberry:red cucumber:green broccoli:green spinach:green raven:black flamingo:pink frog:green swan:white night:black ketchup:red chocolate:brown"
YOUNG = "dog:puppy cat:kitten cow:calf horse:foal sheep:lamb pig:piglet goat:kid chicken:chick duck:duckling bear:cub lion:cub deer:fawn swan:cygnet frog:tadpole kangaroo:joey goose:gosling"
SOUNDS = "dog:bark cat:meow cow:moo sheep:bleat pig:oink horse:neigh duck:quack lion:roar wolf:howl snake:hiss bee:buzz frog:croak owl:hoot mouse:squeak"
LEGS = "dog:4 cat:4 horse:4 cow:4 spider:8 ant:6 bee:6 bird:2 chicken:2 duck:2 snake:0 fish:0 elephant:4 butterfly:6 human:2"
OPPOSITES = """big:small hot:cold up:down left:right fast:slow happy:sad day:night light:dark old:young rich:poor full:empty open:closed wet:dry hard:soft
early:late loud:quiet strong:weak high:low long:short thick:thin true:false inside:outside first:last good:bad love:hate win:lose push:pull
start:stop buy:sell give:take sweet:sour near:far always:never clean:dirty black:white wide:narrow deep:shallow"""
PLURALS = "mouse:mice child:children foot:feet tooth:teeth man:men woman:women goose:geese person:people knife:knives leaf:leaves wolf:wolves city:cities baby:babies box:boxes fish:fish sheep:sheep"
PAST = "go:went eat:ate see:saw run:ran come:came take:took give:gave write:wrote speak:spoke drink:drank sing:sang swim:swam fly:flew buy:bought think:thought bring:brought know:knew make:made break:broke sleep:slept"
AMOUNTS = """days in a week:7|hours in a day:24|minutes in an hour:60|seconds in a minute:60|months in a year:12|days in a year:365|weeks in a year:52
|days in January:31|days in April:30|days in June:30|days in December:31|letters in the alphabet:26|sides in a triangle:3|sides in a square:4
|sides in a hexagon:6|sides in a pentagon:5|sides in an octagon:8|planets in the solar system:8|continents on Earth:7|centimetres in a metre:100
|metres in a kilometre:1000|grams in a kilogram:1000|years in a century:100|years in a decade:10|items in a dozen:12|seasons in a year:4
|colours in a rainbow:7|players in a football team:11|fingers on a hand:5|wheels on a bicycle:2|wheels on a car:4|strings on a violin:4
|legs on an insect:6|cents in a dollar:100|degrees in a circle:360|degrees in a right angle:90|squares on a chess board:64|faces on a cube:6
|months with 28 or more days:12|minutes in two hours:120|zeros in a million:6|bits in a byte:8|oceans on Earth:5"""
CHEMISTRY = "water:H2O salt:NaCl oxygen:O2 carbon_dioxide:CO2"
SYMBOLS = "hydrogen:H oxygen:O carbon:C nitrogen:N gold:Au silver:Ag iron:Fe copper:Cu sodium:Na helium:He lead:Pb tin:Sn zinc:Zn"
GROUPS = """dog:mammal cat:mammal whale:mammal dolphin:mammal bat:mammal horse:mammal elephant:mammal eagle:bird owl:bird penguin:bird duck:bird swan:bird
shark:fish salmon:fish trout:fish snake:reptile lizard:reptile turtle:reptile crocodile:reptile frog:amphibian toad:amphibian ant:insect bee:insect butterfly:insect"""
KINDS = """apple:fruit banana:fruit cherry:fruit grape:fruit pear:fruit plum:fruit mango:fruit carrot:vegetable cabbage:vegetable broccoli:vegetable spinach:vegetable
hammer:tool saw:tool guitar:instrument violin:instrument piano:instrument flute:instrument oak:tree pine:tree rose:flower tulip:flower daisy:flower
car:vehicle bus:vehicle truck:vehicle red:colour blue:colour green:colour Monday:day Friday:day March:month July:month gold:metal iron:metal copper:metal silver:metal chair:furniture table:furniture sofa:furniture"""
JOBS_DO = "baker:bread pilot:planes fisherman:fish tailor:clothes painter:pictures shoemaker:shoes"

# Facts of one kind each: ways to ask, the answer, what must be in it.
SINGLE = [
    (["What is the largest planet[ in the solar system|]?", "Which planet is the [largest|biggest]?", "Name the largest planet.", "What planet is the biggest of all?"], "The largest planet is Jupiter.", "Jupiter"),
    (["What is the smallest planet[ in the solar system|]?", "Which planet is the smallest?", "Name the smallest planet."], "The smallest planet is Mercury.", "Mercury"),
    (["Which planet is closest to the sun?", "What is the first planet from the sun?", "Which planet is nearest to the sun?"], "Mercury is closest to the sun.", "Mercury"),
    (["Which planet is called the red planet?", "What is the red planet?", "What planet is red?"], "Mars is the red planet.", "Mars"),
    (["Which planet has [big |]rings?", "What planet is known for its rings?", "Which planet is famous for rings?"], "Saturn is known for its rings.", "Saturn"),
    (["What do we live on, which planet?", "Which planet do we live on?", "What is our planet called?"], "We live on the Earth.", "Earth"),
    (["What is the closest star to Earth?", "Which star is nearest to us?", "What star gives us light?"], "The closest star is the Sun.", "Sun"),
    (["What moves around the Earth?", "What is the natural satellite of the Earth?", "What goes around the Earth?"], "The Moon moves around the Earth.", "Moon"),
    (["What is the largest ocean?", "Which ocean is the [biggest|largest]?", "Name the largest ocean."], "The largest ocean is the Pacific Ocean.", "Pacific"),
    (["What is the largest continent?", "Which continent is the [biggest|largest]?", "Name the largest continent."], "The largest continent is Asia.", "Asia"),
    (["What is the smallest continent?", "Which continent is the smallest?", "Name the smallest continent."], "The smallest continent is Australia.", "Australia"),
    (["What is the highest mountain[ on Earth| in the world|]?", "Which mountain is the highest?", "Name the highest mountain."], "The highest mountain is Mount Everest.", "Everest"),
    (["What is the largest country by area?", "Which country is the largest?", "Name the largest country."], "The largest country is Russia.", "Russia"),
    (["What is the smallest country?", "Which country is the smallest in the world?", "Name the smallest country."], "The smallest country is Vatican City.", "Vatican"),
    (["What is the largest desert of hot sand?", "Which large desert is in northern Africa?", "Name the big desert in Africa."], "It is the Sahara.", "Sahara"),
    (["What is the largest animal?", "Which animal is the [biggest|largest]?", "Name the largest animal."], "The largest animal is the blue whale.", "blue whale"),
    (["What is the largest land animal?", "Which animal on land is the biggest?", "Name the biggest land animal."], "The largest land animal is the elephant.", "elephant"),
    (["What is the tallest animal?", "Which animal is the tallest?", "Which animal has a very long neck?", "Name the tallest animal."], "The tallest animal is the giraffe.", "giraffe"),
    (["What is the fastest land animal?", "Which animal runs fastest?", "Name the fastest animal on land."], "The fastest land animal is the cheetah.", "cheetah"),
    (["Which animal makes honey?", "What animal gives us honey?", "Who makes honey?"], "Bees make honey.", "bee|bees"),
    (["Which animal gives us wool?", "Where does wool come from?", "What animal has wool?"], "Sheep give us wool.", "sheep"),
    (["Which animal gives us milk?", "Where does milk come from?", "What animal do we get milk from?"], "Cows give us milk.", "cow|cows"),
    (["Which animal lays eggs that we eat?", "Where do eggs come from?", "What animal do we get eggs from?"], "Chickens lay eggs.", "chicken|chickens"),
    (["What do bees make?", "What is made by bees?", "What do bees produce?"], "Bees make honey.", "honey"),
    (["What do cows eat?", "What does a cow eat?", "What food do cows like?"], "Cows eat grass.", "grass"),
    (["What do pandas eat?", "What does a panda eat?", "What food do pandas like?"], "Pandas eat bamboo.", "bamboo"),
    (["Can penguins fly?", "Are penguins able to fly?", "Do penguins fly?"], "No, penguins cannot fly.", "no|cannot|can't"),
    (["At what temperature does water freeze?", "When does water freeze?", "What is the freezing point of water?"], "Water freezes at 0 degrees Celsius.", "0"),
    (["At what temperature does water boil?", "When does water boil?", "What is the boiling point of water?"], "Water boils at 100 degrees Celsius.", "100"),
    (["What is ice made of?", "What is ice?", "Which liquid becomes ice?"], "Ice is frozen water.", "water"),
    (["What is the formula of water?", "What is the chemical formula [of|for] water?", "Which formula does water have?"], "The formula of water is H2O.", "H2O"),
    (["What gas do we breathe to live?", "Which gas do people need to breathe?", "What do we need from the air?"], "We need oxygen.", "oxygen"),
    (["What gas do plants take in?", "Which gas do plants use?", "What gas do plants need from the air?"], "Plants take in carbon dioxide.", "carbon dioxide"),
    (["What is the hardest natural material?", "Which natural material is the hardest?", "What stone is the hardest?"], "Diamond is the hardest natural material.", "diamond"),
    (["What metal is liquid at room temperature?", "Which metal is liquid?", "Name a liquid metal."], "Mercury is liquid at room temperature.", "Mercury"),
    (["What force pulls things down?", "Why do things fall down?", "What makes things fall to the ground?"], "Gravity pulls things down.", "gravity"),
    (["What organ pumps blood?", "Which organ moves the blood?", "What pumps blood in the body?"], "The heart pumps blood.", "heart"),
    (["What organ do we think with?", "Which organ do we use to think?", "What part of the body thinks?"], "We think with the brain.", "brain"),
    (["What do we see with?", "Which part of the body do we see with?", "What do we use to see?"], "We see with our eyes.", "eye|eyes"),
    (["What do we hear with?", "Which part of the body do we hear with?", "What do we use to hear?"], "We hear with our ears.", "ear|ears"),
    (["What do we smell with?", "Which part of the body do we smell with?", "What do we use to smell?"], "We smell with our nose.", "nose"),
    (["What do we use to breathe?", "Which organ do we breathe with?", "What organs take in air?"], "We breathe with our lungs.", "lung|lungs"),
    (["What colour is the sky on a clear day?", "Which colour does the sky have?", "What color is the sky?"], "The sky is blue.", "blue"),
    (["What colour do you get from blue and yellow?", "What do blue and yellow make?", "Mix blue and yellow. Which colour is it?"], "Blue and yellow make green.", "green"),
    (["What colour do you get from red and yellow?", "What do red and yellow make?", "Mix red and yellow. Which colour is it?"], "Red and yellow make orange.", "orange"),
    (["What colour do you get from red and blue?", "What do red and blue make?", "Mix red and blue. Which colour is it?"], "Red and blue make purple.", "purple"),
    (["What colour do you get from red and white?", "What do red and white make?", "Mix red and white. Which colour is it?"], "Red and white make pink.", "pink"),
    (["What colour do you get from black and white?", "What do black and white make?", "Mix black and white. Which colour is it?"], "Black and white make grey.", "grey|gray"),
    (["What is the first month of the year?", "Which month comes first in the year?", "With which month does the year begin?"], "The first month is January.", "January"),
    (["What is the last month of the year?", "Which month is the last of the year?", "With which month does the year end?"], "The last month is December.", "December"),
    (["Which month is the shortest?", "What is the shortest month?", "Which month has the fewest days?"], "February is the shortest month.", "February"),
    (["Which season is the coldest?", "What is the coldest season?", "In which season does it snow?"], "Winter is the coldest season.", "winter"),
    (["Which season is the warmest?", "What is the hottest season?", "Which season is the hottest?"], "Summer is the warmest season.", "summer"),
    (["Which season comes after winter?", "What comes after winter?", "Winter is over, which season comes?"], "Spring comes after winter.", "spring"),
    (["In which season do leaves fall?", "When do leaves fall from trees?", "Which season comes after summer?"], "It is autumn.", "autumn|fall"),
    (["Where does the sun rise?", "In which direction does the sun rise?", "On which side does the sun come up?"], "The sun rises in the east.", "east"),
    (["Where does the sun set?", "In which direction does the sun set?", "On which side does the sun go down?"], "The sun sets in the west.", "west"),
    (["What is the opposite of north?", "Which direction is opposite to north?", "Which direction is across from north?"], "The opposite of north is south.", "south"),
    (["Who wrote Romeo and Juliet?", "Which poet wrote Hamlet?", "Who is the author of Hamlet?"], "It was William Shakespeare.", "Shakespeare"),
    (["Who painted the Mona Lisa?", "Which painter made the Mona Lisa?", "Who is the painter of the Mona Lisa?"], "Leonardo da Vinci painted the Mona Lisa.", "Leonardo"),
    (["In which city is the Eiffel Tower?", "Where is the Eiffel Tower?", "Which city has the Eiffel Tower?"], "The Eiffel Tower is in Paris.", "Paris"),
    (["In which city is the Colosseum?", "Where is the Colosseum?", "Which city has the Colosseum?"], "The Colosseum is in Rome.", "Rome"),
    (["In which country are the pyramids of Giza?", "Where are the pyramids of Giza?", "Which country has the pyramids of Giza?"], "The pyramids of Giza are in Egypt.", "Egypt"),
    (["In which country is the Great Wall?", "Where is the Great Wall?", "Which country built the Great Wall?"], "The Great Wall is in China.", "China"),
    (["Who was the first person on the moon?", "Which man walked on the moon first?", "Who walked on the moon first?"], "It was Neil Armstrong.", "Armstrong"),
    (["What do you use to cut paper?", "Which tool cuts paper?", "What cuts paper?"], "Scissors cut paper.", "scissors"),
    (["What do you use to open a lock?", "What opens a lock?", "Which thing opens a lock?"], "A key opens a lock.", "key"),
    (["What shows you the time?", "Which thing shows the time?", "What do you look at to know the time?"], "A clock shows the time.", "clock|watch"),
    (["What do you use when it rains?", "What keeps you dry in the rain?", "What do people hold over their heads in the rain?"], "An umbrella keeps you dry.", "umbrella"),
    (["What is bread made from?", "What do you need to make bread?", "From what is bread made?"], "Bread is made from flour.", "flour"),
    (["What is paper made from?", "From what is paper made?", "What do people make paper from?"], "Paper is made from wood.", "wood"),
    (["What is cheese made from?", "From what is cheese made?", "What do people make cheese from?"], "Cheese is made from milk.", "milk"),
    (["What is wine made from?", "From what is wine made?", "What fruit becomes wine?"], "Wine is made from grapes.", "grape|grapes"),
    (["What is glass made from?", "From what is glass made?", "What do people make glass from?"], "Glass is made from sand.", "sand"),
    (["What fruit does an apple tree have?", "What grows on an apple tree?", "Which fruit grows on apple trees?"], "Apples grow on an apple tree.", "apple|apples"),
]


def _pairs(text: str) -> list[tuple[str, str]]:
    return [tuple(x.replace("_", " ") for x in pair.split(":")) for pair in text.split()]


def _table() -> list[tuple[list[str], str, str]]:
    """All facts: ways to ask, the answer, what must be in it."""
    rows = list(SINGLE)

    def rule(pairs, asks, answer):
        for x, y in pairs:
            filled = lambda p: p.replace("{x}", x).replace("{ax}", words.a(x)).replace("{y}", y).replace("{ay}", words.a(y))
            rows.append(([filled(p) for p in asks], filled(answer), y))

    rule(_pairs(CAPITALS), ["What is the capital [city |]of {x}?", "[What|Which] city is the capital of {x}?", "Name the capital of {x}.", "{x}: what is its capital?",
                            "Tell me the capital [city |]of {x}.", "The capital of {x}?", "[Do you know|What's] the capital of {x}?", "What is {x}'s capital?"], "The capital of {x} is {y}.")
    rule(_pairs(CONTINENTS), ["On which continent is {x}?", "Which continent is {x} [in|on]?", "What continent is {x} part of?", "{x} is on which continent?", "Name the continent of {x}."], "{x} is in {y}.")
    rule(_pairs(CURRENCIES), ["What is the currency of {x}?", "What money [do people use|is used] in {x}?", "Which currency does {x} have?", "What do people pay with in {x}?"], "The currency of {x} is {y}.")
    rule(_pairs(LANGUAGES), ["What language [is spoken|do people speak] in {x}?", "Which language do they speak in {x}?", "What is the language of {x}?", "In {x}, what language do people speak?"], "People in {x} speak {y}.")
    rule(_pairs(OBJECT_COLORS), ["What colour is {x}?", "What color does {x} have?", "Which colour is {x}?", "Tell me the colour of {x}."], "The colour of {x} is {y}.")
    rule(_pairs(YOUNG), ["What is a young {x} called?", "What do you call a baby {x}?", "What is the name of a baby {x}?", "A young {x} is called what?"], "A young {x} is called {ay}.")
    rule(_pairs(SOUNDS), ["What sound does {ax} make?", "Which sound does {ax} make?", "What does {ax} do when it makes a sound?", "How does {ax} sound?"], "The sound of {ax}: {y}.")
    rule(_pairs(LEGS), ["How many legs does {ax} have?", "What number of legs does {ax} have?", "How many legs has {ax}?", "Tell me how many legs {ax} has."], "{ax} has {y} legs.")
    both = _pairs(OPPOSITES)
    rule(both + [(y, x) for x, y in both], ["What is the opposite of {x}?", "Give me the opposite of {x}.", "[Which word is|What's] the opposite of {x}?", "The opposite of {x}?",
                                             "Name the opposite of the word {x}."], "The opposite of {x} is {y}.")
    rule(_pairs(PLURALS), ["What is the plural of {x}?", "Give me the plural of {x}.", "One {x}, two what?", "What is the word for more than one {x}?"], "The plural of {x} is {y}.")
    rule(_pairs(PAST), ["What is the past tense of {x}?", "What is the past of the verb {x}?", "Give me the past tense of {x}.", "Past tense of {x}?"], "The past tense of {x} is {y}.")
    rule([p.strip().split(":") for p in AMOUNTS.replace("\n", "").split("|")], ["How many {x}?", "What is the number of {x}?", "How many {x} are there?", "Tell me the number of {x}."], "The number of {x} is {y}.")
    rule(_pairs(SYMBOLS), ["What is the chemical symbol [of|for] {x}?", "What is the symbol of {x}?", "Which symbol stands for {x}?", "Which symbol does {x} have in chemistry?"], "The symbol of {x} is {y}.")
    rule(_pairs(GROUPS), ["What kind of animal is {ax}?", "Which group of animals does {ax} belong to?", "Is {ax} a mammal, a bird, a fish, a reptile, an amphibian or an insect?", "What type of animal is {ax}?"], "{ax} is {ay}.")
    rule(_pairs(KINDS), ["What kind of thing is {x}?", "What is {x}: in one word?", "Which group does {x} belong to?", "What type of thing is {x}?"], "{x} belongs to the group: {y}.")
    rule(list(zip(words.DAYS, words.DAYS[1:] + words.DAYS[:1])), ["Which day comes after {x}?", "What day follows {x}?", "Today is {x}. What day is tomorrow?", "What is the day after {x}?"], "The day after {x} is {y}.")
    rule(list(zip(words.DAYS[1:] + words.DAYS[:1], words.DAYS)), ["Which day comes before {x}?", "Today is {x}. What day was yesterday?", "What is the day before {x}?", "What day is right before {x}?"], "The day before {x} is {y}.")
    rule(list(zip(words.MONTHS, words.MONTHS[1:] + words.MONTHS[:1])), ["Which month comes after {x}?", "What month follows {x}?", "What is the month after {x}?", "{x} is over. Which month is it now?"], "The month after {x} is {y}.")
    rule(list(zip(words.MONTHS[1:] + words.MONTHS[:1], words.MONTHS)), ["Which month comes before {x}?", "What is the month before {x}?", "What month is right before {x}?", "Which month is before {x}?"], "The month before {x} is {y}.")
    rule([(m, str(i + 1)) for i, m in enumerate(words.MONTHS)], ["What number is the month {x}?", "Which number does the month {x} have?", "{x} is which month of the year, as a number?", "What is the number of the month {x}?"], "{x} is month number {y}.")
    letters = "abcdefghijklmnopqrstuvwxyz"
    rule(list(zip(letters, letters[1:])), ["Which letter comes after {x}?", "What letter follows {x} in the alphabet?", "What is the letter after {x}?", "The letter after {x}?"], "The letter after {x} is {y}.")
    return rows


TABLE = _table()


# Around a question of a single fact, whose few wordings are all needed to learn it.
AROUND = ["Tell me: {q}", "Question: {q}", "{q} Answer in one sentence.", "I have a question. {q}", "Quick question: {q}", "Quiz: {q}", "{q} Do you know?", "Here is a question for you: {q}", "Answer this: {q}", "{q} I forgot.",
          "My teacher asks: {q}", "Easy one: {q}", "[Hi|Hello], {q}", "{q} Please answer.", "[So|Well], {q}", "I wonder: {q}"]


def make(d: Draw) -> Turn:
    asks, answer, key = d.any(TABLE)
    answer = answer[0].upper() + answer[1:]
    # Held out are wordings, not facts: who was never told one cannot know it.
    user = d.ask(asks)
    if len(asks) < 4 and (d.heldout or d.chance(0.3)) or d.chance(0.1):
        user = d.ask(AROUND, q=user)
    keys = key.split("|")
    expect = has(key) if len(keys) == 1 else {"text": r"(?i)\b(" + "|".join(keys) + r")\b"}
    return turn(SKILL, user, f"I know this: {answer}", answer, expect, ("fact", key))
