// A billing module: the listed prices, and a fee for every request that produced something.
// The operator's configuration says how much:
//
//     {"fee_nano": 2000000}
//
// Above 200,000 tokens of context the prices are twice the listed ones, as in the built-in
// tariff. The prices in an input are those of the listing.
//
// Money is whole nano-dollars, 1e-9 US dollar, and every step is checked: what does not fit
// declines, and the node's built-in tariff charges instead.

import {
  Billing, Charge, ChargeInput, Json, Prices, Quote, QuoteInput, Reader, Status, Text, Usage, Whole, addLine, refuse, serve,
} from "../../sdk/assemblyscript/corenode";
export { abi, buf, init, call } from "../../sdk/assemblyscript/corenode";

// The largest context, in tokens, at the listed prices.
const LONG_CONTEXT: i64 = 200_000;

class FlatFee extends Billing {
  private fee: i64 = 0;

  configure(config: Text): i32 {
    const j = new Json(config);
    this.fee = 0;
    j.object();
    while (j.member()) {
      const value = new Whole(j.value());
      if (!j.name.is("fee_nano")) return refuse(j.name, "no such key; the only one is fee_nano");
      if (!value.ok || value.n < 0) return refuse(j.name, "want a whole number of nano-dollars, zero or more");
      this.fee = value.n;
    }
    return j.end() ? <i32>Status.OK : refuse(Text.of(""), "want a JSON object");
  }

  // A quote is a charge of the most that can be used, and of the least.
  quote(input: QuoteInput, result: Quote): bool {
    const most = new Charge();
    const least = new Charge();
    const p = input.prices;
    const listed = p.input;
    const u = new Usage(Reader.none);
    u.uncached = input.input;
    u.output = input.outputMax > 0 ? 1 : 0;
    if (!this.rate(p, u, least)) return false;
    u.output = input.outputMax;
    p.input = max(listed, p.cached); // the dearest way to read the prompt
    if (!this.rate(p, u, most)) return false;
    result.upper = most.total;
    result.minimum = least.total;
    return true;
  }

  charge(input: ChargeInput, result: Charge): bool {
    return this.rate(input.prices, input.usage, result);
  }

  private rate(p: Prices, u: Usage, c: Charge): bool {
    if (u.uncached < 0 || u.cacheRead < 0 || u.cacheWrite < 0) return false;
    const input = u.uncached + u.cacheWrite;
    const context = input + u.cacheRead;
    if (input < 0 || context < input) return false;
    c.tier = context > LONG_CONTEXT ? 2 : 1;
    const limit = i64.MAX_VALUE / c.tier;
    if (max(p.input, max(p.cached, p.output)) > limit) return false;
    return (
      addLine(c, "input", input, p.input * c.tier) &&
      addLine(c, "cached_input", u.cacheRead, p.cached * c.tier) &&
      addLine(c, "output", u.output, p.output * c.tier) &&
      addLine(c, "request", u.output > 0 ? 1 : 0, this.fee)
    );
  }
}

serve(new FlatFee());
