"""Tools: made from verbs, nouns and parameters by the thousand, and some common ones by hand.

A user's sentence names the values of parameters in their own phrases; the call
lists them in the order of the tool's schema. What comes back is told by few
rules that hold for every tool: "The status is open and the id is 12.", "The
call failed: not found."
"""

import json

from . import words
from .draw import Draw, Turn, has, say

CHOOSE, RESULT = "tool_choice", "tool_result"


class Slot:
    """A parameter: its schema, its values and how users say them."""

    def __init__(self, kind: str, description: str, phrases, value, choices=None):
        self.kind, self.description, self.phrases, self.value, self.choices = kind, description, phrases, value, choices

    def schema(self, d: Draw) -> dict:
        s = {"type": "string" if self.kind == "enum" else self.kind}
        if d.chance(0.8):
            s["description"] = self.description
        if self.choices:
            s["enum"] = list(self.choices)
        return s


def _enum(description, phrases, choices):
    return Slot("enum", description, phrases, lambda d: d.any(choices), choices)


def _flag(description, yes, no):
    return Slot("boolean", description, (yes, no), lambda d: d.chance(0.6))


def title(d: Draw) -> str:
    return d.until_fresh(lambda: " ".join(d.some(words.SENTENCE_WORDS + words.OBJECTS, d.int(1, 4))), "title")


def path(d: Draw) -> str:
    def make():
        folders = "/".join(d.some(["src", "lib", "docs", "test", "cmd", "app", "data", "config", "web", "tools"] + words.SHORT[:60], d.int(0, 3)))
        name = d.any(words.SHORT + ["main", "index", "readme", "config", "server", "utils", "parser", "model"])
        return f"{d.any(['', '', '/', './']) if folders else ''}{folders}{'/' if folders else ''}{name}.{d.any(['go', 'py', 'md', 'txt', 'json', 'c', 'rs', 'ts', 'yaml', 'html', 'csv', 'log'])}"
    return d.until_fresh(make, "path")


def _whole(x: float):
    """A number as people write it: 16, not 16.0."""
    return int(x) if x == int(x) else x


def _quoted(d: Draw, v) -> str:
    return f'"{v}"' if d.chance(0.75) else f"'{v}'"


SLOTS = {
    "city": Slot("string", "Name of the city", ["in {v}", "for the city {v}", "at {v}"], lambda d: d.pick(words.CITIES)),
    "title": Slot("string", "The title", ["titled {q}", "with the title {q}", "called {q}", "named {q}"], title),
    "note": Slot("string", "Text of the note", ["with the note {q}", "saying {q}", "and write {q}"], title),
    "name": Slot("string", "Name of the person", ["for {v}", "on behalf of {v}", "under the name {v}"], lambda d: d.pick(words.NAMES)),
    "recipient": Slot("string", "Who gets it", ["to {v}", "addressed to {v}"], lambda d: d.pick(words.NAMES)),
    "owner": Slot("string", "Who is responsible", ["owned by {v}", "with {v} as the owner", "assigned to {v}"], lambda d: d.pick(words.NAMES)),
    "email": Slot("string", "Email address", ["for {v}", "with the email {v}", "using the address {v}"], lambda d: f"{d.pick(words.NAMES).lower()}{d.int(1, 99)}@{d.any(['mail', 'post', 'work'])}.example"),
    "day": _enum("Day of the week", ["on {v}", "this {v}", "next {v}"], words.DAYS),
    "date": Slot("string", "Date as YYYY-MM-DD", ["on {v}", "for {v}", "dated {v}"], lambda d: d.until_fresh(lambda: f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}", "date")),
    "time": Slot("string", "Time as HH:MM", ["at {v}", "starting at {v}"], lambda d: f"{d.int(0, 23):02}:{d.any(['00', '15', '30', '45', '10', '50'])}"),
    "id": Slot("integer", "Number of the record", ["with the id {v}", "number {v}", "with id {v}", "#{v}"], lambda d: d.until_fresh(lambda: d.int(2, 99999), "id")),
    "quantity": Slot("integer", "How many", ["with quantity {v}", "{v} times", "in a quantity of {v}"], lambda d: d.int(2, 60)),
    "limit": Slot("integer", "Most results to return", ["at most {v}", "limited to {v}", "with a limit of {v}"], lambda d: d.int(2, 100)),
    "minutes": Slot("integer", "Duration in minutes", ["for {v} minutes", "lasting {v} minutes", "of {v} minutes"], lambda d: d.any([5, 10, 12, 15, 20, 25, 30, 40, 45, 60, 75, 90])),
    "days": Slot("integer", "Number of days", ["for {v} days", "over {v} days"], lambda d: d.int(2, 30)),
    "price": Slot("number", "Price in dollars", ["for {v} dollars", "at {v} dollars", "priced at {v}"], lambda d: d.until_fresh(lambda: _whole(d.int(100, 99999) / 100), "price")),
    "weight": Slot("number", "Weight in kilograms", ["weighing {v} kilograms", "with a weight of {v} kg", "of {v} kg"], lambda d: _whole(d.int(1, 400) / 4)),
    "percent": Slot("number", "Percentage", ["at {v} percent", "with {v} percent"], lambda d: _whole(d.int(1, 199) / 2)),
    "priority": _enum("How urgent it is", ["with {v} priority", "with priority {v}", "as {v} priority"], ["low", "medium", "high"]),
    "color": _enum("The colour", ["in {v}", "with the colour {v}", "colored {v}"], ["red", "green", "blue", "yellow", "black", "white"]),
    "size": _enum("The size", ["in size {v}", "with size {v}", "of {v} size"], ["small", "medium", "large"]),
    "status": _enum("The state", ["with status {v}", "in the state {v}", "that is {v}"], ["open", "closed", "pending"]),
    "format": _enum("Format of the output", ["as {v}", "in {v} format", "formatted as {v}"], ["csv", "json", "pdf", "text"]),
    "language": _enum("The language", ["in {v}", "in the language {v}"], ["english", "german", "french", "spanish"]),
    "room": _enum("Which room", ["in the {v}", "for the {v}"], ["kitchen", "bedroom", "bathroom", "office", "garage", "hallway"]),
    "notify": _flag("Whether to notify everybody", ["and notify everybody", "and tell the others", "with a notification"], ["without notifying anybody", "and do not notify anybody", "without a notification"]),
    "urgent": _flag("Whether it is urgent", ["and mark it as urgent", "and it is urgent", "as urgent"], ["and it is not urgent", "but not as urgent", "not urgent"]),
    "private": _flag("Whether it is private", ["and keep it private", "as private", "and make it private"], ["and make it public", "as public", "not private"]),
    "dry_run": _flag("Only show what would happen", ["as a dry run", "but only as a dry run", "in dry run mode"], ["and not as a dry run", "for real, no dry run", "with no dry run"]),
    "recurring": _flag("Whether it repeats", ["and repeat it", "as recurring", "and make it recurring"], ["only once", "not recurring", "and do not repeat it"]),
}

# A verb: its words, what its description says, parameters that go with it, what comes back.
VERBS = {
    "create": (["create", "make", "add", "set up"], "Create a new {n}.", ["title", "priority", "owner", "day", "date", "quantity", "notify", "urgent", "private", "color", "size"], "made"),
    "delete": (["delete", "remove", "get rid of"], "Delete an existing {n}.", ["id", "notify", "dry_run"], "done"),
    "update": (["update", "change", "edit"], "Change an existing {n}.", ["id", "title", "status", "priority", "owner", "notify", "price"], "done"),
    "get": (["show", "get", "look up", "open", "fetch"], "Get one {n} by its number.", ["id", "format", "language"], "record"),
    "list": (["list all", "show all", "give me all"], "List the {n} records.", ["status", "limit", "owner", "city", "format"], "list"),
    "send": (["send", "mail", "forward"], "Send the {n} to somebody.", ["recipient", "id", "note", "urgent", "format"], "done"),
    "cancel": (["cancel", "call off"], "Cancel the {n}.", ["id", "date", "notify"], "done"),
    "schedule": (["schedule", "plan", "arrange"], "Schedule the {n}.", ["title", "day", "date", "time", "minutes", "recurring", "notify"], "made"),
    "archive": (["archive", "store away"], "Move the {n} to the archive.", ["id", "private", "dry_run"], "done"),
    "print": (["print", "print out"], "Print the {n} on paper.", ["id", "quantity", "color", "size"], "done"),
    "export": (["export", "save"], "Export the {n} to a file.", ["id", "format", "language", "private"], "done"),
    "copy": (["copy", "duplicate", "clone"], "Make a copy of the {n}.", ["id", "title", "quantity"], "made"),
    "order": (["order", "buy", "purchase"], "Order the {n}.", ["quantity", "color", "size", "price", "urgent", "city", "name"], "made"),
    "count": (["count", "count up"], "Count the {n} records.", ["status", "city", "owner"], "count"),
    "lock": (["lock", "block"], "Lock the {n} so that nobody changes it.", ["id", "minutes", "notify"], "done"),
    "share": (["share"], "Share the {n} with a person.", ["recipient", "id", "days", "notify"], "done"),
    "start": (["start", "begin", "launch"], "Start the {n}.", ["id", "time", "minutes", "dry_run", "room"], "done"),
    "stop": (["stop", "halt", "end"], "Stop the {n}.", ["id", "urgent", "room"], "done"),
    "rate": (["rate", "review"], "Rate the {n}.", ["id", "percent", "note", "private"], "done"),
    "ship": (["ship", "deliver"], "Ship the {n} to a city.", ["id", "city", "weight", "price", "urgent"], "done"),
}
NOUNS = """invoice ticket task order report meeting event contract project customer product booking reservation payment document message backup
job recipe playlist survey discount coupon parcel shipment account budget course lesson exam vehicle machine sensor camera device printer
server database table article page comment photo video song album poster form template workflow pipeline release issue branch campaign
newsletter subscription membership license appointment visit tour trip hotel flight train ride menu dish grocery medicine prescription patient
animal plant garden robot drone elevator alarm heater lamp fan pump valve warehouse shelf package loan refund receipt salary candidate""".split()

NAME_STYLES = [lambda v, n: f"{v}_{n}", lambda v, n: f"{v}_{n}", lambda v, n: v + n.title(), lambda v, n: v.title() + n.title(), lambda v, n: f"{v}-{n}", lambda v, n: f"{n}_{v}",
               lambda v, n: f"mcp__{n}s__{v}", lambda v, n: f"{v}{n.title()}"]


class Tool:
    """A tool, how users ask for it, and what it returns."""

    def __init__(self, name, description, slots: dict[str, Slot], required, sentence, returns, d: Draw):
        self.name, self.slots, self.required, self.sentence, self.returns = name, slots, required, sentence, returns
        parameters = {"type": "object", "properties": {k: s.schema(d) for k, s in slots.items()}, "required": list(required)}
        if d.chance(0.15):
            parameters["additionalProperties"] = False
        self.spec = {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

    def values(self, d: Draw) -> dict:
        """What a user says: all that is required, and some of the rest."""
        return {k: s.value(d) for k, s in self.slots.items() if k in self.required or d.chance(0.4)}

    def ask(self, d: Draw, values: dict) -> str:
        return self.sentence(d, self, values)


def phrase(d: Draw, slot: Slot, v) -> str:
    if slot.kind == "boolean":
        return d.any(slot.phrases[0] if v else slot.phrases[1])
    return d.any(slot.phrases).format(v=v, q=_quoted(d, v))


POLITE = ["{s}", "{s}", "{s}", "[Please|Now|Then] {s}", "Can you {s}", "Could you [please |]{s}", "I want you to {s}", "I need you to {s}", "[Hey|Hi], {s}", "Would you {s}", "{s}, please", "Your task: {s}", "It is time to {s}"]


def _polite(d: Draw, s: str) -> str:
    s = d.ask(POLITE, s=s)
    s = s if d.chance(0.15) else s[0].upper() + s[1:]
    return s + d.any([".", ".", "", "!"] if not s.startswith(("Can", "Could", "Would")) else ["?", "?", ""])


def _generic_sentence(verb, noun):
    def sentence(d: Draw, tool: Tool, values: dict) -> str:
        article = words.plural(noun) if verb in ("list", "count") else (d.any(["the ", "the ", "this "]) if "id" in values else d.any(["a ", "a new ", "the "])) + noun
        article = article.replace("a " + noun, words.a(noun))
        parts = [phrase(d, tool.slots[k], v) for k, v in values.items()]
        if "id" in values:  # the number stands next to the noun
            i = list(values).index("id")
            parts.insert(0, parts.pop(i))
        return _polite(d, f"{d.any(VERBS[verb][0])} {article} {' '.join(parts)}".strip())
    return sentence


def generic(d: Draw, verb: str, noun: str) -> Tool:
    _, description, fitting, returns = VERBS[verb]
    own = [s for s in ("id",) if s in fitting and verb not in ("send", "start", "stop", "print") or s in fitting and d.chance(0.5)]
    optional = d.some([s for s in fitting if s not in own], min(d.int(0 if own else 1, 3), len([s for s in fitting if s not in own])))
    chosen = own + optional
    slots = {}
    for s in chosen:
        slots[f"{noun}_id" if s == "id" and d.chance(0.4) else s] = SLOTS[s]
    keys = list(slots)
    required = [k for k in keys if k.endswith("id") or d.chance(0.5)] or keys[:1]
    text = description.format(n=noun)
    if d.chance(0.2):
        text = d.any(["Use this to " + text[0].lower() + text[1:], text + " Returns JSON.", text[:-1] + f" of the {d.any(['company', 'user', 'system', 'team'])}."])
    t = Tool(d.any(NAME_STYLES)(verb, noun), text, slots, required, _fixed(_generic_sentence(verb, noun), slots), returns, d)
    t.verb, t.noun = verb, noun
    return t


def _fixed(sentence, slots):
    """Renamed numbers are said like plain ones."""
    renamed = [k for k in slots if k.endswith("_id")]

    def say_it(d, tool, values):
        if renamed and renamed[0] in values:
            k = renamed[0]
            values = {("id" if n == k else n): v for n, v in values.items()}
            shown = type("Shown", (), {"slots": {**tool.slots, "id": tool.slots[k]}})
            return sentence(d, shown, values)
        return sentence(d, tool, values)
    return say_it


# Common tools by hand: names, description, parameters (name, type, description,
# values, required), sentences, what comes back.
def _v(kind, description, value, choices=None):
    return Slot(kind, description, None, value, choices)


CITY = lambda d: d.pick(words.CITIES)
NAME = lambda d: d.pick(words.NAMES)
COMMANDS = ["ls -la", "git status", "make test", "go build ./...", "pwd", "npm install", "cat {p}", "wc -l {p}", "git diff {p}", "python {p}", "df -h", "whoami", "date", "git log --oneline", "rm {p}", "mkdir {w}", "go test ./{w}",
            "grep -n {w} {p}", "head -n {i} {p}", "echo {w}", "sleep {i}", "git commit -m {w}", "git checkout {w}", "ps aux", "uname -a"]


def command(d: Draw) -> str:
    return d.pick(COMMANDS).format(p=path(d), w=d.any(words.SHORT), i=d.int(1, 60))


def _evaluated(expression: str) -> int:
    a, sign, b = expression.split()
    a, b = int(a), int(b)
    return {"+": a + b, "-": a - b, "*": a * b, "/": a // b}[sign]


HAND = [
    (["get_weather", "weather", "current_weather", "getWeather"], "Get the current weather of a city.", {"city": _v("string", "City name", CITY)}, ["city"],
     ["[What is|What's|How is] the weather [like |]in {city}?", "[Tell|Show] me the weather in {city}.", "Is it [cold|warm|raining|sunny] in {city}?", "Weather in {city}[?|, please.]", "[How|What] is the temperature in {city}?", "Do I need a coat in {city}?",
      "What does the sky look like in {city} now?", "Check the weather of {city}."],
     lambda d, a: {"temperature": d.int(-10, 35), "sky": d.any(["clear", "cloudy", "rainy", "snowy"])}),
    (["get_forecast", "weather_forecast", "forecast"], "Get the weather forecast for the coming days.", {"city": _v("string", "City name", CITY), "days": _v("integer", "How many days", lambda d: d.int(2, 14)), "unit": _v("enum", "Unit of temperature", lambda d: d.any(["celsius", "fahrenheit"]), ["celsius", "fahrenheit"])}, ["city", "days", "unit"],
     ["[What is|Give me|Show] the forecast for {city} for the next {days} days in {unit}[?|.]", "{days} day forecast for {city} in {unit}", "How will the weather be in {city} over the next {days} days, in {unit}?", "I need a forecast in {unit} for {city}, {days} days.",
      "Forecast: {city}, {days} days, {unit}.", "Get me {days} days of forecast for {city} in {unit}."], lambda d, a: {"high": d.int(5, 35), "low": d.int(-9, 4), "rain": d.any(["none", "some", "a lot"])}),
    (["calculator", "calculate", "compute", "math_eval"], "Evaluate an arithmetic expression.", {"expression": _v("string", "The expression", lambda d: d.until_fresh(lambda: f"{d.int(10, 9999)} {d.any('+-*/')} {d.int(2, 999)}", "expression"))}, ["expression"],
     ["[Use the calculator for|Calculate|Compute|Evaluate] {expression}[.|]", "What does the calculator say for {expression}?", "[Please |]run {expression} through the calculator.", "I need the exact result of {expression} from the calculator.", "Let the tool compute {expression}."],
     lambda d, a: {"result": _evaluated(a["expression"])}),
    (["web_search", "search", "WebSearch", "search_web"], "Search the web.", {"query": _v("string", "What to search for", title)}, ["query"],
     ["Search [the web |online |]for \"{query}\".", "Look up \"{query}\" [online|on the web].", "[Find|Show me] web pages about \"{query}\".", "[Please |]do a web search for \"{query}\".", "Google \"{query}\".", "What does the web say about \"{query}\"?"],
     lambda d, a: [title(d), title(d)]),
    (["get_time", "current_time", "time_in_city", "clock"], "Get the current local time of a city.", {"city": _v("string", "City name", CITY)}, ["city"],
     ["What time is it in {city}?", "[Tell|Give] me the [local |]time in {city}.", "How late is it in {city}?", "Current time in {city}?", "What is the clock in {city} showing?", "Is it night in {city}?"], lambda d, a: {"time": f"{d.int(0, 23):02}:{d.int(0, 59):02}"}),
    (["convert_currency", "currency_converter", "exchange"], "Convert an amount of money from one currency to another.", {"amount": _v("number", "How much", lambda d: d.until_fresh(lambda: _whole(d.any([d.int(1, 5000), d.int(100, 99999) / 100])), "amount")), "from": _v("enum", "Currency to convert from", lambda d: d.any(["USD", "EUR"]), ["USD", "EUR", "GBP", "JPY", "CHF"]), "to": _v("enum", "Currency to convert to", lambda d: d.any(["GBP", "JPY", "CHF"]), ["USD", "EUR", "GBP", "JPY", "CHF"])},
     ["amount", "from", "to"], ["Convert {amount} {from} to {to}.", "How much is {amount} {from} in {to}?", "[What are|Change] {amount} {from} in {to}[?|.]", "I have {amount} {from}, how many {to} is that?", "{amount} {from} to {to}", "Exchange {amount} {from} for {to}."], lambda d, a: {"amount": d.int(100, 99999) / 100}),
    (["translate", "translate_text", "translator"], "Translate a text.", {"text": _v("string", "Text to translate", title), "language": _v("enum", "Target language", lambda d: d.any(["german", "french", "spanish", "italian"]), ["german", "french", "spanish", "italian"])}, ["text", "language"],
     ["Translate \"{text}\" [to|into] {language}.", "How do you say \"{text}\" in {language}?", "What is \"{text}\" in {language}?", "[Give me|I need] the {language} translation of \"{text}\".", "Say \"{text}\" in {language}.", "{language} for \"{text}\"?"], lambda d, a: {"translation": title(d)}),
    (["set_timer", "timer", "start_timer"], "Start a timer.", {"minutes": _v("integer", "Minutes until it rings", lambda d: d.int(1, 120)), "label": _v("string", "What it is for", lambda d: d.any(words.FOODS + words.HOBBIES))}, ["minutes"],
     ["Set a timer for {minutes} minutes[ with the label|, label] {label}.", "Start a {minutes} minute timer for {label}.", "[Wake|Remind] me in {minutes} minutes, label {label}.", "Timer: {minutes} minutes, {label}.", "Let the timer for {label} run {minutes} minutes.", "I need a timer of {minutes} minutes called {label}."], lambda d, a: {"status": "started"}),
    (["send_email", "email", "sendEmail", "mail_send"], "Send an email.", {"to": _v("string", "Address", lambda d: f"{NAME(d).lower()}@{d.any(['mail', 'post', 'work'])}.example"), "subject": _v("string", "Subject line", title), "body": _v("string", "Text of the email", title)}, ["to", "subject", "body"],
     ["Send an email to {to} with the subject \"{subject}\" and the text \"{body}\".", "Email {to}: subject \"{subject}\", text \"{body}\".", "Write to {to}. Subject: \"{subject}\". Text: \"{body}\".", "Mail \"{body}\" to {to}, subject \"{subject}\".", "[Please |]write an email with subject \"{subject}\" to {to} saying \"{body}\"."], lambda d, a: {"status": "sent"}),
    (["send_message", "message_user", "text_message"], "Send a chat message to a person.", {"recipient": _v("string", "Who gets it", NAME), "text": _v("string", "The message", title)}, ["recipient", "text"],
     ["Tell {recipient} \"{text}\".", "Send [a message|the message] \"{text}\" to {recipient}.", "[Message|Text|Write to] {recipient}: \"{text}\"", "Let {recipient} know: \"{text}\".", "Send {recipient} the text \"{text}\".", "Give {recipient} this message: \"{text}\"."], lambda d, a: {"status": "delivered"}),
    (["set_lights", "light_control", "lights"], "Switch the lights of a room.", {"room": _v("enum", "Which room", lambda d: d.any(["kitchen", "bedroom", "office", "hallway"]), ["kitchen", "bedroom", "office", "hallway"]), "on": _v("boolean", "On or off", lambda d: d.chance(0.5))}, ["room", "on"],
     ["Turn {on!} the [light|lights] in the {room}.", "Switch {on!} the {room} [light|lights].", "[Light|Lights] {on!} in the {room}[.|, please.]", "Turn the {room} lights {on!}.", "I want the lights in the {room} {on!}.", "Make sure the {room} light is {on!}."], lambda d, a: {"state": "on" if a["on"] else "off"}),
    (["set_temperature", "thermostat", "heating"], "Set the temperature of the heating in degrees Celsius.", {"degrees": _v("number", "Target temperature", lambda d: _whole(d.int(28, 52) / 2)), "room": _v("enum", "Which room", lambda d: d.any(["kitchen", "bedroom", "office"]), ["kitchen", "bedroom", "office"])}, ["degrees", "room"],
     ["Set the [heating|thermostat|temperature] in the {room} to {degrees} degrees.", "Make it {degrees} degrees in the {room}.", "I want {degrees} degrees in the {room}.", "Heat the {room} to {degrees} degrees.", "{room} to {degrees} degrees, please.", "Change the temperature of the {room} to {degrees}."], lambda d, a: {"status": "ok"}),
    (["play_music", "music_player", "play_song"], "Play a song.", {"song": _v("string", "Name of the song", title), "volume": _v("integer", "Volume from 1 to 100", lambda d: d.int(1, 100)), "repeat": _v("boolean", "Play it again and again", lambda d: d.chance(0.5))}, ["song", "volume"],
     ["Play \"{song}\" at volume {volume}.", "[Put on|Start] the song \"{song}\" with volume {volume}.", "I want to hear \"{song}\", volume {volume}.", "Music: \"{song}\", volume {volume}.", "Let me hear \"{song}\" at a volume of {volume}.", "Volume {volume}, song \"{song}\"[.|, please.]"], lambda d, a: {"status": "playing"}),
    (["read_file", "Read", "view_file", "open_file", "cat_file"], "Read a file from the disk.", {"file_path": _v("string", "Path of the file", path)}, ["file_path"],
     ["[Read|Open|Show me] [the file |]{file_path}[.|]", "What is in [the file |]{file_path}?", "[Please |]show the content of {file_path}.", "Look at {file_path}.", "I need to see {file_path}.", "Have a look into {file_path}[.|, please.]", "Display {file_path}."], lambda d, a: title(d)),
    (["write_file", "Write", "create_file", "save_file"], "Write a text to a file.", {"file_path": _v("string", "Path of the file", path), "content": _v("string", "The new content", title)}, ["file_path", "content"],
     ["Write \"{content}\" [to|into] [the file |]{file_path}.", "Save \"{content}\" as {file_path}.", "Create the file {file_path} with the content \"{content}\".", "Put the text \"{content}\" into {file_path}.", "Make a file {file_path} that says \"{content}\".", "Store \"{content}\" in {file_path}."], lambda d, a: {"status": "written"}),
    (["run_command", "Bash", "shell", "execute_command", "terminal"], "Run a command in the shell.", {"command": _v("string", "The command to run", command)}, ["command"],
     ["Run `{command}`[.|]", "[Execute|Please run|Call] `{command}`[ in the shell| for me|].", "Use the shell to run `{command}`.", "What does `{command}` [print|say|show]?", "Start `{command}` in the terminal.", "Type `{command}` into the terminal.", "Run the command `{command}`."], lambda d, a: title(d)),
    (["grep", "Grep", "search_files", "find_in_files"], "Search for a pattern in files.", {"pattern": _v("string", "What to look for", lambda d: d.until_fresh(lambda: d.any(words.WORDS), "pattern")), "path": _v("string", "Folder or file", path)}, ["pattern", "path"],
     ["[Search|Look] for \"{pattern}\" in {path}.", "Find \"{pattern}\" in {path}.", "Does {path} contain \"{pattern}\"?", "Where is \"{pattern}\" in {path}?", "Grep {path} for \"{pattern}\".", "Show me the lines of {path} with \"{pattern}\"."], lambda d, a: {"matches": d.int(1, 40)}),
    (["list_directory", "LS", "list_files", "ls"], "List the files of a folder.", {"path": _v("string", "The folder", lambda d: "/".join(d.some(["src", "lib", "docs", "test", "cmd", "app", "web"] + words.SHORT[:40], d.int(1, 2))))}, ["path"],
     ["[List|Show] the files [in|of] {path}.", "What [files are|is] in the folder {path}?", "[Which|What] files does {path} have?", "Look into the folder {path}.", "Show me the folder {path}.", "ls {path}"], lambda d, a: [path(d), path(d)]),
    (["stock_price", "get_stock", "quote"], "Get the price of a stock.", {"symbol": _v("string", "Ticker symbol", lambda d: d.until_fresh(lambda: "".join(d.some("ABCDEFGHKLMNPRSTVX", d.int(3, 4))), "symbol"))}, ["symbol"],
     ["What is the [stock |]price of {symbol}?", "How much is {symbol} [stock |]worth?", "[Get|Show] me the quote of {symbol}.", "Price of {symbol} stock?", "Where does {symbol} trade?", "Check the stock {symbol}."], lambda d, a: {"price": d.int(100, 99999) / 100}),
    (["dictionary", "define_word", "lookup_word"], "Look up the meaning of a word.", {"word": _v("string", "The word", lambda d: d.until_fresh(lambda: d.any(words.WORDS), "defined"))}, ["word"],
     ["[Look up|Define] the word \"{word}\".", "What is the definition of \"{word}\"?", "What does the dictionary say about \"{word}\"?", "Find the meaning of \"{word}\".", "\"{word}\": what does it mean?", "Give me the dictionary entry of \"{word}\"."], lambda d, a: {"meaning": title(d)}),
    (["directions", "get_route", "navigate"], "Find the way between two cities.", {"origin": _v("string", "Where to start", CITY), "destination": _v("string", "Where to go", CITY), "mode": _v("enum", "How to travel", lambda d: d.any(["car", "train", "bike"]), ["car", "train", "bike"])}, ["origin", "destination", "mode"],
     ["How do I get from {origin} to {destination} by {mode}?", "[Show|Give] me the way from {origin} to {destination} by {mode}.", "Directions by {mode} from {origin} to {destination}[.|, please.]", "I travel by {mode} from {origin} to {destination}. What is the way?", "Navigate from {origin} to {destination} by {mode}."], lambda d, a: {"distance": d.int(20, 2000), "hours": d.int(1, 30)}),
    (["book_table", "reserve_table", "restaurant_booking"], "Book a table in a restaurant.", {"restaurant": _v("string", "Name of the restaurant", lambda d: d.any(["Golden", "Blue", "Old", "Green", "Little"]) + " " + d.any(words.ANIMALS + words.OBJECTS).title()), "people": _v("integer", "How many people", lambda d: d.int(2, 12)), "time": _v("string", "Time as HH:MM", SLOTS["time"].value), "outside": _v("boolean", "Whether to sit outside", lambda d: d.chance(0.5))}, ["restaurant", "people", "time"],
     ["Book a table [at|in] the restaurant {restaurant} for {people} people at {time}.", "[Reserve|I need] a table for {people} at {restaurant}, {time}.", "{people} people at {time} in {restaurant}, please reserve.", "Make a reservation at {restaurant} at {time} for {people} people.", "We are {people} and want to eat at {restaurant} at {time}. Book it."], lambda d, a: {"status": "booked", "table": d.int(1, 40)}),
    (["add_event", "create_calendar_event", "calendar_add"], "Add an event to the calendar.", {"title": _v("string", "Title", title), "date": _v("string", "Date as YYYY-MM-DD", SLOTS["date"].value), "all_day": _v("boolean", "Whether it takes all day", lambda d: True)}, ["title", "date"],
     ["Add \"{title}\" to my calendar on {date}.", "Put \"{title}\" into the calendar for {date}.", "Calendar: \"{title}\" on {date}.", "I have \"{title}\" on {date}, note it in the calendar.", "Enter \"{title}\" on {date} in my calendar."], lambda d, a: {"status": "added"}),
    (["order_status", "get_order_status", "track_order"], "Find out where an order is.", {"order_id": _v("integer", "Number of the order", SLOTS["id"].value)}, ["order_id"],
     ["Where is [my |]order {order_id}?", "[What is|Tell me] the status of order {order_id}[?|.]", "Has order {order_id} been sent?", "Track order {order_id}.", "When will order {order_id} arrive?", "I am waiting for order {order_id}. Where is it?"], lambda d, a: {"status": d.any(["shipped", "packed", "delayed", "delivered"]), "days left": d.int(0, 9)}),
    (["random_number", "dice", "roll"], "Draw a random whole number.", {"low": _v("integer", "Least number", lambda d: d.int(0, 20)), "high": _v("integer", "Greatest number", lambda d: d.int(21, 999))}, ["low", "high"],
     ["[Give|Tell] me a random number between {low} and {high}.", "Pick a number from {low} to {high} at random.", "Random number from {low} to {high}[.|, please.]", "Draw a number between {low} and {high}.", "Roll a number between {low} and {high}."], lambda d, a: {"number": d.int(a["low"], a["high"])}),
    (["get_user", "find_user", "user_lookup"], "Find a user by name.", {"name": _v("string", "Name of the user", NAME)}, ["name"],
     ["[Find|Look up] the user {name}.", "Who is the user {name}?", "Show me [the account of|the user] {name}.", "Get the user data of {name}.", "Which user is called {name}?", "I need the record of the user {name}."], lambda d, a: {"name": a["name"], "city": d.any(words.CITIES), "age": d.int(18, 80)}),
    (["get_date", "today", "current_date"], "Get the date of today.", {}, [], ["What is the date [today|of today]?", "Which date is it today?", "Tell me today's date.", "What day do we have today?", "Get the current date.", "Today's date?"], lambda d, a: {"date": f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}"}),
    (["take_note", "add_note", "remember_note"], "Save a note.", {"text": _v("string", "The note", title)}, ["text"],
     ["Note [down |]\"{text}\".", "Make a note: \"{text}\"", "[Save|Store] the note \"{text}\".", "Write \"{text}\" on my notes.", "Take the note \"{text}\".", "Please put down \"{text}\" for later."], lambda d, a: {"status": "saved"}),
]


def _hand_sentence(patterns):
    def sentence(d: Draw, tool: Tool, values: dict) -> str:
        shown = {k: v for k, v in values.items()}
        if "on" in shown:
            shown["on"] = "on" if shown["on"] else "off"
        pattern = [p.replace("{on!}", "{on}") for p in patterns]
        return d.ask(pattern, **shown)
    return sentence


def hand(d: Draw, row) -> Tool:
    names, description, slots, required, patterns, returns = row
    used = dict(slots)
    for k in list(used):  # a parameter that no sentence says is never given
        if k not in required and d.chance(0.5) and not any("{" + k + "}" in p for p in patterns):
            del used[k]
    t = Tool(d.any(names), description, used, required, _hand_sentence(patterns), returns, d)
    t.verb, t.noun = "", names[0]
    said = [k for k in used if any("{" + k + "}" in p or "{" + k + "!}" in p for p in patterns)]
    t.values = lambda d: {k: used[k].value(d) for k in said}
    return t


def offer(d: Draw, n: int) -> tuple[list[Tool], Tool]:
    """n tools in any order, and the one to use: others share its verb or its noun."""
    def one():
        if d.chance(0.45):
            return hand(d, d.any(HAND))
        verb, noun = d.until_fresh(lambda: [d.any(list(VERBS)), d.any(NOUNS)], "tool")
        return generic(d, verb, noun)
    wanted = one()
    tools = [wanted]
    while len(tools) < n:
        kind = d.rng.random()
        if wanted.verb and kind < 0.35:
            other = generic(d, d.any(list(VERBS)), wanted.noun)
        elif wanted.verb and kind < 0.6:
            other = generic(d, wanted.verb, d.any(NOUNS))
        else:
            other = one()
        alike = any(o.name == other.name or (o.verb, o.noun) == (other.verb, other.noun) for o in tools)
        if not alike and not _confusable(other, wanted):
            tools.append(other)
    d.rng.shuffle(tools)
    return tools, wanted


# Pairs of which a sentence could mean either.
_ALIKE = [{"get", "list"}, {"create", "schedule"}, {"create", "order"}, {"create", "copy"}, {"stop", "cancel"}, {"delete", "cancel"}, {"send", "share"}, {"send", "ship"}, {"export", "archive"}, {"export", "print"}, {"lock", "stop"}, {"list", "count"}, {"start", "create"}]


def _confusable(a: Tool, b: Tool) -> bool:
    if a.verb and b.verb:
        return a.noun == b.noun and {a.verb, b.verb} in _ALIKE
    if not a.verb and not b.verb:
        return {a.noun, b.noun} in ({"get_weather", "get_forecast"}, {"send_message", "send_email"}, {"grep", "read_file"}, {"grep", "web_search"}, {"web_search", "dictionary"}, {"run_command", "list_directory"}, {"take_note", "write_file"}, {"set_lights", "set_temperature"})
    pair = a.noun if a.verb else b.noun, b.noun if a.verb else a.noun
    return pair[0] in ("event", "message", "order", "lamp", "heater", "song", "document", "reservation", "alarm", "camera", "newsletter") or pair == ("table", "book_table")


def wanted_call(d: Draw, tool: Tool) -> tuple[str, dict]:
    """A sentence and the arguments that it gives, in the order of the schema."""
    values = tool.values(d)
    shown = list(values.items())
    if tool.verb:
        d.rng.shuffle(shown)
    return tool.ask(d, dict(shown)), {k: values[k] for k in tool.slots if k in values}


def told(arguments: dict) -> str:
    return ", ".join(f"{k} is {json.dumps(v) if not isinstance(v, str) else v}" for k, v in arguments.items())


def result_of(d: Draw, tool: Tool, arguments: dict) -> tuple[str, str, list[str]]:
    """What the tool returns, how it is told, and the words that must be in that."""
    if d.chance(0.12):
        error = d.any(["not found", "access denied", "the service is not available", "timeout after 30 seconds", "invalid arguments", "the limit is reached", "no connection", "internal error", "disk full", "unknown id"])
        return f"Error: {error}", f"The call failed: {error}.", [error]
    value = tool.returns(d, arguments) if callable(tool.returns) else _returned(d, tool)
    if isinstance(value, str):
        return value, f"The result is: {value}", [value]
    if isinstance(value, list):
        if not value:
            return "[]", "Nothing was found.", ["Nothing"]
        return json.dumps(value), f"I found {len(value)}: {words.listed(value)}.", value
    shown = json.dumps(value) if d.chance(0.85) else "\n".join(f"{k}: {v}" for k, v in value.items())
    parts = [f"the {k} is {v}" for k, v in value.items()]
    text = words.listed(parts) + "."
    return shown, text[0].upper() + text[1:], [str(v) for v in value.values()]


def _returned(d: Draw, tool: Tool):
    if tool.returns == "made":
        return {"id": d.int(100, 99999), "status": d.any(["created", "ok", "done"])} if d.chance(0.7) else {"id": d.int(100, 99999)}
    if tool.returns == "done":
        return {"status": d.any(["ok", "done", "success", "accepted"])}
    if tool.returns == "count":
        return {"count": d.int(0, 500)}
    if tool.returns == "list":
        return [title(d) for _ in range(d.int(0, 4))]
    fields = {"title": title(d), "status": d.any(["open", "closed", "pending"]), "owner": d.any(words.NAMES), "price": d.int(100, 9999) / 100, "city": d.any(words.CITIES), "date": f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}"}
    return {k: fields[k] for k in d.some(list(fields), d.int(1, 3))}


def expect_calls(calls) -> dict:
    return {"tools": [{"name": n, "input": a} for n, a in calls]}


def some(d: Draw) -> int:
    """How many tools: up to 8, few more often, since the prompt grows with them."""
    return min(d.int(1, 8), d.int(1, 8)) if d.chance(0.5) else d.int(1, 8)


def call(d: Draw, skill: str = CHOOSE, most: int = 8) -> Turn:
    """One call (or two), its result and the answer."""
    tools, tool = offer(d, min(most, some(d)))
    return _called(d, tools, tool, skill)


def talk(d: Draw) -> list[Turn]:
    """Questions to the same tools: what is offered is long, so it is asked more than once."""
    tools, tool = offer(d, some(d))
    clear = [tool] + [x for x in tools if x is not tool and not any(_confusable(x, y) for y in tools if y is not x)]
    return [_called(d, tools, tool if i == 0 else d.any(clear), CHOOSE) for i in range(d.any([1, 1, 2, 3, 4, 5]))]


def _called(d: Draw, tools: list[Tool], tool: Tool, skill: str) -> Turn:
    user, arguments = wanted_call(d, tool)
    calls = [(tool.name, arguments)]
    thought = _fits(tool, arguments)
    if d.chance(0.12) and tool.slots:
        again, more = wanted_call(d, tool)
        if more != arguments:
            user = f"{user.rstrip('.!?')}. {d.any(['Also: ', 'Then: ', 'And: ', ''])}{again}"
            calls.append((tool.name, more))
            thought = f"The tool {tool.name} fits, two times. First: {told(arguments)}. Second: {told(more)}."
    return _replied(d, tool, user, calls, thought, skill, [x.spec for x in tools])


def answered_call(d: Draw, tool: Tool, user: str, arguments: dict) -> Turn:
    """A given call, its result and the answer."""
    return _replied(d, tool, user, [(tool.name, arguments)], _fits(tool, arguments), CHOOSE, None)


def _fits(tool: Tool, arguments: dict) -> str:
    return f"The tool {tool.name} fits" + (f": {told(arguments)}." if arguments else ". It needs nothing.")


def _replied(d: Draw, tool: Tool, user: str, calls, thought: str, skill: str, specs) -> Turn:
    reply = [say(thought, "", calls)]
    texts, must = [], []
    for _, a in calls:
        shown, text, keys = result_of(d, tool, a)
        reply.append({"role": "tool", "content": shown})
        texts.append(text)
        must += keys
    reply.append(say(f"I have the result. I tell it: {' '.join(texts)}", " ".join(texts)))
    return Turn(skill, user, reply, expect_calls(calls) if skill == CHOOSE else has(*must), ("calls", calls, must), specs)


def missing(d: Draw) -> Turn:
    """A required value that the user did not say is asked for."""
    while True:
        tools, tool = offer(d, d.int(1, 6))
        askable = [k for k in tool.required if tool.slots[k].kind != "boolean"]
        if tool.verb and askable:
            break
    gone = d.any(askable)
    values = {k: s.value(d) for k, s in tool.slots.items() if k in tool.required and k != gone}
    user = tool.ask(d, values)
    name = gone.replace("_", " ")
    t = Turn(CHOOSE, user, [say(f"The tool {tool.name} fits, but the {name} is missing. I ask for it.", f"Please tell me the {name}.")],
             {"tools": [], "text": "(?i)" + name}, ("missing argument", gone), [x.spec for x in tools])
    return t


NO_TOOL = "I have no tool for that."


def none_fits(d: Draw) -> Turn:
    """An action for which no tool is on offer."""
    tools, tool = offer(d, d.int(2, 8))
    user, _ = wanted_call(d, tool)
    left = [x for x in tools if x is not tool and not (x.verb and tool.verb and (x.noun == tool.noun))]
    if not left:
        return none_fits(d)
    return Turn(CHOOSE, user, [say("No tool fits what the user wants.", NO_TOOL)], {"tools": [], "text": r"(?i)(no tool|cannot|can't|not able|don't have|do not have)"},
                ("no tool",), [x.spec for x in left])


def make(d: Draw) -> list[Turn]:
    r = d.rng.random()
    if r < 0.08:
        return [none_fits(d)]
    if r < 0.13:
        return [missing(d)]
    return talk(d)
