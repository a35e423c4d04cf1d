//! A billing module: the listed prices, and a fee for every request that produced
//! something. The operator's configuration says how much:
//!
//!     {"fee_nano": 2000000}
//!
//! Above 200,000 tokens of context the prices are twice the listed ones, as in the
//! built-in tariff. The prices in an input are those of the listing.
//!
//! Money is whole nano-dollars, 1e-9 US dollar, and every step is checked: what does not
//! fit declines, and the node's built-in tariff charges instead.
#![no_std]

use corenode::*;

corenode::module!(billing, FlatFee);

/// The largest context, in tokens, at the listed prices.
const LONG_CONTEXT: i64 = 200_000;

struct FlatFee {
    fee: i64,
}

impl Configure for FlatFee {
    fn configure(config: &[u8]) -> Result<Self, Stop> {
        let (mut j, mut fee) = (Json::new(config), 0);
        j.object();
        while let Some(name) = j.member() {
            let value = int(j.value()).filter(|&n| n >= 0);
            if name != b"fee_nano" {
                return Err(refuse(name, "no such key; the only one is fee_nano"));
            }
            fee = value.ok_or(refuse(name, "want a whole number of nano-dollars, zero or more"))?;
        }
        if j.end() {
            Ok(FlatFee { fee })
        } else {
            Err(refuse("", "want a JSON object"))
        }
    }
}

impl Billing for FlatFee {
    /// A quote is a charge of the most that can be used, and of the least.
    fn quote(&self, input: &QuoteInput) -> Option<Quote> {
        let most = Usage { uncached: input.input, output: input.output_max, ..Usage::default() };
        let least = Usage { output: (input.output_max > 0).into(), ..most };
        let mut dear = input.prices;
        dear.input = dear.input.max(dear.cached); // the dearest way to read the prompt
        let (upper, minimum) = (self.rate(&dear, &most)?.total, self.rate(&input.prices, &least)?.total);
        Some(Quote { upper, minimum, ..Quote::default() })
    }

    fn charge(&self, input: &ChargeInput) -> Option<Charge> {
        self.rate(&input.prices, &input.usage)
    }
}

impl FlatFee {
    fn rate(&self, p: &Prices, u: &Usage) -> Option<Charge> {
        if u.uncached < 0 || u.cache_read < 0 || u.cache_write < 0 {
            return None;
        }
        let input = u.uncached.checked_add(u.cache_write)?;
        let tier = if input.checked_add(u.cache_read)? > LONG_CONTEXT { 2 } else { 1 };
        let price = |listed: i64| listed.checked_mul(tier);
        let mut c = Charge { tier: tier as u32, ..Charge::default() };
        c.line("input", input, price(p.input)?)?;
        c.line("cached_input", u.cache_read, price(p.cached)?)?;
        c.line("output", u.output, price(p.output)?)?;
        c.line("request", (u.output > 0).into(), self.fee)?;
        Some(c)
    }
}
