//! A filter: one word of the operator's configuration never reaches a client, however the
//! model's answer is cut into pieces.
//!
//!     {"word": "Zebulon"}
//!
//! What may be the beginning of the word is held back until the next piece shows whether it is.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use corenode::*;

corenode::module!(filter, Redact);

/// What is held back of a word fits the state.
const WORD_MAX: usize = 64;

struct Redact {
    word: Vec<u8>,
}

impl Configure for Redact {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        let (mut j, mut word) = (Json::new(config), Vec::new());
        j.object();
        while let Some(name) = j.member() {
            let value = string(j.value());
            if name != b"word" {
                return Err(refuse(name, "no such key; the only one is word"));
            }
            word = match value {
                Some(text) if text.len() <= WORD_MAX && !text.contains(&b'\\') => text.to_vec(),
                _ => return Err(refuse(name, "want a text of at most 64 bytes without escapes")),
            };
        }
        if j.end() {
            Ok(Redact { word })
        } else {
            Err(refuse("", "want a JSON object"))
        }
    }
}

impl Filter for Redact {
    fn filter(&self, input: &FilterInput, state: &mut Vec<u8>, out: &mut Out) {
        let mut text = core::mem::take(state); // what was held back, then the piece
        text.extend_from_slice(input.text);
        let (word, mut rest) = (&self.word[..], &text[..]);
        while !word.is_empty() && !rest.is_empty() {
            if rest.starts_with(word) {
                out.put("[redacted]");
                rest = &rest[word.len()..];
            } else if !input.last && word.starts_with(rest) {
                *state = rest.to_vec();
                return;
            } else {
                out.byte(rest[0]);
                rest = &rest[1..];
            }
        }
        out.put(rest);
    }
}
