"""The official Python SDK against a running node: what an application does."""
import os

import anthropic

url, key = os.environ["BASE_URL"], os.environ["API_KEY"]
client = anthropic.Anthropic(base_url=url, api_key=key, max_retries=0)
ask = dict(model="core-1.1", max_tokens=24, extra_body={"temperature": 0}, messages=[{"role": "user", "content": "Say hello."}])

with client.messages.stream(**ask) as stream:
    kinds = {event.type for event in stream}
    streamed = stream.get_final_message()
assert {"message_start", "content_block_start", "content_block_stop", "message_stop"} <= kinds, kinds
assert streamed.content[0].type == "thinking" and streamed.content[0].signature
assert 0 < streamed.usage.output_tokens <= 24

plain = client.messages.create(**ask, thinking={"type": "disabled"})
assert all(b.type == "text" for b in plain.content) and plain.id.startswith("msg_")

count = client.messages.count_tokens(model=ask["model"], messages=ask["messages"])
assert count.input_tokens == streamed.usage.input_tokens + streamed.usage.cache_read_input_tokens

tools = [{"name": "weather", "description": "The weather of a city.",
          "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}}}]
turn = client.messages.create(**{**ask, "messages": [
    {"role": "user", "content": "Weather in Paris?"},
    {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Paris"}}]},
    {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "Sunny."}]}]}, tools=tools)
assert turn.stop_reason in ("end_turn", "max_tokens", "tool_use")

assert sorted(m.id for m in client.models.list()) == ["core-1.1", "core-1.1-mini"]


def fails(kind, call):
    try:
        call()
    except kind as err:
        return err
    raise AssertionError(f"no {kind.__name__}")


fails(anthropic.AuthenticationError, lambda: anthropic.Anthropic(base_url=url, api_key="sk-no", max_retries=0).messages.create(**ask))
fails(anthropic.NotFoundError, lambda: client.messages.create(**{**ask, "model": "nobody"}))
err = fails(anthropic.BadRequestError, lambda: client.messages.create(**{**ask, "messages": []}))
assert err.body["error"]["type"] == "invalid_request_error", err.body

bearer = anthropic.Anthropic(base_url=url, auth_token=key, api_key=None, max_retries=0)
assert bearer.messages.create(**ask).type == "message"


@anthropic.beta_tool
def find_person(name: str) -> str:
    """Where a person is."""
    return f"{name} is in Paris."


@anthropic.beta_tool
def get_weather(city: str) -> str:
    """Get the current weather of a city."""
    return {"Paris": "21 degrees, sunny"}[city]


# A tool runner sends a thread of its own accord, and all messages once it knows that none is kept.
recorded = anthropic.Anthropic(base_url=os.environ["RECORDED_URL"], api_key=os.environ["RECORDED_KEY"], max_retries=0)
chain = dict(model="core-1.1", max_tokens=500, messages=[{"role": "user", "content": "What is the weather where Anna is? Use the tools."}])
for runner in (recorded.beta.messages.tool_runner(**chain, tools=[find_person, get_weather]),
               recorded.beta.messages.tool_runner(**chain, tools=[find_person, get_weather], stream=True)):
    turns = [turn.get_final_message() if hasattr(turn, "get_final_message") else turn for turn in runner]
    assert [block.name for turn in turns for block in turn.content if block.type == "tool_use"] == ["find_person", "get_weather"], turns
    assert turns[-1].content[-1].text == "It is 21 degrees and sunny in Paris.", turns
    read = [turn.usage.input_tokens + turn.usage.cache_read_input_tokens for turn in turns]
    assert read[0] < read[1] < read[2], read

hello = {"role": "user", "content": "Say hello."}
thread = recorded.beta.messages.thread(model="core-1.1", max_tokens=500)
err = fails(anthropic.BadRequestError, lambda: thread.send(hello))
assert err.error_code == "thread_unsupported_request" and err.body["error"]["message"].startswith("thread: "), err.body
thread = recorded.beta.messages.thread(model="core-1.1", max_tokens=500, unsupported_request_behavior="continue_unthreaded")
counts = [turn.usage.input_tokens + turn.usage.cache_read_input_tokens for turn in (thread.send(hello), thread.send(hello))]
assert counts[0] < counts[1], counts
print("passed")
