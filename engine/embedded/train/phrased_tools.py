"""Tools and schemas of answers that no training conversation has, in the dressings in which programs write JSON Schema, and
what users want of them. `promises.py` makes cases of them.

A tool is its name, its description, its schema, and wishes: a sentence and the arguments that it gives. Slots: {city}, {name},
{n} and {m} (numbers), {word}, {thing}, {day}, {list} (some words), {date}."""

import copy

_S, _I, _N, _B = {"type": "string"}, {"type": "integer"}, {"type": "number"}, {"type": "boolean"}


def _o(properties, required=None, **more):
    return {"type": "object", "properties": properties, "required": list(properties) if required is None else required, **more}


def _or_null(s):
    return {"anyOf": [s, {"type": "null"}]}


TOOLS = [
    ("tide_table", "Tells when the sea is high and low at a port.", _o({"port": {**_S, "title": "Port"}}, title="tide_tableArguments"),
     [("When is high tide at {city}?", {"port": "{city}"}), ("I sail from {city}, so the tides there please.", {"port": "{city}"})]),
    ("reservoirLevel", "Read the water level of a reservoir in percent.", _o({"reservoir": {"type": "string", "minLength": 1}}, additionalProperties=False, **{"$schema": "https://json-schema.org/draft/2020-12/schema"}),
     [("How full is the reservoir {name}?", {"reservoir": "{name}"}), ("Water level of the reservoir called {name}, please.", {"reservoir": "{name}"})]),
    ("bus_departures", "List the next buses from a stop.", _o({"stop": _S, "line": _or_null(_I)}, ["stop"]),
     [("Which buses leave from the stop {name}?", {"stop": "{name}"}), ("When does line {n} leave from the stop {name}?", {"stop": "{name}", "line": "{n}"})]),
    ("pay_invoice", "Pay an invoice.", {"properties": {"invoice": {"type": "integer", "description": "Number of the invoice"}, "from_account": {"$ref": "#/$defs/Account"}}, "required": ["invoice", "from_account"], "type": "object",
                                       "$defs": {"Account": {"enum": ["private", "business"], "type": "string", "title": "Account"}}},
     [("Pay invoice {n} from the business account.", {"invoice": "{n}", "from_account": "business"}), ("Invoice {n} has to be paid, take the private account.", {"invoice": "{n}", "from_account": "private"})]),
    ("thermostat-set", "Set how warm a room shall be.", _o({"room": {"type": "string", "examples": ["attic"]}, "celsius": {"type": "number", "minimum": 5, "maximum": 30}}),
     [("I want {m} degrees in the {thing} room.", {"room": "{thing}", "celsius": "{m}"}), ("Make the {thing} room {m} degrees warm.", {"room": "{thing}", "celsius": "{m}"})]),
    ("find_colleague", "Look a colleague up in the staff list.", _o({"who": {**_S, "description": "Name"}}),
     [("Who is our colleague {name} and where is the desk?", {"who": "{name}"}), ("Look {name} up among the staff.", {"who": "{name}"})]),
    ("unit_convert", "Turn a number of one unit into another unit.", _o({"value": _N, "unit": {"type": "string", "enum": ["km", "miles", "kg", "pounds"]}, "to": {"type": "string", "enum": ["km", "miles", "kg", "pounds"]}}),
     [("How many miles are {n} km?", {"value": "{n}", "unit": "km", "to": "miles"}), ("{n} pounds in kg, please.", {"value": "{n}", "unit": "pounds", "to": "kg"})]),
    ("book_court", "Reserve a tennis court.", _o({"day": {"type": "string", "enum": ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]}, "hour": {"type": "integer", "minimum": 6, "maximum": 22}}),
     [("Reserve a court on {day} at {m}.", {"day": "{day}", "hour": "{m}"}), ("We would like to play tennis this {day}, at {m} o'clock.", {"day": "{day}", "hour": "{m}"})]),
    ("label_photos", "Put labels on photos.", _o({"album": _S, "labels": {"type": "array", "items": {"type": "string"}, "minItems": 1}}),
     [("In the album {word}, label the photos with {list}.", {"album": "{word}", "labels": "{list}"}), ("The photos of the album {word} need the labels {list}.", {"album": "{word}", "labels": "{list}"})]),
    ("mute_channel", "Silence a channel of the chat for some hours.", _o({"channel": {**_S, "pattern": "^[a-z-]+$"}, "hours": {**_I, "default": 8}}, ["channel"]),
     [("Silence the channel {word} for {m} hours.", {"channel": "{word}", "hours": "{m}"}), ("The channel {word} is too loud, silence it.", {"channel": "{word}"})]),
    ("recipe_lookup", "Find a recipe in the book of recipes.", _o({"dish": _S, "vegetarian": {"type": ["boolean", "null"]}}, ["dish"]),
     [("Is there a recipe for {thing} soup in the book?", {"dish": "{thing} soup"}), ("Look for {thing} soup in the book of recipes.", {"dish": "{thing} soup"})]),
    ("PrintBadge", "Print a visitor's badge.", _o({"visitor": {"type": "string", "maxLength": 60}, "host": {"type": "string", "maxLength": 60}}, additionalProperties=False),
     [("A badge for the visitor {name}, the host is {city}.", {"visitor": "{name}", "host": "{city}"}), ("Print a badge: visitor {name}, host {city}.", {"visitor": "{name}", "host": "{city}"})]),
    ("water_plants", "Water the plants of a bed in the garden.", _o({"bed": {"oneOf": [{"const": "roses"}, {"const": "herbs"}, {"const": "beans"}]}, "liters": _I}),
     [("Give the herbs {m} liters of water.", {"bed": "herbs", "liters": "{m}"}), ("The roses need {m} liters of water.", {"bed": "roses", "liters": "{m}"})]),
    ("lookup_isbn", "Find a book by its ISBN.", _o({"isbn": {"type": "string", "description": "Thirteen digits"}}), [("Which book has the ISBN 978{n}{n}?", {"isbn": "978{n}{n}"}), ("Find the book behind ISBN 978{n}{n}.", {"isbn": "978{n}{n}"})]),
    ("start_washing", "Start the washing machine.", _o({"program": {"allOf": [{"enum": ["wool", "cotton", "quick"]}]}, "spin": _B}, ["program"]),
     [("Start the washing machine with the wool program.", {"program": "wool"}), ("Wash my shirts, the quick program will do.", {"program": "quick"})]),
    ("ferry_ticket", "Buy tickets for the ferry.", _o({"to": _S, "passengers": {"type": "integer", "minimum": 1}}),
     [("I need {m} tickets for the ferry to {city}.", {"to": "{city}", "passengers": "{m}"}), ("We are {m} people and take the ferry to {city}.", {"to": "{city}", "passengers": "{m}"})]),
    ("door_log", "Show who went through a door on a date.", _o({"door": _I, "date": {"type": "string", "format": "date"}}),
     [("Who went through door {n} on {date}?", {"door": "{n}", "date": "{date}"}), ("Show me the log of door {n} for {date}.", {"door": "{n}", "date": "{date}"})]),
    ("rename_ship", "Give a ship another name.", _o({"old": _S, "new": _S}), [("The ship {name} shall be called {city} from now on.", {"old": "{name}", "new": "{city}"}), ("Rename the ship {name} to {city}.", {"old": "{name}", "new": "{city}"})]),
    ("weigh_parcel", "Ask the scale for the weight of a parcel.", _o({"parcel_no": {"type": "integer", "title": "Parcel No"}}), [("How heavy is parcel {n}?", {"parcel_no": "{n}"}), ("Put parcel {n} on the scale.", {"parcel_no": "{n}"})]),
    ("call_elevator", "Send the elevator to a floor.", _o({"floor": {"type": ["integer", "string"]}}), [("Send the elevator to floor {m}.", {"floor": "{m}"}), ("I wait for the elevator on floor {m}.", {"floor": "{m}"})]),
    ("museum_hours", "Tell when a museum is open.", _o({"museum": _S, "weekday": _or_null({"type": "string"})}, ["museum"]), [("When is the museum {name} open?", {"museum": "{name}"}), ("Is the museum {name} open on {day}?", {"museum": "{name}", "weekday": "{day}"})]),
    ("adopt_animal", "File a wish to take an animal home from the shelter.", _o({"species": {"type": "string", "enum": ["cat", "dog", "rabbit"]}, "applicant": _S}, description="What the shelter must know"),
     [("{name} wants to take a rabbit home from the shelter.", {"species": "rabbit", "applicant": "{name}"}), ("File a wish for {name}: a dog from the shelter.", {"species": "dog", "applicant": "{name}"})]),
]

# What none of the tools does.
WISHES_FOR_NONE = ["Sing something for {name}.", "Repair my {thing}.", "Paint the house in {city} again.", "Teach {name} to swim.", "Bake a cake with my {thing}.", "Walk the dog of {name}."]

_LONG = {"type": "string", "description": "Whole sentences, as long as it takes"}
# Schemas of answers with strings that a model ends by itself, and what is asked with them. {t} is a text about {name} and {city}.
SCHEMAS = [
    (_o({"headline": _S, "lead": _S}, additionalProperties=False), ["Write the news of today in {city}.", "A short news item about {name}, please."]),
    (_o({"reply": _LONG}), ["My parcel never came. {name}", "Hello, this is {name}. Is the shop in {city} open?", "What do you think of {city}?"]),
    (_o({"question": _S, "answer": _S, "difficulty": {"type": "string", "enum": ["easy", "hard"]}}), ["Make a quiz question about {city}.", "A question for the school class of {name}."]),
    (_o({"steps": {"type": "array", "items": _S}, "first_sentence": _S}), ["How do I clean a {thing}?", "How does {name} get to {city}?"]),
    (_o({"label": {"type": "string", "enum": ["bug", "wish", "praise"]}, "why": _S}, title="Ticket"), ["The page is empty since {day}, says {name}.", "{name} wants a darker page.", "I like your shop, greets {name}"]),
    (_o({"who": _S, "did_what": _S, "where": _or_null(_S)}), ["{name} lost a {thing} in {city}.", "On {day} {name} found a {thing}."]),
    ({"$defs": {"Speaker": _o({"called": _S, "from": _S})}, "type": "object", "properties": {"speaker": {"$ref": "#/$defs/Speaker"}, "topic": _S}, "required": ["speaker", "topic"]}, ["{name} from {city} gives a talk about the {thing}.", "The talk of {name} is over."]),
    (_o({"verdict": _B, "grounds": _S}), ["{name} paid for the {thing}. Was it paid?", "Is {city} larger than {name}'s {thing}?"]),
    (_o({"translation": _S, "formal": _B}), ["Say in German: the {thing} is here.", "Translate: {name} lives in {city}."]),
    (_o({"code": _S, "language_used": _S}), ["Write a loop that counts to {n}.", "Write a program for {name}."]),
    (_o({"poem": _S}), ["A few rhymes on the {thing} would be nice.", "Some lines for {name} in {city}."]),
    (_o({"people": {"type": "array", "items": _o({"called": _S, "part": _S})}}), ["{name} plays the king, the {thing} is played by nobody.", "Who is in the play of {name}?"]),
    (_o({"subject_line": {**_S, "maxLength": 80}, "body": _S, "signed": _S}), ["Write a mail to {name} about the {thing}.", "Tell {name} that we meet on {day}."]),
    (_o({"thoughts": _S, "next_action": {"type": "string", "enum": ["ask", "stop", "go on"]}, "action_input": _S}), ["The address book has a hole at {name}.", "The {thing} is gone. What now?"]),
    (_o({"risk": {"type": "integer", "minimum": 1, "maximum": 5}, "justification": _S}), ["{name} walks over the ice.", "The {thing} hangs over the door in {city}."]),
    (_o({"entities": {"type": "array", "items": _S}, "gist": _S}), ["{name} bought a {thing} in {city} on {day}.", "On {day} it rained in {city}."]),
    ({"type": "object", "properties": {"found": _B, "passage": _or_null(_S), "page": _or_null(_I)}, "required": ["found", "passage", "page"], "additionalProperties": False}, ["Where does the book name {name}?", "Page {n} says: {name} went to {city}. Who went to {city}?"]),
    (_o({"plan": {"type": "array", "items": _o({"task": _S, "done": _B})}, "goal": _S}), ["Plan a day in {city}.", "{name} wants to sell the {thing}. Make a plan."]),
    (_o({"review": _o({"stars": {"type": "integer", "minimum": 1, "maximum": 5}, "words": _S}), "reviewer": _S}), ["{name}: four stars, the {thing} is fine.", "The {thing} is bad, one star, says {name}."]),
    (_o({"definition": _S, "sample_sentence": _S}), ["My child wants to know about {thing}.", "For the glossary: {word}"]),
    ({"type": "object", "properties": {"command": _S, "explanation_of_it": _S, "dangerous": _B}, "required": ["command", "explanation_of_it"]}, ["How do I list the files of {name}?", "Delete the folder {word}."]),
    (_o({"dialogue": {"type": "array", "items": _o({"speaker": _S, "line": _S}), "maxItems": 4}}), ["{name} and the {thing} talk.", "A dialogue in {city}."]),
    ({"anyOf": [_o({"refusal": _S}), _o({"result_text": _S, "sure": _B})]}, ["Where did they bring {name}?", "Compute the price of the {thing}."]),
    (_o({"minutes": _S, "decisions": {"type": "array", "items": _S}, "absent": {"type": "array", "items": _S}}), ["On {day} {name} and others met. They will sell the {thing}.", "The meeting in {city} was short."]),
    (_o({"sql": _S, "tables": {"type": "array", "items": _S}}), ["All orders of {name}.", "Which {thing} was sold on {day}?"]),
]


def filled(x, values):
    """A schema's arguments or a sentence with its slots filled; a slot alone keeps the kind of its value."""
    if isinstance(x, dict):
        return {k: filled(v, values) for k, v in x.items()}
    if not isinstance(x, str):
        return copy.deepcopy(x)
    if x[:1] == "{" and x[-1:] == "}" and x[1:-1] in values:
        return values[x[1:-1]]
    shown = {k: listed(v) if isinstance(v, list) else v for k, v in values.items()}
    return x.format(**shown)


def listed(items):
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " and " + items[-1]
