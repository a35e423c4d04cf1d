// A billing module with a counter: the first tokens of each month are free, those after them
// have the listed prices. The operator's configuration says how many:
//
//     {"tokens": 1000000}
//
// A quote asks for all the tokens that the request may use; what it gets of them is the node's
// to say, which counts for each account and month. Input comes before output.

import {
  Billing, Charge, ChargeInput, Counter, Json, Prices, Quote, QuoteInput, Reader, Status, Text, Usage, Whole, addLine, refuse, serve,
} from "../../sdk/assemblyscript/corenode";
export { abi, buf, init, call } from "../../sdk/assemblyscript/corenode";

// The most that a counter counts.
const COUNTER_MAX: i64 = 1_000_000_000_000_000;

class FreeTier extends Billing {
  private tokens: i64 = 1_000_000;

  configure(config: Text): i32 {
    const j = new Json(config);
    j.object();
    while (j.member()) {
      const value = new Whole(j.value());
      if (!j.name.is("tokens")) return refuse(j.name, "no such key; the only one is tokens");
      if (!value.ok || value.n < 0 || value.n > COUNTER_MAX) return refuse(j.name, "want a whole number of tokens, 0 to 10^15");
      this.tokens = value.n;
    }
    return j.end() ? <i32>Status.OK : refuse(Text.of(""), "want a JSON object");
  }

  // A quote bounds the charge where nothing is free; where all of it is, it is 0.
  quote(input: QuoteInput, result: Quote): bool {
    const most = new Charge();
    const least = new Charge();
    const p = input.prices;
    const u = new Usage(Reader.none);
    if (input.input < 0 || input.outputMax < 0 || input.input > i64.MAX_VALUE - input.outputMax) return false;
    u.uncached = input.input;
    u.output = input.outputMax > 0 ? 1 : 0;
    if (!rate(p, u, 0, least)) return false;
    u.output = input.outputMax;
    p.input = max(p.input, p.cached); // the dearest way to read the prompt
    if (!rate(p, u, 0, most)) return false;
    result.upper = most.total;
    result.minimum = least.total;
    const take = new Counter();
    take.limit = this.tokens;
    take.most = input.input + input.outputMax;
    result.takes.push(take);
    return true;
  }

  // A charge is for what was used beyond the free tokens that the request holds.
  charge(input: ChargeInput, result: Charge): bool {
    const u = input.usage;
    if (u.uncached < 0 || u.cacheRead < 0 || u.cacheWrite < 0 || u.output < 0) return false;
    const used = u.uncached + u.cacheRead + u.cacheWrite + u.output;
    if (max(max(u.uncached, u.cacheRead), max(u.cacheWrite, u.output)) > COUNTER_MAX) return false; // their sum fits
    const free = input.held.length > 0 ? min(input.held[0], used) : 0;
    if (input.held.length > 0) result.taken.push(free);
    return rate(input.prices, u, free, result);
  }
}

// Charges what was used but for the first free tokens of it; false if a number is negative or
// does not fit.
function rate(p: Prices, u: Usage, free: i64, c: Charge): bool {
  c.tier = 1;
  left = free;
  return (
    u.uncached >= 0 && u.cacheWrite >= 0 && u.uncached + u.cacheWrite >= 0 &&
    part(c, "input", u.uncached + u.cacheWrite, p.input) &&
    part(c, "cached_input", u.cacheRead, p.cached) &&
    part(c, "output", u.output, p.output) &&
    (free == 0 || addLine(c, "free", free, 0))
  );
}

// Of rate: the tokens that are free still.
let left: i64 = 0;

// Adds a line for tokens, of which those that are left are free.
function part(c: Charge, unit: string, tokens: i64, price: i64): bool {
  const covered = min(tokens, left);
  if (tokens < 0 || covered < 0) return false;
  left -= covered;
  return addLine(c, unit, tokens - covered, price);
}

serve(new FreeTier());
