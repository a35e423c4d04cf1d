"""Questions about facts that are given in the conversation, close by or thousands of tokens earlier."""

from . import ways, words
from .draw import Draw, Turn, has, look, turn

NEAR, FAR = "context", "context_far"

# A relation: how it is stated, asked and answered. {n} is who or what it is
# about, {v} the value.
RELATIONS = {
    "city": (["{n} lives in {v}.", "{n} has a flat in {v}.", "The home of {n} is in {v}.",
              "{n} is living in {v}.", "{n} is at home in {v}.", "{n} moved to {v} and lives there.", "{n} lives in the city of {v}.", "{n} has a home in {v}.",
              "{n} has lived in {v} for years.", "{n} rents a flat in {v}.", "{n}'s home is in {v}.", "{n}'s flat is in {v}.", "The city where {n} lives is {v}.",
              "In {v} you find the home of {n}."],
             ["Where does {n} live?", "[In which|Which] city does {n} live[ in|]?", "[What|Which] city is the home of {n}?", "Do you know where {n} lives?", "Where is {n}'s home?",
              "In which city is {n}'s home?", "[Which|What] city is {n} living in?", "Where is {n} living?", "Where is {n} at home?", "Where is the home of {n}?",
              "Where does {n} have a home?", "Tell me where {n} lives.", "Tell me the city where {n} lives.", "Tell me [which|what] city {n} lives in.", "Can you tell me where {n} lives?",
              "Can you [say|find out] where {n} lives?", "Do you know which city {n} lives in?", "What is {n}'s home city?", "What is the city where {n} lives?",
              "What is the home city of {n}?", "{n} lives where?", "{n} lives in which city?", "{n}'s home is in which city?", "Name the city where {n} lives.",
              "Name the home city of {n}.", "I want to know where {n} lives.", "I want to visit {n} at home. Which city is that?", "Please find out where {n} lives.",
              "Say where {n} lives.", "I forgot where {n} lives. Where is it?"],
             "{n} lives in {v}.", words.CITIES),
    "job": (["{n} works as {v}.", "{n} is {v}.", "{n} earns a living as {v}.",
             "{n} has a job as {v}.", "{n} is employed as {v}.", "{n} makes a living as {v}.", "{n} makes money as {v}.", "{n} has worked as {v} for years.", "{n} found work as {v}.",
             "{n} is {v} by profession.", "{n}'s job: {n} is {v}.", "For a living, {n} works as {v}.", "At work, {n} is {v}.", "In working life, {n} is {v}."],
            ["What does {n} do [for a living|for work]?", "What is {n}'s [job|profession|work]?", "[Which|What] job does {n} have?", "What is the profession of {n}?", "What does {n} work as?",
             "What is {n} by profession?", "What is the [job|work] of {n}?", "What's {n}'s [job|profession]?", "What work does {n} do?", "What does {n} do at work?",
             "What job does {n} do?", "[Which|What] profession does {n} have?", "As what does {n} work?", "How does {n} [earn|make] a living?", "How does {n} [earn|make] money?",
             "Tell me [the job|the profession] of {n}.", "Tell me what {n} does for a living.", "Tell me {n}'s [job|profession].", "Can you tell me what {n} works as?",
             "Can you tell me {n}'s [job|profession]?", "Do you know what {n} does for [a living|work]?", "Do you know {n}'s [job|profession]?", "{n} works as what?",
             "{n} does what for a living?", "{n}'s job is what?", "Name the [job|profession] of {n}.", "I want to know what {n} works as.", "I want to know {n}'s job.",
             "Please find out what {n} does for a living.", "Say what {n} does for work."],
            "{n} works as {v}.", [words.a(j) for j in words.JOBS]),
    "pet": (["{n} has {v}.", "{n} keeps {v} at home.", "{n} owns {v} as a pet.",
             "{n} has {v} as a pet.", "{n} has {v} at home.", "{n} keeps {v} as a pet.", "{n} got {v} as a pet.", "{n} lives together with {v}.", "{n} takes care of {v}.", "{n} owns {v}.",
             "{n} feeds {v} every day.", "{n}'s pet is {v}.", "The pet of {n} is {v}.", "At home, {n} keeps {v}."],
            ["What pet does {n} [have|own|keep]?", "Which animal does {n} [have|own]?", "What animal lives with {n}?", "Which pet belongs to {n}?", "What is {n}'s pet?",
             "What is the pet of {n}?", "What's {n}'s pet?", "What pet is in {n}'s home?", "[What|Which] pet lives with {n}?", "[What|Which] kind of pet does {n} [have|own|keep]?",
             "[What|Which] kind of animal does {n} [have|own|keep]?", "[What|Which] animal belongs to {n}?", "[What|Which] animal is {n}'s pet?", "[What|Which] animal is the pet of {n}?",
             "What animal does {n} [have|own|keep] at home?", "Which animal lives in {n}'s home?", "Tell me what pet {n} has.", "Tell me [which|what] animal {n} has.", "Tell me {n}'s pet.",
             "Can you tell me what pet {n} has?", "Can you tell me which animal {n} [has|keeps]?", "Do you know what pet {n} has?", "Do you know which animal {n} [has|keeps]?",
             "{n} has what pet?", "{n} keeps which animal?", "{n}'s pet is what?", "Name the pet of {n}.", "Name the animal that {n} keeps.", "I want to know which pet {n} has.",
             "Please find out what pet {n} has.", "Say which animal {n} has."],
            "{n} has {v}.", [words.a(x) for x in words.ANIMALS]),
    "food": (["The favourite food of {n} is {v}.", "{n} likes {v} best of all foods.", "{n}'s favourite food is {v}.",
              "{n} likes {v} more than any other food.", "{n} loves {v} more than any other food.", "{n} likes to eat {v} most of all.", "{n} could eat {v} every day.",
              "{n} thinks that nothing tastes better than {v}.", "Of all foods, {n} likes {v} best.", "Of all foods, {n} loves {v} most.", "The food {n} likes best is {v}.",
              "The food {n} loves most is {v}.", "For {n}, nothing tastes better than {v}.", "What {n} likes to eat most is {v}."],
             ["What is {n}'s favourite food?", "What food does {n} like best?", "Which food is the favourite of {n}?", "What does {n} like to eat most?", "What is the favourite food of {n}?",
              "What is {n}'s favorite food?", "What's {n}'s favourite food?", "[What|Which] food does {n} [love|like] most?", "[What|Which] food does {n} prefer?",
              "[What|Which] food is {n}'s favourite?", "Which food does {n} like best?", "What food is the favourite of {n}?", "What does {n} love to eat?",
              "What does {n} like to eat best?", "What does {n} love to eat most?", "Tell me the favourite food of {n}.", "Tell me {n}'s favourite food.",
              "Tell me which food {n} likes best.", "Tell me what {n} likes to eat most.", "Can you tell me {n}'s favourite food?", "Can you tell me [what|which] food {n} likes best?",
              "Do you know {n}'s favourite food?", "Do you know what {n} likes to eat?", "{n} likes which food best?", "{n}'s favourite food is what?", "Name {n}'s favourite food.",
              "Name the food that {n} likes best.", "I want to know {n}'s favourite food.", "I want to cook for {n}. Which food does {n} like best?",
              "I cook for {n}. What does {n} like to eat most?", "Please find out which food {n} likes best.", "Say what {n} likes to eat most."],
             "The favourite food of {n} is {v}.", words.FOODS),
    "hobby": (["{n} enjoys {v} at the weekend.", "The hobby of {n} is {v}.", "In the evening {n} likes {v}.",
               "{n} likes {v} in the evening.", "{n} likes {v} at the weekend.", "{n} has {v} as a hobby.", "{n} loves {v}.", "{n} enjoys {v} most of all.",
               "{n} spends a lot of time with {v}.", "{n}'s hobby is {v}.", "In the free hours {n} enjoys {v}.", "After work {n} enjoys {v}.", "After work {n} likes {v} best.",
               "On Sundays {n} enjoys {v}."],
              ["What is {n}'s hobby?", "What does {n} [like|enjoy] doing?", "What is the hobby of {n}?", "Which hobby does {n} have?", "What does {n} do for fun?",
               "What's {n}'s hobby?", "What does {n} like to do?", "What does {n} do in the evening?", "What does {n} do [after work|at the weekend]?",
               "What does {n} [like|enjoy] in the free hours?", "What does {n} like to do for fun?", "What hobby does {n} have?", "What is {n}'s favourite hobby?",
               "[What|Which] hobby does {n} enjoy?", "[What|Which] hobby is {n}'s?", "Which hobby is it that {n} has?", "How does {n} spend the free time?", "Tell me the hobby of {n}.",
               "Tell me {n}'s hobby.", "Tell me what {n} does for fun.", "Can you tell me [the hobby of {n}|{n}'s hobby]?", "Can you tell me what {n} likes doing?",
               "Do you know {n}'s hobby?", "Do you know what {n} enjoys doing?", "{n} likes doing what?", "{n}'s hobby is what?", "Name {n}'s hobby.", "Name the hobby of {n}.",
               "I want to know what {n} likes doing.", "I want to know {n}'s hobby.", "Please find out what {n} does for fun.", "Say which hobby {n} has."],
              "The hobby of {n} is {v}.", words.HOBBIES),
    "birthday": (["{n} was born in {v}.", "The birthday of {n} is in {v}.", "{n} has a birthday in {v}.",
                  "{n} celebrates a birthday in {v}.", "{n} celebrates every year in {v}, the month of the birthday.", "{n} turns a year older in {v}.", "{n} came into the world in {v}.",
                  "{n}'s birthday is in {v}.", "{n}'s birthday falls in {v}.", "The birthday of {n} falls in {v}.", "The month of {n}'s birthday is {v}.",
                  "The month when {n} was born is {v}.", "In {v}, {n} has a birthday.", "In {v} it is the birthday of {n}."],
                 ["In which month was {n} born?", "When is {n}'s birthday?", "Which month is {n}'s birthday in?", "What month was {n} born in?", "When is the birthday of {n}?",
                  "When was {n} born?", "When does {n} have a birthday?", "When does {n} celebrate a birthday?", "When's {n}'s birthday?", "In [which|what] month is {n}'s birthday?",
                  "In which month is the birthday of {n}?", "In which month does {n} [have a birthday|celebrate]?", "Which month was {n} born in?", "Which month is the birthday of {n} in?",
                  "What month is {n}'s birthday in?", "What is the month of {n}'s birthday?", "What is {n}'s birth month?", "Tell me the month of {n}'s birthday.",
                  "Tell me when {n} was born.", "Tell me when {n}'s birthday is.", "Can you tell me when {n} was born?", "Can you tell me when {n}'s birthday is?",
                  "Do you know when {n} was born?", "Do you know {n}'s birthday?", "{n} was born when?", "{n} was born in which month?", "{n}'s birthday is in which month?",
                  "Name the month of {n}'s birthday.", "Name the month when {n} was born.", "I want to know when {n} was born.", "I need a present for {n}. When is the birthday?",
                  "Please find out when {n}'s birthday is.", "Say in which month {n} was born."],
                 "The birthday of {n} is in {v}.", words.MONTHS),
    "age": (["{n} is {v} years old.", "The age of {n} is {v}.", "{n} has turned {v}.",
             "{n} is now {v} years old.", "{n} is {v} years of age.", "{n} is {v}, counted in years.", "{n} turned {v} this year.", "{n} became {v} years old.",
             "{n} was born {v} years ago.", "{n} has lived for {v} years.", "{n}'s age is {v}.", "At the last birthday {n} turned {v}.", "The years {n} has lived are {v}.",
             "Today {n} is {v} years old."],
            ["How old is {n}?", "What is {n}'s age?", "What age is {n}?", "Tell me the age of {n}.", "How many years old is {n}?",
             "How old is {n} now?", "How old has {n} turned?", "How old did {n} turn?", "How many years has {n} lived?", "What is the age of {n}?", "What's {n}'s age?",
             "What's the age of {n}?", "What age has {n}?", "Which age has {n}?", "Which age does {n} have?", "Tell me how old {n} is.", "Tell me {n}'s age.",
             "Can you tell me how old {n} is?", "Can you tell me the age of {n}?", "Can you tell me {n}'s age?", "Do you know how old {n} is?", "Do you know {n}'s age?",
             "Do you know the age of {n}?", "{n} is how old?", "{n} is how many years old?", "{n}'s age is what?", "The age of {n}?", "{n}'s age?", "Name {n}'s age.",
             "Name the age of {n}.", "I want to know how old {n} is.", "I need {n}'s age for a form.", "I need the age of {n}.", "Please find out how old {n} is.", "Say how old {n} is."],
            "{n} is {v} years old.", [str(i) for i in range(5, 96)]),
    "phone": (["The phone number of {n} is {v}.", "{n} can be called at {v}.", "{n}'s number is {v}.",
               "{n}'s phone number is {v}.", "{n} has the phone number {v}.", "{n} has the number {v}.", "{n} answers the phone at {v}.", "{n} is on the phone at {v}.", "Call {n} at {v}.",
               "Dial {v} to reach {n}.", "Dial {v} to talk to {n}.", "To reach {n}, call {v}.", "To reach {n}, dial {v}.", "You can reach {n} at {v}."],
              ["What is {n}'s phone number?", "What number do I call to reach {n}?", "How can I call {n}?", "What is the [phone |]number of {n}?", "Which phone number does {n} have?",
               "What phone number does {n} have?", "What's {n}'s [phone |]number?", "What's the phone number of {n}?", "What is {n}'s number?", "What number does {n} have?",
               "What number do I dial to reach {n}?", "What number reaches {n}?", "Which number do I [call|dial] to reach {n}?", "Which number do I [call|dial] to talk to {n}?",
               "Which number is {n}'s?", "How can I reach {n} by phone?", "How do I [call|reach] {n}?", "At which number can I [call|reach] {n}?", "Tell me the [phone |]number of {n}.",
               "Tell me {n}'s [phone |]number.", "Can you tell me {n}'s phone number?", "Can you give me the phone number of {n}?", "Can you give me {n}'s number?",
               "Do you know {n}'s phone number?", "Do you have the number of {n}?", "Give me {n}'s [phone |]number.", "Give me the phone number of {n}.", "{n}'s phone number?",
               "The phone number of {n}?", "I need {n}'s phone number.", "I need to call {n}. What is the number?", "I want to call {n}. Which number do I dial?",
               "Please find out the phone number of {n}.", "Say the phone number of {n}."],
              "The phone number of {n} is {v}.", None),
    "room": (["{n} sits in room {v}.", "The office of {n} is room {v}.", "You find {n} in room {v}.",
              "You can find {n} in room {v}.", "You can visit {n} in room {v}.", "{n} works in room {v}.", "{n} is in room {v}.", "{n} has a desk in room {v}.",
              "{n} has an office in room {v}.", "{n}'s office is room {v}.", "{n}'s desk is in room {v}.", "{n}'s room is number {v}.", "Room {v} is the office of {n}.",
              "Room {v} is where {n} sits."],
             ["In which room is {n}?", "Which room does {n} sit in?", "What is {n}'s room number?", "What room is {n}'s office?", "Where is the office of {n}?",
              "Where is {n}'s office?", "Where does {n} sit?", "In which room is {n}'s office?", "In which room is the office of {n}?", "In [which|what] room does {n} sit?",
              "In which room do I find {n}?", "In which room can I [find|visit] {n}?", "Which room is {n} in?", "Which room is {n}'s office?", "Which room is the office of {n}?",
              "What room is {n} in?", "What room does {n} sit in?", "What is the room number of {n}?", "What is the number of {n}'s room?", "What's {n}'s room number?",
              "Tell me which room {n} is in.", "Tell me the room number of {n}.", "Tell me {n}'s room number.", "Can you tell me which room {n} sits in?",
              "Can you tell me {n}'s room number?", "Do you know which room {n} is in?", "Do you know {n}'s room number?", "{n} is in which room?", "{n} sits in which room?",
              "{n}'s room number?", "The room number of {n}?", "I want to visit {n}. Which room is it?", "I need {n}'s room number.", "I need to see {n}. In which room is that?",
              "Please find out which room {n} is in.", "Say in which room {n} sits."],
             "{n} is in room {v}.", None),
    "colour": (["{n} drives a {v} car.", "The car of {n} is {v}.", "{n} has a {v} car.",
                "{n} drives a car that is {v}.", "{n} has a car that is {v}.", "{n} owns a car in {v}.", "{n} bought a car in {v}.", "{n} painted the car {v}.", "{n}'s car is {v}.",
                "{n}'s car has the colour {v}.", "{n}'s car is painted {v}.", "The car that {n} drives is {v}.", "The colour of {n}'s car is {v}.", "The car of {n} has the colour {v}."],
               ["What colour is {n}'s car?", "What color is the car of {n}?", "Which colour does {n}'s car have?", "What is the colour of {n}'s car?", "What colour car does {n} drive?",
                "What colour car does {n} have?", "What colour is the car of {n}?", "What colour is the car that {n} drives?", "What color is {n}'s car?",
                "What color of car does {n} drive?", "What's the colour of {n}'s car?", "What is the colour of the car of {n}?", "What is the color of {n}'s car?",
                "Which colour is {n}'s car?", "Which colour is the car of {n}?", "Which colour does the car of {n} have?", "Which color has {n}'s car?",
                "In which colour is {n}'s car painted?", "Tell me the colour of {n}'s car.", "Tell me what colour {n}'s car is.", "Tell me which colour {n}'s car has.",
                "Can you tell me the colour of {n}'s car?", "Can you tell me what colour {n}'s car is?", "Do you know the colour of {n}'s car?", "Do you know what colour {n}'s car is?",
                "{n}'s car is which colour?", "{n} drives a car of which colour?", "Name the colour of {n}'s car.", "I am looking for {n}'s car. What colour is it?",
                "I am looking for the car of {n}. Which colour does it have?", "I want to know the colour of {n}'s car.", "Please find out the colour of {n}'s car.",
                "Say which colour {n}'s car is."],
               "The car of {n} is {v}.", words.COLORS),
}
THINGS = {
    "place": (["The {n} is in the {v}.", "Somebody put the {n} in the {v}.", "The {n} is kept in the {v}.",
               "The {n} was put in the {v}.", "The {n} was left in the {v}.", "The {n} has its place in the {v}.", "The {n} stays in the {v}.", "You find the {n} in the {v}.",
               "You can find the {n} in the {v}.", "Somebody left the {n} in the {v}.", "We keep the {n} in the {v}.", "They keep the {n} in the {v}.",
               "The place of the {n} is in the {v}.", "Look in the {v} for the {n}."],
              ["Where is the {n}?", "Where can I find the {n}?", "In which place is the {n}?", "Do you know where the {n} is?", "Where is the {n} kept?",
               "Where do I find the {n}?", "Where do they keep the {n}?", "Where do we keep the {n}?", "Where did they put the {n}?", "Where did somebody [put|leave] the {n}?",
               "Where was the {n} [put|left]?", "Where should I look for the {n}?", "Where has the {n} its place?", "Where's the {n}?",
               "In which place [is the {n} kept|do I find the {n}]?", "In what place is the {n}?", "What is the place of the {n}?", "Which place is the {n} in?",
               "Tell me where the {n} is.", "Tell me where I can find the {n}.", "Tell me the place of the {n}.", "Can you tell me where the {n} is?",
               "Can you tell me where to find the {n}?", "Do you know where I can find the {n}?", "Do you know where they keep the {n}?", "The {n} is where?", "The {n} is in which place?",
               "Name the place of the {n}.", "I am looking for the {n}. Where is it?", "I need the {n}. Where is it?", "I need the {n}. Where do I find it?",
               "I cannot find the {n}. Where is it?", "I want to know where the {n} is.", "Please find the {n}. Where is it?", "Say where the {n} is."],
              "The {n} is in the {v}.", words.PLACES + words.CONTAINERS),
    "price": (["The {n} costs {v} dollars.", "The price of the {n} is {v} dollars.", "They sell the {n} for {v} dollars.",
               "The {n} is sold for {v} dollars.", "The {n} sells for {v} dollars.", "The {n} has a price of {v} dollars.", "The {n} is worth {v} dollars.",
               "You pay {v} dollars for the {n}.", "You can buy the {n} for {v} dollars.", "You get the {n} for {v} dollars.", "For the {n} you pay {v} dollars.",
               "For {v} dollars you get the {n}.", "The {n} is on sale for {v} dollars.", "The shop sells the {n} for {v} dollars."],
              ["How much [is|does] the {n}[ cost|]?", "What is the price of the {n}?", "What does the {n} cost?", "How many dollars is the {n}?", "How expensive is the {n}?",
               "How much do I pay for the {n}?", "How much do they want for the {n}?", "How much money is the {n}?", "How much money do I need for the {n}?",
               "How much is it to buy the {n}?", "How many dollars does the {n} cost?", "How many dollars do I [pay|need] for the {n}?", "What's the price of the {n}?",
               "What is the {n} worth?", "What is the cost of the {n}?", "What do I pay for the {n}?", "What do they [sell the {n} for|want for the {n}]?", "What price does the {n} have?",
               "Which price does the {n} have?", "For how many dollars can I [buy|get] the {n}?", "For how much is the {n} sold?", "Tell me the price of the {n}.",
               "Tell me how much the {n} costs.", "Tell me what the {n} costs.", "Can you tell me the price of the {n}?", "Can you tell me how much the {n} is?",
               "Do you know the price of the {n}?", "Do you know how much the {n} costs?", "The {n} costs how much?", "The price of the {n}?", "Name the price of the {n}.",
               "I want to buy the {n}. How much is it?", "I want to buy the {n}. What does it cost?", "I want to know the price of the {n}.", "I need the price of the {n}.",
               "Please find out what the {n} costs.", "Say how much the {n} costs."],
              "The {n} costs {v} dollars.", [str(i) for i in range(2, 400)]),
    "colour": (["The {n} is {v}.", "The colour of the {n} is {v}.", "They painted the {n} {v}.",
                "The {n} has the colour {v}.", "The {n} is painted {v}.", "The {n} was painted {v}.", "The {n} comes in {v}.", "The {n} looks {v}.", "The {n} is {v} all over.",
                "The {n} is {v} in colour.", "Somebody painted the {n} {v}.", "The colour chosen for the {n} is {v}.", "For the {n} they took the colour {v}.",
                "If you look at the {n}, it is {v}."],
               ["What colour is the {n}?", "What is the colour of the {n}?", "Which colour does the {n} have?", "What color is the {n}?", "Tell me the colour of the {n}.",
                "What colour does the {n} have?", "What colour has the {n}?", "What colour was the {n} painted?", "What colour did they paint the {n}?", "What color does the {n} have?",
                "What is the color of the {n}?", "What's the colour of the {n}?", "What's the color of the {n}?", "Which colour is the {n}?", "Which color is the {n}?",
                "Which colour did they paint the {n}?", "In which colour is the {n} painted?", "In which colour did they paint the {n}?", "How does the {n} look, what colour is it?",
                "Tell me what colour the {n} is.", "Tell me which colour the {n} has.", "Tell me the color of the {n}.", "Can you tell me the colour of the {n}?",
                "Can you tell me what colour the {n} is?", "Do you know the colour of the {n}?", "Do you know what colour the {n} is?", "The {n} is which colour?",
                "The {n} has which colour?", "The colour of the {n}?", "Name the colour of the {n}.", "I want to know the colour of the {n}.",
                "I am looking for the {n}. What colour is it?", "I am looking for the {n}. Which colour does it have?", "Please find out the colour of the {n}.",
                "Say which colour the {n} is."],
               "The {n} is {v}.", words.COLORS),
    "owner": (["The {n} belongs to {v}.", "{v} is the owner of the {n}.", "The owner of the {n} is {v}.",
               "The {n} is owned by {v}.", "The {n} is the property of {v}.", "The {n} is {v}'s.", "{v} owns the {n}.", "{v} has bought the {n} and owns it.",
               "{v} got the {n} as a present and owns it.", "The one who owns the {n} is {v}.", "The person who owns the {n} is {v}.", "If you see the {n}, it belongs to {v}.",
               "Nobody but {v} owns the {n}.", "The {n} is not mine, it belongs to {v}."],
              ["Who owns the {n}?", "Whose {n} is it?", "Who does the {n} belong to?", "Who is the owner of the {n}?", "To whom does the {n} belong?",
               "Who has the {n}?", "Who's the owner of the {n}?", "Who is the {n}'s owner?", "Who is it that owns the {n}?", "Who is the person that owns the {n}?", "Whose is the {n}?",
               "Whose property is the {n}?", "By whom is the {n} owned?", "The {n} belongs to whom?", "The {n} belongs to which person?", "Which person owns the {n}?",
               "Which person does the {n} belong to?", "What is the name of the owner of the {n}?", "Tell me who owns the {n}.", "Tell me whose {n} it is.", "Tell me the owner of the {n}.",
               "Tell me who the {n} belongs to.", "Can you tell me who owns the {n}?", "Can you tell me whose {n} it is?", "Do you know who owns the {n}?",
               "Do you know who the {n} belongs to?", "Do you know the owner of the {n}?", "The owner of the {n}?", "Name the owner of the {n}.", "I found the {n}. Who owns it?",
               "I found the {n}. Who does it belong to?", "I want to return the {n}. Who is the owner?", "I want to know who owns the {n}.", "Please find out who owns the {n}.",
               "Say who owns the {n}."],
              "The {n} belongs to {v}.", words.NAMES),
}
CODES = {
    "code": (["The code of the {n} is {v}.", "The secret code of the {n} is {v}.", "Use {v} as the code of the {n}.", "Remember: the {n} has the code {v}.",
              "The {n} has the code {v}.", "The {n} opens with the code {v}.", "The {n} can be opened with {v}.", "The {n} needs the code {v}.", "The code for the {n} is {v}.",
              "Note: the code of the {n} is {v}.", "Do not forget that the code of the {n} is {v}.", "To open the {n}, enter {v}.", "To open the {n}, type the code {v}.",
              "Enter {v} to open the {n}.", "With the code {v} you can open the {n}."],
             ["What is the code of the {n}?", "Which code does the {n} have?", "What code opens the {n}?", "Tell me the code of the {n}.", "What was the code of the {n}?", "I forgot the code of the {n}. What is it?",
              "I forgot the code for the {n}. Which one is it?", "What is the code for the {n}?", "What is the {n}'s code?", "What is the secret code of the {n}?",
              "What's the code [of|for] the {n}?", "What code does the {n} [have|need]?", "What code do I [need|enter|type] for the {n}?", "What code do I [enter|type] to open the {n}?",
              "What do I enter to open the {n}?", "Which code opens the {n}?", "Which code does the {n} need?", "Which code do I [need|enter] for the {n}?", "Which code is it for the {n}?",
              "How can I open the {n}, what is the code?", "How do I open the {n}, which code is it?", "With which code can I open the {n}?", "Tell me the code for the {n}.",
              "Tell me which code opens the {n}.", "Tell me the {n}'s code.", "Can you tell me the code of the {n}?", "Can you give me the code for the {n}?",
              "Do you know the code of the {n}?", "Do you know which code opens the {n}?", "Give me the code [of|for] the {n}.", "The code of the {n}?", "The {n} has which code?",
              "I need the code [of|for] the {n}.", "I need to open the {n}. What is the code?", "I want to open the {n}. Which code do I enter?", "Remind me of the code of the {n}.",
              "Please find out the code of the {n}.", "Say the code of the {n}."],
             "The code of the {n} is {v}.", None),
}
# Parts of which training makes more questions than the lists have: what is sought as a noun, as a clause and as an echo.
SOUGHT = {
    "city": (["the city where {n} lives", "{n}'s [home |]city", "the home of {n}", "the city of {n}"],
             ["where {n} [lives|is living|is at home]", "[which|what|in which] city {n} lives in", "where {n}'s home is"],
             ["{n} lives where", "{n} lives in [which|what] city", "{n} is at home where", "{n}'s home is where"]),
    "job": (["the [job|profession|work] of {n}", "{n}'s [job|profession|work]"], ["what {n} does for [a living|work]", "what {n} works as", "[which|what] job {n} has", "how {n} earns a living"],
            ["{n} works as what", "{n} does what for [a living|work]", "{n} has which [job|profession]"]),
    "pet": (["the [pet|animal] of {n}", "{n}'s [pet|animal]"], ["[what|which] [pet|animal] {n} [has|owns|keeps]", "[what|which] [pet|animal] lives with {n}"],
            ["{n} [has|keeps|owns] [which|what] [pet|animal]"]),
    "food": (["the favourite food of {n}", "{n}'s favourite food", "the food {n} [likes|loves] [best|most]"],
             ["what {n} [likes|loves] to eat[ most| best|]", "[which|what] food {n} [likes|loves] [best|most]"], ["{n} [likes|loves] which food [best|most]", "{n} [likes|loves] to eat what"]),
    "hobby": (["the hobby of {n}", "{n}'s [favourite |]hobby"],
              ["what {n} [likes|enjoys] doing", "what {n} does [for fun|after work|in the evening|at the weekend]", "[which|what] hobby {n} has"], ["{n} [has|enjoys] [which|what] hobby", "{n} [likes|enjoys] doing what"]),
    "birthday": (["the birthday of {n}", "{n}'s birthday", "the month of {n}'s birthday", "the birth month of {n}"],
                 ["when {n} was born", "when {n}'s birthday is", "when {n} has a birthday", "[in which|in what] month {n} was born", "[which|what] month {n} was born in"],
                 ["{n} was born when", "{n} was born in [which|what] month", "{n}'s birthday is when", "{n} has a birthday in which month"]),
    "age": (["the age of {n}", "{n}'s age", "the age that {n} has"], ["how old {n} is", "[what|which] age {n} has", "how many years {n} has lived"],
            ["{n} is how old", "{n} has [which|what] age", "{n} is how many years old", "the age of {n} is what"]),
    "phone": (["the [phone |]number of {n}", "{n}'s [phone |]number", "the number to [call|reach] {n}"],
              ["[what|which] [phone |]number {n} has", "how I [call|reach] {n}", "which number I [call|dial] to reach {n}", "at which number I [call|reach] {n}"],
              ["{n} has [which|what] [phone |]number", "I [call|reach] {n} at which number"]),
    "room": (["the room[ number|] of {n}", "{n}'s room[ number|]", "the room where {n} sits", "the office of {n}", "{n}'s office"],
             ["[which|what|in which] room {n} [is|sits] in", "where {n} sits", "in which room I find {n}", "where {n}'s office is"],
             ["{n} [is|sits] in [which|what] room", "{n}'s office is [where|which room]"]),
    "car": (["the [colour|color] of {n}'s car", "the [colour|color] of the car of {n}", "the [colour|color] of the car that {n} drives"],
            ["[what|which] [colour|color] {n}'s car [is|has]", "[what|which] [colour|color] the car of {n} [is|has]", "in which [colour|color] {n}'s car is painted"],
            ["{n}'s car is [which|what] [colour|color]", "{n} drives a car of which [colour|color]", "the car of {n} has which [colour|color]"]),
    "place": (["the place of the {n}"], ["where the {n} is[ kept|]", "where I [can |]find the {n}", "where to find the {n}", "[in which|in what] place the {n} is", "where they [keep|put] the {n}"],
              ["the {n} is [where|in which place]", "they keep the {n} where", "I find the {n} where"]),
    "price": (["the [price|cost] of the {n}", "the {n}'s price"], ["how much the {n} [costs|is]", "what the {n} costs", "how many dollars the {n} costs", "how expensive the {n} is"],
              ["the {n} costs [how much|what]", "the {n} costs how many dollars", "the {n} is how expensive"]),
    "colour": (["the [colour|color] of the {n}", "the {n}'s [colour|color]"], ["[what|which] [colour|color] the {n} [is|has]", "in which [colour|color] the {n} is painted"],
               ["the {n} is [which|what] [colour|color]", "the {n} has [which|what] [colour|color]"]),
    "owner": (["the owner of the {n}", "the {n}'s owner", "the [person|one] who owns the {n}", "the name of the {n}'s owner"],
              ["who owns the {n}", "whose {n} it is", "who the {n} belongs to", "to whom the {n} belongs", "who the owner of the {n} is"],
              ["the {n} belongs to [whom|who]", "the {n} is owned by whom", "the {n} is whose"]),
    "code": (["the [secret |]code [of|for] the {n}", "the {n}'s code", "the code that opens the {n}"],
             ["[which|what] code the {n} [has|needs]", "[which|what] code opens the {n}", "how I open the {n}", "what I [enter|type] to open the {n}"],
             ["the {n} has [which|what] code", "the {n} opens with [which|what] code", "I open the {n} with which code"]),
}
# And in the words of everyday life: nouns and clauses that take a step from what is stated.
MORE = {
    "city": (["the town where {n} lives", "the place where {n} has a home"], ["where {n} sleeps at night", "where a letter to {n} goes", "where I have to go to visit {n}"]), "job": (["the trade of {n}", "the occupation of {n}"], ["what {n} gets paid for", "what work {n} is paid for"]),
    "pet": (["the animal in the home of {n}"], ["what animal {n} feeds", "which animal {n} looks after"]), "food": (["the dish that {n} likes best", "the meal that {n} would choose"], ["what to cook for {n}", "what {n} would order", "what {n} wants for dinner"]),
    "hobby": (["the pastime of {n}"], ["how {n} spends the evenings", "what {n} does when work is over", "what {n} is busy with on Sundays"]), "birthday": (["the month of the party for {n}"], ["in which month {n} gets presents", "when {n} becomes a year older"]),
    "age": (["the number of years that {n} has"], ["how many birthdays {n} had", "how many years {n} counts"]), "phone": (["the digits to call {n}"], ["what number I type to talk to {n}", "how to get {n} on the phone"]),
    "room": (["the door of {n}", "the room to find {n} in"], ["at which door to find {n}", "where in the building {n} is"]), "car": (["the paint of {n}'s car"], ["what {n}'s car looks like", "in what colour {n} drives around"]),
    "place": (["the spot of the {n}", "the right place to look for the {n}"], ["where somebody put the {n}", "where the {n} stands or lies"]), "price": (["the amount of dollars for the {n}", "the money for the {n}"], ["what one pays for the {n}", "how many dollars to take along for the {n}"]),
    "colour": (["the paint on the {n}"], ["what colour one sees on the {n}"]), "owner": (["the person that has the {n}", "the name of the one with the {n}"], ["who gets the {n} back", "who has to be asked about the {n}"]),
    "code": (["the digits that open the {n}", "the secret of the {n}"], ["what to enter at the {n}", "how to open the {n}"]),
}
ROUND_ABOUT = ["Somebody wants to know {x}. What do you say?", "If I asked you for {x}, what would you say?", "Look for {x}.", "Answer with {x}.", "What does the text say about {x}?", "My friend asks for {x}.", "One thing is missing: {x}.", "What I need is {x}.", "Help me with {x}."]
BOTH = ["Tell me {x}.", "[Please |]tell me {x}[, please|].", "[Can|Could] you [tell me|say|find|find out|look up] {x}?", "Do you know {x}?", "I [want|need|would like] to know {x}.", "[Please |]find out {x}.", "Say {x}.",
        "I forgot {x}.", "Does [the text|it] say {x}?", "Let me know {x}.", "[Please |]look up {x}."]
NOUNS = [*BOTH, *BOTH, "[What|Which] is {x}?", "What's {x}?", "{x}?", "{x}, please.", "Give me {x}.", "Name {x}.", "I [need|am looking for] {x}.", "[Please |]find {x}.", "{x} is what?", "What about {x}?", "Show me {x}.",
         "I forgot {x}. What is it?", "[What|Which] was {x}?"]
ECHOES = ["{x}?", "{x}?", "{x}, please?", "[So|And|Now] {x}?", "Quick question: {x}?"]

# Statements that have the value in front of what it belongs to, which a model that reads from left to right finds harder; training has more of them.
VALUE_FIRST = {
    "city": ["{v} is the home of {n}.", "{v} is where {n} lives."], "job": ["As {v}, {n} earns a living."], "pet": ["There is {v} in the home of {n}."],
    "food": ["To eat {v} is what {n} likes most."], "hobby": ["With {v}, {n} spends the evenings."], "birthday": ["{v} is the month of {n}'s birthday."],
    "age": ["{v} is the age of {n}.", "{v} years is how long {n} has lived."], "phone": ["{v} is the phone number of {n}."], "room": ["In room {v} you find {n}."],
    "car": ["The {v} car belongs to {n}."], "place": ["In the {v} there is the {n}."], "price": ["{v} dollars is the price of the {n}."],
    "colour": ["The colour {v} is that of the {n}."], "owner": ["{v} is the one to whom the {n} belongs."], "code": ["{v} is the code of the {n}."],
}
CODED = "safe gate vault locker garage elevator bike alarm printer archive server laboratory".split()


# What a thought calls it that it looks for. With the relation in it, what follows can go by both: with the name alone half of the
# wrong thoughts about long texts quoted something else about the right name.
NAMED = {
    "city": "the home of {n}", "job": "the job of {n}", "pet": "the pet of {n}", "food": "the favourite food of {n}", "hobby": "the hobby of {n}", "birthday": "the birthday of {n}",
    "age": "the age of {n}", "phone": "the phone number of {n}", "room": "the room of {n}", "car": "the car of {n}", "place": "the place of the {n}", "price": "the price of the {n}",
    "colour": "the colour of the {n}", "owner": "the owner of the {n}", "code": "the code of the {n}",
}


class Fact:
    """A fact that is not in used. In training, names is how often a person's name is made up in any case, and like another fact
    whose subject this one has, too."""

    def __init__(self, d: Draw, used: set, names: float = 0.3, like: "Fact | None" = None):
        while True:
            kind = d.rng.random()
            if like:
                relation, subject, table = d.any(list(like.table)), like.subject, like.table
            elif kind < 0.6:
                relation, subject = d.any(list(RELATIONS)), d.invented() if not d.heldout and d.chance(names) else d.pick(words.NAMES)
                table = RELATIONS
            elif kind < 0.88:
                relation, subject, table = d.any(list(THINGS)), d.any(words.OBJECTS), THINGS
            else:
                relation, subject, table = "code", d.any(CODED), CODES
            if (relation, subject) not in used:
                break
        used.add((relation, subject))
        self.relation, self.subject, self.table = relation, subject, table
        self.stated, self.asked, self.answered, values = table[relation]
        number = {"phone": lambda: f"{d.int(100, 999)}-{d.int(1000, 9999)}", "room": lambda: str(d.int(2, 499)), "code": lambda: str(d.int(100, 99999))}
        self.value = subject
        while self.value == subject:  # a basket is not in the basket
            self.value = number[relation]() if values is None else d.any(values)
        self.key = "car" if table is RELATIONS and relation == "colour" else relation
        stated = self.stated
        if not d.heldout and d.chance(0.25):
            stated = [s for s in stated if s.index("{v}") < s.index("{n}")] + VALUE_FIRST[self.key]
        self.statement = d.choose(d.written(f"state.{self.key}", stated, parted=False)).format(n=subject, v=self.value)

    def question(self, d: Draw) -> str:
        return d.ask(self.asked, way=f"ask.{self.key}", compose=self.composed, n=self.subject)

    def composed(self, d: Draw) -> str:
        """A question of the parts in SOUGHT."""
        nouns, clauses, echoes = SOUGHT[self.key]
        near, far = MORE[self.key]
        frames, parts = d.any([(NOUNS, nouns), (BOTH, clauses), (ECHOES, echoes), (NOUNS, near), (BOTH, far), (ROUND_ABOUT, [*nouns, *near, *clauses, *far])])
        question = d.any(frames).replace("{x}", d.any(parts))
        return question[0].upper() + question[1:]

    def about(self) -> str:
        return NAMED[self.key].format(n=self.subject)

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


def distractors(d: Draw, n: int, used: set, names: float = 0.3) -> list[str]:
    """Sentences that state facts nobody asks for, or tell a little."""
    out = []
    for _ in range(n):
        kind = d.rng.random()
        if kind < 0.6:
            out.append(Fact(d, used, names).statement)
        elif not d.heldout and d.chance(0.6):
            out.append(d.fill(d.any(ways.of(d.any(["filler", "filler.named"]))), n=d.any(words.NAMES)))
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
        "I have some facts. {t} Now tell me: {q}", "Information:\n{t}\n\n{q}",
        "{t}\n\nMy question: {q}", "{t}\n\nNow [tell me|answer this|answer me]: {q}", "{t}\n\nAfter reading this: {q}", "{t}\n\n[Please answer|Answer|Please tell me]: {q}", "{t}\n{q}",
        "{t}\n---\n{q}", "{t}\n\nQ: {q}\nA:", "{t}\n\nBased on [this|the text|the text above]: {q}", "{t}\n\n[I want to know|What I want to know]: {q}",
        "[Based on|According to|From] [this text|the following text|these notes|this]: {t}\n\n{q}", "[Here are|I have|Look at] some [notes|facts|lines]:\n{t}\n\n{q}",
        "[Here are|These are] the facts:\n{t}\n\nNow the question: {q}", "[Here is|This is] what I know: {t}\nMy question: {q}",
        "[Document|Passage|Facts|Article|Story|Input]: {t}\n[Question|Q]: {q}", "[Document|Passage|Facts|Article]:\n{t}\n\n{q}",
        "[Read|Look at|Use] the following[ text| notes| facts|] and answer[ the question|]: {q}\n\n{t}",
        "[Read|Look at|Use] these [notes|facts|sentences] and answer the question.\n\n{t}\n\n{q}", "[Somebody|A friend] wrote this: {t}\n\n{q}",
        "[Hey|Hi|Ok so], I have this text: {t}\n\n{q}", "I [found|got|have] this text:\n\n{t}\n\n{q}", "Question: {q}\n\n[Text|Context|Notes]: {t}", "[Question|Q]: {q}\n{t}",
        "I need to know something. {q}\n\n{t}", "{q}\n\n[Text|Context|Notes|Facts]: {t}", "{q} [Look it up|You find it|The answer is] in this text: {t}",
        "{q} [Use|Read] this[ text| to answer|]: {t}", "{q}\n---\n{t}", "Find the answer in the text.\n\n{t}\n\n{q}", "Find the answer in [these notes|this text]: {t}\nQuestion: {q}",
        "Quick question about these notes:\n{t}\n\n{q}", "Quick question about this text: {t}\n{q}"]


def _missing(d: Draw) -> float:
    """How often the text does not say what is asked; in training more often, since that is the hardest to know."""
    return 0.12 if d.heldout else 0.28


def near(d: Draw, many: int | None = None) -> Turn:
    used: set = set()
    fact = Fact(d, used)
    n = d.int(0, 12) if many is None else many
    sentences = distractors(d, n, used)
    missing = d.chance(_missing(d))
    if not missing:
        sentences.insert(d.int(0, len(sentences)), fact.statement)
    elif not sentences:
        sentences = distractors(d, 2, used)
    text = paragraphs(d, sentences)
    user = d.ask(ASKS, way="around", t=text, q=fact.question(d))
    return answered(NEAR, user, fact, text, missing)


def several(d: Draw) -> list[Turn]:
    """A text and one question or more about it, some of which it does not answer."""
    if d.chance(0.4 if d.heldout else 0.2):
        return [near(d)]
    used: set = set()
    facts = [Fact(d, used) for _ in range(d.int(2, 6 if d.heldout else 9))]
    missing = [d.chance(_missing(d)) for _ in facts]
    sentences = distractors(d, d.int(0, 8), used)
    for fact, gone in zip(facts, missing):
        if not gone:
            sentences.insert(d.int(0, len(sentences)), fact.statement)
    sentences = sentences or distractors(d, 2, used)
    text = paragraphs(d, sentences)
    turns = [read_first(d, text)] if d.chance(0.15) else []
    for fact, gone in zip(facts, missing):
        user = fact.question(d) if turns else d.ask(ASKS, way="around", t=text, q=fact.question(d))
        turns.append(answered(NEAR, user, fact, text, gone))
    return turns


NOT_SAID = "The text does not say that."


def answered(skill: str, user: str, fact: Fact, text: str, missing: bool) -> Turn:
    if missing:
        expect = {"text": r"(?i)(not say|not (know|mention|state)|don't know|no information)"}
        return turn(skill, user, look(fact.about()), NOT_SAID, expect, ("missing", text, fact.subject, fact.relation))
    return turn(skill, user, look(fact.about(), fact.statement), fact.answer(), fact.expect(), fact.task(text))


READ = ["[Please |]read this text. I will ask you about it later.\n\n{t}", "Here are [my |some |]notes[ for later|]:\n\n{t}", "Keep this in mind:\n\n{t}",
        "This is a long text. Just say when you have read it.\n\n{t}", "Remember [this|these facts]: {t}", "I paste some information first.\n{t}",
        "Read [this|the following] first, then I will ask.\n{t}", "Store this for our talk:\n\n{t}", "{t}\n\nDid you read that?",
        "{t}\n\nI will ask you about [this|that] later.", "{t}\n\n[Read|Keep|Remember] this, [please|questions follow].", "{t}\n\nTell me when you have read it.",
        "{t}\n\nJust say ok[ for now|].", "{t}\n\nPlease keep [that|all of this] in mind.", "{t}\n\nMy questions come [next|later|after this].",
        "[Please |]keep the following [text|notes|facts] in mind: {t}", "[Please |]keep this for later: {t}", "[Please |]take note of [this|the following]:\n{t}",
        "[Please |]read [this|the following] carefully. Questions come later.\n\n{t}", "[Please |]read [these notes|this text] and wait for my [question|questions].\n\n{t}",
        "[Please |]remember the following [text|notes]: {t}", "[Please |]remember what I [paste|write] here:\n{t}", "[Please |]do not answer yet, just read:\n{t}",
        "First read this, the questions come later: {t}", "First, here is some [text|information|background]:\n\n{t}", "I [give|send] you [a text|some notes|some facts] first.\n\n{t}",
        "I [give|send] you some information, then I will ask.\n{t}", "I will [ask you|have questions] about this text: {t}", "I will paste a text, [just |]read it.\n\n{t}",
        "Here is [a|the|my] text[ for later|]:\n\n{t}", "Here is some [background|information] for later: {t}", "[Background|Information] for later:\n\n{t}",
        "[Notes|Text] to [remember|keep in mind]: {t}", "This is what you [need to|should] know: {t}", "This is some information for our talk. Just read it.\n{t}",
        "Store these [facts|notes] for later: {t}", "Learn these facts, I will ask you later:\n\n{t}"]
TAKEN = "I have read it. What do you want to know?"


def read_first(d: Draw, text: str) -> Turn:
    return turn(NEAR, d.ask(READ, t=text), "It is a text to keep in mind. There is no question yet.", TAKEN, {"text": r"\w"}, ("ack",))


def asked_below(d: Draw, text: str, question: str) -> str:
    """Text and question in one message, the question after the text."""
    while True:
        user = d.ask(ASKS, way="around", t=text, q=question)
        if user.index(text) < user.rindex(question):
            return user


def far(d: Draw, sentences: int) -> list[Turn]:
    """A text of so many sentences (about twelve tokens each), and questions about facts anywhere in it, more of them near its
    beginning; other facts about what some of them are about; the text is in the question's message or a turn before."""
    used: set = set()
    names = d.any([0.3, 0.3, 0.8, 1])
    facts = [Fact(d, used, names) for _ in range(d.int(8, 24))]
    lines = distractors(d, sentences, used, names)
    for f in facts:
        if d.chance(0.4) and any((relation, f.subject) not in used for relation in f.table):
            lines.append(Fact(d, used, like=f).statement)
    d.rng.shuffle(lines)
    for f in facts:
        lines.insert(d.int(0, d.any([3, len(lines) // 8, len(lines), len(lines)])), f.statement)
    text = paragraphs(d, lines)
    turns = []
    if d.chance(0.5):
        turns.append(read_first(d, text))
    for f in facts:
        q = f.question(d)
        user = q if turns else asked_below(d, text, q)
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
