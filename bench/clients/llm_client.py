"""llm: the command line program, told of the node by its file of models."""
import json
import os
import subprocess
import sys
import tempfile

from cases import ANNA, EXTRACT, HELLO, MODEL, WARM, WARMER, WEATHER, BOTH, Person, case, recorded, run, shipped, stranger

TOOL = '''
def get_weather(city: str) -> str:
    "Get the current weather of a city."
    return {"Paris": "21 degrees, sunny", "Rome": "25 degrees, clear"}[city]
'''


def llm(node, *arguments, model=MODEL, status=0):
    """Runs the program in a folder of its own and returns what it printed."""
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "extra-openai-models.yaml"), "w") as models:  # JSON is YAML
            json.dump([{"model_id": "node", "model_name": model, "api_base": node.v1, "api_key_name": "node",
                        "supports_tools": True, "supports_schema": True}], models)
        with open(os.path.join(folder, "keys.json"), "w") as keys:
            json.dump({"node": node.key}, keys)
        made = subprocess.run([os.path.join(os.path.dirname(sys.executable), "llm"), "prompt", "-m", "node", *arguments],
                              env={**os.environ, "LLM_USER_PATH": folder}, capture_output=True, text=True, stdin=subprocess.DEVNULL, timeout=120)
    assert made.returncode == status, (made.returncode, made.stdout, made.stderr)
    return made.stdout.strip() if status == 0 else made.stderr


@case("plain", ["chat"])
def plain(protocol):
    assert llm(shipped, "--no-stream", HELLO)


@case("streamed", ["chat"])
def streamed(protocol):
    assert llm(shipped, HELLO)


@case("tool round trip", ["chat"])
def tools(protocol):
    answer = llm(recorded, "--functions", TOOL, WEATHER)
    assert answer.endswith(WARM), answer


@case("parallel tools", ["chat"])
def parallel(protocol):
    answer = llm(recorded, "--functions", TOOL, BOTH)
    assert answer.endswith(WARMER), answer


@case("structured output", ["chat"])
def structured(protocol):
    answer = llm(recorded, "--schema", json.dumps(Person.model_json_schema()), EXTRACT)
    assert Person.model_validate_json(answer) == ANNA, answer


@case("errors", ["chat"])
def errors(protocol):
    assert "401" in llm(stranger, HELLO, status=1)
    assert "400" in llm(shipped, HELLO, model="nobody", status=1)


run("llm")
