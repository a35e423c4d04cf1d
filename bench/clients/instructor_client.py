"""instructor: structured output in the default mode of each provider, and as JSON."""
import anthropic
import instructor
import openai
from instructor.core import InstructorRetryException

from cases import ANNA, EXTRACT, MODEL, Person, case, raises, recorded, run, shipped, stranger

ALL = ["chat", "responses", "messages"]


def client(protocol, node, mode=None):
    if protocol == "messages":
        return instructor.from_anthropic(anthropic.Anthropic(base_url=node.url, api_key=node.key, max_retries=0), **({"mode": mode} if mode else {}))
    mode = mode or (instructor.Mode.RESPONSES_TOOLS if protocol == "responses" else instructor.Mode.TOOLS)
    return instructor.from_openai(openai.OpenAI(base_url=node.v1, api_key=node.key, max_retries=0), mode=mode)


def extract(protocol, node, name=MODEL, mode=None, kind=Person):
    more = {"max_tokens": 500} if protocol == "messages" else {}
    return client(protocol, node, mode).create(model=name, messages=[{"role": "user", "content": EXTRACT}], response_model=kind, max_retries=0, **more)


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


@case("typed errors", ALL)
def errors(protocol):
    for node, name, status in (stranger, MODEL, 401), (shipped, "nobody", 404 if protocol == "messages" else 400):
        error = raises((InstructorRetryException, openai.APIStatusError, anthropic.APIStatusError), lambda: extract(protocol, node, name))
        assert str(status) in str(error), error


run("instructor")
