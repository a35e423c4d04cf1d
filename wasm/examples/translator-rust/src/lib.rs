//! A translator for slot chat: the old text completions dialect, a prompt in and text out,
//! for clients that speak nothing else.
//!
//!     {"model": "core-1.1", "prompt": "Once", "max_tokens": 64, "stream": true}
//!
//! Thinking is left out of the text. What the dialect does not have is refused.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use corenode::*;

corenode::module!(translator, Completions);

/// The body's fields and what the messages protocol calls them. The node checks their
/// values; an empty name is a field that needs no translation.
const FIELDS: [(&str, &str); 8] = [
    ("model", "model"),
    ("max_tokens", "max_tokens"),
    ("temperature", "temperature"),
    ("top_p", "top_p"),
    ("stop", "stop_sequences"),
    ("stream", "stream"),
    ("prompt", ""),
    ("user", ""),
];
const STOP: usize = 4;
const PROMPT: usize = 6;

struct Completions;

impl Configure for Completions {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        unconfigured(config)?;
        Ok(Completions)
    }
}

impl Translator for Completions {
    fn request(&self, input: &RequestInput, body: &mut Out) -> Result<Vec<u8>, Stop> {
        let mut j = Json::new(input.body);
        let mut values: [&[u8]; FIELDS.len()] = [b""; FIELDS.len()];
        j.object();
        while let Some(name) = j.member() {
            match FIELDS.iter().position(|f| f.0.as_bytes() == name) {
                Some(i) => values[i] = j.value(),
                None => return Err(refuse(name, "text completions have no such field")),
            }
        }
        if !j.end() {
            return Err(refuse("", "the body is no JSON object"));
        }
        if string(values[PROMPT]).is_none() {
            return Err(refuse("prompt", "prompt must be a string"));
        }
        body.put(r#"{"messages":[{"role":"user","content":"#).put(values[PROMPT]).put("}]");
        for (i, (_, native)) in FIELDS.iter().enumerate() {
            let value = values[i];
            if value.is_empty() || native.is_empty() {
                continue;
            }
            body.put(",\"").put(native).put("\":");
            if i == STOP && string(value).is_some() {
                body.byte(b'[').put(value).byte(b']'); // one stop sequence may go without an array
            } else {
                body.put(value);
            }
        }
        body.byte(b'}');
        Ok(Vec::new())
    }

    /// Keeps the head of a chunk as its state: it is written field by field once and copied
    /// from then on. Where it does not fit, it is written for each group.
    fn events(&self, input: &EventsInput, state: &mut Vec<u8>, out: &mut Out) {
        for f in frames(input.events) {
            let text = f.kind == event::DELTA && f.mark == block::TEXT;
            if !text && f.kind != event::END {
                continue;
            }
            if state.is_empty() {
                let mut start = Out::new();
                head(start.put("data: "), &input.facts);
                out.put(start.as_bytes());
                if start.as_bytes().len() <= STATE_MAX {
                    *state = start.as_bytes().to_vec();
                }
            } else {
                out.put(&*state);
            }
            if text {
                out.put(f.payload).put("\",\"index\":0,\"logprobs\":null,\"finish_reason\":null}]}\n\n");
            } else {
                tail(out, &f);
                out.put("\n\ndata: [DONE]\n\n");
            }
        }
    }

    fn response(&self, input: &ResponseInput, out: &mut Out) {
        let mut end = Frame::default();
        head(out, &input.facts);
        for f in frames(input.events) {
            match (f.kind, f.mark) {
                (event::DELTA, block::TEXT) => {
                    out.put(f.payload);
                }
                (event::END, _) => end = f,
                _ => {}
            }
        }
        tail(out, &end);
    }

    fn error(&self, input: &ErrorInput, out: &mut Out) {
        if input.facts.stream {
            out.put("data: ");
        }
        out.put(r#"{"error":{"message":""#).escaped(input.msg);
        out.put(r#"","type":""#).put(error_type(input.kind));
        if input.param.is_empty() {
            out.put(r#"","param":null,"code":null}}"#);
        } else {
            out.put(r#"","param":""#).escaped(input.param).put(r#"","code":null}}"#);
        }
        if input.facts.stream {
            out.put("\n\n");
        }
    }
}

const STATE_MAX: usize = 4096;

/// Writes a whole answer, or one chunk of a stream, up to the text.
fn head(out: &mut Out, f: &Facts) {
    out.put(r#"{"id":"cmpl-"#).escaped(f.id);
    out.put(r#"","object":"text_completion","created":"#).decimal(f.created);
    out.put(r#","model":""#).escaped(f.model).put(r#"","choices":[{"text":""#);
}

/// Writes the rest, as the event says that closes the answer.
fn tail(out: &mut Out, end: &Frame) {
    let (u, reason) = (end.usage(), if end.mark == stop::MAX_TOKENS { "length" } else { "stop" });
    out.put(r#"","index":0,"logprobs":null,"finish_reason":""#).put(reason);
    out.put(r#""}],"usage":{"prompt_tokens":"#).decimal(u.input());
    out.put(r#","completion_tokens":"#).decimal(u.output);
    out.put(r#","total_tokens":"#).decimal(u.input().saturating_add(u.output)).put("}}");
}

fn error_type(kind: u16) -> &'static str {
    match kind {
        kind::UNAUTHENTICATED => "authentication_error",
        kind::INSUFFICIENT_BALANCE => "insufficient_quota",
        kind::RATE_LIMITED => "rate_limit_error",
        kind::INTERNAL | kind::OVERLOADED | kind::TIMEOUT => "server_error",
        _ => "invalid_request_error",
    }
}
