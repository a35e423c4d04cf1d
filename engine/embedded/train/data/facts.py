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


def _table() -> list[tuple[list[str], str, str, str, str]]:
    """All facts: ways to ask, the answer, what must be in it, and what ways.py calls its kind and what it is about."""
    rows = [(*row, "", "") for row in SINGLE]

    def rule(name, pairs, asks, answer):
        for x, y in pairs:
            filled = lambda p: p.replace("{x}", x).replace("{ax}", words.a(x)).replace("{y}", y).replace("{ay}", words.a(y))
            rows.append(([filled(p) for p in asks], filled(answer), y, f"facts.{name}", x))

    rule("CAPITALS", _pairs(CAPITALS), ["What is the capital [city |]of {x}?", "[What|Which] city is the capital of {x}?", "Name the capital of {x}.", "{x}: what is its capital?",
                            "Tell me the capital [city |]of {x}.", "The capital of {x}?", "[Do you know|What's] the capital of {x}?", "What is {x}'s capital?",
                            "What's the capital city of {x}?", "What city is {x}'s capital?", "Which city is {x}'s capital?", "Can you tell me the capital of {x}?",
                            "Can you name the capital of {x}?", "Do you know [which|what] city is the capital of {x}?", "Do you know {x}'s capital?", "[Please |]name {x}'s capital.",
                            "[Please |]give me the capital of {x}.", "I want to know the capital of {x}.", "I need the capital of {x}[ for a quiz| for school|].",
                            "I forgot the capital of {x}. What is it?", "{x} has which [city as its capital|capital]?", "{x}: which city is the capital?", "{x}'s capital is which city?",
                            "{x}'s capital?", "Capital of {x}[?|]", "The capital of {x} is which city?", "The capital of {x} is called what?", "How is the capital of {x} called?",
                            "What is the name of the capital of {x}?", "What do you call the capital of {x}?", "[Hey|Ok so|So], what is the capital of {x}?",
                            "[Quick question|Question|Quiz]: what is the capital of {x}?"], "The capital of {x} is {y}.")
    rule("CONTINENTS", _pairs(CONTINENTS), ["On which continent is {x}?", "Which continent is {x} [in|on]?", "What continent is {x} part of?", "{x} is on which continent?", "Name the continent of {x}.",
                              "What continent is {x} [in|on]?", "What is the continent of {x}?", "Which continent does {x} belong to?", "Which continent is {x} part of?",
                              "Which continent is {x} a part of?", "To which continent does {x} belong?", "On [what|which] continent do I find {x}?",
                              "On which continent is the country {x}?", "In which continent is {x}?", "Where is {x}, on which continent?", "Where is {x}? Name the continent.",
                              "Can you tell me [which|what] continent {x} is on?", "Do you know [which|what] continent {x} is on?", "Tell me the continent of {x}.",
                              "Tell me [which|what] continent {x} is on.", "[Please |]say which continent {x} is on.", "I want to know the continent of {x}.",
                              "{x} belongs to which continent?", "{x} is part of which continent?", "{x}: which continent?", "Continent of {x}[?|]",
                              "The country {x} is on which continent?", "[Quick question|Question|Quiz]: on which continent is {x}?"], "{x} is in {y}.")
    rule("CURRENCIES", _pairs(CURRENCIES), ["What is the currency of {x}?", "What money [do people use|is used] in {x}?", "Which currency does {x} have?", "What do people pay with in {x}?",
                              "What is {x}'s currency?", "What's the currency of {x}?", "What currency does {x} [have|use]?", "What currency [is used|do people use] in {x}?",
                              "What money does {x} [have|use]?", "What money do I need in {x}?", "What is the money of {x} called?", "What is the currency in {x} called?",
                              "Which money do people use in {x}?", "Which currency is used in {x}?", "Which currency do I need in {x}?", "With what money do people pay in {x}?",
                              "With which currency do I pay in {x}?", "How do people pay in {x}, in which currency?", "Can you tell me the currency of {x}?",
                              "Do you know the currency of {x}?", "Tell me the currency of {x}.", "Name the currency of {x}.", "I travel to {x}. Which currency do I need?",
                              "In {x}, what money do people use?", "In {x}, which currency do people pay with?", "{x}'s currency?", "{x}: which currency?", "Currency of {x}[?|]"], "The currency of {x} is {y}.")
    rule("LANGUAGES", _pairs(LANGUAGES), ["What language [is spoken|do people speak] in {x}?", "Which language do they speak in {x}?", "What is the language of {x}?", "In {x}, what language do people speak?",
                             "What is {x}'s language?", "What's the language of {x}?", "What language do they speak in {x}?", "What language do I hear in {x}?",
                             "What language does {x} have?", "What do people speak in {x}?", "Which language is spoken in {x}?", "Which language do people speak in {x}?",
                             "Which language is it that people in {x} speak?", "Which language should I learn for {x}?", "In which language do people talk in {x}?",
                             "In which language do they speak in {x}?", "Can you tell me the language of {x}?", "Can you tell me what people speak in {x}?",
                             "Do you know what language is spoken in {x}?", "Do you know which language people in {x} speak?", "Tell me the language of {x}.",
                             "Tell me which language is spoken in {x}.", "Name the language of {x}.", "Name the language people speak in {x}.", "People in {x} speak which language?",
                             "I travel to {x}. What language do they speak there?", "{x}: which language?", "Language of {x}[?|]"], "People in {x} speak {y}.")
    rule("OBJECT_COLORS", _pairs(OBJECT_COLORS), ["What colour is {x}?", "What color does {x} have?", "Which colour is {x}?", "Tell me the colour of {x}.",
                                 "What is the colour of {x}?", "What's the colour of {x}?", "What color is {x}?", "What colour does {x} have?", "What colour has {x}?",
                                 "What is the color of {x}?", "Which color is {x}?", "Which colour does {x} have?", "Which colour has {x}?", "Can you tell me the colour of {x}?",
                                 "Can you tell me what colour {x} is?", "Do you know the colour of {x}?", "Do you know what colour {x} is?", "Tell me what colour {x} is.",
                                 "Tell me which colour {x} has.", "Name the colour of {x}.", "Say what colour {x} is.", "I want to paint {x}. Which colour do I need?",
                                 "I draw {x}. Which colour do I need?", "In nature, what colour is {x}?", "{x}: which colour?", "The colour of {x}?",
                                 "The word is {x}. Which colour does it have?"], "The colour of {x} is {y}.")
    rule("YOUNG", _pairs(YOUNG), ["What is a young {x} called?", "What do you call a baby {x}?", "What is the name of a baby {x}?", "A young {x} is called what?",
                         "A baby {x} is called what?", "What is a baby {x} called?", "What's a baby {x} called?", "What do you call a young {x}?", "What do we call a young {x}?",
                         "What do people call a baby {x}?", "What is the word for a young {x}?", "What is the word for a baby {x}?", "What's the name for a young {x}?",
                         "What is the name of a young {x}?", "What is the young of {ax} called?", "What do you call the young of {ax}?", "How do you call a young {x}?",
                         "How is a young {x} called?", "Which word means a young {x}?", "Which word means a baby {x}?", "Can you tell me what a young {x} is called?",
                         "Can you tell me the word for a baby {x}?", "Do you know what a young {x} is called?", "Do you know the word for a baby {x}?", "Tell me what a baby {x} is called.",
                         "Tell me the word for a young {x}.", "Name the young of {ax}.", "The young of {ax} is called what?", "Give me the word for a young {x}."], "A young {x} is called {ay}.")
    rule("SOUNDS", _pairs(SOUNDS), ["What sound does {ax} make?", "Which sound does {ax} make?", "What does {ax} do when it makes a sound?", "How does {ax} sound?",
                          "What sound comes from {ax}?", "What sound do we hear from {ax}?", "What noise does {ax} make?", "What is the noise of {ax}?", "What is the sound of {ax}?",
                          "What is the sound of {ax} called?", "What is the word for the sound of {ax}?", "What do you call the sound of {ax}?", "What does {ax} say?",
                          "What do I hear when I hear {ax}?", "Which noise does {ax} make?", "Which sound comes from {ax}?", "Which word is used for the sound of {ax}?",
                          "How does {ax} make itself heard?", "Can you tell me the sound of {ax}?", "Can you tell me what sound {ax} makes?", "Do you know the sound of {ax}?",
                          "Do you know what noise {ax} makes?", "Tell me the sound of {ax}.", "Tell me what noise {ax} makes.", "Name the sound of {ax}.", "Name the noise {ax} makes.",
                          "Give me the word for the sound of {ax}.", "The sound of {ax}?"], "The sound of {ax}: {y}.")
    rule("LEGS", _pairs(LEGS), ["How many legs does {ax} have?", "What number of legs does {ax} have?", "How many legs has {ax}?", "Tell me how many legs {ax} has.",
                        "How many legs are on {ax}?", "How many legs are there on {ax}?", "How many legs can {ax} have?", "How many legs do I count on {ax}?",
                        "How many legs does {ax} walk on?", "What is the number of legs of {ax}?", "What is the count of legs of {ax}?", "On how many legs does {ax} walk?",
                        "With how many legs is {ax} born?", "Can you tell me how many legs {ax} has?", "Can you tell me the number of legs of {ax}?", "Can you count the legs of {ax}?",
                        "Do you know how many legs {ax} has?", "Do you know the number of legs of {ax}?", "Tell me the number of legs of {ax}.", "Say how many legs {ax} has.",
                        "Count the legs of {ax}.", "I count the legs of {ax}. How many are there?", "I want to know how many legs {ax} has.", "I draw {ax}. How many legs does it need?",
                        "Number of legs of {ax}?", "Legs of {ax}: how many?"], "{ax} has {y} legs.")
    both = _pairs(OPPOSITES)
    rule("OPPOSITES", both + [(y, x) for x, y in both], ["What is the opposite of {x}?", "Give me the opposite of {x}.", "[Which word is|What's] the opposite of {x}?", "The opposite of {x}?",
                                             "Name the opposite of the word {x}.",
                                             "What word is the opposite of {x}?", "What word means the opposite of {x}?", "What is opposite to {x}?", "What is the contrary of {x}?",
                                             "What's the word opposite to {x}?", "What is the antonym of {x}?", "Which word means the opposite of {x}?", "Which word is opposite to {x}?",
                                             "Which word is the contrary of {x}?", "Not {x}, but the opposite. Which word is it?", "If it is not {x}, what is it? Give me the opposite.",
                                             "Can you tell me the opposite of {x}?", "Can you give me the opposite of {x}?", "Do you know the opposite of {x}?",
                                             "Do you know the antonym of {x}?", "Tell me the opposite of {x}.", "Tell me which word is the opposite of {x}.", "Say the opposite of {x}.",
                                             "Find the opposite of {x}.", "Give me the antonym of {x}.", "Give me a word that means the opposite of {x}.", "I need the opposite of {x}.",
                                             "I am looking for the opposite of {x}.", "The word is {x}. What is the opposite?", "{x}: what is the opposite?", "Opposite of {x}[?|]"], "The opposite of {x} is {y}.")
    rule("PLURALS", _pairs(PLURALS), ["What is the plural of {x}?", "Give me the plural of {x}.", "One {x}, two what?", "What is the word for more than one {x}?",
                           "What is the plural form of {x}?", "What's the plural of {x}?", "What is the plural of the word {x}?", "What do you call more than one {x}?",
                           "What do you call two of them: one {x}, two what?", "Which word is the plural of {x}?", "Which word means more than one {x}?",
                           "How do you say more than one {x}?", "How do you write the plural of {x}?", "How does the plural of {x} look?", "Can you tell me the plural of {x}?",
                           "Can you give me the plural of {x}?", "Do you know the plural of {x}?", "Tell me the plural of {x}.", "Tell me the plural form of {x}.", "Say the plural of {x}.",
                           "Write the plural of {x}.", "Form the plural of {x}.", "Give me the plural form of {x}.", "I need the plural of {x}.", "The word is {x}. What is the plural?",
                           "There is one {x}. Then there are many what?", "Plural of {x}[?|]", "The plural of {x}?", "{x}: what is the plural?"], "The plural of {x} is {y}.")
    rule("PAST", _pairs(PAST), ["What is the past tense of {x}?", "What is the past of the verb {x}?", "Give me the past tense of {x}.", "Past tense of {x}?",
                        "The past tense of {x}?", "The past of {x}?", "What is the past form of {x}?", "What is the past tense of the verb {x}?", "What's the past tense of {x}?",
                        "What's the past of {x}?", "Which form does {x} have in the past?", "Which word is the past tense of {x}?", "How do you say {x} in the past?",
                        "How do you say {x} in the past tense?", "How do you write the past tense of {x}?", "Can you tell me the past tense of {x}?",
                        "Can you give me the past form of {x}?", "Do you know the past tense of {x}?", "Tell me the past tense of {x}.", "Tell me the past form of {x}.",
                        "Say the past tense of {x}.", "Write the past tense of {x}.", "Put the verb {x} in the past tense.", "Put {x} in the past.", "Form the past tense of {x}.",
                        "Give me the past form of {x}.", "I need the past tense of {x}.", "The verb is {x}. What is the past tense?", "Today I {x}, yesterday I what?",
                        "{x}: what is the past tense?"], "The past tense of {x} is {y}.")
    rule("AMOUNTS", [p.strip().split(":") for p in AMOUNTS.replace("\n", "").split("|")], ["How many {x}?", "What is the number of {x}?", "How many {x} are there?", "Tell me the number of {x}.",
                                                                                "Tell me how many {x} there are.", "[Please |]say how many {x} there are.", "How many are there: {x}?",
                                                                                "How many {x} do we have?", "How many {x} do you know of?", "How many {x} do people count?",
                                                                                "How many {x} is it?", "What number of {x} is there?", "What is the count of {x}?",
                                                                                "What's the number of {x}?", "What is the right number of {x}?", "Can you tell me the number of {x}?",
                                                                                "Can you tell me how many {x} there are?", "Do you know how many {x} there are?",
                                                                                "Do you know the number of {x}?", "Give me the number of {x}.", "Count: {x}. How many?",
                                                                                "I want to know how many {x} there are.", "I want to know the number of {x}.",
                                                                                "I forgot how many {x} there are.", "I need the number of {x}.", "The number of {x}?", "Number of {x}[?|]",
                                                                                "{x}: how many?", "{x}: what is the number?"], "The number of {x} is {y}.")
    rule("SYMBOLS", _pairs(SYMBOLS), ["What is the chemical symbol [of|for] {x}?", "What is the symbol of {x}?", "Which symbol stands for {x}?", "Which symbol does {x} have in chemistry?",
                           "What symbol does {x} have?", "What symbol stands for {x}?", "What symbol do chemists use for {x}?", "What is the symbol for the element {x}?",
                           "What is the chemical sign for {x}?", "What's the chemical symbol for {x}?", "What's the symbol of {x}?", "Which symbol does the element {x} have?",
                           "Which symbol do chemists use for {x}?", "Which chemical symbol stands for {x}?", "Which letters stand for {x} in chemistry?", "How do chemists write {x}?",
                           "How is {x} written in chemistry?", "In chemistry, what is the symbol of {x}?", "Can you tell me the symbol of {x}?",
                           "Can you give me the chemical symbol of {x}?", "Do you know the chemical symbol of {x}?", "Do you know the symbol for {x}?", "Tell me the symbol of {x}.",
                           "Tell me the chemical symbol for {x}.", "Give me the symbol of {x}.", "Name the chemical symbol of {x}.", "I need the chemical symbol of {x}.",
                           "Chemical symbol of {x}?", "{x}: which chemical symbol?"], "The symbol of {x} is {y}.")
    rule("GROUPS", _pairs(GROUPS), ["What kind of animal is {ax}?", "Which group of animals does {ax} belong to?", "Is {ax} a mammal, a bird, a fish, a reptile, an amphibian or an insect?", "What type of animal is {ax}?",
                          "What sort of animal is {ax}?", "What class of animal is {ax}?", "What group of animals does {ax} belong to?", "What group of animals is {ax} in?",
                          "Which kind of animal is {ax}?", "Which type of animal is {ax}?", "Which class of animals does {ax} belong to?", "Which group of animals is {ax} part of?",
                          "In which group of animals is {ax}?", "To which group of animals does {ax} belong?", "To which class of animals does {ax} belong?",
                          "Among the animals, what is {ax}?", "Is {ax} a mammal or what kind of animal?", "Mammal, bird, fish, reptile, amphibian or insect: what is {ax}?",
                          "A mammal, a bird, a fish or something else: what is {ax}?", "Can you tell me what kind of animal {ax} is?",
                          "Can you tell me which group of animals {ax} belongs to?", "Do you know what kind of animal {ax} is?", "Do you know which group of animals {ax} belongs to?",
                          "Tell me what kind of animal {ax} is.", "Tell me the animal group of {ax}.", "Name the group of animals that {ax} belongs to.",
                          "I want to know what type of animal {ax} is.", "{ax} belongs to which group of animals?", "{ax} is what kind of animal?"], "{ax} is {ay}.")
    rule("KINDS", _pairs(KINDS), ["What kind of thing is {x}?", "What is {x}: in one word?", "Which group does {x} belong to?", "What type of thing is {x}?",
                         "What sort of thing is {x}?", "What kind of thing do we call {x}?", "What group does {x} belong to?", "What group is {x} in?", "What group is {x} part of?",
                         "What is the group of {x}?", "In one word, what is {x}?", "Which kind of thing is {x}?", "Which type of thing is {x}?", "Which sort of thing is {x}?",
                         "Which group is {x} in?", "Which group is {x} part of?", "In which group is {x}?", "In which group do you put {x}?", "To which group does {x} belong?",
                         "Can you tell me what kind of thing {x} is?", "Can you tell me which group {x} belongs to?", "Do you know what kind of thing {x} is?",
                         "Do you know which group {x} belongs to?", "Tell me what kind of thing {x} is.", "Tell me which group {x} belongs to.", "Name the group of {x}.",
                         "Name the group that {x} belongs to.", "Put {x} in a group. Which one is it?", "{x} belongs to which group?", "{x} is what kind of thing?"], "{x} belongs to the group: {y}.")
    rule("day_after", list(zip(words.DAYS, words.DAYS[1:] + words.DAYS[:1])), ["Which day comes after {x}?", "What day follows {x}?", "Today is {x}. What day is tomorrow?", "What is the day after {x}?",
                                                                  "What is the next day after {x}?", "What's the day after {x}?", "What day comes after {x}?",
                                                                  "What day comes next after {x}?", "What day is the day after {x}?", "What comes after {x} in the week?",
                                                                  "Which day follows {x}?", "Which day is after {x}?", "Which day is next after {x}?",
                                                                  "Which day of the week comes after {x}?", "Today is {x}. Which day is tomorrow?", "Today is {x}. What is the next day?",
                                                                  "It is {x} today. What day is tomorrow?", "It is {x} today. Which day comes next?",
                                                                  "If today is {x}, what day is tomorrow?", "If today is {x}, which day comes next?",
                                                                  "If it is {x} today, what is it tomorrow?", "Can you tell me which day comes after {x}?",
                                                                  "Do you know which day follows {x}?", "Tell me the day after {x}.", "Name the day after {x}.",
                                                                  "Name the day that follows {x}.", "{x} is over. Which day is it now?", "After {x} comes which day?", "The day after {x}?"], "The day after {x} is {y}.")
    rule("day_before", list(zip(words.DAYS[1:] + words.DAYS[:1], words.DAYS)), ["Which day comes before {x}?", "Today is {x}. What day was yesterday?", "What is the day before {x}?", "What day is right before {x}?",
                                                                  "What's the day before {x}?", "What day comes before {x}?", "What day comes right before {x}?",
                                                                  "What day is it before {x}?", "What comes before {x} in the week?", "Which day is before {x}?",
                                                                  "Which day is right before {x}?", "Which day of the week comes before {x}?", "Which day is followed by {x}?",
                                                                  "What day is followed by {x}?", "Today is {x}. Which day was yesterday?", "Today is {x}. What was the day before?",
                                                                  "It is {x} today. What day was yesterday?", "It is {x} today. Which day was yesterday?",
                                                                  "If today is {x}, what day was yesterday?", "If today is {x}, which day was it yesterday?",
                                                                  "If it is {x} today, what was it yesterday?", "Can you tell me which day comes before {x}?",
                                                                  "Do you know which day is before {x}?", "Tell me the day before {x}.", "Name the day before {x}.",
                                                                  "Name the day that is right before {x}.", "Before {x} comes which day?", "The day before {x}?",
                                                                  "Tomorrow is {x}. What day is today?"], "The day before {x} is {y}.")
    rule("month_after", list(zip(words.MONTHS, words.MONTHS[1:] + words.MONTHS[:1])), ["Which month comes after {x}?", "What month follows {x}?", "What is the month after {x}?", "{x} is over. Which month is it now?",
                                                                        "{x} is over. What month comes now?", "{x} ends. Which month begins?", "What is the next month after {x}?",
                                                                        "What's the month after {x}?", "What month comes after {x}?", "What month comes next after {x}?",
                                                                        "What month is after {x}?", "Which month follows {x}?", "Which month is after {x}?",
                                                                        "Which month is next after {x}?", "Which month of the year comes after {x}?",
                                                                        "It is {x} now. Which month comes next?", "It is {x} now. What is the next month?",
                                                                        "If it is {x} now, what month comes next?", "If this month is {x}, what is the next month?",
                                                                        "This month is {x}. What is next month?", "Can you tell me which month comes after {x}?",
                                                                        "Do you know which month follows {x}?", "Tell me the month after {x}.", "Name the month after {x}.",
                                                                        "Name the month that follows {x}.", "After {x} comes which month?", "The month after {x}?"], "The month after {x} is {y}.")
    rule("month_before", list(zip(words.MONTHS[1:] + words.MONTHS[:1], words.MONTHS)), ["Which month comes before {x}?", "What is the month before {x}?", "What month is right before {x}?", "Which month is before {x}?",
                                                                        "Which month is right before {x}?", "Which month came before {x}?", "Which month is followed by {x}?",
                                                                        "Which month of the year comes before {x}?", "What month comes before {x}?", "What month comes right before {x}?",
                                                                        "What month is before {x}?", "What month is followed by {x}?", "What's the month before {x}?",
                                                                        "It is {x} now. Which month was last month?", "It is {x} now. What was the month before?",
                                                                        "If it is {x} now, what was last month?", "If this month is {x}, what was the last month?",
                                                                        "This month is {x}. What was last month?", "{x} begins. Which month is over?", "{x} starts. Which month has ended?",
                                                                        "Can you tell me which month comes before {x}?", "Do you know which month is before {x}?",
                                                                        "Tell me the month before {x}.", "Name the month before {x}.", "Name the month that is right before {x}.",
                                                                        "Before {x} comes which month?", "The month before {x}?"], "The month before {x} is {y}.")
    rule("month_number", [(m, str(i + 1)) for i, m in enumerate(words.MONTHS)], ["What number is the month {x}?", "Which number does the month {x} have?", "{x} is which month of the year, as a number?", "What is the number of the month {x}?",
                                                                 "What is the number of {x} among the months?", "What number is {x} among the months?",
                                                                 "What number has {x} among the months?", "What number does the month {x} have?", "What's the number of the month {x}?",
                                                                 "Which number is the month {x}?", "Which number has the month {x}?", "Which number does {x} have among the months?",
                                                                 "Which month number is {x}?", "What month number is {x}?", "The month {x} has which number?",
                                                                 "The month {x} is number what?", "The number of the month {x}?", "{x} as the number of a month?",
                                                                 "{x} is month number what?", "How do I write the month {x} as a number?", "Write the month {x} as a number.",
                                                                 "Give me the number of the month {x}.", "Give me the month {x} as a number.", "Tell me the number of the month {x}.",
                                                                 "Tell me which number the month {x} has.", "Can you tell me the number of the month {x}?",
                                                                 "Do you know which number the month {x} has?", "I fill in a form. Which number is the month {x}?",
                                                                 "Count the months up to {x}. Which number is it?"], "{x} is month number {y}.")
    letters = "abcdefghijklmnopqrstuvwxyz"
    rule("letter_after", list(zip(letters, letters[1:])), ["Which letter comes after {x}?", "What letter follows {x} in the alphabet?", "What is the letter after {x}?", "The letter after {x}?",
                                           "What's the letter after {x}?", "What letter comes after {x}?", "What letter comes next after {x}?", "What letter is after {x} in the alphabet?",
                                           "What is the next letter after {x}?", "What comes after {x} in the alphabet?", "Which letter follows {x}?", "Which letter is after {x}?",
                                           "Which letter is next after {x}?", "Which letter follows {x} in the alphabet?", "Which letter of the alphabet comes after {x}?",
                                           "In the alphabet, what comes after {x}?", "In the alphabet, which letter follows {x}?", "Can you tell me the letter after {x}?",
                                           "Can you tell me which letter comes after {x}?", "Do you know which letter comes after {x}?", "Tell me the letter after {x}.",
                                           "Tell me which letter follows {x}.", "Name the letter after {x}.", "Name the letter that follows {x}.", "Say the letter that comes after {x}.",
                                           "After {x} comes which letter?", "Alphabet: which letter comes after {x}?"], "The letter after {x} is {y}.")
    return rows


TABLE = _table()


# Around a question of a single fact, whose few wordings are all needed to learn it.
AROUND = ["Tell me: {q}", "Question: {q}", "{q} Answer in one sentence.", "I have a question. {q}", "Quick question: {q}", "Quiz: {q}", "{q} Do you know?", "Here is a question for you: {q}", "Answer this: {q}", "{q} I forgot.",
          "My teacher asks: {q}", "Easy one: {q}", "[Hi|Hello], {q}", "{q} Please answer.", "[So|Well], {q}", "I wonder: {q}",
          "[So tell|Please tell|Just tell] me: {q}", "[Please |]answer my question: {q}", "[Please |]answer this question: {q}", "[Can|Could] you answer this? {q}",
          "[Can|Could] you tell me this? {q}", "[Can|Could] you help me with this question? {q}", "[A|One|My] [short |quick |]question: {q}", "[Ok so|Hey|Ok], {q}",
          "[Hi|Hello], a question: {q}", "I need to know this[ for school| for a quiz|]: {q}", "I want to know this: {q}", "I forgot this: {q}", "I am not sure about this: {q}",
          "I have to answer this for school: {q}", "I have this in my homework: {q}", "I am doing a quiz. {q}", "I play a quiz with [friends|my family]. {q}",
          "My [son|daughter|friend|brother|sister] asks [me |]this: {q}", "My [son|daughter|friend|brother|sister] wants to know: {q}", "Here is a quiz question: {q}",
          "[School|Quiz|Test] question: {q}", "[General knowledge|Trivia|Homework]: {q}", "Q: {q}", "{q} [Please tell me|Tell me|Please say it].",
          "{q} I [want|need] to know it[ for school| for a quiz|].", "{q} I am not sure.", "{q} [Can|Could] you tell me?",
          "{q} [Keep it short|A short answer, please|One sentence is enough].", "{q} [Thanks|Thank you].", "{q} This is for [school|a quiz|my homework]."]


def make(d: Draw) -> Turn:
    asks, answer, key, kind, about = d.any(TABLE)
    answer = answer[0].upper() + answer[1:]
    # Held out are wordings, not facts: who was never told one cannot know it.
    user = d.ask(asks, way=kind, x=about)
    if len(asks) < 4 and (d.heldout or d.chance(0.3)) or d.chance(0.1):
        user = d.ask(AROUND, way="facts.AROUND", q=user)
    keys = key.split("|")
    expect = has(key) if len(keys) == 1 else {"text": r"(?i)\b(" + "|".join(keys) + r")\b"}
    return turn(SKILL, user, f"I know this: {answer}", answer, expect, ("fact", key))
