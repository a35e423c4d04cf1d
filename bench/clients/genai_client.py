"""Google's Gen AI SDK for Python against a running node on which the module generate-content is enabled.

Its base URL ends in /generate-content: below it the module answers paths of any version.
"""
import asyncio
import json
import os

from google import genai
from google.genai import errors, types

MODEL = "core-1.1"


def connect(key):
    return genai.Client(api_key=key, http_options=types.HttpOptions(base_url=os.environ["BASE_URL"] + "/generate-content"))


client = connect(os.environ["API_KEY"])
greedy = dict(temperature=0, max_output_tokens=400)


def config(**more):
    return types.GenerateContentConfig(**{**greedy, **more})


def ask(contents="Say hello.", **more):
    return client.models.generate_content(model=MODEL, contents=contents, config=config(**more))


plain = ask()
said, usage = plain.text, plain.usage_metadata
assert said and plain.candidates[0].finish_reason == types.FinishReason.STOP and plain.model_version == MODEL and plain.response_id
assert usage.total_token_count == usage.prompt_token_count + usage.candidates_token_count + (usage.thoughts_token_count or 0)
assert not any(p.thought for p in plain.candidates[0].content.parts)

chunks = list(client.models.generate_content_stream(model=MODEL, contents="Say hello.", config=config()))
assert "".join(c.text or "" for c in chunks) == said and len(chunks) > 2, chunks
assert chunks[-1].candidates[0].finish_reason == types.FinishReason.STOP
assert chunks[-1].usage_metadata.candidates_token_count == usage.candidates_token_count

thoughts = [p.text for p in ask(thinking_config=types.ThinkingConfig(include_thoughts=True)).candidates[0].content.parts if p.thought]
assert "".join(thoughts) and usage.thoughts_token_count, thoughts
quiet = ask(thinking_config=types.ThinkingConfig(thinking_budget=0))
assert quiet.text and not quiet.usage_metadata.thoughts_token_count
assert ask(max_output_tokens=3).candidates[0].finish_reason == types.FinishReason.MAX_TOKENS

instructed = client.models.generate_content(model=MODEL, contents=[types.Content(role="user", parts=[types.Part(text="Hello.")]),
    types.Content(role="model", parts=[types.Part(text="Hello!")]), types.Content(role="user", parts=[types.Part(text="Say hello.")])],
    config=config(system_instruction="Be brief.", stop_sequences=["\n\n\n"], seed=7, top_p=0.9, top_k=40))
assert instructed.usage_metadata.prompt_token_count > usage.prompt_token_count

asked = []


def get_weather(city: str) -> dict:
    """Get the current weather of a city.

    Args:
        city: The name of the city.
    """
    asked.append(city)
    return {"temperature": 17, "sky": "clear"}


question = "What is the weather in Paris?"
manual = types.AutomaticFunctionCallingConfig(disable=True)
called = ask(question, tools=[get_weather], automatic_function_calling=manual)
call = called.function_calls[0]
assert (call.name, call.args) == ("get_weather", {"city": "Paris"}) and call.id, call
part = next(p for p in called.candidates[0].content.parts if p.function_call)
assert part.thought_signature, part
streamed = [c for c in client.models.generate_content_stream(model=MODEL, contents=question,
            config=config(tools=[get_weather], automatic_function_calling=manual)) if c.function_calls]
assert [c.function_calls[0].args for c in streamed] == [{"city": "Paris"}], streamed
told = ask(question, tools=[get_weather])  # the SDK calls the function and sends what came of it
assert asked == ["Paris"] and told.text and not told.function_calls, (asked, told)
forced = ask("Say hello.", tools=[get_weather], automatic_function_calling=manual, tool_config=types.ToolConfig(
    function_calling_config=types.FunctionCallingConfig(mode="ANY", allowed_function_names=["get_weather"])))
assert forced.function_calls[0].name == "get_weather"

schema = types.Schema(type="OBJECT", properties={"city": types.Schema(type="STRING"), "degrees": types.Schema(type="INTEGER", nullable=True)},
                      required=["city", "degrees"])
for shape in (dict(response_schema=schema), dict(response_json_schema={"type": "object", "properties": {"city": {"type": "string"},
              "degrees": {"type": ["integer", "null"]}}, "required": ["city", "degrees"]})):
    answer = json.loads(ask("Paris has 17 degrees.", response_mime_type="application/json", **shape).text)
    assert set(answer) == {"city", "degrees"}, answer

chat = client.chats.create(model=MODEL, config=config())
assert chat.send_message("Say hello.").text == said
assert "".join(c.text or "" for c in chat.send_message_stream("Say hello."))
assert len(chat.get_history(curated=True)) == len(chat.get_history()) >= 4, chat.get_history()

listed = list(client.models.list(config={"page_size": 1}))
assert sorted(m.name for m in listed) == ["models/core-1.1", "models/core-1.1-mini"], listed
one = client.models.get(model=MODEL)
assert one.name == "models/core-1.1" and one.input_token_limit and "generateContent" in one.supported_actions
assert client.models.count_tokens(model=MODEL, contents="Say hello.").total_tokens == usage.prompt_token_count


def fails(code, status, call):
    try:
        call()
    except errors.ClientError as err:
        assert (err.code, err.status) == (code, status), err
        return err
    raise AssertionError(f"no error {code}")


stranger = connect("sk-no")  # kept: the SDK closes what nobody refers to
fails(401, "UNAUTHENTICATED", lambda: stranger.models.generate_content(model=MODEL, contents="hi"))
fails(404, "NOT_FOUND", lambda: client.models.generate_content(model="nobody", contents="hi"))
fails(404, "NOT_FOUND", lambda: client.models.get(model="nobody"))
fails(404, "NOT_FOUND", lambda: list(client.models.generate_content_stream(model="nobody", contents="hi")))
wrong = fails(400, "INVALID_ARGUMENT", lambda: ask(candidate_count=2))
assert "generationConfig.candidateCount" in wrong.message and wrong.details["error"]["details"][0]["fieldViolations"][0]["field"] == \
    "generationConfig.candidateCount", wrong.details
fails(400, "INVALID_ARGUMENT", lambda: ask(tools=[types.Tool(google_search=types.GoogleSearch())]))
fails(400, "INVALID_ARGUMENT", lambda: ask([types.Part.from_bytes(data=b"x", mime_type="image/png")]))


async def later():
    whole = await client.aio.models.generate_content(model=MODEL, contents="Say hello.", config=config())
    pieces = [c.text or "" async for c in await client.aio.models.generate_content_stream(model=MODEL, contents="Say hello.", config=config())]
    assert whole.text == "".join(pieces) == said


asyncio.run(later())
print("passed")
