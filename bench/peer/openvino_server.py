"""Serves one GGUF file with OpenVINO GenAI over the chat protocol, for corebench peer.

Package: openvino-genai (PyPI). Nothing else is needed. The pipeline is the
one of that package for many clients: continuous batching with paged attention
and its prefix cache. One thread runs its steps while a request is open; each
connection has a thread of its own that waits for its tokens.
"""

import argparse
import http.server
import json
import queue
import signal
import sys
import threading

import openvino_genai as genai

UNFINISHED = "\ufffd"  # what the first bytes of a character decode to


def options():
    p = argparse.ArgumentParser()
    p.add_argument("--version", action="version", version="version: openvino-genai " + genai.__version__)
    p.add_argument("--port", type=int, required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--alias", required=True)
    p.add_argument("--threads", type=int, required=True)
    p.add_argument("--cache-gb", type=int, default=4)
    p.add_argument("--batch-tokens", type=int, default=256, help="most tokens of one step; 256 is the package's default")
    p.add_argument("--property", action="append", default=[], metavar="NAME=VALUE", help="of the CPU plugin")
    return p.parse_args()


class Engine:
    """Owns the pipeline. Its thread alone calls step and reads results."""

    def __init__(self, o):
        plan = genai.SchedulerConfig()
        plan.cache_size, plan.max_num_batched_tokens, plan.enable_prefix_caching = o.cache_gb, o.batch_tokens, True
        properties = dict(x.split("=", 1) for x in o.property)
        self.pipeline = genai.ContinuousBatchingPipeline(o.model, plan, "CPU", {"INFERENCE_NUM_THREADS": o.threads, **properties})
        self.tokenizer = self.pipeline.get_tokenizer()
        self.new = queue.SimpleQueue()
        threading.Thread(target=self.run, daemon=True).start()

    def run(self):
        open_now, number = [], 0
        while True:
            while not open_now or not self.new.empty():
                ids, config, tokens = self.new.get()
                try:
                    open_now.append((self.pipeline.add_request(number, ids, config), tokens))
                except Exception as e:  # the connection tells it
                    tokens.put(e)
                number += 1
            self.pipeline.step()
            for handle, tokens in open_now:
                while handle.can_read():
                    for out in handle.read().values():
                        tokens.put(list(out.generated_ids))
                if handle.get_status() != genai.GenerationStatus.RUNNING:
                    tokens.put(None)
            open_now = [x for x in open_now if x[0].get_status() == genai.GenerationStatus.RUNNING]

    def ask(self, body):
        """Returns the number of tokens of the prompt, and an iterator over (text, tokens until then)."""
        messages = [{"role": m["role"], "content": m["content"]} for m in body["messages"]]
        prompt = self.tokenizer.apply_chat_template(messages, True, extra_context=body.get("chat_template_kwargs") or {})
        ids = self.tokenizer.encode(prompt, add_special_tokens=False).input_ids
        config = genai.GenerationConfig()
        config.max_new_tokens = body.get("max_completion_tokens") or body["max_tokens"]
        config.ignore_eos, config.do_sample, config.apply_chat_template = bool(body.get("ignore_eos")), False, False
        tokens = queue.SimpleQueue()
        self.new.put((ids, config, tokens))
        return ids.shape[1], self.texts(tokens)

    def texts(self, tokens):
        # Text is decoded from a place before which all characters are complete.
        pending, told, count = [], "", 0
        while (more := tokens.get()) is not None:
            if isinstance(more, Exception):
                raise more
            pending += more
            count += len(more)
            text = self.tokenizer.decode(pending, skip_special_tokens=False)
            if text.endswith(UNFINISHED):
                continue
            yield text[len(told) :], count
            pending, told = pending[-1:], self.tokenizer.decode(pending[-1:], skip_special_tokens=False)
        yield "", count


def handler(engine, alias):
    class Handler(http.server.BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"
        wbufsize = 1 << 16  # one write per event: flushed below

        def log_message(self, *_):
            pass

        def reply(self, status, value):
            data = json.dumps(value).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        def do_GET(self):
            self.reply(200 if self.path == "/health" else 404, {})

        def do_POST(self):
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            if self.path != "/v1/chat/completions":
                return self.reply(404, {"error": {"message": "no such path"}})
            try:
                given, texts = engine.ask(body)
            except Exception as e:
                return self.reply(400, {"error": {"message": str(e)}})
            if body.get("stream"):
                return self.stream(given, texts)
            parts = list(texts)
            message = {"role": "assistant", "content": "".join(text for text, _ in parts)}
            self.reply(200, {"object": "chat.completion", "model": alias, "usage": usage(given, parts[-1][1]),
                             "choices": [{"index": 0, "message": message, "finish_reason": "length"}]})

        def stream(self, given, texts):
            self.send_response(200)
            self.send_header("Content-Type", "text/event-stream")
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            count = 0
            for text, count in texts:
                if text:
                    self.event({"choices": [{"index": 0, "delta": {"content": text}}]})
            self.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
            self.event({"choices": [], "usage": usage(given, count)})
            self.chunk(b"data: [DONE]\n\n")
            self.chunk(b"")

        def event(self, value):
            value.update(object="chat.completion.chunk", model=alias)
            self.chunk(b"data: " + json.dumps(value).encode() + b"\n\n")

        def chunk(self, data):
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

    return Handler


def usage(given, made):
    return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}


def main():
    o = options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
    engine = Engine(o)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", o.port), handler(engine, o.alias))
    server.daemon_threads = True
    server.serve_forever()


main()
