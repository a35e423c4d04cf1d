"""LangChain: its chat models on each protocol, and its agent with a tool."""
import anthropic
import openai
from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI

from cases import ANNA, BOTH, EXTRACT, HELLO, MODEL, WARM, WARMER, WEATHER, Person, case, raises, recorded, run, shipped, stranger, weather

ALL = ["chat", "responses", "messages"]
get_weather = tool("get_weather")(weather)


def model(protocol, node, name=MODEL, **more):
    if protocol == "messages":
        return ChatAnthropic(base_url=node.url, api_key=node.key, model=name, max_tokens=400, max_retries=0, **more)
    return ChatOpenAI(base_url=node.v1, api_key=node.key, model=name, max_tokens=400, max_retries=0, use_responses_api=protocol == "responses", **more)


@case("plain", ALL)
def plain(protocol):
    answer = model(protocol, shipped).invoke(HELLO)
    assert answer.text, answer
    assert answer.usage_metadata["input_tokens"] > 0 and answer.usage_metadata["output_tokens"] > 0, answer


@case("streamed", ALL)
def streamed(protocol):
    whole = None
    for chunk in model(protocol, shipped).stream(HELLO):
        whole = chunk if whole is None else whole + chunk
    assert whole.text, whole


@case("tool round trip", ALL)
def tools(protocol):
    agent = create_agent(model(protocol, recorded), [get_weather])
    messages = agent.invoke({"messages": [HumanMessage(WEATHER)]})["messages"]
    assert messages[-1].text == WARM, messages
    assert messages[1].tool_calls[0]["args"] == {"city": "Paris"}, messages


@case("streamed call of a strict tool", ALL)
def streamed_tools(protocol):
    whole = None
    for chunk in model(protocol, recorded).bind_tools([get_weather], strict=True).stream(WEATHER):
        whole = chunk if whole is None else whole + chunk
    assert [call["args"] for call in whole.tool_calls] == [{"city": "Paris"}], whole


@case("tools of the server's side", ["messages"])
def server_tools(protocol):
    bound = model(protocol, recorded).bind_tools([{"type": "web_search_20250305", "name": "web_search"}, get_weather])
    assert [call["name"] for call in bound.invoke(WEATHER).tool_calls] == ["get_weather"]


@case("parallel tools", ALL)
def parallel(protocol):
    agent = create_agent(model(protocol, recorded), [get_weather])
    messages = agent.invoke({"messages": [HumanMessage(BOTH)]})["messages"]
    assert messages[-1].text == WARMER, messages
    assert [c["args"]["city"] for c in messages[1].tool_calls] == ["Paris", "Rome"], messages


@case("structured output", ALL)
def structured(protocol):
    assert model(protocol, recorded).with_structured_output(Person).invoke(EXTRACT) == ANNA


@case("structured output as a call", ALL)
def structured_call(protocol):
    assert model(protocol, recorded).with_structured_output(Person, method="function_calling").invoke(EXTRACT) == ANNA


@case("agent's structured output", ALL)
def structured_agent(protocol):
    agent = create_agent(model(protocol, recorded), [], response_format=Person)
    assert agent.invoke({"messages": [HumanMessage(EXTRACT)]})["structured_response"] == ANNA


@case("typed errors", ALL)
def errors(protocol):
    sdk = anthropic if protocol == "messages" else openai
    raises(sdk.AuthenticationError, lambda: model(protocol, stranger).invoke(HELLO))
    unknown = sdk.NotFoundError if protocol == "messages" else sdk.BadRequestError
    raises(unknown, lambda: model(protocol, shipped, "nobody").invoke(HELLO))


@case("an image", ALL)
def image(protocol):
    model(protocol, shipped).invoke([HumanMessage([{"type": "text", "text": "What is this?"},
                                                   {"type": "image", "base64": "iVBORw0KGgo=", "mime_type": "image/png"}])])


@case("several answers (n)", ["chat"])
def several(protocol):
    model(protocol, shipped, n=2).invoke(HELLO)


@case("the server's memory", ["responses"])
def memory(protocol):
    chat = model(protocol, shipped, use_previous_response_id=True)
    first = HumanMessage(HELLO)
    chat.invoke([first, chat.invoke([first]), HumanMessage(HELLO)])


run("langchain")
