//! Verses: POST /verse/{model}:write takes {"about": "...", "stream": true} and answers in lines.
#![no_std]
extern crate alloc;

use alloc::vec::Vec;
use corenode::*;

corenode::module!(router, Verse);

struct Verse;

impl Configure for Verse {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        unconfigured(config)?;
        Ok(Verse)
    }
}

impl Translator for Verse {
    /// Turns a body of the client's into one of messages. What it gives comes back as `kept`.
    fn request(&self, input: &RequestInput, body: &mut Out) -> Result<Vec<u8>, Stop> {
        let (mut j, mut about, mut stream) = (Json::new(input.body), None, false);
        j.object();
        while let Some(name) = j.member() {
            let value = j.value();
            match name {
                b"about" => about = string(value), // without quotes, escaped as it came
                b"stream" => stream = value == b"true",
                _ => return Err(refuse(name, "this field is not served here")),
            }
        }
        if !j.end() {
            return Err(refuse("", "the body is no JSON object"));
        }
        let about = about.ok_or(refuse("about", "field required, a text"))?;
        body.put("{\"model\":\"").escaped(input.route.param("model").unwrap_or(b""));
        body.put("\",\"thinking\":{\"type\":\"disabled\"},\"messages\":[{\"role\":\"user\",\"content\":\"").put(about);
        body.put("\"}],\"stream\":").put(if stream { "true}" } else { "false}" });
        Ok(Vec::new())
    }

    /// Writes a line for each piece of text, and a last one. How the events are grouped does not show.
    fn events(&self, input: &EventsInput, _state: &mut Vec<u8>, out: &mut Out) {
        for f in frames(input.events) {
            match f.kind {
                event::DELTA if f.mark == block::TEXT => out.put("{\"verse\":\"").put(f.payload).put("\"}\n").nothing(),
                event::END => out.put("{\"done\":true,\"tokens\":").decimal(f.usage().output).put("}\n").nothing(),
                _ => {} // also kinds that come with later versions
            }
        }
    }

    /// Writes the body of an answer that is no stream.
    fn response(&self, input: &ResponseInput, out: &mut Out) {
        out.put("{\"verse\":\"");
        for f in frames(input.events).filter(|f| f.kind == event::DELTA && f.mark == block::TEXT) {
            out.put(f.payload);
        }
        out.put("\"}");
    }

    /// Writes a failure: a body, or of a stream that runs the line that ends it.
    fn error(&self, input: &ErrorInput, out: &mut Out) {
        out.put("{\"error\":\"").escaped(input.msg).put("\"}");
        if input.facts.stream {
            out.byte(b'\n');
        }
    }
}

impl Router for Verse {
    fn models(&self, input: &ModelsInput, out: &mut Out) -> Result<(), Stop> {
        out.put("{\"models\":[");
        for (i, m) in input.models.iter().enumerate() {
            out.put(if i > 0 { ",\"" } else { "\"" }).escaped(m.id).byte(b'"');
        }
        out.put("]}");
        Ok(())
    }

    fn count(&self, input: &CountInput, out: &mut Out) {
        out.put("{\"tokens\":").decimal(input.tokens).byte(b'}');
    }
}
