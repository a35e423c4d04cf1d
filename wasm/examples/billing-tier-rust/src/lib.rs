//! A billing module with a counter: the first tokens of each month are free, those after
//! them have the listed prices. The operator's configuration says how many:
//!
//!     {"tokens": 1000000}
//!
//! A quote asks for all the tokens that the request may use; what it gets of them is the
//! node's to say, which counts for each account and month. Input comes before output.
#![no_std]

extern crate alloc;

use alloc::vec;
use corenode::*;

corenode::module!(billing, FreeTier);

/// The most that a counter counts.
const COUNTER_MAX: i64 = 1_000_000_000_000_000;

struct FreeTier {
    tokens: i64,
}

impl Configure for FreeTier {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        let (mut j, mut tokens) = (Json::new(config), 1_000_000);
        j.object();
        while let Some(name) = j.member() {
            let value = int(j.value()).filter(|n| (0..=COUNTER_MAX).contains(n));
            if name != b"tokens" {
                return Err(refuse(name, "no such key; the only one is tokens"));
            }
            tokens = value.ok_or(refuse(name, "want a whole number of tokens, 0 to 10^15"))?;
        }
        if j.end() {
            Ok(FreeTier { tokens })
        } else {
            Err(refuse("", "want a JSON object"))
        }
    }
}

impl Billing for FreeTier {
    /// A quote bounds the charge where nothing is free; where all of it is, it is 0.
    fn quote(&self, input: &QuoteInput) -> Option<Quote> {
        let most = Usage { uncached: input.input, output: input.output_max, ..Usage::default() };
        let least = Usage { output: (input.output_max > 0).into(), ..most };
        let mut dear = input.prices;
        dear.input = dear.input.max(dear.cached); // the dearest way to read the prompt
        let (upper, minimum) = (rate(&dear, &most, 0)?.total, rate(&input.prices, &least, 0)?.total);
        let takes = vec![Counter { limit: self.tokens, most: input.input.checked_add(input.output_max)? }];
        Some(Quote { upper, minimum, takes, ..Quote::default() })
    }

    /// A charge is for what was used beyond the free tokens that the request holds.
    fn charge(&self, input: &ChargeInput) -> Option<Charge> {
        let u = &input.usage;
        let used = u.uncached.checked_add(u.cache_read)?.checked_add(u.cache_write)?.checked_add(u.output)?;
        let held = input.held.iter().next();
        let free = held.unwrap_or(0).min(used);
        let mut c = rate(&input.prices, u, free)?;
        if held.is_some() {
            c.taken = vec![free];
        }
        Some(c)
    }
}

/// Charges what was used but for the first free tokens of it; None if a number is negative
/// or does not fit.
fn rate(p: &Prices, u: &Usage, free: i64) -> Option<Charge> {
    if u.uncached < 0 || u.cache_write < 0 {
        return None;
    }
    let (mut c, mut left) = (Charge { tier: 1, ..Charge::default() }, free);
    let parts = [
        ("input", u.uncached.checked_add(u.cache_write)?, p.input),
        ("cached_input", u.cache_read, p.cached),
        ("output", u.output, p.output),
    ];
    for (unit, tokens, price) in parts {
        let covered = tokens.min(left);
        if tokens < 0 || covered < 0 {
            return None;
        }
        left -= covered;
        c.line(unit, tokens - covered, price)?;
    }
    if free > 0 {
        c.line("free", free, 0)?;
    }
    Some(c)
}
