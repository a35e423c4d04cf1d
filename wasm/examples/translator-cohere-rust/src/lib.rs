//! A translator with a path of its own: version 2 of Cohere's chat.
//!
//!     POST /v2/chat
//!     {"model": "core-1.1", "messages": [{"role": "user", "content": "Hello"}], "stream": true}
//!
//! Text, thinking, tools, JSON answers and sampling are translated. What the node has not
//! (documents, images, logprobs) is refused by name.
#![no_std]

extern crate alloc;

use alloc::vec::Vec;
use corenode::*;

mod answer;
mod request;

corenode::module!(translator, Chat);

struct Chat;

impl Configure for Chat {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        unconfigured(config)?;
        Ok(Chat)
    }
}

impl Translator for Chat {
    fn request(&self, input: &RequestInput, body: &mut Out) -> Result<Vec<u8>, Stop> {
        request::translate(input.body, body)?;
        Ok(Vec::new())
    }

    fn events(&self, input: &EventsInput, state: &mut Vec<u8>, out: &mut Out) {
        answer::events(input, state, out);
    }

    fn response(&self, input: &ResponseInput, out: &mut Out) {
        answer::whole(input, out);
    }

    fn error(&self, input: &ErrorInput, out: &mut Out) {
        answer::error(input, out);
    }
}
