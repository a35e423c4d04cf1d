// Modules of node-abi/1 in AssemblyScript.
//
//     import { Billing, ... serve } from "./corenode/corenode";
//     export { abi, buf, init, call } from "./corenode/corenode";
//
//     class Flat extends Billing { quote(...) ...; charge(...) ... }
//     serve(new Flat());
//
// A module is one object of a class that extends Translator, Router (a translator with
// routes), Billing, Admission, Rewrite or Filter. What a function is given lies in the input and is gone when
// it returns. Keep nothing between calls but what configure made: a call is a pure function,
// and the memory that it takes is given back as a whole after it (see runtime.ts).

import { keep, reset, seal } from "./runtime";
import {
  AdmissionInput, Charge, ChargeInput, CountInput, Decision, ErrorInput, EventsInput, FilterInput, Kind, Line, ModelsInput, Pair, Quote,
  QuoteInput, RequestInput, ResponseInput, RewriteInput, Status,
} from "./records";
import { Reader, Text, out } from "./wire";

export * from "./json";
export * from "./records";
export * from "./wire";

const HEADER = 8;
let kindOfError: u16 = 0;

// What the client, or the operator, did wrong: which field, and what is wrong with it.
// Return what it gives.
export function refuse(param: Text, msg: string): i32 {
  return refuseAs(Kind.INVALID_REQUEST, param, Text.of(msg));
}

// What models returns of a model that there is not.
export function refuseModel(param: Text, msg: Text): i32 {
  return refuseAs(Kind.MODEL_NOT_FOUND, param, msg);
}

function refuseAs(kind: u16, param: Text, msg: Text): i32 {
  param = out.apart(param);
  msg = out.apart(msg);
  out.n = HEADER;
  kindOfError = kind;
  out.u32(0);
  out.clipped(param);
  store<u32>(out.at + HEADER, out.n - HEADER - 4);
  out.clipped(msg);
  return Status.ERROR;
}

// Module is what all kinds have. Methods give Status.OK, Status.DECLINE (the node's built-in
// module does this one) or, where they may refuse, what refuse gives.
export abstract class Module {
  // Takes a JSON object, {} without one. May refuse. Runs once, first.
  configure(config: Text): i32 {
    return config.is("{}") ? <i32>Status.OK : refuse(Text.of(""), "this module takes no configuration");
  }

  abstract operate(op: u32, r: Reader): i32;
}

// Translator turns requests of its protocol into messages, and answers back.
export abstract class Translator extends Module {
  // What request keeps comes back with the answer's calls.
  kept: Text = new Text(0, 0);
  // The state of a stream: the last one, and the next.
  state: Text = new Text(0, 0);

  // Writes the messages body. May refuse.
  abstract request(input: RequestInput): i32;
  // Writes whole server-sent events, or whole lines.
  abstract events(input: EventsInput): void;
  // Writes the body of a whole answer.
  abstract response(input: ResponseInput): void;
  // Writes the body of an error, or the end of a stream that broke.
  abstract error(input: ErrorInput): void;

  operate(op: u32, r: Reader): i32 {
    switch (op) {
      case 1: {
        const input = new RequestInput(r);
        if (r.bad) return Status.DECLINE;
        this.kept = new Text(0, 0);
        out.u32(0);
        const status = this.request(input);
        if (status == Status.OK) out.section(HEADER, 0, this.kept);
        return status;
      }
      case 2: {
        const input = new EventsInput(r);
        if (r.bad) return Status.DECLINE;
        this.state = input.state;
        out.u32(0);
        out.put(input.state); // as much room as the state had: most keep their size
        this.events(input);
        out.section(HEADER, input.state.n, this.state);
        return Status.OK;
      }
      case 3: {
        const input = new ResponseInput(r);
        if (r.bad) return Status.DECLINE;
        this.response(input);
        return Status.OK;
      }
      case 4: {
        const input = new ErrorInput(r);
        if (r.bad) return Status.DECLINE;
        this.error(input);
        return Status.OK;
      }
    }
    return Status.DECLINE;
  }
}

// Router is a translator with routes of its own.
export abstract class Router extends Translator {
  // Writes the body of a listing. May refuse, also with refuseModel.
  abstract models(input: ModelsInput): i32;
  // Writes the body of a count.
  abstract count(input: CountInput): void;

  operate(op: u32, r: Reader): i32 {
    if (op == 5) {
      const input = new ModelsInput(r);
      return r.bad ? <i32>Status.DECLINE : this.models(input);
    }
    if (op == 6) {
      const input = new CountInput(r);
      if (r.bad) return Status.DECLINE;
      this.count(input);
      return Status.OK;
    }
    return super.operate(op, r);
  }
}

// Billing says what a request may cost, and what it did cost. False declines: the built-in
// tariff charges.
export abstract class Billing extends Module {
  abstract quote(input: QuoteInput, result: Quote): bool;
  abstract charge(input: ChargeInput, result: Charge): bool;

  operate(op: u32, r: Reader): i32 {
    if (op == 16) {
      const input = new QuoteInput(r);
      const result = new Quote();
      if (r.bad || !this.quote(input, result)) return Status.DECLINE;
      out.n = HEADER;
      result.write();
      return Status.OK;
    }
    if (op != 17) return Status.DECLINE;
    const input = new ChargeInput(r);
    const result = new Charge();
    if (r.bad || !this.charge(input, result)) return Status.DECLINE;
    out.n = HEADER;
    result.write();
    return Status.OK;
  }
}

// Adds tokens at a price to a charge; false if a number is negative or does not fit.
export function addLine(c: Charge, unit: string, tokens: i64, price: i64): bool {
  if (tokens < 0 || price < 0 || c.lines.length == 16 || (tokens > 0 && price > i64.MAX_VALUE / tokens)) return false;
  const line = new Line();
  line.unit = unit;
  line.tokens = tokens;
  line.price = price;
  line.amount = tokens * price;
  if (c.total > i64.MAX_VALUE - line.amount) return false; // the amount is not negative, a total may be
  c.total += line.amount;
  c.lines.push(line);
  return true;
}

// Admission lets a request in, denies it, or says how long it may wait for others.
export abstract class Admission extends Module {
  abstract decide(input: AdmissionInput, result: Decision): bool;

  operate(op: u32, r: Reader): i32 {
    const input = new AdmissionInput(r);
    const result = new Decision();
    if (op != 32 || r.bad || !this.decide(input, result)) return Status.DECLINE;
    out.n = HEADER;
    result.write();
    return Status.OK;
  }
}

// Rewrite changes the messages body of a request before anything is made of it.
export abstract class Rewrite extends Module {
  // Writes the body to go on with; nothing leaves it as it is. May refuse.
  abstract rewrite(input: RewriteInput): i32;

  operate(op: u32, r: Reader): i32 {
    const input = new RewriteInput(r);
    return op != 48 || r.bad ? <i32>Status.DECLINE : this.rewrite(input);
  }
}

// Filter says what of an answer's text and thinking may be shown.
export abstract class Filter extends Module {
  // What the piece before left, and what this one leaves: at most 256 bytes, which is all that
  // can be held back.
  state: Text = new Text(0, 0);

  // Writes what may be shown.
  abstract filter(input: FilterInput): void;

  operate(op: u32, r: Reader): i32 {
    const input = new FilterInput(r);
    if (op != 64 || r.bad) return Status.DECLINE;
    this.state = input.state;
    out.u32(0);
    this.filter(input);
    out.section(HEADER, 0, this.state);
    return Status.OK;
  }
}

// The value of the first pair with a name; null without one.
export function named(all: Pair[], name: string): Text | null {
  for (let i = 0; i < all.length; i++) if (all[i].name.is(name)) return all[i].value;
  return null;
}

// ---- the exports

let served: Module | null = null;
let input: usize = 0;
let room: u32 = 0;

// Makes m the module of this program.
export function serve(m: Module): void {
  served = m;
}

export function abi(): i32 {
  return 1 << 16;
}

// The input buffer stays in place until a larger one is asked for.
export function buf(n: u32): usize {
  if (n > room || input == 0) {
    if (room > 0) reset();
    input = heap.alloc(n);
    room = n;
    keep();
  }
  return input;
}

// Ends an output frame: status u8, zero u8, kind u16, length u32, payload.
function end(status: i32): i64 {
  if (status == Status.DECLINE) out.n = HEADER;
  store<u8>(out.at, <u8>status);
  store<u8>(out.at, 0, 1);
  store<u16>(out.at, status == Status.ERROR ? kindOfError : 0, 2);
  store<u32>(out.at, out.n - HEADER, 4);
  return (<i64>out.at << 32) | <i64>out.n;
}

export function init(n: u32): i64 {
  const m = served;
  if (n > room || m === null) return 0;
  out.begin(1024);
  out.more(HEADER);
  const status = m.configure(n > 0 ? new Text(input, n) : Text.of("{}"));
  seal();
  return end(status);
}

export function call(op: u32, n: u32): i64 {
  const m = served;
  if (n > room || m === null) return 0;
  reset();
  out.begin(1024 + n + n / 2);
  out.more(HEADER);
  return end(m.operate(op, new Reader(input, n)));
}

// ---- what a module may ask of the node: imported only where it is used

// @ts-ignore: decorator
@external("corenode", "log")
declare function hostLog(level: i32, at: usize, n: i32): void;

// @ts-ignore: decorator
@external("corenode", "metric")
declare function hostMetric(id: i32, delta: i64): void;

export namespace Level {
  export const DEBUG: i32 = 0;
  export const INFO: i32 = 1;
  export const WARN: i32 = 2;
  export const ERROR: i32 = 3;
}

// Writes a line into the node's log.
export function log(level: i32, line: Text): void {
  hostLog(level, line.at, line.n);
}

// Adds to one of the sixteen counters, 0 to 15, that appear in the node's metrics.
export function count(id: i32, delta: i64): void {
  hostMetric(id, delta);
}
