//! Events of an answer become what the client's protocol has for them.

use alloc::vec::Vec;
use corenode::*;

/// Writes the event for each frame. The state is how many calls there were: calls and other
/// blocks are counted apart, and both from 0.
pub fn events(input: &EventsInput, state: &mut Vec<u8>, out: &mut Out) {
    let mut calls = u16::from_le_bytes(state.as_slice().try_into().unwrap_or([0; 2]));
    for f in frames(input.events) {
        let call = f.mark == block::TOOL_USE;
        let index = if call { calls } else { f.index.wrapping_sub(calls) };
        match f.kind {
            event::START => {
                begin("message-start", out);
                out.put(",\"id\":\"").escaped(input.facts.id);
                out.put(r#"","delta":{"message":{"role":"assistant","content":[],"tool_plan":"","tool_calls":[],"citations":[]}}"#);
            }
            event::BLOCK_START if call => {
                let (id, name) = f.tool();
                part("tool-call-start", index, out);
                out.put(r#","delta":{"message":{"tool_calls":{"id":""#).put(id);
                out.put(r#"","type":"function","function":{"name":""#).put(name).put(r#"","arguments":""}}}}"#);
            }
            event::BLOCK_START => {
                let kind = kind_of(&f);
                part("content-start", index, out);
                out.put(r#","delta":{"message":{"content":{"type":""#).put(kind).put("\",\"").put(kind).put("\":\"\"}}}");
            }
            event::DELTA if call => {
                part("tool-call-delta", index, out);
                out.put(r#","delta":{"message":{"tool_calls":{"function":{"arguments":""#).put(f.payload).put("\"}}}}");
            }
            event::DELTA => {
                part("content-delta", index, out);
                out.put(r#","delta":{"message":{"content":{""#).put(kind_of(&f)).put("\":\"").put(f.payload).put("\"}}}");
            }
            event::BLOCK_STOP => {
                part(if call { "tool-call-end" } else { "content-end" }, index, out);
                calls += call as u16;
            }
            event::END => {
                begin("message-end", out);
                out.put(",\"id\":\"").escaped(input.facts.id).put("\",\"delta\":{");
                end(&f, out);
                out.byte(b'}');
            }
            _ => continue,
        }
        out.put("}\n\n");
    }
    *state = calls.to_le_bytes().to_vec();
}

/// Begins an event.
fn begin(kind: &str, out: &mut Out) {
    out.put("event: ").put(kind).put("\ndata: {\"type\":\"").put(kind).byte(b'"');
}

/// Begins an event of a block.
fn part(kind: &str, index: u16, out: &mut Out) {
    begin(kind, out);
    out.put(",\"index\":").decimal(index.into());
}

fn kind_of(f: &Frame) -> &'static str {
    if f.mark == block::THINKING {
        "thinking"
    } else {
        "text"
    }
}

/// Writes why an answer ended and what it used.
fn end(f: &Frame, out: &mut Out) {
    let reason = match f.mark {
        stop::MAX_TOKENS => "MAX_TOKENS",
        stop::TOOL_USE => "TOOL_CALL",
        stop::SEQUENCE => "STOP_SEQUENCE",
        _ => "COMPLETE",
    };
    let u = f.usage();
    out.put(r#""finish_reason":""#).put(reason).put(r#"","usage":{"#);
    for name in ["billed_units", "tokens"] {
        out.byte(b'"').put(name).put(r#"":{"input_tokens":"#).decimal(u.input());
        out.put(r#","output_tokens":"#).decimal(u.output).put("},");
    }
    out.put("\"cached_tokens\":").decimal(u.cache_read).byte(b'}');
}

pub fn whole(input: &ResponseInput, out: &mut Out) {
    let (mut content, mut calls, mut last) = (Out::new(), Out::new(), Frame::default());
    for f in frames(input.events) {
        let call = f.mark == block::TOOL_USE;
        match f.kind {
            event::BLOCK_START if call => {
                let (id, name) = f.tool();
                separate(&mut calls).put(r#"{"id":""#).put(id).put(r#"","type":"function","function":{"name":""#).put(name);
                calls.put(r#"","arguments":""#);
            }
            event::BLOCK_START => {
                let kind = kind_of(&f);
                separate(&mut content).put("{\"type\":\"").put(kind).put("\",\"").put(kind).put("\":\"");
            }
            event::DELTA if call => {
                calls.put(f.payload);
            }
            event::DELTA => {
                content.put(f.payload);
            }
            event::BLOCK_STOP if call => {
                calls.put("\"}}");
            }
            event::BLOCK_STOP => {
                content.put("\"}");
            }
            event::END => last = f,
            _ => {}
        }
    }
    out.put("{\"id\":\"").escaped(input.facts.id).put(r#"","message":{"role":"assistant","content":["#).put(content.as_bytes()).byte(b']');
    if !calls.as_bytes().is_empty() {
        out.put(",\"tool_calls\":[").put(calls.as_bytes()).byte(b']');
    }
    out.put("},");
    end(&last, out);
    out.byte(b'}');
}

fn separate(out: &mut Out) -> &mut Out {
    if !out.as_bytes().is_empty() {
        out.byte(b',');
    }
    out
}

pub fn error(input: &ErrorInput, out: &mut Out) {
    if input.facts.stream {
        begin("message-end", out);
        out.put(",\"id\":\"").escaped(input.facts.id).put(r#"","delta":{"finish_reason":"ERROR","error":""#);
        sentence(input, out);
        out.put("\"}}\n\n");
    } else {
        out.put("{\"id\":\"").escaped(input.facts.id).put(r#"","message":""#);
        sentence(input, out);
        out.put("\"}");
    }
}

/// Writes what the client reads: the field by the client's name, and what is wrong with it.
fn sentence(input: &ErrorInput, out: &mut Out) {
    let field = match input.param {
        b"top_p" => b"p",
        b"top_k" => b"k",
        other => other,
    };
    match input.reason {
        reason::WINDOW => {
            out.put("the prompt has ").decimal(input.prompt).put(" tokens and ").escaped(field).put(" is ").decimal(input.value);
            out.put(": together more than the context window of ").decimal(input.bound);
        }
        reason::MEMORY => {
            out.put("prompt and ").escaped(field).put(" together are ").decimal(input.value);
            out.put(" tokens; the node's memory holds ").decimal(input.bound);
        }
        reason::ANY_CALL | reason::NAMED_CALL => {
            out.put("tool_choice REQUIRED needs tools");
        }
        _ => {
            if !field.is_empty() && !input.msg.starts_with(field) {
                out.escaped(field).put(": ");
            }
            out.escaped(input.msg);
        }
    }
}
