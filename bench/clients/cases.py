"""What the Python scripts share: where the two nodes are, and cases that run one by one.

`shipped` serves the model in the binary; `recorded` plays answers.json, for what
needs a better model. A case that raises has failed; its result is a line of JSON
in the file that RESULTS names, from which the table is made.
"""
import asyncio
import importlib.metadata
import inspect
import json
import os
import traceback
from dataclasses import dataclass
from typing import Literal

from pydantic import BaseModel

MODEL = "core-1.1"


@dataclass
class Node:
    url: str  # without /v1, as clients of the messages protocol want it
    key: str

    @property
    def v1(self):
        return self.url + "/v1"


shipped = Node(os.environ["BASE_URL"], os.environ["API_KEY"])
recorded = Node(os.environ["RECORDED_URL"], os.environ["RECORDED_KEY"])
stranger = Node(shipped.url, "sk-no")

# What the recorded answers answer.
HELLO, WEATHER, BOTH, EXTRACT = ("Say hello.", "What is the weather in Paris? Use the tool.",
                                 "Compare the weather in Paris and in Rome. Use the tool.",
                                 "Extract the person: Anna Berg is 34, lives in Oslo, likes skiing and chess, and is a customer.")
WARM, WARMER = "It is 21 degrees and sunny in Paris.", "Rome is warmer: 25 degrees against 21 in Paris."


def weather(city: str) -> str:
    """Get the current weather of a city."""
    return {"Paris": "21 degrees, sunny", "Rome": "25 degrees, clear"}[city]


class Person(BaseModel):
    """A person that a text tells of."""
    name: str
    age: int
    city: str
    hobbies: list[str]
    kind: Literal["customer", "guest"]


ANNA = Person(name="Anna Berg", age=34, city="Oslo", hobbies=["skiing", 'chess "blitz"'], kind="customer")

cases = []


def case(name, protocols):
    """Registers a function of a protocol as a case on each of several."""
    def register(function):
        cases.extend((protocol, name, function) for protocol in protocols)
        return function
    return register


def raises(kind, call):
    """Calls and returns the error, which must be of the kind."""
    try:
        call()
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


async def araises(kind, awaitable):
    """The same of what has to be awaited."""
    try:
        await awaitable
    except kind as error:
        return error
    raise AssertionError(f"no {kind.__name__}")


def run(client, package=None):
    """Runs the registered cases and writes their results."""
    version = importlib.metadata.version(package or client)
    with open(os.environ["RESULTS"], "a") as results:
        for protocol, name, function in cases:
            error = ""
            try:
                made = function(protocol)
                if inspect.isawaitable(made):
                    asyncio.run(made)
            except Exception as e:
                at = [frame for frame in traceback.extract_tb(e.__traceback__) if os.path.dirname(frame.filename) == os.path.dirname(__file__)][-1]
                error = f"{os.path.basename(at.filename)}:{at.lineno}: {type(e).__name__}: {e}"[:600]
            results.write(json.dumps({"client": client, "version": version, "protocol": protocol, "case": name, "error": error}) + "\n")
