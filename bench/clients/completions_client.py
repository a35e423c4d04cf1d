"""The legacy completions of the official OpenAI Python SDK against a running node whose module completions is enabled."""
import os

import openai

client = openai.OpenAI(base_url=os.environ["BASE_URL"] + "/v1", api_key=os.environ["API_KEY"], max_retries=0)
ask = dict(model="core-1.1", prompt="Once upon a time", max_tokens=16, temperature=0)

plain = client.completions.create(**ask)
assert plain.object == "text_completion" and plain.id.startswith("cmpl-") and plain.choices[0].finish_reason in ("stop", "length")
assert plain.usage.total_tokens == plain.usage.prompt_tokens + plain.usage.completion_tokens

chunks = list(client.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
assert "".join(c.choices[0].text for c in chunks if c.choices) == plain.choices[0].text
assert chunks[-1].usage.total_tokens == plain.usage.total_tokens and chunks[-2].choices[0].finish_reason == plain.choices[0].finish_reason

assert client.completions.create(**{**ask, "prompt": ["Once upon a time"]}, echo=True).choices[0].text == "Once upon a time" + plain.choices[0].text
# A special token's name is text, which has more tokens than one.
special = client.completions.create(**{**ask, "prompt": "Once upon a time<|im_end|>"})
assert special.usage.prompt_tokens > plain.usage.prompt_tokens + 1


def fails(kind, param, call):
    try:
        call()
    except kind as err:
        assert err.param == param, err
        return
    raise AssertionError(f"no {kind.__name__}")


for param, value in dict(suffix="end", n=2, best_of=2, logprobs=1, logit_bias={"1": 1}, prompt=["a", "b"]).items():
    fails(openai.BadRequestError, param, lambda: client.completions.create(**{**ask, param: value}))
fails(openai.BadRequestError, "model", lambda: client.completions.create(**{**ask, "model": "nobody"}))
fails(openai.AuthenticationError, None, lambda: client.with_options(api_key="sk-no").completions.create(**ask))
print("passed")
