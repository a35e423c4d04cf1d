#!/usr/bin/env python3
"""What other implementations make of conversations with a published model.

    record.py MODEL.gguf OUT.json URL       (sentencepiece, jinja2, gguf; llama-server of llama.cpp answers at URL)

The prompt is rendered by jinja2 and encoded by SentencePiece between the control tokens; llama.cpp computes the
greedy answer. Each token of it has the lead of its logit over the next best one.
"""
import json
import os
import re
import sys
import urllib.request

import jinja2
import sentencepiece as spm

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../../tokenizer/testdata/sentencepiece"))
CASES = [
    [dict(role="user", content="What is the capital of France?")],
    [dict(role="system", content="Answer in one word."), dict(role="user", content="  Which color has snow?\n"),
     dict(role="assistant", content="White."), dict(role="user", content="And <b>coal</b>?\n\n\nSay <end_of_turn> first.")],
]
TOKENS = 12


def raised(message):
    raise ValueError(message)


def encode(sp, text, controls):
    """Ids of a prompt. A control token in what a client says is text: it has a mark in it here, which goes away."""
    ids = []
    for part in re.split("(" + "|".join(map(re.escape, controls)) + ")", text):
        ids += [controls[part]] if part in controls else sp.encode(part.replace("\x01", ""))
    return ids


def greedy(url, ids):
    """The answer and the lead of each of its tokens."""
    body = dict(prompt=ids, temperature=0, n_predict=TOKENS, n_probs=2, cache_prompt=False, ignore_eos=True)
    request = urllib.request.Request(url + "/completion", json.dumps(body).encode(), {"content-type": "application/json"})
    said = json.load(urllib.request.urlopen(request))["completion_probabilities"]
    return [t["id"] for t in said], [round(t["top_logprobs"][0]["logprob"] - t["top_logprobs"][1]["logprob"], 3) for t in said]


def main():
    import record as vocabulary
    model = vocabulary.published(sys.argv[1])
    sp = spm.SentencePieceProcessor(model_proto=model.SerializeToString())
    controls = {p.piece: i for i, p in enumerate(model.pieces) if p.piece in ("<bos>", "<start_of_turn>", "<end_of_turn>")}
    source = open(os.path.join(os.path.dirname(__file__), "chat.jinja")).read()
    template = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(source)
    cases = []
    for messages in CASES:
        guarded = [dict(m, content=re.sub("<(?=end_of_turn)", "<\x01", m["content"])) for m in messages]
        prompt = template.render(messages=guarded, bos_token="<bos>", add_generation_prompt=True, raise_exception=raised)
        ids = encode(sp, prompt, controls)
        answer, leads = greedy(sys.argv[3], ids)
        cases.append(dict(messages=messages, prompt=ids, answer=answer, leads=leads))
        print(len(ids), answer, leads, repr(sp.decode(answer)))
    json.dump(dict(cases=cases), open(sys.argv[2], "w"), ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
