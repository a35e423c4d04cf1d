"""pydantic-ai: its agent on each protocol; structured output is a tool by default."""
import anthropic
import openai
from pydantic_ai import Agent, ModelHTTPError, NativeOutput
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider

from cases import ANNA, BOTH, EXTRACT, HELLO, MODEL, WARM, WARMER, WEATHER, Person, araises, case, recorded, run, shipped, stranger, weather

ALL = ["chat", "responses", "messages"]


def agent(protocol, node, name=MODEL, **more):
    if protocol == "messages":
        client = anthropic.AsyncAnthropic(base_url=node.url, api_key=node.key, max_retries=0)
        model = AnthropicModel(name, provider=AnthropicProvider(anthropic_client=client))
    else:
        client = openai.AsyncOpenAI(base_url=node.v1, api_key=node.key, max_retries=0)
        kind = OpenAIResponsesModel if protocol == "responses" else OpenAIChatModel
        model = kind(name, provider=OpenAIProvider(openai_client=client))
    return Agent(model, **more)


def with_tool(protocol):
    made = agent(protocol, recorded)
    made.tool_plain(name="get_weather")(weather)
    return made


@case("plain", ALL)
async def plain(protocol):
    result = await agent(protocol, shipped).run(HELLO)
    assert result.output and result.usage.output_tokens > 0, result


@case("streamed", ALL)
async def streamed(protocol):
    async with agent(protocol, shipped).run_stream(HELLO) as result:
        pieces = [piece async for piece in result.stream_text(delta=True)]
    assert "".join(pieces), pieces


@case("tool round trip", ALL)
async def tools(protocol):
    assert (await with_tool(protocol).run(WEATHER)).output == WARM


async def last(agent, text):
    """Streams an answer and returns all of it."""
    async with agent.run_stream(text) as result:
        return [output async for output in result.stream_output()][-1]


@case("streamed tool round trip", ALL)
async def streamed_tools(protocol):
    assert await last(with_tool(protocol), WEATHER) == WARM


@case("parallel tools", ALL)
async def parallel(protocol):
    assert (await with_tool(protocol).run(BOTH)).output == WARMER


@case("structured output", ALL)
async def structured(protocol):
    assert (await agent(protocol, recorded, output_type=Person).run(EXTRACT)).output == ANNA


@case("streamed structured output", ALL)
async def streamed_structured(protocol):
    assert await last(agent(protocol, recorded, output_type=Person), EXTRACT) == ANNA


@case("native structured output", ["chat", "responses"])
async def native(protocol):
    assert (await agent(protocol, recorded, output_type=NativeOutput(Person)).run(EXTRACT)).output == ANNA


@case("typed errors", ALL)
async def errors(protocol):
    error = await araises(ModelHTTPError, agent(protocol, stranger).run(HELLO))
    assert error.status_code == 401, error
    error = await araises(ModelHTTPError, agent(protocol, shipped, "nobody").run(HELLO))
    assert error.status_code == (404 if protocol == "messages" else 400), error


run("pydantic-ai", "pydantic-ai-slim")
