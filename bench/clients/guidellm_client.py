"""guidellm: its backend, as a benchmark drives it: first the probe of the server's health, then requests.

Its command line reads prompts with torch, which takes gigabytes. All that
reaches a server is in the backend, which needs none of them.
"""
from guidellm.backends.openai.http import OpenAIHTTPBackend
from guidellm.schemas import GenerationRequest, RequestInfo, UsageMetrics
from guidellm.schemas.backends.openai_http import OpenAIHTTPBackendArgs

from cases import BOTH, HELLO, MODEL, araises, case, recorded, run, shipped, stranger

FORMATS = {"chat": "/v1/chat/completions", "responses": "/v1/responses"}
GREETING = GenerationRequest(columns={"text_column": [HELLO]})
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Get the current weather of a city.", "parameters":
          {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}}}]


async def ask(protocol, node, request=GREETING, **more):
    """Starts a backend, lets it look whether the server is there, and sends a request; returns the last response."""
    backend = OpenAIHTTPBackend(OpenAIHTTPBackendArgs(target=node.url, api_key=node.key, request_format=FORMATS[protocol], max_tokens=64, **more))
    await backend.process_startup()
    try:
        await backend.validate()
        await backend.default_model()
        response = None
        async for response, _ in backend.resolve(request, RequestInfo()):
            pass
        return response
    finally:
        await backend.process_shutdown()


@case("plain", FORMATS)
async def plain(protocol):
    response = await ask(protocol, shipped, model=MODEL, stream=False)
    assert response.text and response.output_metrics.text_tokens > 0, response


@case("streamed", FORMATS)
async def streamed(protocol):
    response = await ask(protocol, shipped, model=MODEL)
    assert response.text and response.output_metrics.text_tokens > 0, response


@case("the first model of the list", FORMATS)
async def first_model(protocol):
    assert (await ask(protocol, shipped)).text


@case("a fixed number of tokens", FORMATS)
async def fixed(protocol):
    request = GenerationRequest(columns={"text_column": [HELLO]}, output_metrics=UsageMetrics(text_tokens=77))
    for stream in True, False:
        response = await ask(protocol, shipped, request, model=MODEL, stream=stream)
        assert response.output_metrics.text_tokens == 77, response


@case("at least some tokens", FORMATS)
async def least(protocol):
    response = await ask(protocol, shipped, model=MODEL, extras={"body": {"min_tokens": 64}})
    assert response.output_metrics.text_tokens == 64, response


@case("a turn of tool calls", FORMATS)
async def tools(protocol):
    request = GenerationRequest(columns={"text_column": [BOTH], "tools_column": [TOOLS]}, turn_type="client_tool_call")
    for stream in True, False:
        response = await ask(protocol, recorded, request, model=MODEL, stream=stream)
        assert [call.function.arguments for call in response.tool_calls] == ['{"city":"Paris"}', '{"city":"Rome"}'], response


@case("errors", FORMATS)
async def errors(protocol):
    error = await araises(Exception, ask(protocol, stranger, model=MODEL))
    assert "401" in str(error), error


run("guidellm")
