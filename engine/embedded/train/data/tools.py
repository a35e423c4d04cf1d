"""Tools: made from verbs, nouns and parameters by the thousand, and some common ones by hand.

A user's sentence names the values of parameters in their own phrases; the call
lists them in the order of the tool's schema. What comes back is told by few
rules that hold for every tool: "The status is open and the id is 12.", "The
call failed: not found."
"""

import json
import re

from . import copying, schemas, words
from .draw import Draw, Turn, has, say

CHOOSE, RESULT = "tool_choice", "tool_result"


class Slot:
    """A parameter: its schema, its values and how users say them."""

    def __init__(self, kind: str, description: str, phrases, value, choices=None):
        self.kind, self.description, self.phrases, self.value, self.choices = kind, description, phrases, value, choices

    def schema(self, d: Draw) -> dict:
        s = {"type": "string" if self.kind == "enum" else self.kind}
        if d.chance(0.8):
            s["description"] = d.fill(self.description)
        if self.choices:
            s["enum"] = list(self.choices)
        if self.kind == "array":
            s["items"] = {"type": "string"}
        return s


def _enum(description, phrases, choices):
    return Slot("enum", description, phrases, lambda d: d.any(choices), choices)


def _flag(description, yes, no):
    return Slot("boolean", description, (yes, no), lambda d: d.chance(0.6))


def title(d: Draw) -> str:
    return d.until_fresh(lambda: " ".join(d.some(words.SENTENCE_WORDS + words.OBJECTS, d.int(1, 4))), "title")


def path(d: Draw) -> str:
    def make():
        if not d.heldout and d.chance(0.3):  # names that are in no list of words for paths
            return copying.place(d)
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
    "city": Slot("string", "[Name of the city|The city|City name|Which city]", ["in {v}", "for the city {v}", "at {v}",
        "in the city of {v}", "in the city {v}", "for the city of {v}", "located in {v}", "with the city {v}", "with {v} as the city", "(city: {v})", "with the city set to {v}", "where the city is {v}"], lambda d: d.pick(words.CITIES)),
    "title": Slot("string", "[The title|Title|A short title|How it is called]", ["titled {q}", "with the title {q}", "called {q}", "named {q}",
        "with title {q}", "with the name {q}", "under the title {q}", "under the name {q}", "by the name of {q}", "whose title is {q}", "labelled {q}", "headed {q}", "(title: {q})", "with {q} as the title", "with the title set to {q}", "and call it {q}", "and name it {q}"], title),
    "note": Slot("string", "[Text of the note|The note|A note to go with it|Note]", ["with the note {q}", "saying {q}", "and write {q}",
        "with a note that says {q}", "with a note saying {q}", "with the words {q}", "together with the note {q}", "and add the note {q}", "and add the words {q}", "(note: {q})", "with {q} as the note", "with the text {q}"], title),
    "name": Slot("string", "[Name of the person|Name of the customer|Who it is for|Full name]", ["for {v}", "on behalf of {v}", "under the name {v}",
        "in the name of {v}", "with the name {v}", "with {v} as the name", "for a person called {v}", "for a person named {v}", "(name: {v})", "with the name set to {v}"], lambda d: d.pick(words.NAMES)),
    "recipient": Slot("string", "[Who gets it|The recipient|Name of the recipient|Person to send it to]", ["to {v}", "addressed to {v}",
        "over to {v}", "with {v} as the recipient", "with the recipient {v}", "so that {v} gets it", "so that {v} has it", "(recipient: {v})", "(to: {v})", "where the recipient is {v}", "with the recipient set to {v}"], lambda d: d.pick(words.NAMES)),
    "owner": Slot("string", "[Who is responsible|The owner|Name of the owner|Responsible person]", ["owned by {v}", "with {v} as the owner", "assigned to {v}",
        "with the owner {v}", "with owner {v}", "belonging to {v}", "whose owner is {v}", "(owner: {v})", "under {v} as the owner", "with the owner set to {v}", "where the owner is {v}", "assigned to {v} as the owner"], lambda d: d.pick(words.NAMES)),
    "email": Slot("string", "[Email address|The address|Address for emails]", ["for {v}", "with the email {v}", "using the address {v}",
        "with the address {v}", "with {v} as the email", "using the email {v}", "(email: {v})", "for the address {v}", "with the email address {v}"], lambda d: f"{d.pick(words.NAMES).lower()}{d.int(1, 99)}@{d.any(['mail', 'post', 'work'])}.example"),
    "day": _enum("[Day of the week|The day|Which day|Day]", ["on {v}", "this {v}", "next {v}",
        "for {v}", "for next {v}", "on the coming {v}", "for the coming {v}", "with the day {v}", "with {v} as the day", "(day: {v})", "with the day set to {v}", "where the day is {v}"], words.DAYS),
    "date": Slot("string", "[Date as YYYY-MM-DD|The date, YYYY-MM-DD|Date in the form YYYY-MM-DD]", ["on {v}", "for {v}", "dated {v}",
        "on the date {v}", "for the date {v}", "with the date {v}", "with {v} as the date", "(date: {v})", "on the day {v}", "with the date set to {v}", "where the date is {v}", "with date {v}"], lambda d: d.until_fresh(lambda: f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}", "date")),
    "time": Slot("string", "[Time as HH:MM|The time, HH:MM|Time of the day, HH:MM]", ["at {v}", "starting at {v}",
        "beginning at {v}", "from {v} on", "with the time {v}", "with {v} as the time", "(time: {v})", "with the time set to {v}", "with a start at {v}", "where the time is {v}"], lambda d: f"{d.int(0, 23):02}:{d.any(['00', '15', '30', '45', '10', '50'])}"),
    "id": Slot("integer", "[Number of the record|The id|Id of the record|Its number]", ["with the id {v}", "number {v}", "with id {v}", "#{v}",
        "with the number {v}", "with number {v}", "id {v}", "(id {v})", "(id: {v})", "no. {v}", "that has the id {v}", "that has the number {v}", "whose id is {v}", "whose number is {v}"], lambda d: d.until_fresh(lambda: d.int(2, 99999), "id")),
    "quantity": Slot("integer", "[How many|The quantity|Number of pieces|Quantity]", ["with quantity {v}", "{v} times", "in a quantity of {v}",
        "with the quantity {v}", "with a quantity of {v}", "with {v} as the quantity", "quantity {v}", "(quantity: {v})", "with the quantity set to {v}", "a total of {v} times", "where the quantity is {v}", "exactly {v} times"], lambda d: d.int(2, 60)),
    "limit": Slot("integer", "[Most results to return|The limit|Maximum number of results|How many at most]", ["at most {v}", "limited to {v}", "with a limit of {v}",
        "but at most {v}", "up to {v}", "but not more than {v}", "not more than {v}", "with the limit {v}", "with the limit set to {v}", "(limit: {v})", "{v} at most", "with at most {v} results", "with {v} as the limit"], lambda d: d.int(2, 100)),
    "minutes": Slot("integer", "[Duration in minutes|How many minutes|Length in minutes|Minutes]", ["for {v} minutes", "lasting {v} minutes", "of {v} minutes",
        "for the next {v} minutes", "for a total of {v} minutes", "with a duration of {v} minutes", "with a length of {v} minutes", "taking {v} minutes", "that takes {v} minutes", "(minutes: {v})", "{v} minutes long", "with the minutes set to {v}"], lambda d: d.any([5, 10, 12, 15, 20, 25, 30, 40, 45, 60, 75, 90])),
    "days": Slot("integer", "[Number of days|How many days|Duration in days|Days]", ["for {v} days", "over {v} days",
        "for the next {v} days", "for a total of {v} days", "during {v} days", "for a period of {v} days", "(days: {v})", "with the days set to {v}", "with a duration of {v} days", "until {v} days are over"], lambda d: d.int(2, 30)),
    "price": Slot("number", "[Price in dollars|The price|How much it costs, in dollars|Dollars]", ["for {v} dollars", "at {v} dollars", "priced at {v}",
        "for ${v}", "at ${v}", "priced at {v} dollars", "costing {v} dollars", "that costs {v} dollars", "with a price of {v} dollars", "at a price of {v} dollars", "with the price {v}", "(price: {v})", "with the price set to {v}"], lambda d: d.until_fresh(lambda: _whole(d.int(100, 99999) / 100), "price")),
    "weight": Slot("number", "[Weight in kilograms|How heavy it is, in kilograms|Kilograms]", ["weighing {v} kilograms", "with a weight of {v} kg", "of {v} kg",
        "weighing {v} kg", "that weighs {v} kilograms", "that weighs {v} kg", "with a weight of {v} kilograms", "(weight: {v})", "with the weight {v}", "with the weight set to {v}", "of {v} kilograms"], lambda d: _whole(d.int(1, 400) / 4)),
    "percent": Slot("number", "[Percentage|Percent|The score in percent]", ["at {v} percent", "with {v} percent",
        "with {v}%", "at {v}%", "with a score of {v} percent", "with a rating of {v} percent", "(percent: {v})", "with the percentage {v}", "with the percentage set to {v}", "giving it {v} percent"], lambda d: _whole(d.int(1, 199) / 2)),
    "priority": _enum("[How urgent it is|The priority|Priority|Level of priority]", ["with {v} priority", "with priority {v}", "as {v} priority",
        "with the priority {v}", "with a {v} priority", "with a priority of {v}", "with {v} as the priority", "at {v} priority", "(priority: {v})", "with the priority set to {v}", "where the priority is {v}", "of {v} priority"], ["low", "medium", "high"]),
    "color": _enum("[The colour|Colour|Which colour|The color to use]", ["in {v}", "with the colour {v}", "colored {v}",
        "coloured {v}", "in the colour {v}", "in the color {v}", "with the color {v}", "with {v} as the colour", "(color: {v})", "with the color set to {v}", "where the colour is {v}"], ["red", "green", "blue", "yellow", "black", "white"]),
    "size": _enum("[The size|Size|Which size|How big]", ["in size {v}", "with size {v}", "of {v} size",
        "in the size {v}", "with the size {v}", "with {v} as the size", "sized {v}", "(size: {v})", "with the size set to {v}", "where the size is {v}", "in a {v} size"], ["small", "medium", "large"]),
    "status": _enum("[The state|Status|The status|State of the record]", ["with status {v}", "in the state {v}", "marked as {v}",
        "with the status {v}", "with a status of {v}", "with state {v}", "with {v} as the status", "with the status set to {v}", "(status: {v})", "marked {v}", "where the status is {v}", "in state {v}"], ["open", "closed", "pending"]),
    "format": _enum("[Format of the output|The format|Output format|File format]", ["as {v}", "in {v} format", "formatted as {v}",
        "in the format {v}", "in the {v} format", "with the format {v}", "with {v} as the format", "(format: {v})", "as a {v} file", "with the format set to {v}", "using the format {v}", "where the format is {v}"], ["csv", "json", "pdf", "text"]),
    "language": _enum("[The language|Language of the text|Which language|Language]", ["in {v}", "in the language {v}",
        "with the language {v}", "with {v} as the language", "(language: {v})", "in the {v} language", "with the language set to {v}", "where the language is {v}", "using the language {v}"], ["english", "german", "french", "spanish"]),
    "room": _enum("[Which room|The room|Name of the room|Room]", ["in the {v}", "for the {v}",
        "inside the {v}", "over in the {v}", "located in the {v}", "(room: {v})", "with the room {v}", "with {v} as the room", "with the room set to {v}"], ["kitchen", "bedroom", "bathroom", "office", "garage", "hallway"]),
    "notify": _flag("[Whether to notify everybody|Notify everybody|Tell the others about it]", ["and notify everybody", "and tell the others", "with a notification", "and let everybody know", "and notify the others", "and tell everybody", "with a notification to everybody", "and send a notification", "(notify: true)", "and inform everybody"],
        ["without notifying anybody", "and do not notify anybody", "without a notification", "and tell nobody", "and do not tell the others", "and let nobody know", "but notify nobody", "and send no notification", "(notify: false)", "without telling the others"]),
    "urgent": _flag("[Whether it is urgent|Is it urgent|Urgent or not]", ["and mark it as urgent", "and it is urgent", "as urgent", "since it is urgent", "and it is very urgent", "marked as urgent", "and flag it as urgent", "(urgent: true)", "with the urgent flag", "and treat it as urgent"],
        ["and it is not urgent", "but not as urgent", "not urgent", "since it is not urgent", "not marked as urgent", "and do not mark it as urgent", "and it is not urgent at all", "(urgent: false)", "without the urgent flag", "and do not treat it as urgent"]),
    "private": _flag("[Whether it is private|Keep it private|Private or public]", ["and keep it private", "as private", "and make it private", "so that it is private", "marked as private", "(private: true)", "and let nobody else see it", "but keep it private", "and set it to private"],
        ["and make it public", "as public", "not private", "so that it is public", "marked as public", "(private: false)", "and let everybody see it", "and do not keep it private", "but not as private", "and set it to public"]),
    "dry_run": _flag("[Only show what would happen|Try it without changing anything|Dry run]", ["as a dry run", "but only as a dry run", "in dry run mode", "and make it a dry run", "with a dry run", "(dry run: true)", "as a dry run only", "but just as a dry run", "using a dry run", "and only do a dry run"],
        ["and not as a dry run", "for real, no dry run", "with no dry run", "and do it for real", "not as a dry run", "(dry run: false)", "without a dry run", "and not just as a dry run", "but no dry run", "for real"]),
    "recurring": _flag("[Whether it repeats|Does it repeat|Repeat it regularly]", ["and repeat it", "as recurring", "and make it recurring", "and let it repeat", "so that it repeats", "as a recurring one", "(recurring: true)", "with repetition", "and have it repeat", "and set it to recurring"],
        ["only once", "not recurring", "and do not repeat it", "and do not make it recurring", "just once", "(recurring: false)", "without repetition", "and do not let it repeat", "one time only", "so that it does not repeat"]),
}

# Lists, for training: in a call they are written as JSON.
LISTS = {
    "tags": Slot("array", "[Tags|Labels for it|Some tags]", ["tagged {v}", "with the tags {v}", "with tags {v}", "labelled with {v}", "(tags: {v})", "under the tags {v}"], lambda d: d.some(words.SHORT, d.int(1, 4))),
    "people": Slot("array", "[Who takes part|Names of people|The people]", ["with {v}", "together with {v}", "and invite {v}", "for {v}", "(people: {v})", "so that {v} take part"], lambda d: d.some(words.NAMES, d.int(1, 4))),
    "items": Slot("array", "[The things|What is in it|List of items]", ["with {v} in it", "containing {v}", "with the items {v}", "(items: {v})", "made of {v}"], lambda d: d.some(words.FOODS, d.int(1, 5))),
}

# A verb: its words, what its description says, parameters that go with it, what comes back.
VERBS = {
    "create": (["create", "make", "add", "set up", "generate", "register", "enter", "record"],
        "[Create|Add|Make|Set up] a new {n}.", ["title", "priority", "owner", "day", "date", "quantity", "notify", "urgent", "private", "color", "size"], "made"),
    "delete": (["delete", "remove", "get rid of", "erase", "discard", "wipe", "throw away", "throw out", "take away", "drop"],
        "[Delete|Remove|Erase] [an existing|the given|the] {n}.", ["id", "notify", "dry_run"], "done"),
    "update": (["update", "change", "edit", "modify", "adjust", "alter", "revise", "correct", "make changes to", "rework"],
        "[Change|Update|Edit|Modify] [an existing|the given|the] {n}.", ["id", "title", "status", "priority", "owner", "notify", "price"], "done"),
    "get": (["show", "get", "look up", "open", "fetch", "find", "retrieve", "display", "view", "read", "pull up", "bring up", "show me", "give me", "get me", "let me see"],
        "[Get|Show|Fetch|Find|Read] [one|the] {n} by its [number|id].", ["id", "format", "language"], "record"),
    "list": (["list all", "show all", "give me all", "list", "list me all", "show me all", "get all", "get me all", "find all", "fetch all", "display all", "show the", "show me the", "give me the list of"],
        "[List|Show|Get] [the|all] {n} records.", ["status", "limit", "owner", "city", "format"], "list"),
    "send": (["send", "mail", "forward", "pass on", "hand over", "transmit", "email", "post"],
        "[Send|Mail|Forward] [the|one] {n} to [somebody|a person|someone].", ["recipient", "id", "note", "urgent", "format"], "done"),
    "cancel": (["cancel", "call off", "abort", "withdraw", "revoke", "annul"],
        "[Cancel|Call off] [the|one|an existing] {n}.", ["id", "date", "notify"], "done"),
    "schedule": (["schedule", "plan", "arrange", "set a date for", "set a time for", "find a time for", "fix a date for", "organize", "organise", "line up"],
        "[Schedule|Plan|Arrange] [the|one] {n}.", ["title", "day", "date", "time", "minutes", "recurring", "notify"], "made"),
    "archive": (["archive", "store away", "put away", "file away", "shelve"],
        "[Move|Put] [the|one] {n} [to|into] the archive.", ["id", "private", "dry_run"], "done"),
    "print": (["print", "print out", "make a printout of", "get a printout of", "do a printout of", "run off"],
        "[Print|Print out] [the|one] {n}[ on paper|].", ["id", "quantity", "color", "size"], "done"),
    "export": (["export", "save", "download", "write out", "dump", "make an export of", "do an export of"],
        "[Export|Save|Write] [the|one] {n} to a file.", ["id", "format", "language", "private"], "done"),
    "copy": (["copy", "duplicate", "clone", "replicate", "make a copy of", "make a duplicate of", "create a copy of", "create a duplicate of"],
        "[Make a copy of|Copy|Duplicate] [the|one] {n}.", ["id", "title", "quantity"], "made"),
    "order": (["order", "buy", "purchase", "place an order for", "put in an order for", "make an order for", "procure", "acquire"],
        "[Order|Buy] [the|one] {n}.", ["quantity", "color", "size", "price", "urgent", "city", "name"], "made"),
    "count": (["count", "count up", "count all", "count all the", "tally", "tally up", "find the number of", "give me the number of", "tell me the number of", "work out the number of"],
        "[Count|Give the number of] [the|all] {n} records.", ["status", "city", "owner"], "count"),
    "lock": (["lock", "block", "freeze", "seal", "lock down", "put a lock on", "secure", "protect"],
        "[Lock|Freeze|Block] [the|one] {n} so that nobody [changes|can change] it.", ["id", "minutes", "notify"], "done"),
    "share": (["share", "share access to", "share a link to", "share the link to"],
        "[Share|Give access to] [the|one] {n}[ with a person| with somebody].", ["recipient", "id", "days", "notify"], "done"),
    "start": (["start", "begin", "launch", "kick off", "start up", "initiate", "activate", "get going with"],
        "[Start|Begin|Launch] [the|one] {n}.", ["id", "time", "minutes", "dry_run", "room"], "done"),
    "stop": (["stop", "halt", "end", "terminate", "shut down", "put a stop to", "put an end to", "discontinue"],
        "[Stop|End|Halt] [the|one|the running] {n}.", ["id", "urgent", "room"], "done"),
    "rate": (["rate", "review", "evaluate", "score", "assess", "judge", "grade", "give a rating to", "give a rating for", "leave a rating for", "leave a review of"],
        "[Rate|Review|Give a rating to] [the|one] {n}.", ["id", "percent", "note", "private"], "done"),
    "ship": (["ship", "deliver", "dispatch", "transport", "make a delivery of", "make a shipment of", "take care of the delivery of"],
        "[Ship|Deliver|Transport] [the|one] {n} to a city.", ["id", "city", "weight", "price", "urgent"], "done"),
}
NOUNS = """invoice ticket task order report meeting event contract project customer product booking reservation payment document message backup
job recipe playlist survey discount coupon parcel shipment account budget course lesson exam vehicle machine sensor camera device printer
server database table article page comment photo video song album poster form template workflow pipeline release issue branch campaign
newsletter subscription membership license appointment visit tour trip hotel flight train ride menu dish grocery medicine prescription patient
animal plant garden robot drone elevator alarm heater lamp fan pump valve warehouse shelf package loan refund receipt salary candidate""".split()

# Names whose first token does not say what the tool does, which are the hardest to find.
NOUN_FIRST = [lambda v, n: f"{n}_{v}", lambda v, n: f"mcp__{n}s__{v}"]
NAME_STYLES = [lambda v, n: f"{v}_{n}", lambda v, n: f"{v}_{n}", lambda v, n: v + n.title(), lambda v, n: v.title() + n.title(), lambda v, n: f"{v}-{n}", *NOUN_FIRST,
               lambda v, n: f"{v}{n.title()}"]
TRAINED_STYLES = [*NAME_STYLES, *NOUN_FIRST, NOUN_FIRST[-1]]


# In training things are of more kinds than an evaluation has.
MORE_NOUNS = sorted(set(words.OBJECTS + words.LONG) - set(NOUNS) - set(VERBS) - set("""clock calculator map radio guitar piano harvest holiday kitchen bedroom
saturday monday october december spring summer autumn winter weather message result nothing because another between exactly forward weekend
yesterday tonight morning evening midnight minute number object question answer record return listen imagine improve protect promise""".split()))


def _other_word(d: Draw) -> str:
    while (w := copying.plain_name(d)) in VERBS or w in NOUNS:
        pass
    return w


def _name(d: Draw, verb: str, noun: str) -> str:
    """What a tool is called. In training a quarter have something before or behind that nobody can guess, and some a
    name that says nothing: it has to be found in the prompt."""
    name = d.any(NAME_STYLES if d.heldout else TRAINED_STYLES)(verb, noun)
    r = 1 if d.heldout else d.rng.random()
    if r < 0.06:
        return re.sub("[./]", "_", copying.identifier(d))
    if r < 0.2:
        return _other_word(d) + d.any(["_", "__", "-"]) + name
    if r < 0.3:
        return name + d.any(["_", "__", "-"]) + d.any([_other_word(d), f"v{d.int(1, 9)}", str(d.int(1, 99))])
    return name


class Tool:
    """A tool, how users ask for it, and what it returns."""

    def __init__(self, name, description, slots: dict[str, Slot], required, sentence, returns, d: Draw):
        self.name, self.slots, self.required, self.sentence, self.returns = name, slots, required, sentence, returns
        parameters = {"type": "object", "properties": {k: s.schema(d) for k, s in slots.items()}, "required": list(required)}
        if d.chance(0.15):
            parameters["additionalProperties"] = False
        if not d.heldout and d.chance(0.4):
            parameters = schemas.dressed(d, parameters)
        self.spec = {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}

    def values(self, d: Draw) -> dict:
        """What a user says: all that is required, and some of the rest."""
        return {k: s.value(d) for k, s in self.slots.items() if k in self.required or d.chance(0.4)}

    def ask(self, d: Draw, values: dict) -> str:
        return self.sentence(d, self, values)


def phrase(d: Draw, slot: Slot, v) -> str:
    if slot.kind == "boolean":
        return d.any(slot.phrases[0] if v else slot.phrases[1])
    if slot.kind == "array":
        return d.any(slot.phrases).format(v=words.listed(v))
    return d.any(slot.phrases).format(v=v, q=_quoted(d, v))


POLITE = ["{s}", "{s}", "{s}", "[Please|Now|Then] {s}", "Can you {s}", "Could you [please |]{s}", "I want you to {s}", "I need you to {s}", "[Hey|Hi], {s}", "Would you {s}", "{s}, please", "Your task: {s}", "It is time to {s}",
          "{s}", "{s}", "{s}", "{s}", "{s}", "{s}", "{s}", "{s}", "{s}", "Can you [please |]{s}", "Could you {s}", "I'd like you to {s}", "I would like you to {s}", "[OK|Okay|Right|Well|So], {s}", "{s}[, thanks|, thank you|, thank you very much]",
          "Would you [please |kindly ]{s}", "Kindly {s}", "Go ahead and {s}", "Next[, |: ]{s}", "Do this[ for me|]: {s}", "[My request|The task|The job|Task|Request|To do]: {s}", "Can I ask you to {s}",
          "Could I ask you to {s}", "Can you help me and {s}", "Could you help us and {s}", "Please help me: {s}", "[Quick one|Quick request|One more thing|First thing today|Next job]: {s}", "Would it be possible to {s}",
          "I have a [task|job|request] for you: {s}", "Here is [a task|a request|what I need]: {s}", "What I need[ from you|]: {s}", "[Hello|Good morning|Good day], {s}", "[Hello|Hi], please {s}", "[Hello|Hi], I want you to {s}",
          "Be so kind and {s}", "Be so good as to {s}", "I must ask you to {s}", "I was asked for this: {s}", "We need this for work: {s}", "My boss wants this: {s}", "The next step is to {s}", "You should {s}",
          "You have to {s}", "Make sure to {s}", "[Do not|Don't] forget to {s}", "Use the [right tool|tools] and {s}", "Use a tool to {s}", "With your tools, {s}", "{s}. That is all", "{s}. Thank you", "{s}, if you can",
          "I am busy, so {s}", "If you can, {s}"]


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
    if not d.heldout and d.chance(0.12):
        more = d.any(list(LISTS))
        slots[more] = LISTS[more]
    keys = list(slots)
    required = [k for k in keys if k.endswith("id") or d.chance(0.5)] or keys[:1]
    text = d.fill(description, n=noun)
    if d.chance(0.2):
        text = d.any(["Use this to " + text[0].lower() + text[1:], text + " Returns JSON.", text[:-1] + f" of the {d.any(['company', 'user', 'system', 'team'])}."])
    t = Tool(_name(d, verb, noun), text, slots, required, _fixed(_generic_sentence(verb, noun), slots), returns, d)
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
    (["get_weather", "weather", "current_weather", "getWeather", "weather_now", "fetch_weather"], "Get the current weather of a city.", {"city": _v("string", "City name", CITY)}, ["city"],
     ["[What is|What's|How is] the weather [like |]in {city}?", "[Tell|Show] me the weather in {city}.", "Is it [cold|warm|raining|sunny] in {city}?", "Weather in {city}[?|, please.]", "[How|What] is the temperature in {city}?", "Do I need a coat in {city}?",
      "What does the sky look like in {city} now?", "Check the weather of {city}.",
      "What's it like outside in {city}[ right now| today|]?", "How warm is it in {city}[ at the moment| right now|]?", "[Hey, |Quick question: |]what is the weather in {city} [right now|today]?",
      "Is it [hot|windy|snowing|dry] in {city}[ right now| today|]?", "Do I need [an umbrella|a jacket|sunglasses|warm clothes] in {city}[ today|]?", "{city} weather[ now| today|][, please|]", "Weather: {city}",
      "I am [travelling|flying|going] to {city}. What is the weather [like |]there?", "I am in {city}. [How warm is it|What is the weather like] outside?", "[Please |]get [me |]the [current |]weather [for|of|in] {city}.",
      "Can you [check|find out|look up|tell me] the weather in {city}?", "Could you [check|tell me] how warm it is in {city}?", "I [want|would like|need] to know the weather in {city}.",
      "I'd like the [current |]weather for {city}[, please|].", "What are the weather conditions in {city}[ now|]?", "[Look up|Find out|Fetch] the [temperature|weather] in {city}.",
      "How [cold|hot] is it in {city} [now|today|outside]?", "Give me the temperature in {city}[, please|].", "Current [weather|temperature] in {city}[?|]", "ok so how's the weather in {city}?",
      "How does the weather look in {city}[ today|]?", "My sister lives in {city}. How is the weather there?", "Is the sun shining in {city}[ today| now|]?"],
     lambda d, a: {"temperature": d.int(-10, 35), "sky": d.any(["clear", "cloudy", "rainy", "snowy"])}),
    (["get_forecast", "weather_forecast", "forecast", "get_weather_forecast", "getForecast"], "Get the weather forecast for the coming days.", {"city": _v("string", "City name", CITY), "days": _v("integer", "How many days", lambda d: d.int(2, 14)), "unit": _v("enum", "Unit of temperature", lambda d: d.any(["celsius", "fahrenheit"]), ["celsius", "fahrenheit"])}, ["city", "days", "unit"],
     ["[What is|Give me|Show] the forecast for {city} for the next {days} days in {unit}[?|.]", "{days} day forecast for {city} in {unit}", "How will the weather be in {city} over the next {days} days, in {unit}?", "I need a forecast in {unit} for {city}, {days} days.",
      "Forecast: {city}, {days} days, {unit}.", "Get me {days} days of forecast for {city} in {unit}.",
      "What will the weather be like in {city} for the next {days} days in {unit}?", "[Please |]get the forecast for {city}, next {days} days, unit {unit}.",
      "I am travelling to {city} for {days} days. Give me the forecast in {unit}.", "Can you [show|give|get] me a {days} day forecast for {city} in {unit}?",
      "Could you tell me the weather in {city} for the coming {days} days, in {unit}?", "The next {days} days in {city}: what is the forecast in {unit}?",
      "[What|How] will the weather in {city} be in the next {days} days? [Please use|Use] {unit}.", "{city}, {days} days, {unit}: what is the forecast?",
      "Show [me |]the weather of the next {days} days in {city}, in {unit}[, please|].", "[Hey, |Hi, |]how warm will it be in {city} over the coming {days} days in {unit}?",
      "Weather forecast for {city}, {days} days, in {unit}[, please|]", "Fetch the {days} day weather forecast of {city} in {unit}.", "I want to know how the weather in {city} will be for {days} days, in {unit}.",
      "In {unit}, what does the forecast say for {city} over {days} days?", "I would like the forecast for {city} for {days} days in {unit}.",
      "Tell me the forecast for the coming {days} days in {city}. The unit is {unit}.", "Will it be warm in {city} in the next {days} days? Show it in {unit}.", "Look up the forecast in {unit} for {city} for {days} days.",
      "{days} days of weather in {city}, in {unit}[, please|].", "Plan my trip: forecast for {city}, {days} days, {unit}."], lambda d, a: {"high": d.int(5, 35), "low": d.int(-9, 4), "rain": d.any(["none", "some", "a lot"])}),
    (["calculator", "calculate", "compute", "math_eval", "calc", "evaluate_expression"], "Evaluate an arithmetic expression.", {"expression": _v("string", "The expression", lambda d: d.until_fresh(lambda: f"{d.int(10, 9999)} {d.any('+-*/')} {d.int(2, 999)}", "expression"))}, ["expression"],
     ["[Use the calculator for|Calculate|Compute|Evaluate] {expression}[.|]", "What does the calculator say for {expression}?", "[Please |]run {expression} through the calculator.", "I need the exact result of {expression} from the calculator.", "Let the tool compute {expression}.",
      "What is {expression}? Use the calculator[, please|].", "[Please |]use the calculator [tool |]to [compute|work out|evaluate] {expression}.", "Can you calculate {expression}[ for me| with the calculator|]?",
      "Could you [compute|work out|evaluate] {expression} with the calculator?", "Calculator: {expression}", "Work out {expression}[ for me| with the calculator|].", "Evaluate the expression {expression}[, please|].",
      "Compute this[ for me| with the tool|]: {expression}", "Calculate this expression: {expression}", "I need {expression} [calculated|computed|evaluated].",
      "[Hey, |ok so |]what does {expression} come to? Use the tool.", "Put {expression} into the calculator.", "Type {expression} into the calculator[ and tell me the result|].",
      "What is the [value|result] of the expression {expression}?", "Get the result of {expression}[ from the calculator|].", "Let the calculator [evaluate|work out] {expression}.",
      "{expression}: calculate it[, please| with the tool].", "I have to check a bill: calculate {expression}.", "Do the maths[ for me|] with the calculator: {expression}",
      "Find the value of {expression} with the calculator."],
     lambda d, a: {"result": _evaluated(a["expression"])}),
    (["web_search", "search", "WebSearch", "search_web", "internet_search", "search_internet", "google_search"], "Search the web.", {"query": _v("string", "What to search for", title)}, ["query"],
     ["Search [the web |online |]for \"{query}\".", "Look up \"{query}\" [online|on the web].", "[Find|Show me] web pages about \"{query}\".", "[Please |]do a web search for \"{query}\".", "Google \"{query}\".", "What does the web say about \"{query}\"?",
      "Search the [internet|web|net] for \"{query}\"[, please|].", "Can you [search|look] [the web|online|the internet] for \"{query}\"?", "Could you [look up|google|search for] \"{query}\" [online|on the internet]?",
      "[Please |]find [information|something|pages] [online |on the web ]about \"{query}\".", "Web search: \"{query}\"", "Search: \"{query}\"", "I want to [search the web for|google|look up online] \"{query}\".",
      "I need information from the [web|internet] about \"{query}\".", "What can you find [online|on the web|on the internet] about \"{query}\"?", "[Do|Run|Start|Make] a [web|internet|Google] search for \"{query}\".",
      "Look on the [internet|web] for \"{query}\".", "[Hey, |Quick one: |]google \"{query}\"[ for me|].", "Find \"{query}\" [on the internet|on the web|online][ for me|].", "\"{query}\": search the web for it[, please|].",
      "\"{query}\". What does the internet say about that?", "See what the [internet|web] has on \"{query}\".", "I am writing an article. Search the web for \"{query}\".", "Use the [web |]search to find \"{query}\".",
      "Which [web pages|websites] are about \"{query}\"?", "Are there any [web pages|websites] about \"{query}\"?", "Let me know what the web says about \"{query}\".", "Get me search results for \"{query}\"[, please|]."],
     lambda d, a: [title(d), title(d)]),
    (["get_time", "current_time", "time_in_city", "clock", "get_current_time", "getTime", "local_time", "world_clock"], "Get the current local time of a city.", {"city": _v("string", "City name", CITY)}, ["city"],
     ["What time is it in {city}?", "[Tell|Give] me the [local |]time in {city}.", "How late is it in {city}?", "Current time in {city}?", "What is the clock in {city} showing?", "Is it night in {city}?",
      "What's the time in {city}[ right now| now|]?", "[Please |]tell me what time it is in {city}.", "What is the [local|current|exact] time in {city}?", "Can you [tell|give] me the [current |local |]time in {city}?",
      "Could you [check|look up] what time it is in {city}?", "Time in {city}[?|, please.]", "[Hey, |Quick question: |]what time do they have in {city}?", "I want to call somebody in {city}. What time is it there?",
      "My brother is in {city}. What time is it there[ now|]?", "What time is it [now|right now|at the moment] in {city}?", "How late is it [now |]in {city}?", "Get [me |]the [current|local] time of {city}.",
      "Show [me |]the [clock|local time] of {city}.", "Is it [morning|evening|day|afternoon] in {city}[ now|]?", "I need [to know |]the [current |local |]time in {city}.", "[Check|Look up|Find out] the time in {city}.",
      "{city}: what time is it there?", "{city} time[, please|?|]", "What hour is it in {city}[ now|]?", "Do you know what time it is in {city}?", "I'd like to know the local time in {city}."], lambda d, a: {"time": f"{d.int(0, 23):02}:{d.int(0, 59):02}"}),
    (["convert_currency", "currency_converter", "exchange", "currency_convert", "convertCurrency", "exchange_money"], "Convert an amount of money from one currency to another.", {"amount": _v("number", "How much", lambda d: d.until_fresh(lambda: _whole(d.any([d.int(1, 5000), d.int(100, 99999) / 100])), "amount")), "from": _v("enum", "Currency to convert from", lambda d: d.any(["USD", "EUR"]), ["USD", "EUR", "GBP", "JPY", "CHF"]), "to": _v("enum", "Currency to convert to", lambda d: d.any(["GBP", "JPY", "CHF"]), ["USD", "EUR", "GBP", "JPY", "CHF"])},
     ["amount", "from", "to"], ["Convert {amount} {from} to {to}.", "How much is {amount} {from} in {to}?", "[What are|Change] {amount} {from} in {to}[?|.]", "I have {amount} {from}, how many {to} is that?", "{amount} {from} to {to}", "Exchange {amount} {from} for {to}.",
      "[Please |]convert {amount} {from} [into|to] {to}.", "Can you [convert|change|exchange] {amount} {from} [to|into] {to}?", "How [much|many] {to} [is|are] {amount} {from}?",
      "How many {to} do I get for {amount} {from}?", "Could you tell me how much {amount} {from} is in {to}?", "What is {amount} {from} worth in {to}?", "What is the value of {amount} {from} in {to}?",
      "Currency: {amount} {from} to {to}", "I want to [change|exchange|convert] {amount} {from} into {to}.", "I paid {amount} {from}. How much is that in {to}?", "The bill is {amount} {from}. What is that in {to}?",
      "The hotel costs {amount} {from}. Convert it to {to}.", "Turn {amount} {from} into {to}[, please|].", "{amount} {from} in {to}[?|, please.]", "If I [change|exchange] {amount} {from}, how many {to} do I get?",
      "I need {amount} {from} converted to {to}.", "Work out {amount} {from} in {to}[ for me|].", "[Hey, |ok so |]how much is {amount} {from} in {to}[ today|]?", "Tell me the value of {amount} {from} in {to}.",
      "Show me {amount} {from} in {to}.", "Give me the {to} amount for {amount} {from}.", "From {from} to {to}: {amount}"], lambda d, a: {"amount": d.int(100, 99999) / 100}),
    (["translate", "translate_text", "translator", "translateText", "translation"], "Translate a text.", {"text": _v("string", "Text to translate", title), "language": _v("enum", "Target language", lambda d: d.any(["german", "french", "spanish", "italian"]), ["german", "french", "spanish", "italian"])}, ["text", "language"],
     ["Translate \"{text}\" [to|into] {language}.", "How do you say \"{text}\" in {language}?", "What is \"{text}\" in {language}?", "[Give me|I need] the {language} translation of \"{text}\".", "Say \"{text}\" in {language}.", "{language} for \"{text}\"?",
      "[Please |]translate \"{text}\" [to|into] {language}.", "Can you translate \"{text}\" [to|into] {language}[ for me|]?", "Could you [translate|put] \"{text}\" into {language}?", "Into {language}, please: \"{text}\"",
      "Translate [this |]into {language}: \"{text}\"", "Translate to {language}: \"{text}\"", "Translation into {language}: \"{text}\"", "What does \"{text}\" mean in {language}?",
      "I need \"{text}\" [in|translated into] {language}.", "What would \"{text}\" be in {language}?", "[Put|Turn] \"{text}\" into {language}.", "How would I say \"{text}\" in {language}?",
      "How do I [write|say] \"{text}\" in {language}?", "[Write|Give me|Tell me] \"{text}\" in {language}.", "\"{text}\" in {language}[, please|?]", "\"{text}\". Translate that [to|into] {language}.",
      "I want to say \"{text}\" in {language}.", "My friend only speaks {language}. Translate \"{text}\" for her.", "What is the {language} for \"{text}\"?", "I am learning {language}. How do you say \"{text}\"?",
      "Give me a translation of \"{text}\" into {language}.", "[Hey, |Quick one: |]how do people say \"{text}\" in {language}?", "I have to write a letter in {language}. Translate \"{text}\"."], lambda d, a: {"translation": title(d)}),
    (["set_timer", "timer", "start_timer", "create_timer", "setTimer", "countdown"], "Start a timer.", {"minutes": _v("integer", "Minutes until it rings", lambda d: d.int(1, 120)), "label": _v("string", "What it is for", lambda d: d.any(words.FOODS + words.HOBBIES))}, ["minutes"],
     ["Set a timer for {minutes} minutes[ with the label|, label] {label}.", "Start a {minutes} minute timer for {label}.", "[Wake|Remind] me in {minutes} minutes, label {label}.", "Timer: {minutes} minutes, {label}.", "Let the timer for {label} run {minutes} minutes.", "I need a timer of {minutes} minutes called {label}.",
      "[Please |]set a {minutes} minute timer for {label}.", "Can you [set|start] a timer [for|of] {minutes} minutes[ called| with the label|, label] {label}?",
      "Could you [set|start] a {minutes} minute timer called {label}?", "Set the timer to {minutes} minutes[, label| and call it] {label}.", "Start a timer called {label} for {minutes} minutes.",
      "Start [a timer|the timer] of {minutes} minutes with the label {label}.", "Put {minutes} minutes on the timer for {label}.", "Count down {minutes} minutes for {label}.", "Timer for {label}: {minutes} minutes",
      "Timer for {label}, {minutes} minutes[, please|].", "{minutes} minute timer, label {label}", "{minutes} minutes for {label}, start the timer.", "{label}: set a timer for {minutes} minutes.",
      "I need a {minutes} minute timer for {label}.", "I want a timer labelled {label} that rings in {minutes} minutes.", "I am busy with {label}. Set a timer for {minutes} minutes.",
      "[Hey, |ok, |]set a timer for {label}, {minutes} minutes.", "Ring in {minutes} minutes for {label}.", "Let a timer called {label} run for {minutes} minutes.", "Make a timer for {label} that runs {minutes} minutes.",
      "Start the countdown for {label}: {minutes} minutes."], lambda d, a: {"status": "started"}),
    (["send_email", "email", "sendEmail", "mail_send", "compose_email", "mail"], "Send an email.", {"to": _v("string", "Address", lambda d: f"{NAME(d).lower()}@{d.any(['mail', 'post', 'work'])}.example"), "subject": _v("string", "Subject line", title), "body": _v("string", "Text of the email", title)}, ["to", "subject", "body"],
     ["Send an email to {to} with the subject \"{subject}\" and the text \"{body}\".", "Email {to}: subject \"{subject}\", text \"{body}\".", "Write to {to}. Subject: \"{subject}\". Text: \"{body}\".", "Mail \"{body}\" to {to}, subject \"{subject}\".", "[Please |]write an email with subject \"{subject}\" to {to} saying \"{body}\".",
      "[Please |]send [an email|a mail] to {to}. The subject is \"{subject}\" and the text is \"{body}\".", "Can you [email|send an email to] {to} with the subject \"{subject}\" and the text \"{body}\"?",
      "Could you write an email to {to}, subject \"{subject}\", text \"{body}\"?", "Email to {to}. Subject: \"{subject}\". Text: \"{body}\".", "To: {to}, subject: \"{subject}\", text: \"{body}\". Send this email.",
      "New email: to {to}, subject \"{subject}\", body \"{body}\".", "Send {to} an email with the subject \"{subject}\" that says \"{body}\".",
      "I [want|need] to send an email to {to} with the subject \"{subject}\" and the body \"{body}\".", "Write an email to {to} with the subject \"{subject}\" and the body \"{body}\".",
      "[Mail|Email] {to} with the subject \"{subject}\" and say \"{body}\".", "Send an email with the subject \"{subject}\" and the body \"{body}\" to {to}.",
      "Send a mail titled \"{subject}\" to {to}. It should say \"{body}\".", "Send \"{body}\" by email to {to} under the subject \"{subject}\".", "With the subject \"{subject}\", email \"{body}\" to {to}.",
      "The subject is \"{subject}\", the text is \"{body}\". Email it to {to}.", "[Hey, |]email {to} about \"{subject}\" and write \"{body}\".", "Let {to} know by email: subject \"{subject}\", text \"{body}\".",
      "Compose an email to {to}: subject \"{subject}\", body \"{body}\".", "Please mail {to}. Use the subject \"{subject}\" and the text \"{body}\".",
      "I have to write to {to}. Subject \"{subject}\", text \"{body}\". Send the email."], lambda d, a: {"status": "sent"}),
    (["send_message", "message_user", "text_message", "send_chat", "sendMessage", "post_message"], "Send a chat message to a person.", {"recipient": _v("string", "Who gets it", NAME), "text": _v("string", "The message", title)}, ["recipient", "text"],
     ["Tell {recipient} \"{text}\".", "Send [a message|the message] \"{text}\" to {recipient}.", "[Message|Text|Write to] {recipient}: \"{text}\"", "Let {recipient} know: \"{text}\".", "Send {recipient} the text \"{text}\".", "Give {recipient} this message: \"{text}\".",
      "[Please |]send {recipient} a message: \"{text}\"", "Can you [message|text|write to] {recipient}: \"{text}\"?", "Could you send {recipient} the message \"{text}\"?", "[Please |]text {recipient} \"{text}\".",
      "[Please |]tell {recipient} this: \"{text}\"", "Send a message to {recipient} that says \"{text}\".", "Send a message to {recipient}: \"{text}\"", "Message to {recipient}: \"{text}\"",
      "Message {recipient} with the text \"{text}\".", "Write \"{text}\" to {recipient}[, please|].", "Write {recipient} a message saying \"{text}\".", "Write {recipient} a [short |]message: \"{text}\"",
      "I want to [text|message] {recipient} \"{text}\".", "I need to send {recipient} this message: \"{text}\"", "[Hey, |]let {recipient} know that I said \"{text}\".", "Text \"{text}\" to {recipient}.",
      "\"{text}\". Send that to {recipient}.", "\"{text}\": pass this message on to {recipient}.", "Pass the message \"{text}\" on to {recipient}.", "Drop {recipient} a message: \"{text}\"",
      "{recipient} should get this message: \"{text}\"", "I am late. Send {recipient} the message \"{text}\"."], lambda d, a: {"status": "delivered"}),
    (["set_lights", "light_control", "lights", "setLights", "switch_lights", "control_lights"], "Switch the lights of a room.", {"room": _v("enum", "Which room", lambda d: d.any(["kitchen", "bedroom", "office", "hallway"]), ["kitchen", "bedroom", "office", "hallway"]), "on": _v("boolean", "On or off", lambda d: d.chance(0.5))}, ["room", "on"],
     ["Turn {on!} the [light|lights] in the {room}.", "Switch {on!} the {room} [light|lights].", "[Light|Lights] {on!} in the {room}[.|, please.]", "Turn the {room} lights {on!}.", "I want the lights in the {room} {on!}.", "Make sure the {room} light is {on!}.",
      "[Please |]turn the {room} [light|lights] {on!}.", "[Please |]switch the [light|lights] in the {room} {on!}.", "Can you [turn|switch] {on!} the [light|lights] in the {room}?",
      "Could you [turn|switch] the {room} [light|lights] {on!}?", "{room} [light|lights] {on!}[, please|]", "{room}: [light|lights] {on!}", "Turn {on!} the {room} [light|lights][, please|].",
      "Set the {room} lights to {on!}.", "Set the lights in the {room} to {on!}.", "The [light|lights] in the {room} should be {on!}.", "I am in the {room}. Turn the lights {on!}.",
      "I [want|need] the {room} lights {on!}[, please|].", "I'd like the {room} lights {on!}.", "[Hey, |]the {room} lights {on!}, please.", "Put the lights in the {room} {on!}.", "Switch {on!} every light in the {room}.",
      "Get the {room} lights {on!}.", "Could the lights in the {room} be {on!}?", "Make the {room} light go {on!}.", "Please have the lights in the {room} {on!}.", "We need the lights in the {room} {on!}."], lambda d, a: {"state": "on" if a["on"] else "off"}),
    (["set_temperature", "thermostat", "heating", "set_heating", "setTemperature", "set_thermostat"], "Set the temperature of the heating in degrees Celsius.", {"degrees": _v("number", "Target temperature", lambda d: _whole(d.int(28, 52) / 2)), "room": _v("enum", "Which room", lambda d: d.any(["kitchen", "bedroom", "office"]), ["kitchen", "bedroom", "office"])}, ["degrees", "room"],
     ["Set the [heating|thermostat|temperature] in the {room} to {degrees} degrees.", "Make it {degrees} degrees in the {room}.", "I want {degrees} degrees in the {room}.", "Heat the {room} to {degrees} degrees.", "{room} to {degrees} degrees, please.", "Change the temperature of the {room} to {degrees}.",
      "[Please |]set the [heating|thermostat|temperature] of the {room} to {degrees}[ degrees|].", "Can you [set|change|turn] the [heating|thermostat] in the {room} to {degrees} degrees?",
      "Could you make it {degrees} degrees in the {room}?", "Could you heat the {room} to {degrees} degrees?", "Turn the [heating|thermostat] in the {room} to {degrees}[ degrees|].",
      "{degrees} degrees in the {room}[, please|]", "Heating in the {room}: {degrees} degrees", "Thermostat, {room}, {degrees} degrees[, please|]", "{room}: {degrees} degrees",
      "The {room} should [be|have] {degrees} degrees.", "It is not warm enough. Set the {room} to {degrees} degrees.", "I am in the {room} and need {degrees} degrees here.",
      "I [need|would like] {degrees} degrees in the {room}.", "Bring the {room} to {degrees} degrees.", "Put the {room} thermostat at {degrees}[ degrees|].", "Put the heating in the {room} at {degrees} degrees.",
      "Change the [thermostat|heating] in the {room} to {degrees}[ degrees|].", "[Hey, |]make the {room} {degrees} degrees[ warm|].", "Please heat the {room} to {degrees} degrees.",
      "We want it to be {degrees} degrees in the {room}."], lambda d, a: {"status": "ok"}),
    (["play_music", "music_player", "play_song", "play_track", "playMusic", "play"], "Play a song.", {"song": _v("string", "Name of the song", title), "volume": _v("integer", "Volume from 1 to 100", lambda d: d.int(1, 100)), "repeat": _v("boolean", "Play it again and again", lambda d: d.chance(0.5))}, ["song", "volume"],
     ["Play \"{song}\" at volume {volume}.", "[Put on|Start] the song \"{song}\" with volume {volume}.", "I want to hear \"{song}\", volume {volume}.", "Music: \"{song}\", volume {volume}.", "Let me hear \"{song}\" at a volume of {volume}.", "Volume {volume}, song \"{song}\"[.|, please.]",
      "[Please |]play the song \"{song}\" at volume {volume}.", "[Please |]play \"{song}\" with [the |a |]volume [of |]{volume}.", "Can you play \"{song}\" at volume {volume}?",
      "Could you [play|put on] the song \"{song}\" with volume {volume}?", "[Put|Turn] on \"{song}\" at volume {volume}.", "Start [playing |]\"{song}\" at a volume of {volume}.",
      "Start the music: \"{song}\", volume {volume}", "Play: \"{song}\", volume {volume}", "At volume {volume}, play \"{song}\"[, please|].", "With the volume at {volume}, play the song \"{song}\".",
      "I [want|would like] to listen to \"{song}\" at volume {volume}.", "I'd like to hear the song \"{song}\" with the volume at {volume}.", "Set the volume to {volume} and play \"{song}\".",
      "Play \"{song}\" and set the volume to {volume}.", "Song: \"{song}\". Volume: {volume}.", "[Hey, |ok, |]play me \"{song}\", volume {volume}.", "Let's hear \"{song}\" at volume {volume}.",
      "I am in the mood for \"{song}\". Volume {volume}[, please|].", "My favourite song is \"{song}\". Play it at volume {volume}.", "Let us listen to \"{song}\", volume {volume}."], lambda d, a: {"status": "playing"}),
    (["read_file", "Read", "view_file", "open_file", "cat_file", "readFile", "file_read", "get_file_contents"], "Read a file from the disk.", {"file_path": _v("string", "Path of the file", path)}, ["file_path"],
     ["[Read|Open|Show me] [the file |]{file_path}[.|]", "What is in [the file |]{file_path}?", "[Please |]show the content of {file_path}.", "Look at {file_path}.", "I need to see {file_path}.", "Have a look into {file_path}[.|, please.]", "Display {file_path}.",
      "[Please |]read [the file |]{file_path}[ for me|].", "[Please |]open [the file |]{file_path}.", "Can you [read|open|show me] [the file |]{file_path}?",
      "Could you [read|open|look at|look into] {file_path}[ for me|]?", "What does [the file |]{file_path} [say|contain]?", "What is written in [the file |]{file_path}?", "What's inside [the file |]{file_path}?",
      "What are the contents of {file_path}?", "[Show|Print|Give me] the contents of [the file |]{file_path}.", "Get [me |]the [contents|text] of {file_path}.", "Tell me what is in [the file |]{file_path}.",
      "Tell me what [the file |]{file_path} contains.", "Let me see [the file |]{file_path}[, please|].", "I want to see [what is in |]{file_path}.", "I [want|need] to [read|look at] {file_path}.",
      "I want to know what [the file |]{file_path} says.", "[Take a look|Have a look] at [the file |]{file_path}.", "View [the file |]{file_path}[, please|].", "File: {file_path}. Read it[, please|].",
      "{file_path}: what is in it?", "{file_path}: read this file[, please|].", "Load [the file |]{file_path}[ and show it to me|].", "[Hey, |]check what {file_path} contains.", "[Hey, |ok so |]what is in {file_path}?",
      "There is a bug in {file_path}. Read the file."], lambda d, a: title(d)),
    (["write_file", "Write", "create_file", "save_file", "writeFile", "file_write", "make_file"], "Write a text to a file.", {"file_path": _v("string", "Path of the file", path), "content": _v("string", "The new content", title)}, ["file_path", "content"],
     ["Write \"{content}\" [to|into] [the file |]{file_path}.", "Save \"{content}\" as {file_path}.", "Create the file {file_path} with the content \"{content}\".", "Put the text \"{content}\" into {file_path}.", "Make a file {file_path} that says \"{content}\".", "Store \"{content}\" in {file_path}.",
      "[Please |]write \"{content}\" [to|into] the file {file_path}.", "Can you [write|save|put] \"{content}\" [to|into] {file_path}?",
      "Could you [create|make] [a|the] file {file_path} with the [text|content] \"{content}\"?", "Create {file_path} with the text \"{content}\".", "Create a file named {file_path} that contains \"{content}\".",
      "Write a file {file_path} [with the content|containing|that contains] \"{content}\".", "Write [this |]to {file_path}: \"{content}\"", "Save [this |]to {file_path}: \"{content}\"",
      "Save [the text |]\"{content}\" [to|in|into] [the file |]{file_path}.", "{file_path} should [say|contain] \"{content}\". Write it[, please|].", "New file {file_path}: \"{content}\"",
      "File {file_path}, content \"{content}\". Create it.", "Put \"{content}\" [in|into] [the file |]{file_path}.", "Make [the|a] file {file_path} with \"{content}\" in it.", "\"{content}\". Write that to {file_path}.",
      "\"{content}\": save this [text |]as {file_path}.", "I [need|want] a file {file_path} that contains \"{content}\".", "I want \"{content}\" written to {file_path}.", "In {file_path}, write \"{content}\".",
      "Store the text \"{content}\" as {file_path}.", "[Hey, |]save \"{content}\" in the file {file_path}.", "Let the file {file_path} contain \"{content}\".", "I have to keep this: \"{content}\". Save it to {file_path}."], lambda d, a: {"status": "written"}),
    (["run_command", "Bash", "shell", "execute_command", "terminal", "run_shell", "runCommand", "exec", "bash"], "Run a command in the shell.", {"command": _v("string", "The command to run", command)}, ["command"],
     ["Run `{command}`[.|]", "[Execute|Please run|Call] `{command}`[ in the shell| for me|].", "Use the shell to run `{command}`.", "What does `{command}` [print|say|show]?", "Start `{command}` in the terminal.", "Type `{command}` into the terminal.", "Run the command `{command}`.",
      "[Please |]run `{command}`[ in the terminal| in the shell| for me|].", "[Please |]execute `{command}`[ in the terminal| and show me the output|].", "Can you [run|execute] `{command}`[ for me|]?",
      "Could you [run|execute] the command `{command}`?", "Run this[ command|]: `{command}`", "Execute this[ command|]: `{command}`", "Command: `{command}`", "`{command}`: run that[, please|].",
      "`{command}`. Execute this command[, please|].", "In the [shell|terminal], run `{command}`.", "In the [shell|terminal], execute `{command}`.", "Use the terminal to [run|execute] `{command}`.",
      "What is the output of `{command}`?", "What [happens|do you get] when you run `{command}`?", "Show me the output of `{command}`.", "Give me the output of `{command}`[, please|].", "Tell me what `{command}` prints.",
      "Tell me the output of `{command}`.", "I [want|need] you to [run|execute] `{command}`.", "I need the output of `{command}`.", "Let `{command}` run[ in the shell|].",
      "Try `{command}`[ in the terminal| in the shell|].", "Enter `{command}` in the [terminal|shell].", "[Hey, |ok, |]run `{command}` and tell me what it says.", "[Launch|Start] `{command}` in the shell[, please|]."], lambda d, a: title(d)),
    (["grep", "Grep", "search_files", "find_in_files", "search_in_files", "searchFiles", "code_search"], "Search for a pattern in files.", {"pattern": _v("string", "What to look for", lambda d: d.until_fresh(lambda: d.any(words.WORDS), "pattern")), "path": _v("string", "Folder or file", path)}, ["pattern", "path"],
     ["[Search|Look] for \"{pattern}\" in {path}.", "Find \"{pattern}\" in {path}.", "Does {path} contain \"{pattern}\"?", "Where is \"{pattern}\" in {path}?", "Grep {path} for \"{pattern}\".", "Show me the lines of {path} with \"{pattern}\".",
      "[Please |]search {path} for \"{pattern}\".", "[Please |]find \"{pattern}\" in {path}.", "Can you [search|grep] {path} for \"{pattern}\"?", "Could you [look for|find] \"{pattern}\" in {path}?",
      "Is \"{pattern}\" [somewhere |]in {path}?", "Is there a \"{pattern}\" in {path}?", "Is the word \"{pattern}\" in {path}?", "Check [whether|if] {path} contains \"{pattern}\".", "Check {path} for \"{pattern}\".",
      "How often does \"{pattern}\" occur in {path}?", "How many lines of {path} contain \"{pattern}\"?", "Where does \"{pattern}\" [occur|appear] in {path}?", "Which lines of {path} contain \"{pattern}\"?",
      "Which lines in {path} have \"{pattern}\"?", "Find all [lines|places] in {path} with \"{pattern}\".", "Find every \"{pattern}\" in {path}.", "Grep for \"{pattern}\" in {path}[, please|].",
      "Run a search for \"{pattern}\" in {path}.", "Look through {path} for \"{pattern}\".", "In {path}, search for \"{pattern}\".", "In {path}, find \"{pattern}\"[, please|].",
      "\"{pattern}\" in {path}: find it[, please|].", "I am looking for \"{pattern}\" in {path}.", "I need all [lines|places] with \"{pattern}\" in {path}.", "Pattern \"{pattern}\", path {path}: search[, please|]."], lambda d, a: {"matches": d.int(1, 40)}),
    (["list_directory", "LS", "list_files", "ls", "listFiles", "list_dir", "list_folder"], "List the files of a folder.", {"path": _v("string", "The folder", lambda d: "/".join(d.some(["src", "lib", "docs", "test", "cmd", "app", "web"] + words.SHORT[:40], d.int(1, 2))))}, ["path"],
     ["[List|Show] the files [in|of] {path}.", "What [files are|is] in the folder {path}?", "[Which|What] files does {path} have?", "Look into the folder {path}.", "Show me the folder {path}.", "ls {path}",
      "[Please |]list the [folder|directory] {path}.", "[Please |]show me the files in [the folder |]{path}.", "Can you [list|show me] the files in {path}?",
      "Could you [list|show] the [contents of the |]directory {path}?", "What is in the directory {path}?", "What's inside the [folder|directory] {path}?", "What does the [folder|directory] {path} contain?",
      "What are the files in the [folder|directory] {path}?", "Which files are [there |]in [the folder |]{path}?", "Which files does the [folder|directory] {path} contain?",
      "[Show|Give] me the [contents|files] of the directory {path}.", "[Show|Give] me a list of the files in {path}.", "List [all |]files in the [folder|directory] {path}.",
      "List everything in the [folder|directory] {path}.", "List the contents of {path}[, please|].", "Get [me |]the list of files in {path}.", "Tell me which files are in {path}.", "Tell me what is in the folder {path}.",
      "I [want|need] to see the files in {path}.", "I [want|need] a list of the files of {path}.", "Let me see what is in the [folder|directory] {path}.", "Folder: {path}. List the files.",
      "{path}: which files are in this folder?", "Take a look into the [folder|directory] {path}.", "[Hey, |ok so |]which files are in {path}?"], lambda d, a: [path(d), path(d)]),
    (["stock_price", "get_stock", "quote", "get_stock_price", "getStockPrice", "share_price"], "Get the price of a stock.", {"symbol": _v("string", "Ticker symbol", lambda d: d.until_fresh(lambda: "".join(d.some("ABCDEFGHKLMNPRSTVX", d.int(3, 4))), "symbol"))}, ["symbol"],
     ["What is the [stock |]price of {symbol}?", "How much is {symbol} [stock |]worth?", "[Get|Show] me the quote of {symbol}.", "Price of {symbol} stock?", "Where does {symbol} trade?", "Check the stock {symbol}.",
      "What is {symbol} [trading at|worth][ today| now|]?", "What is the [current |]price of [the stock |]{symbol}?", "What's the [stock|share] price of {symbol}[ today| now|]?",
      "How much is [the stock |]{symbol}[ today| now|]?", "How much does [one|a] share of {symbol} cost?", "How much is one share of {symbol}[ worth|]?", "What does [one|a] share of {symbol} cost?",
      "[Please |]get [me |]the [stock |share |]price [of|for] {symbol}.", "[Please |]look up the stock [price of |]{symbol}.", "Can you [check|look up|tell me] the [stock |share |]price of {symbol}?",
      "Could you tell me how much {symbol} stock costs?", "{symbol} stock price[, please|?|]", "{symbol} price[, please|?|]", "Stock: {symbol}", "Stock price: {symbol}",
      "Tell me the [current |]price of {symbol}[ stock|].", "Give me the [stock |]price of {symbol}.", "I [want|need] to know the price of {symbol}[ stock|].", "I own shares of {symbol}. What is the price[ now|]?",
      "I am thinking of buying {symbol}. How much is a share?", "Find the [current |]share price of {symbol}.", "Show me the [stock |share |]price for {symbol}[, please|].", "[Hey, |Quick one: |]what is {symbol} at?",
      "How is [the stock |]{symbol} doing[ today|]?"], lambda d, a: {"price": d.int(100, 99999) / 100}),
    (["dictionary", "define_word", "lookup_word", "get_definition", "define", "word_meaning"], "Look up the meaning of a word.", {"word": _v("string", "The word", lambda d: d.until_fresh(lambda: d.any(words.WORDS), "defined"))}, ["word"],
     ["[Look up|Define] the word \"{word}\".", "What is the definition of \"{word}\"?", "What does the dictionary say about \"{word}\"?", "Find the meaning of \"{word}\".", "\"{word}\": what does it mean?", "Give me the dictionary entry of \"{word}\".",
      "[Please |]look up \"{word}\" in the dictionary.", "[Please |]define \"{word}\"[ for me|].", "Can you [look up|define] [the word |]\"{word}\"?", "Could you give me the definition of \"{word}\"?",
      "Definition of \"{word}\"[?|, please.]", "Meaning of \"{word}\"[?|, please.]", "Define: \"{word}\"", "Look up: \"{word}\"", "What does [the word |]\"{word}\" mean?", "What is the meaning of [the word |]\"{word}\"?",
      "What is meant by [the word |]\"{word}\"?", "What is a definition of the word \"{word}\"?", "Give me [the|a] definition of [the word |]\"{word}\".", "Give me the meaning of \"{word}\"[, please|].",
      "Tell me the [meaning|definition] of \"{word}\".", "Tell me what [the word |]\"{word}\" means.", "Show me the dictionary entry for \"{word}\".", "Get the definition of [the word |]\"{word}\".",
      "I need [the|a] definition of \"{word}\".", "I do not know the word \"{word}\". Look it up[, please|].", "I don't know what \"{word}\" means. Look it up.", "I read the word \"{word}\". What does it mean?",
      "The word is \"{word}\". [Define it.|What does it mean?|Look it up.]", "How does the dictionary [define|explain] \"{word}\"?", "[Find|Look up] \"{word}\" in a dictionary."], lambda d, a: {"meaning": title(d)}),
    (["directions", "get_route", "navigate", "find_route", "getDirections", "route_planner"], "Find the way between two cities.", {"origin": _v("string", "Where to start", CITY), "destination": _v("string", "Where to go", CITY), "mode": _v("enum", "How to travel", lambda d: d.any(["car", "train", "bike"]), ["car", "train", "bike"])}, ["origin", "destination", "mode"],
     ["How do I get from {origin} to {destination} by {mode}?", "[Show|Give] me the way from {origin} to {destination} by {mode}.", "Directions by {mode} from {origin} to {destination}[.|, please.]", "I travel by {mode} from {origin} to {destination}. What is the way?", "Navigate from {origin} to {destination} by {mode}.",
      "[Please |]show me the [route|way] from {origin} to {destination} by {mode}.", "Can you find [the|a] [way|route] from {origin} to {destination} by {mode}?",
      "Could you give me directions from {origin} to {destination} by {mode}?", "Route from {origin} to {destination} by {mode}", "Route: {origin} to {destination}, by {mode}",
      "From {origin} to {destination} by {mode}[, please|]", "From {origin} to {destination} by {mode}: what is the [way|route]?", "What is the [way|route|best way] from {origin} to {destination} by {mode}?",
      "Which way do I take from {origin} to {destination} by {mode}?", "By {mode}, how do I get from {origin} to {destination}?", "By {mode} from {origin} to {destination}: show me the way.",
      "How can I travel from {origin} to {destination} by {mode}?", "How do I travel by {mode} from {origin} to {destination}?", "How far is it from {origin} to {destination} by {mode}?",
      "How long does it take from {origin} to {destination} by {mode}?", "I am in {origin} and want to go to {destination} by {mode}. Show me the way.", "I [want|need] to get from {origin} to {destination} by {mode}.",
      "I want to travel from {origin} to {destination} by {mode}. Find a route.", "Find [me |][the|a] [way|route] from {origin} to {destination} by {mode}.", "Get directions from {origin} to {destination}, by {mode}.",
      "Plan a route by {mode} from {origin} to {destination}.", "Plan the way from {origin} to {destination} by {mode}.", "Start in {origin}, go by {mode}, end in {destination}. What is the route?",
      "We are going from {origin} to {destination} by {mode}. What is the route?"], lambda d, a: {"distance": d.int(20, 2000), "hours": d.int(1, 30)}),
    (["book_table", "reserve_table", "restaurant_booking", "bookTable", "restaurant_reservation", "reserve_restaurant"], "Book a table in a restaurant.", {"restaurant": _v("string", "Name of the restaurant", lambda d: d.any(["Golden", "Blue", "Old", "Green", "Little"]) + " " + d.any(words.ANIMALS + words.OBJECTS).title()), "people": _v("integer", "How many people", lambda d: d.int(2, 12)), "time": _v("string", "Time as HH:MM", SLOTS["time"].value), "outside": _v("boolean", "Whether to sit outside", lambda d: d.chance(0.5))}, ["restaurant", "people", "time"],
     ["Book a table [at|in] the restaurant {restaurant} for {people} people at {time}.", "[Reserve|I need] a table for {people} at {restaurant}, {time}.", "{people} people at {time} in {restaurant}, please reserve.", "Make a reservation at {restaurant} at {time} for {people} people.", "We are {people} and want to eat at {restaurant} at {time}. Book it.",
      "[Please |]book a table for {people} at {restaurant} at {time}.", "[Please |]reserve a table for {people} people in the restaurant {restaurant} at {time}.",
      "Can you [book|reserve] a table for {people} at {restaurant} at {time}?", "Could you [book|reserve|get] us a table at {restaurant} for {people} people at {time}?",
      "Table for {people} at {restaurant}, {time}[, please|]", "Table for {people} people, {time}, {restaurant}", "Table at {restaurant}: {people} people, {time}",
      "Restaurant {restaurant}, {people} people, {time}. Book a table.", "At {time}, book a table for {people} at {restaurant}.", "I [want|would like] to book a table at {restaurant} at {time} for {people} people.",
      "I'd like a table for {people} people at {restaurant} at {time}.", "I [want|would like] a table for {people} in {restaurant} at {time}.",
      "We want to eat at {restaurant} at {time}. We are {people} people. Reserve a table.", "We need a table for {people} people at {time} in {restaurant}.",
      "We are {people} people. Book us a table at {restaurant} for {time}.", "Get [me|us] a table for {people} people at {restaurant}, {time}.", "Reserve {restaurant} at {time} for {people} people.",
      "Make a booking for {people} people at {restaurant} at {time}.", "Make a reservation for {people} at {time} in the restaurant {restaurant}.", "It is my birthday. Book a table for {people} at {restaurant} at {time}.",
      "[Hey, |]book {restaurant} for {people} people at {time}."], lambda d, a: {"status": "booked", "table": d.int(1, 40)}),
    (["add_event", "create_calendar_event", "calendar_add", "create_event", "createEvent", "new_calendar_event"], "Add an event to the calendar.", {"title": _v("string", "Title", title), "date": _v("string", "Date as YYYY-MM-DD", SLOTS["date"].value), "all_day": _v("boolean", "Whether it takes all day", lambda d: True)}, ["title", "date"],
     ["Add \"{title}\" to my calendar on {date}.", "Put \"{title}\" into the calendar for {date}.", "Calendar: \"{title}\" on {date}.", "I have \"{title}\" on {date}, note it in the calendar.", "Enter \"{title}\" on {date} in my calendar.",
      "[Please |]add \"{title}\" to the calendar on {date}.", "[Please |]put \"{title}\" [in|into] my calendar on {date}.", "Can you [add|put] \"{title}\" [on|in] my calendar for {date}?",
      "Could you enter \"{title}\" in the calendar on {date}?", "Add an event [called|titled|named] \"{title}\" on {date}.", "Add a calendar event on {date}: \"{title}\"",
      "Create [an event|a calendar event] \"{title}\" on {date}.", "Create a calendar entry for {date}: \"{title}\"", "Make a calendar entry \"{title}\" on {date}.", "Make an event in my calendar for {date}: \"{title}\"",
      "New [calendar |]event: \"{title}\" on {date}", "New event on {date}: \"{title}\"", "On {date}, add \"{title}\" to my calendar.", "On {date} I have \"{title}\". Put it in my calendar.",
      "{date}: \"{title}\". Add that to the calendar[, please|].", "Mark {date} in my calendar: \"{title}\"", "My calendar needs an entry \"{title}\" on {date}.", "Save the date {date} for \"{title}\" in the calendar.",
      "Block {date} in my calendar for \"{title}\".", "Enter an event \"{title}\" into the calendar for {date}.", "I don't want to miss \"{title}\" on {date}. Add it to my calendar.",
      "I want \"{title}\" in my calendar on {date}.", "[Hey, |]put \"{title}\" on the calendar for {date}.", "Note \"{title}\" for {date} in my calendar."], lambda d, a: {"status": "added"}),
    (["order_status", "get_order_status", "track_order", "check_order", "find_order", "track_package"], "Find out where an order is.", {"order_id": _v("integer", "Number of the order", SLOTS["id"].value)}, ["order_id"],
     ["Where is [my |]order {order_id}?", "[What is|Tell me] the status of order {order_id}[?|.]", "Has order {order_id} been sent?", "Track order {order_id}.", "When will order {order_id} arrive?", "I am waiting for order {order_id}. Where is it?",
      "[Please |]check the status of order {order_id}.", "[Please |]tell me where order {order_id} is.", "Can you [check|track|find] [my |]order {order_id}?", "Could you tell me where [my |]order {order_id} is?",
      "Could you look up the status of order {order_id}?", "Order {order_id}[?|]", "Order {order_id}: where is it?", "Order {order_id}, what is the status?", "Status of order {order_id}[?|, please.]",
      "Where is my order? [The|Its] number is {order_id}.", "Where is the order with the number {order_id}?", "What is happening with [my |]order {order_id}?", "What happened to [my |]order {order_id}?",
      "Has [my |]order {order_id} [arrived|been shipped|been delivered][ yet|]?", "Is [my |]order {order_id} on its way?", "Is [my |]order {order_id} already [packed|shipped|sent]?", "How far is [my |]order {order_id}?",
      "How long until order {order_id} [arrives|comes]?", "When do I get [my |]order {order_id}?", "When does [my |]order {order_id} [arrive|come]?",
      "My order number is {order_id}. [Where is it|What is the status|When will it arrive]?", "[Look up|Check|Get|Find] order {order_id}[ for me|].", "I [want|need] to know where order {order_id} is.",
      "I ordered something, the order number is {order_id}. When does it come?", "[Hey, |Hi, |]any news about order {order_id}?"], lambda d, a: {"status": d.any(["shipped", "packed", "delayed", "delivered"]), "days left": d.int(0, 9)}),
    (["random_number", "dice", "roll", "random_integer", "randomNumber", "get_random_number"], "Draw a random whole number.", {"low": _v("integer", "Least number", lambda d: d.int(0, 20)), "high": _v("integer", "Greatest number", lambda d: d.int(21, 999))}, ["low", "high"],
     ["[Give|Tell] me a random number between {low} and {high}.", "Pick a number from {low} to {high} at random.", "Random number from {low} to {high}[.|, please.]", "Draw a number between {low} and {high}.", "Roll a number between {low} and {high}.",
      "[Please |]give me a random number from {low} to {high}.", "[Please |]pick a random number between {low} and {high}.", "Can you [pick|give me|choose] a random number between {low} and {high}?",
      "Could you [draw|generate|pick] a random number from {low} to {high}?", "Random number between {low} and {high}[, please|]", "Random: {low} to {high}", "Random number, lowest {low}, highest {high}",
      "A number between {low} and {high}, [chosen |]at random[, please|].", "I need a random number between {low} and {high}.", "I want a random number from {low} to {high}.",
      "I need a number from {low} to {high} for a game.", "We play a game. Draw a number from {low} to {high}.", "For a raffle, pick a number between {low} and {high}.",
      "[Generate|Choose|Draw] a random number from {low} to {high}.", "[Generate|Choose|Draw] a random whole number between {low} and {high}.", "Choose any number from {low} to {high}, at random.",
      "Between {low} and {high}, pick a random number.", "From {low} to {high}: give me any number.", "Let chance decide: a number from {low} to {high}.", "Let the tool choose a number between {low} and {high}.",
      "[Hey, |]pick a number, any number, from {low} to {high}."], lambda d, a: {"number": d.int(a["low"], a["high"])}),
    (["get_user", "find_user", "user_lookup", "search_user", "getUser", "lookup_user"], "Find a user by name.", {"name": _v("string", "Name of the user", NAME)}, ["name"],
     ["[Find|Look up] the user {name}.", "Who is the user {name}?", "Show me [the account of|the user] {name}.", "Get the user data of {name}.", "Which user is called {name}?", "I need the record of the user {name}.",
      "[Please |]find the user [called|named|with the name] {name}.", "[Please |]look up the user {name}[ for me|].", "Can you [find|look up] the user {name}?", "Could you [show|get] me the user {name}?",
      "Could you look up the account of {name}?", "User: {name}", "User {name}[, please|]", "Find user {name}.", "Find the account of {name}.", "Find the user data of {name}.",
      "Get [me |]the user [named |called |]{name}.", "Get [me |]the account of [the user |]{name}.", "Search for the user {name}.", "Search the users for {name}.", "Is there a user [called|named] {name}?",
      "Do we have a user [called|named] {name}?", "What do we know about the user {name}?", "What is in the user record of {name}?", "Show [me |]the user [data|record] of {name}.", "Show [me |]the user {name}[, please|].",
      "Open the user record of {name}.", "I am looking for the user {name}.", "I [want|need] to see the account of {name}.", "I [want|need] the user data of {name}.", "[Hey, |]who is the user named {name}?"], lambda d, a: {"name": a["name"], "city": d.any(words.CITIES), "age": d.int(18, 80)}),
    (["get_date", "today", "current_date", "getDate", "current_day", "todays_date"], "Get the date of today.", {}, [], ["What is the date [today|of today]?", "Which date is it today?", "Tell me today's date.", "What day do we have today?", "Get the current date.", "Today's date?",
      "What's the date?", "What's today's date?", "What date is it[ today| now|]?", "What day is it [today|now]?", "What is today's date?", "[Please |]tell me the date[ of today|].",
      "[Please |]tell me what day it is[ today|].", "Can you tell me [the date|today's date|what day it is]?", "Could you [check|look up] [the date|today's date|what day it is]?",
      "Give me [the date|today's date][, please|].", "Give me the current date[, please|].", "Date[, please|?]", "The date [of today|today], please", "I need [today's date|the date of today][ for a form| for a letter|].",
      "I forgot [the date|what day it is]. What is it?", "I have to sign a form. What is the date [today|of today]?", "[Hey, |Quick question: |]which day is it today?", "Which day do we have[ today|]?",
      "Do you know [today's date|what day it is today]?", "[Check|Look up|Show me] [today's date|the date of today].", "Show me the current date.", "What is the current date?"], lambda d, a: {"date": f"{d.int(2024, 2031)}-{d.int(1, 12):02}-{d.int(1, 28):02}"}),
    (["take_note", "add_note", "remember_note", "save_note", "create_note", "noteDown"], "Save a note.", {"text": _v("string", "The note", title)}, ["text"],
     ["Note [down |]\"{text}\".", "Make a note: \"{text}\"", "[Save|Store] the note \"{text}\".", "Write \"{text}\" on my notes.", "Take the note \"{text}\".", "Please put down \"{text}\" for later.",
      "[Please |]note [this |]down: \"{text}\"", "[Please |]save [this |]as a note: \"{text}\"", "[Please |]write this down: \"{text}\"", "Can you [note|write] down \"{text}\"?",
      "Could you [make|take|save] a note that says \"{text}\"?", "Note: \"{text}\"", "New note: \"{text}\"", "Note this[, please|]: \"{text}\"", "Add a note: \"{text}\"", "Add \"{text}\" to my notes.",
      "[Create|Make|Take|Save] a note with the text \"{text}\".", "[Create|Make|Take|Save] a note [that says|saying] \"{text}\".", "Take a note: \"{text}\"", "Take this down: \"{text}\"",
      "Put \"{text}\" [in|into] my notes.", "Put this [in|into] my notes: \"{text}\"", "Save \"{text}\" [as a note|in my notes].", "Keep \"{text}\" in my notes.", "I want to note [down |]\"{text}\".",
      "I want a note that says \"{text}\".", "I must not forget this: \"{text}\". Make a note.", "\"{text}\". Note that[ down|].", "\"{text}\": write that down as a note.", "Write \"{text}\" [down|in my notes].",
      "[Hey, |ok, |]write a note: \"{text}\""], lambda d, a: {"status": "saved"}),
    (["get_current_weather", "find_weather", "weather_at", "get_temperature"], "Get the current weather in a given location.", {"location": _v("string", "The city, for example Oslo", CITY), "unit": _v("enum", "Unit of temperature", lambda d: "celsius", ["celsius", "fahrenheit"])}, ["location"],
     ["What is the weather [like |]in {location}?", "What's the weather [like |]in {location}[ today| right now|]?", "How is the weather in {location}[ today| right now|]?", "Tell me the weather in {location}.",
      "Get the [current |]weather for {location}.", "Is it [raining|cold|hot|sunny] in {location}[ today| now|]?", "Weather in {location}[, please|?]", "How warm is it in {location}[ now|]?",
      "What is the [current |]temperature in {location}?", "Can you check the weather in {location}?", "Show me the [current |]weather [in|for] {location}.", "Do I need [a coat|an umbrella|a hat] in {location}[ today|]?",
      "Could you tell me the weather in {location}?", "[Please |]check how the weather is in {location}.", "I am going to {location}. How is the weather there?", "I want to know how warm it is in {location}.",
      "How cold is it in {location}[ now| today|]?", "{location}: how is the weather there?", "{location} weather[, please|?|]", "Will I need a jacket in {location} today?",
      "Look up the [current |]temperature in {location}.", "Check the [current |]temperature in {location}, please.", "What are the temperature and the sky like in {location}?",
      "[Hey, |Hi, |]how's the weather in {location}?"],
     lambda d, a: {"temperature": d.int(-10, 35), "condition": d.any(["sunny", "cloudy", "rainy", "windy"])}),
    (["add_numbers", "add", "sum_numbers", "addNumbers", "plus"], "Add two numbers[ and return the sum|].", {"a": _v("integer", "First number", lambda d: d.until_fresh(lambda: d.int(2, 9999), "addend")), "b": _v("integer", "Second number", lambda d: d.int(2, 9999))}, ["a", "b"],
     ["Add {a} and {b}.", "What is {a} plus {b}?", "What is {a} + {b}?", "[Please |]add {a} and {b} with the tool.", "What is the sum of {a} and {b}?", "How much is {a} plus {b}?", "Use the tool to add {a} and {b}.",
      "{a} plus {b}[?|]", "{a} + {b}[?|]", "Calculate {a} plus {b}.", "Can you add {a} and {b}[ for me|]?", "Add the numbers {a} and {b}.", "Could you add {a} and {b}?", "Sum: {a} and {b}",
      "Sum up {a} and {b}.", "Give me the sum of {a} and {b}.", "Compute the sum of {a} and {b}.", "Compute {a} plus {b} with the tool.", "I need the sum of {a} and {b}.", "I have {a} coins and get {b} more. Add them.",
      "Put {a} and {b} together and tell me the sum.", "The numbers are {a} and {b}. Add them.", "The numbers are {a} and {b}. What is the sum?", "[Hey, |ok so |]what do {a} and {b} add up to?"],
     lambda d, a: {"result": a["a"] + a["b"]}),
    (["multiply_numbers", "multiply", "times", "multiplyNumbers", "product_of"], "Multiply two numbers[ and return the product|].", {"a": _v("integer", "First number", lambda d: d.until_fresh(lambda: d.int(2, 999), "factor")), "b": _v("integer", "Second number", lambda d: d.int(2, 99))}, ["a", "b"],
     ["Multiply {a} by {b}.", "What is {a} times {b}?", "What is {a} * {b}?", "[Please |]multiply {a} and {b} with the tool.", "What is the product of {a} and {b}?", "How much is {a} times {b}?",
      "Use the tool to multiply {a} by {b}.", "{a} times {b}[?|]", "{a} * {b}[?|]", "Calculate {a} times {b}.", "Can you multiply {a} by {b}[ for me|]?", "Multiply the numbers {a} and {b}.",
      "Could you multiply {a} and {b}?", "Product: {a} and {b}", "Give me the product of {a} and {b}.", "Compute the product of {a} and {b}.", "Compute {a} times {b} with the tool.", "I need the product of {a} and {b}.",
      "I have {a} boxes with {b} apples each. Multiply that.", "The numbers are {a} and {b}. Multiply them.", "The numbers are {a} and {b}. What is the product?", "[Hey, |ok so |]what does {a} multiplied by {b} give?"],
     lambda d, a: {"result": a["a"] * a["b"]}),
    (["roll_dice", "rollDice", "throw_dice", "dice_roller"], "Roll [some dice|one or more dice|dice with any number of sides].", {"count": _v("integer", "How many dice", lambda d: d.int(2, 12)), "sides": _v("integer", "Sides of each one", lambda d: d.int(4, 100))}, ["count", "sides"],
     ["Roll {count} dice with {sides} sides[ each|].", "[Please |]roll {count} dice of {sides} sides.", "Can you roll {count} dice with {sides} sides?", "Throw {count} dice with {sides} sides[ each|].",
      "Roll {count}d{sides}[, please|].", "{count} dice, {sides} sides[ each|][, please|]", "Could you throw {count} dice with {sides} sides?", "[Dice|Roll]: {count} with {sides} sides",
      "I need a roll of {count} dice with {sides} sides.", "I want to roll {count} dice that have {sides} sides.", "We play a game. Roll {count} dice with {sides} sides.",
      "It is my turn. Throw {count} dice with {sides} sides.", "Give me a roll of {count} dice with {sides} sides.", "Take {count} dice with {sides} sides and roll them.",
      "Take {count} dice of {sides} sides and throw them.", "The dice have {sides} sides. Roll {count} of them.", "With {sides} sides each, roll {count} dice.", "Let's roll {count} dice with {sides} sides.",
      "[Hey, |ok, |]throw {count} dice of {sides} sides for me.", "Throw {count}d{sides}[ for me|]."],
     lambda d, a: {"rolls": [d.int(1, a["sides"]) for _ in range(min(a["count"], 4))]}),
    (["flip_coin", "coin_flip", "toss_coin", "flipCoin"], "Flip a coin[ and say heads or tails|].", {}, [],
     ["Flip a coin.", "Toss a coin.", "Flip a coin for me[, please|].", "Heads or tails?", "[Please |]toss a coin for me.", "Can you flip a coin?", "Could you toss a coin[ for us|]?", "Coin flip[, please|!]",
      "Coin toss[, please|!]", "Throw a coin.", "Let a coin decide.", "Let us flip a coin.", "We cannot decide. Flip a coin.", "We cannot agree. Toss a coin for us.", "I need a coin flip.", "I need you to toss a coin.",
      "I can't choose. Heads or tails?", "Do a coin toss[ for me|].", "Do a coin flip[ for me|].", "[Hey, |ok, |]throw a coin for me.", "Decide it with a coin[, please|].", "Heads or tails, flip the coin[, please|]."],
     lambda d, a: {"side": d.any(["heads", "tails"])}),
    (["get_news", "news", "latest_news", "headlines", "getNews"], "Get the latest news about a topic.", {"topic": _v("string", "What the news is about", lambda d: d.until_fresh(lambda: d.any(words.HOBBIES + words.WORDS), "news"))}, ["topic"],
     ["What is the news about {topic}?", "[Show|Tell|Give] me the [latest |]news about {topic}.", "News about {topic}[?|, please.]", "Get the [latest |]news on {topic}.", "What is new about {topic}?",
      "[Please |]get me the [latest |]headlines about {topic}.", "Can you [show|get] me the news about {topic}?", "Could you tell me the latest news on {topic}?", "Any news about {topic}[ today|]?",
      "Any headlines about {topic}[ today|]?", "Is there any news on {topic}[ today|]?", "News: {topic}", "Headlines: {topic}", "Read me the news about {topic}.", "What do the newspapers say about {topic}?",
      "What are the [latest |]headlines on {topic}?", "I [want|would like] to read the news about {topic}.", "I'd like the latest headlines about {topic}.", "I follow {topic}. What is the news?",
      "Find the latest news on {topic}.", "[Hey, |]what's the latest news about {topic}?", "Today's news about {topic}[, please|]."],
     lambda d, a: [title(d), title(d)]),
    (["set_alarm", "create_alarm", "wake_me", "setAlarm", "alarm_clock"], "[Set an alarm for a time of the day.|Set the alarm clock.]", {"time": _v("string", "Time as HH:MM", SLOTS["time"].value)}, ["time"],
     ["Set an alarm for {time}.", "Wake me [up |]at {time}.", "[Please |]set the alarm [to|for] {time}.", "Alarm at {time}[, please|].", "Set my alarm clock to {time}.", "I [need|want] to get up at {time}. Set an alarm.",
      "Can you wake me [up |]at {time}?", "Can you set an alarm for {time}?", "Could you set my alarm to {time}?", "Could you wake me [up |]at {time}[ tomorrow|]?", "Alarm: {time}", "Alarm clock: {time}",
      "I have to get up at {time}. Wake me[ up|].", "I have to be awake at {time}. Set the alarm.", "I need an alarm at {time}[ tomorrow|].", "I want an alarm at {time}[ tomorrow|].", "Let the alarm ring at {time}.",
      "Let my alarm clock ring at {time}.", "My train leaves early. Wake me at {time}.", "Make the alarm clock ring at {time}.", "[Hey, |ok, |]wake me up at {time}[, please|].", "Ring at {time}[ to wake me|].",
      "New alarm for {time}[, please|]."],
     lambda d, a: {"status": d.any(["set", "ok"])}),
    (["set_reminder", "remind_me", "add_reminder", "create_reminder", "setReminder"], "Remind the user of something at a given time.", {"text": _v("string", "What to remind of", title), "time": _v("string", "Time as HH:MM", SLOTS["time"].value)}, ["text", "time"],
     ["Remind me of \"{text}\" at {time}.", "Set a reminder for {time}: \"{text}\"", "[Please |]remind me at {time} of \"{text}\".", "Set a reminder \"{text}\" at {time}.", "Reminder at {time}: \"{text}\"",
      "Can you remind me of \"{text}\" at {time}?", "At {time}, remind me of \"{text}\".", "Create a reminder for {time} that says \"{text}\".", "Could you remind me at {time} of \"{text}\"?",
      "Could you set a reminder for {time} saying \"{text}\"?", "Reminder: \"{text}\", {time}", "New reminder at {time}: \"{text}\"", "I want a reminder at {time} that says \"{text}\".",
      "I want to be reminded of \"{text}\" at {time}.", "I need a reminder for \"{text}\" at {time}.", "I need to be reminded of \"{text}\" at {time}.", "I always forget \"{text}\". Remind me at {time}.",
      "Don't let me forget \"{text}\" at {time}.", "Do not let me forget \"{text}\". Remind me at {time}.", "Add a reminder at {time} with the text \"{text}\".", "Make a reminder for {time} with the text \"{text}\".",
      "\"{text}\" at {time}: remind me[, please|].", "[Hey, |]at {time} remind me of \"{text}\".", "Give me a reminder of \"{text}\" at {time}."],
     lambda d, a: {"status": d.any(["set", "saved"])}),
    (["add_todo", "create_todo", "todo_add", "addTodo", "add_to_list"], "Add an entry to the to-do list.", {"text": _v("string", "What is to be done", title)}, ["text"],
     ["Add \"{text}\" to my to-do list.", "Put \"{text}\" on my to-do list.", "Add a to-do: \"{text}\"", "To-do: \"{text}\"", "[Please |]add \"{text}\" to the to-do list.", "New to-do[ entry|]: \"{text}\"",
      "Can you add \"{text}\" to my to-do list?", "Could you put \"{text}\" on the to-do list?", "I have to do \"{text}\". Put it on my list.", "I have to do \"{text}\". Add it to my to-do list.",
      "I need \"{text}\" on my to-do list.", "I want \"{text}\" on my to-do list.", "My to-do list needs \"{text}\".", "\"{text}\" goes on my to-do list.", "\"{text}\": put that on the to-do list.",
      "\"{text}\". Add that to my list of things to do.", "Put this on my list of things to do: \"{text}\"", "Put this on my to-do list[, please|]: \"{text}\"", "Add this to the to-do list[, please|]: \"{text}\"",
      "Write \"{text}\" on my to-do list.", "[Hey, |ok, |]another to-do: \"{text}\"", "Create a to-do entry \"{text}\".", "Create a to-do called \"{text}\".", "Enter \"{text}\" in my to-do list."],
     lambda d, a: {"status": "added", "entries": d.int(1, 40)}),
    (["convert_length", "convert_units", "unit_converter", "convertUnits", "length_converter"], "Convert a length from one unit to another.", {"value": _v("number", "The length", lambda d: d.until_fresh(lambda: _whole(d.int(1, 9999) / d.any([1, 1, 10])), "length")), "from": _v("enum", "Unit to convert from", lambda d: d.any(["kilometers", "meters"]), ["kilometers", "meters", "miles", "yards", "feet"]), "to": _v("enum", "Unit to convert to", lambda d: d.any(["miles", "yards", "feet"]), ["kilometers", "meters", "miles", "yards", "feet"])}, ["value", "from", "to"],
     ["Convert {value} {from} to {to}.", "How many {to} are {value} {from}?", "What is {value} {from} in {to}?", "[Please |]convert {value} {from} into {to}.", "{value} {from} in {to}[?|, please.]",
      "{value} {from} to {to}[?|, please.]", "How many {to} is {value} {from}?", "Can you convert {value} {from} to {to}?", "Could you [convert|change] {value} {from} into {to}?", "How long is {value} {from} in {to}?",
      "How far is {value} {from} in {to}?", "Length: {value} {from} to {to}", "Units: {value} {from} in {to}", "Change {value} {from} to {to}.", "Turn {value} {from} into {to}.",
      "I ran {value} {from}. How many {to} is that?", "The road is {value} {from} long. What is that in {to}?", "I need {value} {from} in {to}.", "I need {value} {from} converted to {to}.",
      "Give me {value} {from} in {to}.", "Tell me how many {to} {value} {from} are.", "Show me {value} {from} in {to}.", "[Hey, |]what are {value} {from} in {to}?", "From {from} to {to}: {value}"],
     lambda d, a: {"value": d.int(100, 99999) / 100}),
    (["book_flight", "reserve_flight", "flight_booking", "bookFlight"], "Book a flight between two cities.", {"from": _v("string", "City of departure", CITY), "to": _v("string", "City of arrival", CITY), "date": _v("string", "Date as YYYY-MM-DD", SLOTS["date"].value)}, ["from", "to", "date"],
     ["Book a flight from {from} to {to} on {date}.", "I [need|want] a flight from {from} to {to} on {date}.", "[Please |]book me a flight from {from} to {to} for {date}.",
      "Flight from {from} to {to} on {date}[, please|].", "Reserve a flight to {to} from {from} on {date}.", "Can you book a flight from {from} to {to} on {date}?", "I want to fly from {from} to {to} on {date}.",
      "On {date}, book a flight from {from} to {to}.", "Could you reserve me a flight from {from} to {to} on {date}?", "Could you book me on a flight from {from} to {to} for {date}?", "Flight: {from} to {to}, {date}",
      "Flight on {date}: from {from} to {to}", "Get me a flight from {from} to {to} on {date}.", "Get me on a flight to {to} from {from} on {date}.", "I would like to fly to {to} from {from} on {date}.",
      "I have to be in {to} on {date}. Book a flight from {from}.", "I live in {from} and fly to {to} on {date}. Book the flight.", "Reserve a seat on a flight from {from} to {to} on {date}.",
      "We want to fly from {from} to {to} on {date}. Book the flight.", "We need a flight to {to} on {date}, starting in {from}.", "Put me on a plane from {from} to {to} on {date}.",
      "Book me a plane from {from} to {to} on {date}.", "[Hey, |]reserve a flight from {from} to {to} for {date}.", "From {from} to {to} on {date}: book the flight."],
     lambda d, a: {"status": "booked", "seat": f"{d.int(1, 40)}{d.any('ABCDEF')}"}),
    (["book_hotel", "reserve_hotel", "hotel_booking", "bookHotel"], "Book a hotel room in a city.", {"city": _v("string", "City of the hotel", CITY), "nights": _v("integer", "How many nights", lambda d: d.int(2, 21)), "check_in": _v("string", "Day of arrival as YYYY-MM-DD", SLOTS["date"].value)}, ["city", "nights", "check_in"],
     ["Book a hotel in {city} for {nights} nights from {check_in}.", "I need a hotel [room |]in {city} for {nights} nights from {check_in}.",
      "[Please |]book a hotel room in {city}, {nights} nights, arriving on {check_in}.", "Hotel in {city}, {nights} nights from {check_in}[, please|].", "Reserve a hotel in {city} from {check_in} for {nights} nights.",
      "Can you book a hotel in {city} from {check_in} for {nights} nights?", "I arrive in {city} on {check_in} and stay {nights} nights. Book a hotel.",
      "Reserve a hotel room for {nights} nights in {city}, starting on {check_in}.", "Could you reserve a hotel room in {city} for {nights} nights from {check_in}?",
      "Could you find me a hotel room in {city} on {check_in} for {nights} nights?", "Hotel: {city}, {check_in}, {nights} nights", "Hotel room, {city}, {nights} nights, arriving {check_in}",
      "Get me a hotel in {city} for {nights} nights, arriving on {check_in}.", "Get me a room in {city} for {nights} nights from {check_in}.", "I want to stay in {city} for {nights} nights from {check_in}.",
      "I want a hotel room in {city} from {check_in}, {nights} nights.", "I would like to sleep in {city} for {nights} nights, arriving on {check_in}. Book a hotel.",
      "From {check_in}, book {nights} nights in a hotel in {city}.", "From {check_in}, we stay in {city} for {nights} nights. Reserve a hotel.", "We arrive in {city} on {check_in}. Reserve a hotel for {nights} nights.",
      "We need a room in {city} for {nights} nights from {check_in}.", "[Hey, |]book me a room in {city} on {check_in} for {nights} nights.", "Check-in {check_in}, {nights} nights, {city}: book a hotel."],
     lambda d, a: {"status": "booked", "room": d.int(1, 600)}),
    (["order_pizza", "pizza", "buy_pizza", "orderPizza"], "Order a pizza.", {"size": _v("enum", "Size of the pizza", lambda d: d.any(["small", "medium", "large"]), ["small", "medium", "large"]), "topping": _v("string", "What is on it", lambda d: d.any(words.FOODS)), "quantity": _v("integer", "How many", lambda d: d.int(2, 20))}, ["size", "topping", "quantity"],
     ["Order {quantity} {size} pizzas with {topping}.", "I [want|would like] {quantity} {size} pizzas with {topping}.", "[Please |]order {quantity} pizzas, size {size}, with {topping}.",
      "{quantity} {size} pizzas with {topping}[, please|].", "Get [me|us] {quantity} {size} pizzas with {topping}.", "Pizza: {quantity}, {size}, {topping}", "Can you order {quantity} {size} pizzas with {topping}?",
      "Can we have {quantity} {size} pizzas with {topping}?", "Could you get us {quantity} {size} pizzas with {topping}?", "Could I have {quantity} {size} pizzas with {topping}?",
      "We are hungry. Order {quantity} {size} pizzas with {topping}.", "We are hungry. Get us {quantity} {size} pizzas with {topping} on top.", "We would like {quantity} pizzas with {topping}, size {size}.",
      "Buy {quantity} {size} pizzas with {topping}.", "Buy {quantity} pizzas with {topping}, all of them {size}.", "Pizzas with {topping}, size {size}, {quantity} of them[, please|].",
      "With {topping} on top: {quantity} {size} pizzas.", "I have guests. Order {quantity} {size} pizzas with {topping}.", "I need {quantity} {size} pizzas with {topping} for a party.",
      "Make it {quantity} {size} pizzas with {topping}[, please|].", "[Hey, |]I'd like {quantity} {size} pizzas with {topping}.", "For the party, order {quantity} {size} pizzas with {topping}."],
     lambda d, a: {"status": "ordered", "minutes": d.int(10, 90)}),
    (["make_call", "phone_call", "call_person", "makeCall", "dial"], "Call a person on the phone.", {"name": _v("string", "Whom to call", NAME)}, ["name"],
     ["Call {name}.", "Phone {name}[, please|].", "[Please |]call {name} [on the phone|for me].", "Give {name} a call.", "Can you call {name}[ for me|]?", "Make a [phone |]call to {name}.",
      "I want to talk to {name} on the phone.", "Ring {name}[, please|].", "Could you phone {name}[ for me|]?", "Could you give {name} a ring?", "Call: {name}", "Phone call to {name}[, please|].",
      "Dial the number of {name}.", "Dial {name}[, please|].", "I [need|have] to call {name}.", "I need to talk to {name} on the phone.", "I want to phone {name}.", "Start a [phone |]call with {name}.",
      "Start a phone call to {name}.", "Get {name} on the phone[, please|].", "Connect me with {name} on the phone.", "Put me through to {name}.", "[Hey, |]phone {name} for me.", "It is the birthday of {name}. Call now."],
     lambda d, a: {"status": d.any(["calling", "busy", "connected"])}),
    (["find_restaurants", "restaurant_search", "search_restaurants", "findRestaurants"], "Find restaurants in a city.", {"city": _v("string", "The city", CITY), "cuisine": _v("enum", "Kind of food", lambda d: d.any(["italian", "indian", "chinese", "mexican", "japanese", "greek"]), ["italian", "indian", "chinese", "mexican", "japanese", "greek"])}, ["city", "cuisine"],
     ["Find {cuisine} restaurants in {city}.", "Where can I eat {cuisine} food in {city}?", "[Show|Give] me {cuisine} restaurants in {city}.", "[Please |]find {cuisine} restaurants in {city}.",
      "Which {cuisine} restaurants are there in {city}?", "Restaurants in {city}, {cuisine}[, please|].", "I want to eat {cuisine} food in {city}.", "Are there any {cuisine} restaurants in {city}?",
      "Can you find me {cuisine} restaurants in {city}?", "Could you show me {cuisine} restaurants in {city}?", "Could you find {cuisine} food in {city}?", "Restaurants: {city}, {cuisine}",
      "Restaurants with {cuisine} food in {city}[, please|].", "I am in {city} and would like {cuisine} food.", "I am in {city}. Which {cuisine} restaurants are there?", "I am hungry. Find {cuisine} food in {city}.",
      "Look for {cuisine} restaurants in {city}.", "Look for restaurants in {city} with {cuisine} food.", "Where in {city} is a {cuisine} restaurant?", "Where in {city} can we eat {cuisine} food?",
      "We want to eat {cuisine} food in {city}. Where can we go?", "List {cuisine} restaurants in {city}.", "[Hey, |]which restaurants in {city} have {cuisine} food?"],
     lambda d, a: [title(d).title() for _ in range(d.int(1, 3))]),
]


def labelled(d: Draw, tool: Tool, values: dict) -> str:
    """What a tool does and its values behind their names, for training: one wish of many sentences or of none."""
    what = tool.spec["function"]["description"].rstrip(".")
    part = d.any(["{label}: {v}", "{label}: {v}", "{label} {v}", "{label} = {v}", "the {label} is {v}"])
    between = d.any([". ", ", ", ", ", "\n", "; "])
    capital = between in (". ", "\n") and part.startswith("{label}")
    said = []
    for k, v in values.items():
        label = k.replace("_", " ")
        slot = "{" + k + "}"
        said.append(part.format(label=label[0].upper() + label[1:] if capital else label, v=f'"{slot}"' if isinstance(v, str) and " " in v else slot))
    d.rng.shuffle(said)
    listed = between.join(said)
    return d.any([f"{what}{d.any(['. ', ': ', ', '])}{listed}", f"{listed}. {what}", f"{listed}{between}{what}", f"{what}:\n{listed}"])


def _hand_sentence(patterns):
    def compose(d: Draw, tool: Tool, values: dict) -> str:
        return labelled(d, tool, values) if d.chance(0.35) and not any(isinstance(v, bool) for v in values.values()) else d.any(patterns)

    def sentence(d: Draw, tool: Tool, values: dict) -> str:
        shown = {k: v for k, v in values.items()}
        if "on" in shown:
            shown["on"] = "on" if shown["on"] else "off"
        pattern = [p.replace("{on!}", "{on}") for p in patterns]
        return d.ask(pattern, compose=lambda d: compose(d, tool, values), **shown)
    return sentence


def hand(d: Draw, row) -> Tool:
    names, description, slots, required, patterns, returns = row
    used = dict(slots)
    for k in list(used):  # a parameter that no sentence says is never given
        if k not in required and d.chance(0.5) and not any("{" + k + "}" in p for p in patterns):
            del used[k]
    t = Tool(d.any(names), d.fill(description), used, required, _hand_sentence(patterns), returns, d)
    t.verb, t.noun = "", names[0]
    said = [k for k in used if any("{" + k + "}" in p or "{" + k + "!}" in p for p in patterns)]
    t.values = lambda d: {k: used[k].value(d) for k in said}
    return t


def _noun(d: Draw) -> str:
    r = 1 if d.heldout else d.rng.random()
    return d.any(MORE_NOUNS) if r < 0.25 else _other_word(d) if r < 0.32 else d.any(NOUNS)


def offer(d: Draw, n: int) -> tuple[list[Tool], Tool]:
    """n tools in any order, and the one to use: others share its verb or its noun."""
    def one():
        if d.chance(0.45):
            return hand(d, d.any(HAND))
        return generic(d, *d.until_fresh(lambda: [d.any(list(VERBS)), _noun(d)], "tool"))
    wanted = one()
    tools = [wanted]
    while len(tools) < n:
        kind = d.rng.random()
        if wanted.verb and kind < 0.35:
            other = generic(d, d.any(list(VERBS)), wanted.noun)
        elif wanted.verb and kind < 0.6:
            other = generic(d, wanted.verb, _noun(d))
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
        return {a.noun, b.noun} in ({"get_weather", "get_forecast"}, {"send_message", "send_email"}, {"grep", "read_file"}, {"grep", "web_search"}, {"web_search", "dictionary"}, {"run_command", "list_directory"}, {"take_note", "write_file"}, {"set_lights", "set_temperature"},
                                    {"get_current_weather", "get_weather"}, {"get_current_weather", "get_forecast"}, {"calculator", "add_numbers"}, {"calculator", "multiply_numbers"}, {"random_number", "roll_dice"},
                                    {"get_news", "web_search"}, {"find_restaurants", "web_search"}, {"set_timer", "set_alarm"}, {"set_timer", "set_reminder"}, {"set_alarm", "set_reminder"}, {"set_reminder", "add_event"},
                                    {"set_reminder", "take_note"}, {"add_todo", "take_note"}, {"add_todo", "set_reminder"}, {"find_restaurants", "book_table"}, {"directions", "book_flight"}, {"add_todo", "add_event"})
    pair = a.noun if a.verb else b.noun, b.noun if a.verb else a.noun
    return pair[0] in ("event", "message", "order", "lamp", "heater", "song", "document", "reservation", "alarm", "camera", "newsletter") or pair in (("table", "book_table"), ("flight", "book_flight"), ("hotel", "book_hotel"), ("task", "add_todo"))


def wanted_call(d: Draw, tool: Tool) -> tuple[str, dict]:
    """A sentence and the arguments that it gives, in the order of the schema."""
    values = tool.values(d)
    shown = list(values.items())
    if tool.verb:
        d.rng.shuffle(shown)
    return tool.ask(d, dict(shown)), {k: values[k] for k in tool.slots if k in values}


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
    return called(d, tools, tool, skill)


def distinct(tools: list[Tool]) -> list[Tool]:
    """Those of which no sentence could mean another one."""
    return [x for x in tools if not any(_confusable(x, y) for y in tools if y is not x)]


def talk(d: Draw) -> list[Turn]:
    """Questions to the same tools: what is offered is long, so it is asked more than once."""
    tools, tool = offer(d, some(d))
    clear = [tool, *(x for x in distinct(tools) if x is not tool)]
    if d.heldout:
        return [called(d, tools, tool if i == 0 else d.any(clear), CHOOSE) for i in range(d.any([1, 1, 2, 3, 4, 5]))]
    return [_any_wish(d, tools, clear) for _ in range(d.int(1, 10))]


def _any_wish(d: Draw, tools: list[Tool], clear: list[Tool]) -> Turn:
    """In training: a call, a value that is missing, or something that none of the tools does, side by side."""
    kind, tool = d.rng.random(), d.any(clear)
    if kind < 0.1 and tool.verb and (askable := _askable(tool)):
        return _asked_for(d, tools, tool, askable)
    if kind < 0.24 and (other := unlike(d, tools, tool)):
        return refused(wanted_call(d, other)[0], other, tools)
    return called(d, tools, tool, CHOOSE)


def _near(d: Draw, tool: Tool) -> Tool:
    """What a tool on offer does, for something else: a wish that is easily taken for one that it fulfils."""
    return generic(d, *d.until_fresh(lambda: [tool.verb, _noun(d)], "tool"))


def unlike(d: Draw, tools: list[Tool], tool: Tool) -> Tool | None:
    """A tool that does what none of those on offer does, though often nearly what `tool` does; none if what was drawn is like one of them."""
    other = _near(d, tool) if tool.verb and d.chance(0.6) else offer(d, 1)[1]
    return None if any(_confusable(x, other) or x.name == other.name or x.noun == other.noun for x in tools) else other


def called(d: Draw, tools: list[Tool], tool: Tool, skill: str) -> Turn:
    user, arguments = wanted_call(d, tool)
    calls = [(tool.name, arguments)]
    thought = LOOK + fits(tool, arguments)
    if d.chance(0.12) and tool.slots:
        again, more = wanted_call(d, tool)
        if more != arguments:
            user = f"{user.rstrip('.!?')}. {d.any(['Also: ', 'Then: ', 'And: ', ''])}{again}"
            calls.append((tool.name, more))
            thought = f"{LOOK}{fits(tool)[:-1]}, two times. First: {', '.join(arguments)}. Second: {', '.join(more)}."
    return _replied(d, tool, user, calls, thought, skill, [x.spec for x in tools])


def answered_call(d: Draw, tool: Tool, user: str, arguments: dict) -> Turn:
    """A given call, its result and the answer."""
    return _replied(d, tool, user, [(tool.name, arguments)], LOOK + fits(tool, arguments), CHOOSE, None)


def action(tool: Tool) -> str:
    """What a tool does, in two or three words."""
    return f"{tool.verb} {tool.noun}" if tool.verb else tool.noun.replace("_", " ")


# What a thought about tools begins with: some tokens in which the model can find what it says next.
LOOK = "I look for a tool.\n"
NONE_FITS = "No tool fits."


def fits(tool: Tool, arguments=()) -> str:
    """The tool that does it, and which of its parameters the user gave. The name begins a line, so that it is made of the tokens
    that it has in the prompt and in the call: behind a space it would be of others. The values are left to the call, where each
    stands on a line of its own."""
    return f"{tool.name} fits" + (f": {', '.join(arguments)}." if arguments else ".")


def missed(wish: str) -> str:
    """What is wanted where no tool on offer does it."""
    return f"{LOOK}{NONE_FITS} The user wants: {wish}."


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
        askable = _askable(tool)
        if tool.verb and askable:
            return _asked_for(d, tools, tool, askable)


def _askable(tool: Tool) -> list[str]:
    return [k for k in tool.required if tool.slots[k].kind != "boolean"]


def _asked_for(d: Draw, tools: list[Tool], tool: Tool, askable: list[str]) -> Turn:
    gone = d.any(askable)
    values = {k: s.value(d) for k, s in tool.slots.items() if k in tool.required and k != gone}
    user = tool.ask(d, values)
    name = gone.replace("_", " ")
    return Turn(CHOOSE, user, [say(f"{LOOK}{fits(tool, values)} The {name} is missing, I ask for it.", f"Please tell me the {name}.")],
                {"tools": [], "text": "(?i)" + name}, ("missing argument", gone), [x.spec for x in tools])


NO_TOOL = "I have no tool for that."


def none_fits(d: Draw) -> Turn:
    """An action for which no tool is on offer."""
    tools, tool = offer(d, d.int(2, 8))
    user, _ = wanted_call(d, tool)
    left = [x for x in tools if x is not tool and not (x.verb and tool.verb and (x.noun == tool.noun))]
    if not left:
        return none_fits(d)
    return refused(user, tool, left)


def refused(user: str, wanted: Tool, tools: list[Tool]) -> Turn:
    """The wish is told in the words of the tools and not of the user."""
    return unfulfilled(user, action(wanted), tools)


def unfulfilled(user: str, wish: str, tools: list[Tool]) -> Turn:
    return Turn(CHOOSE, user, [say(missed(wish), NO_TOOL)], {"tools": [], "text": r"(?i)(no tool|cannot|can't|not able|don't have|do not have)"},
                ("no tool",), [x.spec for x in tools])


def make(d: Draw) -> list[Turn]:
    r = d.rng.random()
    if r < 0.08:
        return [none_fits(d)]
    if r < 0.15:
        return [missing(d)]
    return talk(d)
