"""The official Ollama Python client against a running node whose module ollama is enabled."""
import os

import ollama

url, key = os.environ["BASE_URL"], os.environ["API_KEY"]
client = ollama.Client(host=url, headers={"Authorization": f"Bearer {key}"})
ask = dict(model="core-1.1", messages=[{"role": "user", "content": "Say hello."}], options={"num_predict": 24, "temperature": 0})

plain = client.chat(**ask)
assert plain.done and plain.done_reason in ("stop", "length") and plain.message.thinking, plain
assert plain.eval_count <= 24 and plain.prompt_eval_count > 0 and plain.total_duration > 0 and plain.created_at.endswith("Z")

parts = list(client.chat(**ask, stream=True))
assert len(parts) > 2 and [p.done for p in parts] == [False] * (len(parts) - 1) + [True]
assert "".join(p.message.thinking or "" for p in parts) == plain.message.thinking
assert "".join(p.message.content or "" for p in parts) == plain.message.content
assert (parts[-1].eval_count, parts[-1].prompt_eval_count) == (plain.eval_count, plain.prompt_eval_count)
assert parts[-1].total_duration >= parts[-1].prompt_eval_duration > 0 and parts[-1].eval_duration > 0

assert not client.chat(**ask, think=False).message.thinking

generated = client.generate(model="core-1.1:latest", prompt="Say hello.", options=ask["options"])
assert generated.thinking == plain.message.thinking and generated.prompt_eval_count == plain.prompt_eval_count
pieces = list(client.generate(model="core-1.1", prompt="Say hello.", options=ask["options"], stream=True))
assert "".join(p.response for p in pieces) == generated.response
assert "".join(p.thinking or "" for p in pieces) == generated.thinking


def weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: The city.
    """
    return f"Sunny in {city}."


turn = client.chat(model="core-1.1", tools=[weather], options=ask["options"], messages=ask["messages"] + [
    {"role": "assistant", "tool_calls": [{"function": {"name": "weather", "arguments": {"city": "Oslo"}}}]},
    {"role": "tool", "tool_name": "weather", "content": weather("Oslo")}])
assert turn.done and turn.prompt_eval_count > plain.prompt_eval_count

assert sorted(m.model for m in client.list().models) == ["core-1.1", "core-1.1-mini"]
assert sorted(m.model for m in client.ps().models) == ["core-1.1", "core-1.1-mini"]
shown = client.show("core-1.1")
assert "tools" in shown.capabilities and shown.modelinfo["model.context_length"] > 0


def fails(status, says, call):
    try:
        call()
    except ollama.ResponseError as err:
        assert err.status_code == status and says in err.error, (err.status_code, err.error)
        return
    raise AssertionError("no error")


fails(401, "key", lambda: ollama.Client(host=url, headers={"Authorization": "Bearer sk-no"}).chat(**ask))
fails(404, "nobody", lambda: client.chat(**{**ask, "model": "nobody"}))
fails(404, "nobody", lambda: client.show("nobody"))
fails(400, "options.temperature", lambda: client.chat(**{**ask, "options": {"temperature": -1}}))
fails(400, "images", lambda: client.generate(model="core-1.1", prompt="What is it?", images=[b"\x89PNG"]))
fails(400, "raw", lambda: list(client.generate(model="core-1.1", prompt="x", raw=True, stream=True)))

# A model that plays answers: calls of the model's, and what their results lead to.
recorded = ollama.Client(host=os.environ["RECORDED_URL"], headers={"Authorization": f"Bearer {os.environ['RECORDED_KEY']}"})


def get_weather(city: str) -> str:
    """The weather of a city.

    Args:
      city: The city.
    """
    return {"Paris": "21 degrees", "Rome": "25 degrees"}[city]


for stream in (False, True):
    messages = [{"role": "user", "content": "How is the weather in Paris and in Rome?"}]
    answer = recorded.chat("core-1.1", messages=messages, tools=[get_weather], stream=stream)
    parts = list(answer) if stream else [answer]
    calls = [call for p in parts for call in p.message.tool_calls or []]
    assert [(c.function.name, dict(c.function.arguments)) for c in calls] == [("get_weather", {"city": "Paris"}), ("get_weather", {"city": "Rome"})]
    messages.append({"role": "assistant", "tool_calls": calls})
    messages += [{"role": "tool", "tool_name": c.function.name, "content": get_weather(**c.function.arguments)} for c in calls]
    assert recorded.chat("core-1.1", messages=messages, tools=[get_weather]).message.content.startswith("Rome is warmer")
print("passed")
