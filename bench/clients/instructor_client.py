"""instructor: structured output in the default mode of each provider, and as JSON."""
from typing import Literal

import anthropic
import instructor
import openai
from instructor.core import InstructorRetryException
from pydantic import BaseModel, field_validator

from cases import ANNA, EXTRACT, MODEL, Person, case, raises, recorded, run, shipped, stranger

ALL = ["chat", "responses", "messages"]


def client(protocol, node, mode=None):
    if protocol == "messages":
        return instructor.from_anthropic(anthropic.Anthropic(base_url=node.url, api_key=node.key, max_retries=0), **({"mode": mode} if mode else {}))
    mode = mode or (instructor.Mode.RESPONSES_TOOLS if protocol == "responses" else instructor.Mode.TOOLS)
    return instructor.from_openai(openai.OpenAI(base_url=node.v1, api_key=node.key, max_retries=0), mode=mode)


def extract(protocol, node, name=MODEL, mode=None, kind=Person, retries=0):
    more = {"max_tokens": 500} if protocol == "messages" else {}
    return client(protocol, node, mode).create(model=name, messages=[{"role": "user", "content": EXTRACT}], response_model=kind, max_retries=retries, **more)


class Adult(Person):
    """A person that a text tells of."""
    @field_validator("age")
    @classmethod
    def grown(cls, age):
        if age < 40:
            raise ValueError("too young")
        return age


class Verdict(BaseModel):
    """What a small model can say too."""
    kind: Literal["customer", "guest"]
    sure: bool


@case("structured output", ALL)
def structured(protocol):
    assert extract(protocol, recorded).model_dump() == ANNA.model_dump()


@case("structured output as JSON", ["chat"])
def as_json(protocol):
    assert extract(protocol, recorded, mode=instructor.Mode.JSON_SCHEMA).model_dump() == ANNA.model_dump()


@case("streamed structured output", ["chat", "messages"])
def partial(protocol):
    more = {"max_tokens": 500} if protocol == "messages" else {}
    pieces = list(client(protocol, recorded).create_partial(model=MODEL, messages=[{"role": "user", "content": EXTRACT}], response_model=Person, **more))
    assert pieces[-1].model_dump() == ANNA.model_dump(), pieces[-1]


@case("structured output, shipped model", ALL)
def verdict(protocol):
    assert extract(protocol, shipped, kind=Verdict).kind in ("customer", "guest")


@case("an answer that is not valid, asked for again", ALL)
def again(protocol):
    assert extract(protocol, recorded, kind=Adult, retries=1).age == 44


@case("typed errors", ALL)
def errors(protocol):
    for node, name, status in (stranger, MODEL, 401), (shipped, "nobody", 404 if protocol == "messages" else 400):
        error = raises((InstructorRetryException, openai.APIStatusError, anthropic.APIStatusError), lambda: extract(protocol, node, name))
        assert str(status) in str(error), error


run("instructor")
