//! A rewrite module: it refuses requests about what the operator's configuration names, lets
//! a name of a model stand for another, and puts instructions before those of the client.
//!
//!     {"refuse": "project zebulon", "alias": "fast", "serves": "core-1.1-mini", "system": "Answer in English."}
//!
//! The phrase is looked for in all of messages and system, without regard to the case of a to z,
//! and however it or the name of the member is escaped. Each of the keys may be left out.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use corenode::*;

corenode::module!(rewrite, GuardRail);

const TEXT_MAX: usize = 4096;

/// Texts are not escaped; the phrase is in small letters.
#[derive(Default)]
struct GuardRail {
    refuse: Vec<u8>,
    alias: Vec<u8>,
    serves: Vec<u8>,
    system: Vec<u8>,
}

impl Configure for GuardRail {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        let (mut j, mut g) = (Json::new(config), GuardRail::default());
        j.object();
        while let Some(name) = j.member() {
            let text = string(j.value()).filter(|text| text.len() <= TEXT_MAX);
            let place = match name {
                b"refuse" => &mut g.refuse,
                b"alias" => &mut g.alias,
                b"serves" => &mut g.serves,
                b"system" => &mut g.system,
                _ => return Err(refuse(name, "no such key, want refuse, alias, serves or system")),
            };
            *place = unescape(text.ok_or(refuse(name, "want a text of at most 4096 bytes"))?);
        }
        if !j.end() {
            return Err(refuse("", "want a JSON object"));
        }
        g.refuse.make_ascii_lowercase();
        Ok(g)
    }
}

impl Rewrite for GuardRail {
    /// What is no JSON object is the node's to refuse.
    fn rewrite(&self, input: &RewriteInput, body: &mut Out) -> Result<(), Stop> {
        let (mut j, mut given, mut first) = (Json::new(input.body), false, true);
        j.object();
        body.byte(b'{');
        while let Some(name) = j.member() {
            let (name, value) = (&unescape(name)[..], j.value());
            if matches!(name, b"messages" | b"system") && self.is_about(value) {
                return Err(refuse(name, "this topic is not served here"));
            }
            if !first {
                body.byte(b',');
            }
            first = false;
            body.byte(b'"').escaped(name).put("\":");
            if name == b"model" && self.is_alias(value) {
                body.byte(b'"').escaped(&self.serves).byte(b'"');
            } else if name == b"system" && !self.system.is_empty() {
                given = true;
                self.instruct(value, body);
            } else {
                body.put(value);
            }
        }
        if !j.end() {
            return Err(Stop::Decline);
        }
        if !self.system.is_empty() && !given {
            body.put(if first { "\"system\":" } else { ",\"system\":" });
            self.instruct(b"", body);
        }
        body.byte(b'}');
        Ok(())
    }
}

impl GuardRail {
    /// Says whether the phrase is in a value.
    fn is_about(&self, value: &[u8]) -> bool {
        let phrase = &self.refuse[..];
        !phrase.is_empty() && unescape(value).to_ascii_lowercase().windows(phrase.len()).any(|text| text == phrase)
    }

    /// Says whether a value is the name that stands for another.
    fn is_alias(&self, value: &[u8]) -> bool {
        !self.alias.is_empty() && string(value).is_some_and(|text| unescape(text) == self.alias)
    }

    /// Puts the instructions before a value, which is a text or a list of blocks.
    fn instruct(&self, value: &[u8], body: &mut Out) {
        match value {
            [b'"', rest @ ..] if value.len() > 2 => body.byte(b'"').escaped(&self.system).put("\\n\\n").put(rest),
            [b'[', rest @ ..] if !rest.trim_ascii_start().starts_with(b"]") => {
                body.put("[{\"type\":\"text\",\"text\":\"").escaped(&self.system).put("\"},").put(rest)
            }
            _ => body.byte(b'"').escaped(&self.system).byte(b'"'),
        };
    }
}
