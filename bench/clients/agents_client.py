"""openai-agents: its runner over chat completions and responses."""
import openai
from agents import Agent, OpenAIChatCompletionsModel, OpenAIResponsesModel, Runner, function_tool, set_tracing_disabled

from cases import ANNA, BOTH, EXTRACT, HELLO, MODEL, WARM, WARMER, WEATHER, Person, araises, case, recorded, run, shipped, stranger, weather

BOTH_PROTOCOLS = ["chat", "responses"]
set_tracing_disabled(True)
get_weather = function_tool(weather, name_override="get_weather")


def agent(protocol, node, name=MODEL, **more):
    client = openai.AsyncOpenAI(base_url=node.v1, api_key=node.key, max_retries=0)
    kind = OpenAIResponsesModel if protocol == "responses" else OpenAIChatCompletionsModel
    return Agent(name="assistant", instructions="You are brief.", model=kind(model=name, openai_client=client), **more)


@case("plain", BOTH_PROTOCOLS)
async def plain(protocol):
    result = await Runner.run(agent(protocol, shipped), HELLO)
    assert result.final_output, result


@case("streamed", BOTH_PROTOCOLS)
async def streamed(protocol):
    result = Runner.run_streamed(agent(protocol, shipped), HELLO)
    kinds = {event.type async for event in result.stream_events()}
    assert "raw_response_event" in kinds and result.final_output, kinds


@case("tool round trip", BOTH_PROTOCOLS)
async def tools(protocol):
    assert (await Runner.run(agent(protocol, recorded, tools=[get_weather]), WEATHER)).final_output == WARM


@case("parallel tools", BOTH_PROTOCOLS)
async def parallel(protocol):
    assert (await Runner.run(agent(protocol, recorded, tools=[get_weather]), BOTH)).final_output == WARMER


@case("streamed tool round trip", BOTH_PROTOCOLS)
async def streamed_tools(protocol):
    result = Runner.run_streamed(agent(protocol, recorded, tools=[get_weather]), WEATHER)
    async for _ in result.stream_events():
        pass
    assert result.final_output == WARM, result


@case("structured output", BOTH_PROTOCOLS)
async def structured(protocol):
    assert (await Runner.run(agent(protocol, recorded, output_type=Person), EXTRACT)).final_output == ANNA


@case("second turn", BOTH_PROTOCOLS)
async def second(protocol):
    made = agent(protocol, recorded, tools=[get_weather])
    first = await Runner.run(made, WEATHER)
    result = await Runner.run(made, first.to_input_list() + [{"role": "user", "content": HELLO}])
    assert result.final_output.startswith("Hello!"), result


@case("typed errors", BOTH_PROTOCOLS)
async def errors(protocol):
    await araises(openai.AuthenticationError, Runner.run(agent(protocol, stranger), HELLO))
    await araises(openai.BadRequestError, Runner.run(agent(protocol, shipped, "nobody"), HELLO))


@case("the server's memory", ["responses"])
async def memory(protocol):
    made = agent(protocol, shipped)
    first = await Runner.run(made, HELLO)
    await Runner.run(made, HELLO, previous_response_id=first.last_response_id)


run("openai-agents")
