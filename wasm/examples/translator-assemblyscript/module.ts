// A translator for slot chat: the old text completions dialect, a prompt in and text out, for
// clients that speak nothing else.
//
//     {"model": "core-1.1", "prompt": "Once", "max_tokens": 64, "stream": true}
//
// Thinking is left out of the text. What the dialect does not have is refused.

import {
  Block, ErrorInput, Event, EventsInput, Facts, Frame, Frames, Json, Kind, Reader, RequestInput, ResponseInput, Status, Stop, Text, Translator,
  out, refuse, serve,
} from "../../sdk/assemblyscript/corenode";
export { abi, buf, init, call } from "../../sdk/assemblyscript/corenode";

// The body's fields and what the messages protocol calls them. The node checks their values;
// an empty name is a field that needs no translation.
const FIELDS: string[] = ["model", "max_tokens", "temperature", "top_p", "stop", "stream", "prompt", "user"];
const NATIVE: string[] = ["model", "max_tokens", "temperature", "top_p", "stop_sequences", "stream", "", ""];
const STOP = 4;
const PROMPT = 6;
const STATE_MAX = 4096;
const QUOTE: u8 = 0x22;

class Completions extends Translator {
  request(input: RequestInput): i32 {
    const j = new Json(input.body);
    const values: Text[] = [];
    for (let i = 0; i < FIELDS.length; i++) values.push(new Text(0, 0));
    j.object();
    while (j.member()) {
      let i = 0;
      while (i < FIELDS.length && !j.name.is(FIELDS[i])) i++;
      if (i == FIELDS.length) return refuse(j.name, "text completions have no such field");
      values[i] = j.value();
    }
    if (!j.end()) return refuse(Text.of(""), "the body is no JSON object");
    if (values[PROMPT].n == 0 || values[PROMPT].byte(0) != QUOTE) return refuse(Text.of("prompt"), "prompt must be a string");
    out.puts('{"messages":[{"role":"user","content":').put(values[PROMPT]).puts("}]");
    for (let i = 0; i < FIELDS.length; i++) {
      const value = values[i];
      if (value.n == 0 || NATIVE[i].length == 0) continue;
      const one = i == STOP && value.byte(0) == QUOTE; // one stop sequence may go without an array
      out.puts(',"').puts(NATIVE[i]).puts('":');
      if (one) out.puts("[");
      out.put(value);
      if (one) out.puts("]");
    }
    out.puts("}");
    return Status.OK;
  }

  // Keeps the head of a chunk as its state: it is written field by field once and copied from
  // then on. Where it does not fit, it is written for each group.
  events(input: EventsInput): void {
    for (const all = new Frames(input.events); all.next(); ) {
      const f = all.frame;
      const text = f.kind == Event.DELTA && f.mark == Block.TEXT;
      if (!text && f.kind != Event.END) continue;
      if (this.state.n > 0) {
        out.put(this.state);
      } else {
        const from = out.n;
        out.puts("data: ");
        head(input.facts);
        if (out.n - from <= STATE_MAX) this.state = out.since(from).copy();
      }
      if (text) {
        out.put(f.payload).puts('","index":0,"logprobs":null,"finish_reason":null}]}\n\n');
      } else {
        tail(f);
        out.puts("\n\ndata: [DONE]\n\n");
      }
    }
  }

  response(input: ResponseInput): void {
    let end = new Frame(Reader.none);
    head(input.facts);
    for (const all = new Frames(input.events); all.next(); ) {
      const f = all.frame;
      if (f.kind == Event.DELTA && f.mark == Block.TEXT) out.put(f.payload);
      if (f.kind == Event.END) end = f;
    }
    tail(end);
  }

  error(input: ErrorInput): void {
    if (input.facts.stream) out.puts("data: ");
    out.puts('{"error":{"message":"').escaped(input.msg);
    out.puts('","type":"').puts(errorType(input.kind));
    if (input.param.n > 0) out.puts('","param":"').escaped(input.param).puts('","code":null}}');
    else out.puts('","param":null,"code":null}}');
    if (input.facts.stream) out.puts("\n\n");
  }
}

// Writes a whole answer, or one chunk of a stream, up to the text.
function head(f: Facts): void {
  out.puts('{"id":"cmpl-').escaped(f.id);
  out.puts('","object":"text_completion","created":').decimal(f.created);
  out.puts(',"model":"').escaped(f.model).puts('","choices":[{"text":"');
}

// Writes the rest, as the event says that closes the answer.
function tail(end: Frame): void {
  const u = end.usage;
  const prompt = u.uncached + u.cacheRead + u.cacheWrite;
  out.puts('","index":0,"logprobs":null,"finish_reason":').puts(end.mark == Stop.MAX_TOKENS ? '"length"' : '"stop"');
  out.puts('}],"usage":{"prompt_tokens":').decimal(prompt);
  out.puts(',"completion_tokens":').decimal(u.output);
  out.puts(',"total_tokens":').decimal(prompt + u.output).puts("}}");
}

function errorType(kind: u16): string {
  switch (kind) {
    case Kind.UNAUTHENTICATED:
      return "authentication_error";
    case Kind.INSUFFICIENT_BALANCE:
      return "insufficient_quota";
    case Kind.RATE_LIMITED:
      return "rate_limit_error";
    case Kind.INTERNAL:
    case Kind.OVERLOADED:
    case Kind.TIMEOUT:
      return "server_error";
  }
  return "invalid_request_error";
}

serve(new Completions());
