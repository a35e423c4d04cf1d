"""LiteLLM: one call for every provider, here over each protocol."""
import json
import os

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # no download
import litellm

from cases import ANNA, BOTH, EXTRACT, HELLO, MODEL, WARM, WARMER, WEATHER, Person, case, raises, recorded, run, shipped, stranger, weather

CHAT = ["chat", "messages"]
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Get the current weather of a city.", "parameters":
          {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


def ask(protocol, node, text, name=MODEL, **more):
    messages = text if isinstance(text, list) else [{"role": "user", "content": text}]
    prefix, base = ("anthropic/", node.url) if protocol == "messages" else ("openai/", node.v1)
    return litellm.completion(model=prefix + name, api_base=base, api_key=node.key, messages=messages, max_tokens=400, num_retries=0, **more)


@case("plain", CHAT)
def plain(protocol):
    answer = ask(protocol, shipped, HELLO)
    assert answer.choices[0].message.content and answer.usage.completion_tokens > 0, answer


@case("streamed", CHAT)
def streamed(protocol):
    chunks = list(ask(protocol, shipped, HELLO, stream=True, stream_options={"include_usage": True}))
    whole = litellm.stream_chunk_builder(chunks)
    assert whole.choices[0].message.content and whole.usage.prompt_tokens > 0, whole


def loop(protocol, text):
    """Asks, runs the tools and asks again, until there is no call: the cities asked for, and the answer."""
    messages, cities = [{"role": "user", "content": text}], []
    for _ in range(3):
        message = ask(protocol, recorded, messages, tools=TOOLS).choices[0].message
        if not message.tool_calls:
            return cities, message.content
        messages.append(message.model_dump())
        for call in message.tool_calls:
            cities.append(json.loads(call.function.arguments)["city"])
            messages.append({"role": "tool", "tool_call_id": call.id, "content": weather(cities[-1])})


@case("tool round trip", CHAT)
def tools(protocol):
    assert loop(protocol, WEATHER) == (["Paris"], WARM)


@case("streamed tool call", CHAT)
def streamed_tools(protocol):
    whole = litellm.stream_chunk_builder(list(ask(protocol, recorded, WEATHER, tools=TOOLS, stream=True)))
    assert json.loads(whole.choices[0].message.tool_calls[0].function.arguments) == {"city": "Paris"}, whole


@case("parallel tools", CHAT)
def parallel(protocol):
    assert loop(protocol, BOTH) == (["Paris", "Rome"], WARMER)


@case("structured output", CHAT)
def structured(protocol):
    answer = ask(protocol, recorded, EXTRACT, response_format=Person)
    assert Person.model_validate_json(answer.choices[0].message.content) == ANNA, answer


@case("typed errors", CHAT)
def errors(protocol):
    raises(litellm.AuthenticationError, lambda: ask(protocol, stranger, HELLO))
    raises(litellm.NotFoundError, lambda: ask(protocol, shipped, HELLO, "nobody"))


@case("plain", ["responses"])
def responses(protocol):
    answer = litellm.responses(model="openai/" + MODEL, api_base=shipped.v1, api_key=shipped.key, input=HELLO, max_output_tokens=400)
    assert answer.status == "completed" and answer.usage.output_tokens > 0, answer


@case("streamed", ["responses"])
def responses_streamed(protocol):
    events = list(litellm.responses(model="openai/" + MODEL, api_base=shipped.v1, api_key=shipped.key, input=HELLO, max_output_tokens=400, stream=True))
    assert events[-1].type == "response.completed", events[-1]


run("litellm")
