// A module of every kind that writes what it read, for the tests of the kit.

import {
  Admission, AdmissionInput, Billing, Charge, ChargeInput, CountInput, Counter, Decision, ErrorInput, Event, EventsInput, Filter, FilterInput, Frames, Json, Kind, Level,
  ModelsInput, Quote, QuoteInput, Reader, RequestInput, ResponseInput, Rewrite, RewriteInput, Router, Status, Text, Verdict, Whole, addLine, count, log, named, out,
  refuse, refuseModel, serve, unescape,
} from "../corenode";
import {
  dumpAdmissionInput, dumpChargeInput, dumpCountInput, dumpElapsed, dumpErrorInput, dumpFilterInput, dumpModelsInput, dumpQuoteInput,
  dumpRequestInput, dumpRewriteInput,
} from "./dump";

export { abi, buf, init, call } from "../corenode";

// An array of module level, which configure makes longer.
const literal: i64[] = [100, 200];

// Writes the arrays of this module: the literal, and what a new one has after it grew twice.
function arrays(more: i32): i32 {
  for (let i = 0; i < literal.length; i++) out.decimal(literal[i]).byte(0x7c);
  const grown: i64[] = [7];
  grown.length += more;
  grown.length += more;
  for (let i = 0; i < grown.length; i++) out.decimal(grown[i]).byte(0x7c);
  return Status.OK;
}

// A text that is made in the output.
function composed(before: string, s: Text): Text {
  const from = out.n;
  return out.puts(before).put(s).since(from);
}

// Takes what was written into the log.
function logged(): void {
  log(Level.INFO, out.since(8));
  out.n = 8;
}

class EchoBilling extends Billing {
  quote(input: QuoteInput, result: Quote): bool {
    dumpQuoteInput(input);
    logged();
    result.upper = 123456;
    result.minimum = -11;
    if (input.at == 7) {
      // as a module with counters
      result.coveredUpper = 12;
      result.coveredMinimum = 13;
      for (let i = 0; i < 2; i++) result.takes.push(new Counter());
      result.takes[0].limit = 14;
      result.takes[0].most = 15;
      result.takes[1].most = -16;
    }
    return true;
  }

  charge(input: ChargeInput, result: Charge): bool {
    dumpChargeInput(input);
    logged();
    if (!addLine(result, "0123456789abcdefghi", 5, 3) || addLine(result, "", i64.MAX_VALUE, 2)) return false;
    if (addLine(result, "", -1, 1) || addLine(result, "", i64.MAX_VALUE, 1) || result.total != 15) return false;
    result.total = -1; // as after a rebate
    if (!addLine(result, "all", i64.MAX_VALUE, 1) || result.total != i64.MAX_VALUE - 1) return false;
    result.lines.length = 1;
    result.total = 123456789;
    result.tier = 11;
    for (let i = 0; i < input.held.length; i++) result.taken.push(input.held[i] - 1);
    return true;
  }
}

class EchoAdmission extends Admission {
  decide(input: AdmissionInput, result: Decision): bool {
    dumpAdmissionInput(input);
    logged();
    result.verdict = input.stream ? Verdict.DENY : Verdict.RESERVE;
    const take = new Counter();
    take.limit = 7;
    take.most = -8;
    result.takes.push(take);
    result.priority = -6;
    result.kind = Kind.UNSUPPORTED_ENCODING;
    result.retryAfterMs = 12345789;
    result.msg = input.protocol.toString();
    if (input.account.is("composed")) result.msg = composed("there is no ", input.key).toString();
    return true;
  }
}

class EchoRewrite extends Rewrite {
  rewrite(input: RewriteInput): i32 {
    if (input.account.is("composed")) {
      const param = composed("the field ", input.key);
      return refuse(param, composed("there is no ", input.key).toString());
    }
    dumpRewriteInput(input);
    return Status.OK;
  }
}

class EchoFilter extends Filter {
  filter(input: FilterInput): void {
    dumpFilterInput(input);
    this.state = input.text.slice(0, min(input.text.n, 256));
  }
}

class Echo extends Router {
  private rewrite: EchoRewrite = new EchoRewrite();
  private filter: EchoFilter = new EchoFilter();
  private billing: EchoBilling = new EchoBilling();
  private admission: EchoAdmission = new EchoAdmission();

  configure(config: Text): i32 {
    const j = new Json(config);
    j.object();
    while (j.member()) {
      const name = j.name;
      const value = j.value();
      if (!name.is("composed")) continue;
      const param = composed("the field ", value);
      return refuse(param, composed("there is no ", value).toString());
    }
    literal.push(config.n);
    log(Level.INFO, config);
    count(3, -7);
    return Status.OK;
  }

  operate(op: u32, r: Reader): i32 {
    if (op == 32) return this.admission.operate(op, r);
    if (op == 48) return this.rewrite.operate(op, r);
    if (op == 64) return this.filter.operate(op, r);
    if (op == 97) return literal.push(0) > 0 ? <i32>Status.OK : <i32>Status.DECLINE;
    if (op == 98) return arrays(r.u16());
    return op == 16 || op == 17 ? this.billing.operate(op, r) : super.operate(op, r);
  }

  request(input: RequestInput): i32 {
    if (input.route.index > 0) {
      dumpRequestInput(input);
      return Status.OK;
    }
    const j = new Json(input.body);
    j.object();
    while (j.member()) {
      out.put(j.name);
      if (j.name.is("list")) {
        out.byte(0x3a);
        j.array();
        while (j.element()) out.put(j.value()).byte(0x2c);
      } else {
        const name = j.name;
        const value = j.value();
        out.byte(0x3d);
        if (name.is("text")) {
          out.put(unescape(value.slice(1, value.n - 1)));
        } else if (name.is("int")) {
          const n = new Whole(value);
          if (!n.ok) return refuse(name, "bad");
          out.decimal(n.n);
        } else if (name.is("é€😀")) {
          out.puts("é€😀 ").puts("a😀".substr(0, 2)).put(value);
        } else {
          out.put(value);
        }
      }
      out.byte(0x3b);
    }
    this.kept = input.body;
    return j.end() ? <i32>Status.OK : refuse(Text.of(""), "bad");
  }

  events(input: EventsInput): void {
    out.put(this.state).byte(0x7c).put(input.kept).byte(0x7c).put(input.history).byte(0x7c);
    for (const all = new Frames(input.events); all.next(); ) {
      out.put(all.frame.payload).byte(0x7c);
      if (all.frame.payload.n <= 4096) this.state = all.frame.payload;
    }
    const from = out.n; // a state may be made behind what was written
    this.state = out.put(this.state).since(from);
    out.n = from;
  }

  response(input: ResponseInput): void {
    out.escaped(input.facts.model).byte(0x7c).put(input.kept).byte(0x7c);
    for (const all = new Frames(input.events); all.next(); ) {
      const f = all.frame;
      out.decimal(f.kind).puts(" ").decimal(f.mark).puts(" ").decimal(f.index).puts(" [");
      if (f.kind == Event.START || f.kind == Event.END) {
        const u = f.usage;
        out.decimal(u.uncached).puts(" ").decimal(u.cacheRead).puts(" ").decimal(u.cacheWrite).puts(" ");
        out.decimal(u.output).puts(" ").decimal(u.reasoning).puts(" ").put(f.stopSequence);
      } else if (f.kind == Event.ELAPSED) {
        dumpElapsed(f.elapsed);
      } else if (f.kind == Event.BLOCK_START) {
        const tool = f.tool;
        out.put(tool[0]).puts(" ").put(tool[1]);
      } else {
        out.put(f.payload);
      }
      out.puts("]");
    }
  }

  error(input: ErrorInput): void {
    dumpErrorInput(input);
  }

  models(input: ModelsInput): i32 {
    const model = named(input.route.params, "refuse");
    if (model !== null) return refuseModel(Text.of("model"), model);
    const made = named(input.route.params, "composed");
    if (made !== null) {
      const param = composed("the field ", made);
      return refuseModel(param, composed("there is no ", made));
    }
    dumpModelsInput(input);
    return Status.OK;
  }

  count(input: CountInput): void {
    dumpCountInput(input);
  }
}

serve(new Echo());
