//! A module of every kind that writes what it read, for the tests of the kit.
#![no_std]

extern crate alloc;

use alloc::string::String;
use alloc::vec::Vec;

use corenode::*;

mod dump;
use dump::Dump;

corenode::module!(@ every, Echo);

struct Echo;

impl Configure for Echo {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        let mut j = Json::new(config);
        j.object();
        while let Some(name) = j.member() {
            let value = j.value();
            if name == b"composed" {
                return Err(composed(refuse, value));
            }
        }
        host::log(host::INFO, config);
        host::count(3, -7);
        Ok(Echo)
    }
}

fn every(m: &Echo, op: u32, input: &[u8], out: &mut Out) -> Result<(), Stop> {
    match op {
        1..=6 => router(m, op, input, out),
        32 => admission(m, op, input, out),
        48 => rewrite(m, op, input, out),
        64 => filter(m, op, input, out),
        _ => billing(m, op, input, out),
    }
}

/// A refusal whose texts are made in an output.
fn composed(refuse: fn(Vec<u8>, Vec<u8>) -> Stop, s: &[u8]) -> Stop {
    let (mut param, mut msg) = (Out::new(), Out::new());
    param.put("the field ").put(s);
    msg.put("there is no ").put(s);
    refuse(param.as_bytes().to_vec(), msg.as_bytes().to_vec())
}

/// Takes what a record holds into the log.
fn logged(record: &impl Dump) {
    let mut out = Out::new();
    record.dump(&mut out);
    host::log(host::INFO, out.as_bytes());
}

impl Translator for Echo {
    fn request(&self, input: &RequestInput, body: &mut Out) -> Result<Vec<u8>, Stop> {
        if input.route.index > 0 {
            input.dump(body);
            return Ok(Vec::new());
        }
        let mut j = Json::new(input.body);
        j.object();
        while let Some(name) = j.member() {
            body.put(name);
            if name == b"list" {
                body.byte(b':');
                j.array();
                while j.element() {
                    body.put(j.value()).byte(b',');
                }
            } else {
                let value = j.value();
                body.byte(b'=');
                if name == b"text" {
                    body.put(unescape(string(value).ok_or(refuse(name, "bad"))?));
                } else if name == b"int" {
                    body.decimal(int(value).ok_or(refuse(name, "bad"))?);
                } else {
                    body.put(value);
                }
            }
            body.byte(b';');
        }
        if j.end() {
            Ok(input.body.to_vec())
        } else {
            Err(refuse("", "bad"))
        }
    }

    fn events(&self, input: &EventsInput, state: &mut Vec<u8>, out: &mut Out) {
        out.put(&*state).byte(b'|').put(input.kept).byte(b'|').put(input.history).byte(b'|');
        for f in frames(input.events) {
            out.put(f.payload).byte(b'|');
            if f.payload.len() <= 4096 {
                *state = f.payload.to_vec();
            }
        }
    }

    fn response(&self, input: &ResponseInput, out: &mut Out) {
        out.escaped(input.facts.model).byte(b'|').put(input.kept).byte(b'|');
        for f in frames(input.events) {
            for n in [f.kind as i64, f.mark as i64, f.index as i64] {
                out.decimal(n).byte(b' ');
            }
            out.byte(b'[');
            match f.kind {
                event::START | event::END => {
                    let u = f.usage();
                    for n in [u.uncached, u.cache_read, u.cache_write, u.output, u.reasoning] {
                        out.decimal(n).byte(b' ');
                    }
                    out.put(f.stop_sequence());
                }
                event::ELAPSED => f.elapsed().dump(out),
                event::BLOCK_START => {
                    let (id, name) = f.tool();
                    out.put(id).byte(b' ').put(name);
                }
                _ => {
                    out.put(f.payload);
                }
            }
            out.byte(b']');
        }
    }

    fn error(&self, input: &ErrorInput, out: &mut Out) {
        input.dump(out);
    }
}

impl Router for Echo {
    fn models(&self, input: &ModelsInput, out: &mut Out) -> Result<(), Stop> {
        if let Some(model) = input.route.param("refuse") {
            return Err(refuse_model("model", model));
        }
        if let Some(model) = input.route.param("composed") {
            return Err(composed(refuse_model, model));
        }
        input.dump(out);
        Ok(())
    }

    fn count(&self, input: &CountInput, out: &mut Out) {
        input.dump(out);
    }
}

impl Billing for Echo {
    fn quote(&self, input: &QuoteInput) -> Option<Quote> {
        logged(input);
        let mut q = Quote { upper: 123456, minimum: -11, ..Quote::default() };
        if input.at == 7 {
            // as a module with counters
            (q.covered_upper, q.covered_minimum) = (12, 13);
            q.takes.push(Counter { limit: 14, most: 15 });
            q.takes.push(Counter { limit: 0, most: -16 });
        }
        Some(q)
    }

    fn charge(&self, input: &ChargeInput) -> Option<Charge> {
        logged(input);
        let mut c = Charge::default();
        c.line("0123456789abcdefghi", 5, 3)?;
        for (tokens, price) in [(i64::MAX, 2), (-1, 1), (i64::MAX, 1)] {
            if c.line("", tokens, price).is_some() {
                return None;
            }
        }
        (c.total, c.tier) = (123456789, 11);
        c.taken = input.held.iter().map(|held| held - 1).collect();
        Some(c)
    }
}

impl Admission for Echo {
    fn decide(&self, input: &AdmissionInput) -> Option<Decision> {
        logged(input);
        let mut msg = String::from_utf8(input.protocol.to_vec()).ok()?;
        if input.account == b"composed" {
            msg = String::from("there is no ") + core::str::from_utf8(input.key).ok()?;
        }
        let verdict = if input.stream { verdict::DENY } else { verdict::RESERVE };
        let takes = alloc::vec![Counter { limit: 7, most: -8 }];
        Some(Decision { verdict, priority: -6, kind: kind::UNSUPPORTED_ENCODING, retry_after_ms: 12345789, takes, msg })
    }
}

impl Rewrite for Echo {
    fn rewrite(&self, input: &RewriteInput, body: &mut Out) -> Result<(), Stop> {
        if input.account == b"composed" {
            return Err(composed(refuse, input.key));
        }
        input.dump(body);
        Ok(())
    }
}

impl Filter for Echo {
    fn filter(&self, input: &FilterInput, state: &mut Vec<u8>, out: &mut Out) {
        input.dump(out);
        *state = input.text[..input.text.len().min(256)].to_vec();
    }
}
