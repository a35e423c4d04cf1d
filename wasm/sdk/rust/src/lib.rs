//! Modules of node-abi/1 in Rust, without the standard library and without
//! dependencies.
//!
//!     corenode::module!(billing, Flat);
//!
//!     struct Flat;
//!     impl corenode::Configure for Flat { ... }
//!     impl corenode::Billing for Flat { ... }
//!
//! `module!` exports what the boundary asks for. Its kinds are `translator`, `router`
//! (a translator with routes), `billing`, `admission`, `rewrite` and `filter`, and name what the type must
//! implement besides `Configure`.
//!
//! What a function is given borrows from the input and is gone when it returns; texts
//! are bytes of UTF-8. Keep nothing between calls but what `configure` made: a call is a
//! pure function. Memory is taken from the end of one arena and given back as a whole
//! after each call, so `Vec` and `String` cost almost nothing.
#![no_std]

extern crate alloc;

pub mod host;
mod json;
mod memory;
mod records;
mod serve;
mod wire;

pub use json::{int, string, unescape, Json};
pub use records::*;
pub use serve::*;
pub use wire::{frames, Frame, Frames, List, Out, Read, Reader, Write};

/// What ends an operation without an answer.
pub enum Stop {
    /// The node's built-in module does this one.
    Decline,
    /// The client, or the operator, did something wrong: the kind of error, which field
    /// and what is wrong with it.
    Refuse(u16, alloc::vec::Vec<u8>, alloc::vec::Vec<u8>),
}

/// A refusal of a request or a configuration: which field, and what is wrong with it.
pub fn refuse(param: impl AsRef<[u8]>, msg: impl AsRef<[u8]>) -> Stop {
    Stop::Refuse(kind::INVALID_REQUEST, param.as_ref().to_vec(), msg.as_ref().to_vec())
}

/// What `models` gives of a model that there is not.
pub fn refuse_model(param: impl AsRef<[u8]>, msg: impl AsRef<[u8]>) -> Stop {
    Stop::Refuse(kind::MODEL_NOT_FOUND, param.as_ref().to_vec(), msg.as_ref().to_vec())
}

/// How a module begins. The configuration is a JSON object, `{}` without one.
pub trait Configure: Sized {
    fn configure(config: &[u8]) -> Result<Self, Stop>;
}

/// Takes no configuration but the empty one; for `configure` of modules that have none.
pub fn unconfigured(config: &[u8]) -> Result<(), Stop> {
    if config == b"{}" {
        return Ok(());
    }
    Err(refuse("", "this module takes no configuration"))
}

/// A translator turns requests of its protocol into messages, and answers back.
pub trait Translator {
    /// Writes the messages body, and gives what is kept for the answer.
    fn request(&self, input: &RequestInput, body: &mut Out) -> Result<alloc::vec::Vec<u8>, Stop>;
    /// Writes whole server-sent events, or whole lines. `state` has the last state and is the next one.
    fn events(&self, input: &EventsInput, state: &mut alloc::vec::Vec<u8>, out: &mut Out);
    /// Writes the body of a whole answer.
    fn response(&self, input: &ResponseInput, out: &mut Out);
    /// Writes the body of an error, or the end of a stream that broke.
    fn error(&self, input: &ErrorInput, out: &mut Out);
}

/// A router is a translator with routes of its own.
pub trait Router: Translator {
    /// Writes the body of a listing.
    fn models(&self, input: &ModelsInput, out: &mut Out) -> Result<(), Stop>;
    /// Writes the body of a count.
    fn count(&self, input: &CountInput, out: &mut Out);
}

/// A billing module says what a request may cost, and what it did cost. `None` declines:
/// the built-in tariff charges.
pub trait Billing {
    fn quote(&self, input: &QuoteInput) -> Option<Quote>;
    fn charge(&self, input: &ChargeInput) -> Option<Charge>;
}

/// An admission policy lets a request in, denies it, or says how long it may wait for others.
pub trait Admission {
    fn decide(&self, input: &AdmissionInput) -> Option<Decision>;
}

/// A rewrite module changes the messages body of a request before anything is made of it.
pub trait Rewrite {
    /// Writes the body to go on with; nothing leaves it as it is.
    fn rewrite(&self, input: &RewriteInput, body: &mut Out) -> Result<(), Stop>;
}

/// A filter says what of an answer's text and thinking may be shown.
pub trait Filter {
    /// Writes what may be shown. `state` holds what the piece before left, and is what this one
    /// leaves: at most 256 bytes, which is all that can be held back.
    fn filter(&self, input: &FilterInput, state: &mut alloc::vec::Vec<u8>, out: &mut Out);
}

impl<'a> Route<'a> {
    /// The value of a parameter of the path.
    pub fn param(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        self.params.named(name.as_ref())
    }
    /// The first value of a parameter of the query.
    pub fn parameter(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        self.query.named(name.as_ref())
    }
    /// The first value of a header, named as in the manifest.
    pub fn header(&self, name: impl AsRef<[u8]>) -> Option<&'a [u8]> {
        self.headers.named(name.as_ref())
    }
}

impl<'a> List<'a, Pair<'a>> {
    fn named(&self, name: &[u8]) -> Option<&'a [u8]> {
        self.iter().find(|pair| pair.name == name).map(|pair| pair.value)
    }
}

impl Usage {
    /// The whole context, which tiers of prices ask for.
    pub fn input(&self) -> i64 {
        self.uncached.saturating_add(self.cache_read).saturating_add(self.cache_write)
    }
}

impl Charge {
    /// Adds tokens at a price; `None` if a number is negative or does not fit.
    pub fn line(&mut self, unit: &str, tokens: i64, price: i64) -> Option<()> {
        if tokens < 0 || price < 0 || self.lines.len() == 16 {
            return None;
        }
        let amount = tokens.checked_mul(price)?;
        self.total = self.total.checked_add(amount)?;
        self.lines.push(Line { unit: unit.into(), tokens, price, amount });
        Some(())
    }
}
