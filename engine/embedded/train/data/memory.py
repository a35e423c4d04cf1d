"""What the user said earlier in the same conversation, corrected at times."""

from . import words
from .draw import Draw, Turn, has, turn

SKILL = "memory"

# told: how the user says it; kept: what the assistant answers; asked: the question
# later; answer. {v} is the value.
THINGS = {
    "name": (["[Hi|Hello|Hey], [my name is|I am|I'm] {v}.", "My name is {v}.", "I am {v}.", "[You can call|Please call|Call] me {v}.", "They call me {v}.", "I'm {v}, by the way.",
              "It's {v} here.", "Hello! {v} is my name.", "The name is {v}.",
              "[Hi|Hello|Hey], {v} here.", "You are talking to {v}.", "I go by {v}.", "[People|My friends|Friends] call me {v}.", "[People|Most people] know me as {v}.",
              "[Just|Simply] call me {v}[, please|].", "Let me introduce myself: I am {v}.", "Let me introduce myself, my name is {v}.", "I was named {v}.",
              "For your information, my name is {v}.", "[By the way|So you know], I am called {v}.", "My [first |]name: {v}.", "[Ok so|So|Well], my name is {v}.",
              "[Please remember|Keep in mind|Note|Do not forget] that my name is {v}.", "You should know that I am {v}.", "[I should say|I want you to know] that my name is {v}.",
              "This is {v}[ speaking| writing|]."], "Nice to meet you, {v}.",
             ["What is my name?", "What was my name[ again|]?", "What did I say my name was?", "Do you remember my name?", "Who am I?", "Can you tell me my name?",
              "How am I called?", "Say my name.", "What's my name?",
              "[And|So|Ok so|Now,] what is my name?", "[Hey|Quick question], what is my name?", "Tell me my name[, please|].", "[Please |]tell me what my name is.",
              "[Please |]say my name again.", "[Do|Can] you [know|recall] my name?", "Can you remember my name?", "Do you [still |]know who I am?", "Do you remember who I am?",
              "Do you remember what I am called?", "What am I called?", "What do people call me?", "My name is what?", "My name, please?", "[Which|What] name did I [give|tell|say to] you?",
              "What name did I tell you at the beginning?", "How do people call me?", "What should you call me?", "I told you my name. What [is|was] it?",
              "I said my name [earlier|before]. What was it?", "Did you [forget|remember] my name? What is it?", "Do you have my name[ in mind|]?", "Who is talking to you[ now|]?",
              "I forgot my name, what is it?", "[Remind me|Let me hear it], what is my name?", "You know my name, don't you? Say it."], "Your name is {v}.", words.NAMES),
    "colour": (["My favourite colour is {v}.", "I like the color {v} best.", "The colour I like most is {v}.", "{v} is my favourite color.", "I love the colour {v}.", "My favorite color is {v}.",
                "My [favourite|favorite] colour of all is {v}.", "Of all colours I like {v} [best|most].", "Of all [colours|colors], {v} is the one I [like|love] most.",
                "The colour that I [love|like] best is {v}.", "The colour {v} is my favourite.", "If I could paint everything in one colour, it would be {v}.",
                "No colour is [nicer|better] than {v}[ for me|].", "I prefer the colour {v}.", "I like the colour {v} more than all others.",
                "[By the way|So you know], my favourite colour is {v}.", "[Please remember|Keep in mind|Note|Do not forget] that my favourite colour is {v}.",
                "My colour is {v}, I like it most.", "As for colours, I like {v} best.", "My favourite colour? It is {v}.", "Favourite colour: {v}."],
               "I will remember that your favourite colour is {v}.",
               ["What is my favourite colour?", "Which colour do I like best?", "What was my favorite color?", "Do you remember my favourite colour?", "What colour do I like?", "Tell me my favourite color.",
                "[And|So|Now,] what is my favourite colour?", "What [is|was] my favourite colour again?", "What's my favourite colour?", "My favourite colour is what?",
                "[Please |]tell me which colour I like best.", "Can you tell me my [favourite|favorite] colour?", "Do you [know|recall] my [favourite|favorite] colour?",
                "Do you know which colour I like?", "Do you remember which colour I [like|love]?", "[Which|What] colour do I [love|prefer|like most]?",
                "[Which|What] colour is my favourite?", "[Which|What] colour did I say I like?", "[Which|What] colour did I tell you about?", "What did I say my favourite colour was?",
                "I told you my favourite colour. What [is|was] it?", "I said which colour I like best. Which one is it?", "[Remind me|Quick question]: which colour do I like best?",
                "[Hey|Remind me], what is my favourite colour?", "The colour I like best is which one?", "My favourite color, please?", "Name my favourite colour.",
                "Name the colour I like [best|most].", "Say which colour I [like|love] most."],
               "Your favourite colour is {v}.", words.COLORS),
    "animal": (["My favourite animal is the {v}.", "I like the {v} best of all animals.", "The animal I love most is the {v}.", "My favorite animal is the {v}.", "No animal is better than the {v}.",
                "The {v} is my favourite animal.", "The {v} is the animal I [like|love] best.", "Of all animals I [like|love] the {v} most.", "Of all animals, the {v} is my favourite.",
                "The animal that I like best is the {v}.", "I [love|like] the {v} more than any other animal.", "If I could be an animal, I would be the {v}, my favourite.",
                "I prefer the {v} to all other animals.", "As for animals, I like the {v} best.", "[By the way|So you know], my favourite animal is the {v}.",
                "[Please remember|Keep in mind|Note|Do not forget] that my favourite animal is the {v}.", "My favourite animal? It is the {v}.", "Favourite animal: the {v}.",
                "No animal is nicer than the {v}."],
               "I will remember that your favourite animal is the {v}.",
               ["What is my favourite animal?", "Which animal do I like best?", "What animal did I say I like?", "Do you remember my favorite animal?", "Tell me my favourite animal.",
                "[And|So|Now,] what is my favourite animal?", "What [is|was] my favourite animal again?", "What's my favourite animal?", "My favourite animal is what?",
                "[Please |]tell me which animal I like best.", "Can you tell me my [favourite|favorite] animal?", "Do you [know|recall] my [favourite|favorite] animal?",
                "Do you know which animal I like?", "Do you remember which animal I [like|love]?", "[Which|What] animal do I [love|prefer|like most]?",
                "[Which|What] animal is my favourite?", "[Which|What] animal did I [name|mention] as my favourite?", "Which animal did I tell you about?",
                "What did I say my favourite animal was?", "I told you my favourite animal. What [is|was] it?", "I said which animal I like best. Which one is it?",
                "[Remind me|Quick question]: which animal do I like best?", "[Hey|Remind me], what is my favourite animal?", "The animal I like best is which one?",
                "Name my favourite animal.", "Name the animal I like [best|most].", "Say which animal I [like|love] most."],
               "Your favourite animal is the {v}.", words.ANIMALS),
    "food": (["My favourite food is {v}.", "I like {v} best of all foods.", "I love to eat {v}.", "My favorite food is {v}.", "There is nothing better to eat than {v}.",
              "Of all foods I like {v} [best|most].", "Of all foods, {v} is my favourite.", "The food I [like|love] most is {v}.", "The food that I like best is {v}.",
              "Nothing tastes better than {v}.", "I could eat {v} every day, it is my favourite food.", "If I could eat only one thing, it would be {v}.", "What I like to eat most is {v}.",
              "No food is better than {v}[ for me|].", "[By the way|So you know], my favourite food is {v}.",
              "[Please remember|Keep in mind|Note|Do not forget] that my favourite food is {v}.", "My favourite food? It is {v}.", "Favourite food: {v}.", "As for food, I like {v} best.",
              "I love {v} more than any other food."],
             "I will remember that your favourite food is {v}.",
             ["What is my favourite food?", "What do I like to eat?", "Which food did I say I like?", "Do you remember my favorite food?", "Tell me my favourite food.",
              "[And|So|Now,] what is my favourite food?", "What [is|was] my favourite food again?", "What's my favourite food?", "My favourite food is what?",
              "[Please |]tell me which food I like best.", "[Please |]tell me what I like to eat.", "Can you tell me my [favourite|favorite] food?",
              "Do you [know|recall] my [favourite|favorite] food?", "Do you know what I like to eat?", "Do you remember what I [like|love] to eat?",
              "[Which|What] food do I [love|prefer|like most|like best]?", "[Which|What] food is my favourite?", "What do I love to eat?", "What do I like to eat [most|best]?",
              "Which food did I tell you about?", "What did I say my favourite food was?", "I told you my favourite food. What [is|was] it?",
              "I said which food I like best. Which one is it?", "[Remind me|Quick question]: which food do I like best?", "[Hey|Remind me], what is my favourite food?",
              "The food I like best is which one?", "Name my favourite food.", "Name the food I like [best|most].", "Say which food I [like|love] most."],
             "Your favourite food is {v}.", words.FOODS),
    "city": (["I live in {v}.", "My home is in {v}.", "I am from {v}.", "I moved to {v}.", "My city is {v}.", "I'm living in {v}.",
              "I have a [flat|house|home] in {v}.", "My [flat|house] is in {v}.", "My home [town|city] is {v}.", "The city I live in is {v}.", "The place where I live is {v}.",
              "I am at home in {v}.", "I [just|recently] moved to {v}.", "I live in the city of {v}.", "I have lived in {v} for years.", "[By the way|So you know], I live in {v}.",
              "[Please remember|Keep in mind|Note|Do not forget] that I live in {v}.", "[Hi|Hello], I am writing from my home in {v}.", "You can find my home in {v}.",
              "I'm from {v}[, by the way|].", "Where I live? In {v}.", "City: {v}. That is where I live."], "I will remember that you live in {v}.",
             ["Where do I live?", "Which city do I live in?", "What city did I say I live in?", "Do you remember where I live?", "What is my city?", "Where is my home?",
              "[And|So|Now,] where do I live?", "Where do I live again?", "[Where|In which city] am I living?", "In which city do I live?", "In [which|what] city is my [home|house|flat]?",
              "[Which|What] city is my home[ in|]?", "[Which|What] city am I from?", "Where am I from?", "Where did I say I live?", "Where did I tell you that I live?",
              "[Which|What] city did I tell you about?", "What is the name of my [city|home town]?", "What is the city I live in?", "[Please |]tell me where I live.",
              "[Please |]tell me [my city|the city I live in].", "Can you tell me where I live?", "Do you [know|recall] where I live?", "Do you [know|remember] my city?",
              "I told you where I live. Where is it?", "I said which city I live in. Which one is it?", "[Remind me|Quick question]: where do I live?",
              "[Hey|Remind me], which city do I live in?", "My home is in which city?", "My city is which one?", "Name the city I live in.", "Say where I live."],
             "You live in {v}.", words.CITIES),
    "job": (["I work as {v}.", "I am {v} by profession.", "My job: I am {v}.", "I earn my money as {v}.", "I'm {v} for a living.",
             "I work as {v} [these days|now].", "I have a job as {v}.", "I have worked as {v} for years.", "[My profession|My job] is that of {v}.", "For a living, I work as {v}.",
             "I make my living as {v}.", "I make money as {v}.", "I got a job as {v}.", "At work I am {v}.", "My work: I am {v}.", "[By the way|So you know], I work as {v}.",
             "[Please remember|Keep in mind|Note|Do not forget] that I work as {v}.", "What my job is? I am {v}.", "I am employed as {v}."], "I will remember that you work as {v}.",
            ["What is my job?", "What do I do for a living?", "What did I say my job was?", "Do you remember my profession?", "What do I work as?",
             "[And|So|Now,] what is my job?", "What [is|was] my job again?", "What's my [job|profession]?", "What is my [profession|work]?", "What do I do for work?",
             "What do I do at work?", "My job is what?", "What do I earn my money with?", "As what do I work?", "[Which|What] job do I [have|do]?", "[Which|What] profession do I have?",
             "[Which|What] job did I [tell you about|mention]?", "What did I say I do for [a living|work]?", "What did I tell you about my [job|work]?",
             "[Please |]tell me [my job|what my job is].", "[Please |]tell me what I do for a living.", "Can you tell me [my job|what I work as]?",
             "Do you [know|recall] [my job|my profession|what I work as]?", "Do you remember [my job|what I do for a living|what I work as]?", "I told you my job. What [is|was] it?",
             "I said what I work as. What is it?", "[Remind me|Quick question]: what is my job?", "[Hey|Remind me], what do I do for a living?", "Name my [job|profession].",
             "Say what I do for a living."],
            "You work as {v}.", [words.a(j) for j in words.JOBS]),
    "pet": (["My pet is called {v}.", "I have a pet, its name is {v}.", "The name of my pet is {v}.", "My pet's name is {v}.", "I call my pet {v}.",
             "I have a pet called {v}.", "I have a pet and it is called {v}.", "I gave my pet the name {v}.", "We call our pet {v}.", "We have a pet, it is called {v}.",
             "My pet: its name is {v}.", "My pet has the name {v}.", "My pet goes by the name {v}.", "There is a pet in my home called {v}.",
             "[By the way|So you know], my pet is called {v}.", "[Please remember|Keep in mind|Note|Do not forget] that my pet is called {v}.", "The name I gave my pet is {v}.",
             "Name of my pet: {v}.", "My pet listens to the name {v}."],
            "I will remember that your pet is called {v}.",
            ["What is my pet called?", "What is the name of my pet?", "What is my pet's name?", "Do you remember the name of my pet?", "How do I call my pet?",
             "[And|So|Now,] what is my pet called?", "What [is|was] my pet called again?", "What's my pet's name?", "What's the name of my pet?", "My pet is called what?",
             "My pet's name is what?", "What do I call my pet?", "[Which|What] name does my pet have?", "[Which|What] name did I give my pet?", "What did I say my pet is called?",
             "What did I say my pet's name was?", "[Please |]tell me the name of my pet.", "[Please |]tell me what my pet is called.", "[Please |]tell me my pet's name.",
             "Can you tell me [the name of my pet|my pet's name]?", "Do you [know|recall] the name of my pet?", "Do you [know|remember] what my pet is called?",
             "Do you remember my pet's name?", "I told you the name of my pet. What [is|was] it?", "I told you about my pet. What is it called?",
             "I said what my pet is called. Tell me its name.", "[Remind me|Quick question]: what is my pet's name?", "[Hey|Remind me], what is my pet called?", "Name my pet.",
             "Say the name of my pet."],
            "Your pet is called {v}.", words.NAMES),
    "age": (["I am {v} years old.", "My age is {v}.", "I just turned {v}.", "I'm {v} years old.", "I have been alive for {v} years.",
             "I am {v} years of age.", "I am now {v} years old.", "I turned {v} this year.", "I have turned {v}.", "I have just become {v} years old.", "I was born {v} years ago.",
             "As for my age, I am {v}.", "My age: {v}.", "My age is {v} years.", "How old I am? I am {v}.", "[By the way|So you know], I am {v} years old.",
             "[Please remember|Keep in mind|Note|Do not forget] that I am {v} years old.", "On my last birthday I turned {v}.", "There were {v} candles on my birthday cake."], "I will remember that you are {v} years old.",
            ["How old am I?", "What is my age?", "What did I say my age was?", "Do you remember how old I am?", "Tell me my age.",
             "[And|So|Now,] how old am I?", "How old am I again?", "What [is|was] my age again?", "What's my age?", "My age is what?", "[Please |]tell me how old I am.",
             "Can you tell me [my age|how old I am]?", "Do you [know|recall] [my age|how old I am]?", "Do you remember my age?", "How many years old am I?", "How many years have I lived?",
             "[What|Which] age am I?", "[What|Which] age did I [say|tell you|mention]?", "How old did I say I am?", "How old did I tell you I am?", "I told you my age. What [is|was] it?",
             "I told you how old I am. Say it.", "I said how old I am. What is my age?", "[Remind me|Quick question]: how old am I?", "[Hey|Remind me], what is my age?", "Name my age.",
             "Say how old I am.", "Say my age."], "You are {v} years old.",
            [str(i) for i in range(6, 96)]),
    "number": (["My lucky number is {v}.", "Remember the number {v}.", "Keep the number {v} in mind.", "The number to remember is {v}.", "Please note the number {v}.",
                "My number is {v}.", "The number is {v}.", "I give you a number: {v}.", "Here is a number to remember: {v}.", "[Please |]remember this number: {v}.",
                "[Please |]keep this number: {v}.", "[Please |]keep this number in mind: {v}.", "[Please |]note this number for me: {v}.", "[Please |]store the number {v} for me.",
                "[Please |]memorize the number {v}.", "Do not forget the number {v}.", "I am thinking of the number {v}.", "[By the way|So you know], my lucky number is {v}.",
                "The number {v} is important, remember it.", "I will ask you about the number {v} later."],
               "I will remember the number {v}.",
               ["What is the number?", "Which number did I tell you?", "What number should you remember?", "Do you remember the number?", "Tell me the number I gave you.",
                "[And|So|Now,] what is the number?", "What [is|was] the number again?", "What's the number?", "What was the number?", "The number is what?", "The number, please?",
                "[Please |]tell me the number.", "[Please |]tell me which number I gave you.", "Can you tell me the number?", "Do you [know|recall|have] the number?",
                "Do you remember which number I gave you?", "Do you remember the number I told you?", "[Which|What] number did I [give|name|say to] you?", "[Which|What] number was it?",
                "[Which|What] number is it?", "[Which|What] number did you keep in mind?", "Which number should you [remember|keep in mind]?", "Which number was I talking about?",
                "I told you a number. What [is|was] it?", "I gave you a number. Which one is it?", "[Remind me|Quick question]: what is the number?",
                "[Hey|Remind me], which number did I tell you?", "I forgot the number, what is it?", "Name the number.", "Say the number I gave you.", "Repeat the number I told you."],
               "The number is {v}.", [str(i) for i in range(10, 1000)]),
    "word": (["The secret word is {v}.", "Remember the word {v}.", "Our code word is {v}.", "Keep the word {v} in mind.", "The password is {v}.",
              "The word is {v}.", "I give you a word: {v}.", "Here is a word to remember: {v}.", "[Please |]remember this word: {v}.", "[Please |]keep this word: {v}.",
              "[Please |]keep this word in mind: {v}.", "[Please |]note the word {v} for me.", "[Please |]store the word {v} for me.", "[Please |]memorize the word {v}.",
              "Do not forget the word {v}.", "I am thinking of the word {v}.", "[By the way|So you know], the secret word is {v}.", "The word {v} is important, remember it.",
              "I will ask you about the word {v} later.", "[My|Our] secret word is {v}."], "I will remember the word {v}.",
             ["What is the [secret |code |]word?", "Which word did I tell you?", "What word should you remember?", "Do you remember the word?", "Tell me the word I gave you.",
              "[And|So|Now,] what is the word?", "What [is|was] the word again?", "What's the [word|secret word]?", "What was the [word|secret word]?", "The word is what?",
              "The [secret |]word, please?", "[Please |]tell me the [secret |]word.", "[Please |]tell me which word I gave you.", "Can you tell me the [secret |]word?",
              "Do you [know|recall|have] the [secret |]word?", "Do you remember which word I gave you?", "Do you remember the word I told you?",
              "[Which|What] word did I [give|name|say to] you?", "[Which|What] word was it?", "[Which|What] word is it?", "[Which|What] word did you keep in mind?",
              "Which word should you [remember|keep in mind]?", "Which word was I talking about?", "I told you a word. What [is|was] it?", "I gave you a word. Which one is it?",
              "[Remind me|Quick question]: what is the word?", "[Hey|Remind me], which word did I tell you?", "I forgot the word, what is it?", "Name the secret word.",
              "Say the word I gave you.", "Repeat the word I told you."],
             "The word is {v}.", words.SHORT + words.NATURE),
}
CORRECTIONS = ["[Actually|Sorry|No|Wait], [it is|it's|I meant] {v}.", "I made a mistake, it is {v}.", "Correction: {v}.", "That was wrong. It is {v}.",
               "Hm, not {o} but {v}.", "I was wrong, it's {v}, not {o}.", "Oh, I meant to say {v}.", "Please change that to {v}.", "No, it is not {o}. It is {v}.",
               "[Actually|Sorry|Oh no|Hm], I [said|told you] {o}, but it is {v}.", "[Sorry|Oh|Hm], I said it wrong. It is {v}.", "I [said|told you|gave you] the wrong thing. It is {v}.",
               "[Sorry|Wait|Stop], not {o}. I [mean|meant] {v}.", "[Wait|Hm|Oh], I was wrong. It is {v}.", "[Let me|I want to|I have to|I need to] correct that: {v}.",
               "[Let me|I want to|I have to|I need to] correct myself: it is {v}.", "[Let me|I want to] change that: it is {v}, not {o}.", "[Please |]correct that: it is {v}, not {o}.",
               "[Please |]change {o} to {v}.", "[Please |]forget {o}. It is {v}.", "[Please |]forget what I said, it is {v}.", "[Please |]remember {v}, not {o}.",
               "{o} was wrong. The right one is {v}.", "{o} is not right, it is {v}.", "I do not mean {o}, I mean {v}.", "I should have said {v}.", "I should have said {v}, not {o}.",
               "What I [meant|wanted to say] is {v}.", "I meant {v}, not {o}.", "It should be {v}.", "It should be {v}, not {o}.", "A mistake on my side: it is {v}.",
               "My mistake, it is {v}.", "[Sorry|Oops], my mistake. I meant {v}, not {o}.", "Make that {v}[, please|].", "{v} is right, {o} was a mistake."]
UNKNOWN = "You have not told me that."

# What is told and what is asked for, as parts of sentences, and sentences around them: for training alone.
TELLS = {
    "name": ["my name is {v}", "I am called {v}", "{v} is my name", "the name I have is {v}", "they named me {v}", "people know me by the name of {v}", "I sign with {v}"],
    "colour": ["the colour I like best is {v}", "{v} is my favourite colour", "I like {v} more than any other colour", "{v} is the colour for me", "my colour is {v}", "I would paint everything {v}, it is my colour"],
    "animal": ["the animal I like best is the {v}", "my favourite animal is the {v}", "of all animals the {v} is mine", "I like no animal more than the {v}"],
    "food": ["the food I like best is {v}", "my favourite food is {v}", "I could eat {v} every day", "nothing tastes better to me than {v}", "I like {v} more than any other food"],
    "city": ["I live in {v}", "my home is in {v}", "my house is in {v}", "{v} is my home", "I come from {v}", "the city where I live is {v}", "I sleep in {v} each night"],
    "job": ["I work as {v}", "my job is that of {v}", "I am {v} by profession", "I earn my money as {v}", "at work I am {v}"],
    "pet": ["my pet is called {v}", "{v} is the name of my pet", "the name of my pet is {v}", "I named my pet {v}", "my pet has the name {v}", "I have a pet and call it {v}"],
    "age": ["I am {v} years old", "my age is {v}", "I am {v}", "I have lived for {v} years", "I have become {v} years old"],
    "number": ["my number is {v}", "the number is {v}", "{v} is the number", "the number to remember is {v}", "the number that I think of is {v}", "I give you a number, {v}"],
    "word": ["the word is {v}", "our word is {v}", "the secret word is {v}", "the password is {v}", "{v} is the word", "the word to remember is {v}", "we use the word {v}"],
}
TELLING = ["{S}.", "{S}.", "[By the way|Listen|Before we start|Just so you know|For later|In case you want to know|Hey|Well|So|First of all|One thing], {s}.", "[Remember|Note|Keep in mind|Write down|You should know|I tell you|Do not forget|Think of it] that {s}.",
           "I want you to know that {s}.", "{S}, [all right|ok|you know|by the way].", "[Please |]remember this: {s}.", "[Some|A few] words about me: {s}.", "{S}, and I [will|may] ask you about it.", "I say it once: {s}."]
SOUGHT = {
    "name": ["my name", "the name that I have", "what I am called", "what name I told you"], "colour": ["my favourite colour", "the colour that I like best", "which colour is mine"], "animal": ["my favourite animal", "the animal that I like best"],
    "food": ["my favourite food", "the food that I like best", "what I could eat every day"], "city": ["my city", "the city where I live", "where my home is", "where I live"], "job": ["my job", "my profession", "what I work as", "how I earn my money"],
    "pet": ["the name of my pet", "what my pet is called", "my pet's name"], "age": ["my age", "how old I am", "the age that I have"], "number": ["my number", "the number", "the number that I gave you", "which number I told you"],
    "word": ["the word", "the secret word", "the password", "the word that I gave you", "which word I told you"],
}
SEEKING = ["Tell me {x}.", "Do you remember {x}?", "Say {x}.", "I told you {x}. What was it?", "Can you tell me {x}?", "You know {x}, right? Say it.", "Somebody asks for {x}. What do you say?", "Let us see if you remember {x}.", "{x}?", "I forgot {x}. Help me.",
           "Now I want to hear {x}.", "Do you still know {x}?", "Think back: {x}?", "Earlier I told you {x}. Say it again.", "For the form I need {x}.", "[A friend|My boss|My sister] wants to know {x}.", "Time for a test: {x}?", "What did I say about {x}?"]


def _composed(frames, parts):
    def make(d: Draw) -> str:
        part = d.any(parts)
        text = d.choose(d.any(frames)).replace("{S}", part[0].upper() + part[1:] if part[0] != "{" else part).replace("{s}", part).replace("{x}", part)
        return text[0].upper() + text[1:] if text[0] != "{" else text
    return make


def told(d: Draw, kind: str, value: str) -> Turn:
    user = d.ask(THINGS[kind][0], way=f"memory.told.{kind}", compose=_composed(TELLING, TELLS[kind]), v=value)
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
    user = d.ask(THINGS[kind][2], way=f"memory.asked.{kind}", compose=_composed(SEEKING, SOUGHT[kind]))
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
    if d.chance(0.15 if d.heldout else 0.3):  # rare in talk, and the hardest to know
        kind = d.any([k for k in THINGS if k not in known])
        turns.append(asked(d, kind, None))
    return turns
