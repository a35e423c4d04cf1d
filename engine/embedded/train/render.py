"""A conversation as the text and the ids that a model sees, through the chat template of the engine.

The template is engine/template/corenode.jinja itself, run by jinja2 with
trimmed blocks as the transformers library does; engine/template renders the
same bytes. What an assistant says is learnt, its <|im_end|> included; what the
template puts in front of it (the header, <think>, an empty thought) is not.
"""

import functools
import json
import pathlib
import re

import jinja2
import jinja2.sandbox

TEMPLATE = pathlib.Path(__file__).resolve().parents[2] / "template" / "corenode.jinja"
HEADER, END = "<|im_start|>assistant\n", "<|im_end|>"
THINK, THOUGHT = "<think>\n", "\n</think>\n\n"
EMPTY = THINK + THOUGHT


def _raise(message):
    raise jinja2.TemplateError(message)


@functools.cache
def _template() -> jinja2.Template:
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    env.filters["tojson"] = lambda x: json.dumps(x, ensure_ascii=False)
    env.globals["raise_exception"] = _raise
    return env.from_string(TEMPLATE.read_text(encoding="utf-8"))


def prompt(messages: list[dict], tools: list[dict] | None, thinking: bool, generate: bool = True, schema: dict | None = None) -> str:
    return _template().render(
        messages=messages, tools=tools or None, enable_thinking=thinking, add_generation_prompt=generate,
        bos_token="", eos_token=END, response_schema=schema,
    )


def text(conversation: dict) -> str:
    """All of a conversation, up to the end of its last answer. The template leaves the thoughts of earlier answers out, the
    empty ones too; a conversation `as_asked` has them all, so that every answer is learnt in the form in which it is asked for."""
    whole = prompt(conversation["messages"], conversation["tools"], conversation["thinking"], generate=False, schema=conversation.get("schema"))
    if not conversation["as_asked"]:
        return whole
    start, *said = whole.split(HEADER)
    thoughts = [m.get("reasoning_content", "").strip() for m in conversation["messages"] if m["role"] == "assistant"]
    return start + "".join(HEADER + (s if s.startswith(THINK) else f"{THINK}{t}{THOUGHT}{s}") for s, t in zip(said, thoughts, strict=True))


def segments(conversation: dict) -> list[tuple[str, bool, tuple]]:
    """Cuts the text into parts that are learnt and parts that are not, in order, each with the words in it whose letters
    are tokens of their own. A user's words cannot spell the template's tokens: data.conversations makes none."""
    out, rest = [], text(conversation)
    said_by_assistants = iter([m for m in conversation["messages"] if m["role"] == "assistant"])
    while True:
        before, header, after = rest.partition(HEADER)
        if not header:
            out.append((before, False, ()))
            return out
        given = before + header
        if after.startswith(EMPTY):
            given, after = given + EMPTY, after[len(EMPTY):]
        elif after.startswith(THINK):
            given, after = given + THINK, after[len(THINK):]
        said, end, rest = after.partition(END)
        if not end:
            raise ValueError("an answer without an end")
        m = next(said_by_assistants)
        out += [(given, False, ()), (said + END, m.get("learnt", True), m.get("letters", ()))]


def _encoded(part: str, letters: tuple, tokenizer) -> list[int]:
    """Ids of a text. Of some of its words every letter is a token: a word backwards would be of other tokens than the letters it
    is put together from, and which ones those are nobody can guess."""
    if not letters:
        return tokenizer.encode(part)
    words = re.split(rf"(?<!\w)({'|'.join(map(re.escape, letters))})(?!\w)", part)
    return [i for at, w in enumerate(words) for piece in (w if at % 2 else [w]) for i in tokenizer.encode(piece)]


def tokens(conversation: dict, tokenizer) -> tuple[list[int], list[bool]]:
    ids: list[int] = []
    mask: list[bool] = []
    for part, learnt, letters in segments(conversation):
        new = _encoded(part, letters, tokenizer)
        ids += new
        mask += [learnt] * len(new)
    return ids, mask
