"""The official OpenAI Python SDK against a running node: chat completions and responses."""
import os

import openai

url, key = os.environ["BASE_URL"] + "/v1", os.environ["API_KEY"]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
ask = dict(model="core-1.1", max_tokens=24, temperature=0, messages=[{"role": "user", "content": "Say hello."}])

plain = client.chat.completions.create(**ask)
assert plain.id.startswith("chatcmpl-") and plain.choices[0].message.reasoning_content
assert plain.choices[0].finish_reason in ("stop", "length")
assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens

with client.chat.completions.stream(**ask, stream_options={"include_usage": True}) as stream:
    kinds = {event.type for event in stream}
    streamed = stream.current_completion_snapshot  # get_final_completion refuses an answer cut by max_tokens
assert "chunk" in kinds, kinds
assert streamed.usage.prompt_tokens == plain.usage.prompt_tokens
assert streamed.usage.completion_tokens == plain.usage.completion_tokens
assert streamed.choices[0].message.reasoning_content == plain.choices[0].message.reasoning_content

quiet = client.chat.completions.create(**ask, extra_body={"chat_template_kwargs": {"enable_thinking": False}, "top_k": 1})
assert quiet.usage.completion_tokens_details.reasoning_tokens == 0

tools = [{"type": "function", "function": {"name": "weather", "description": "The weather of a city.",
          "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]
turn = client.chat.completions.create(**{**ask, "messages": ask["messages"] + [
    {"role": "assistant", "tool_calls": [{"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}]},
    {"role": "tool", "tool_call_id": "call_1", "content": "Sunny."}]}, tools=tools)
assert turn.choices[0].finish_reason in ("stop", "length", "tool_calls")

# The same seed gives the same answer, also when it is sampled.
drawn = [client.chat.completions.create(**{**ask, "temperature": 1.0}, seed=7).choices[0].message for _ in range(2)]
assert drawn[0].reasoning_content == drawn[1].reasoning_content and drawn[0].content == drawn[1].content

response = client.responses.create(model=ask["model"], input="Say hello.", max_output_tokens=24, temperature=0)
assert response.id.startswith("resp_") and response.store is False and response.status in ("completed", "incomplete")
assert response.usage.input_tokens == plain.usage.prompt_tokens
assert response.usage.output_tokens == plain.usage.completion_tokens
with client.responses.stream(model=ask["model"], input="Say hello.", max_output_tokens=24, temperature=0) as stream:
    kinds = [event.type for event in stream]
assert kinds[0] == "response.created" and kinds[-1] in ("response.completed", "response.incomplete"), kinds


def fails(kind, code, call):
    try:
        call()
    except kind as err:
        assert err.code == code, err
        return err
    raise AssertionError(f"no {kind.__name__}")


fails(openai.AuthenticationError, "unauthorized", lambda: openai.OpenAI(base_url=url, api_key="sk-no", max_retries=0).chat.completions.create(**ask))
fails(openai.BadRequestError, "model_not_found", lambda: client.chat.completions.create(**{**ask, "model": "nobody"}))
fails(openai.BadRequestError, "invalid_request", lambda: client.chat.completions.create(**{**ask, "messages": []}))
fails(openai.BadRequestError, "invalid_request", lambda: client.responses.create(model="core-1.1", input="hi", store=True))
assert sorted(m.id for m in client.models.list()) == ["core-1.1", "core-1.1-mini"]
print("passed")
