// JSON: enough to find values in a body or a configuration.

import { Text, character } from "./wire";

const DEPTH_MAX = 128;
// What closes the levels that are open in a value, of one at a time.
const CLOSERS: StaticArray<u8> = new StaticArray<u8>(DEPTH_MAX);

// What may stand next in a value.
enum Wanted {
  VALUE,
  FIRST_VALUE,
  KEY,
  FIRST_KEY,
  AFTER,
}

// Json walks one text forward without taking it apart:
//
//     const j = new Json(body);
//     j.object();
//     while (j.member())
//       if (j.name.is("model")) model = j.value();
//       else return refuse(j.name, "no such field");
//     if (!j.end()) ...
//
// What it takes is valid JSON, in UTF-8, at any depth up to 128, so a value may be written
// into another body as it stands.
export class Json {
  // Of the member: as it stands in the text, without quotes.
  name: Text = new Text(0, 0);
  private at: i32 = 0;
  private started: bool = false;
  private bad: bool = false;

  constructor(private text: Text) {}

  private fail(): bool {
    this.bad = true;
    this.at = this.text.n;
    return false;
  }

  // The next byte that is no space; 0 at the end.
  private peek(): u8 {
    for (; this.at < this.text.n; this.at++) {
      const c = this.text.byte(this.at);
      if (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09) return c;
    }
    return 0;
  }

  // Takes a string, quotes and all.
  private quoted(): void {
    const text = this.text;
    for (let i = this.at + 1, step = 0; i < text.n; i += step) {
      const c = text.byte(i);
      if (c == 0x22) {
        this.at = i + 1;
        return;
      }
      step = c == 0x5c ? escape(text, i) : c < 0x20 ? 0 : character(text, i);
      if (step == 0) break;
    }
    this.fail();
  }

  // Takes a word if it is next.
  private word(w: string): bool {
    if (this.text.n - this.at < w.length) return false;
    for (let i = 0; i < w.length; i++) if (<i32>this.text.byte(this.at + i) != w.charCodeAt(i)) return false;
    this.at += w.length;
    return true;
  }

  // Takes a byte if it is next.
  private one(c: u8): bool {
    if (this.at == this.text.n || this.text.byte(this.at) != c) return false;
    this.at++;
    return true;
  }

  // Takes digits and gives how many.
  private digits(): i32 {
    const from = this.at;
    while (this.at < this.text.n && this.text.byte(this.at) >= 0x30 && this.text.byte(this.at) <= 0x39) this.at++;
    return this.at - from;
  }

  // Takes a number, true, false or null.
  private plain(): void {
    if (this.word("true") || this.word("false") || this.word("null")) return;
    this.one(0x2d);
    const from = this.at;
    const whole = this.digits();
    if (whole == 0 || (whole > 1 && this.text.byte(from) == 0x30)) this.fail();
    if (this.one(0x2e) && this.digits() == 0) this.fail();
    if (this.one(0x65) || this.one(0x45)) {
      if (!this.one(0x2b)) this.one(0x2d);
      if (this.digits() == 0) this.fail();
    }
  }

  // Goes into an object.
  object(): bool {
    return this.open(0x7b);
  }

  // Goes into an array.
  array(): bool {
    return this.open(0x5b);
  }

  private open(bracket: u8): bool {
    if (this.peek() != bracket) return this.fail();
    this.at++;
    this.started = false;
    return true;
  }

  private step(closer: u8): bool {
    let c = this.peek();
    if (c == closer) {
      this.at++;
      this.started = true;
      return false;
    }
    if (this.started) {
      if (c != 0x2c) return this.fail();
      this.at++;
      c = this.peek();
    }
    if (c == 0 || c == closer) return this.fail();
    this.started = true;
    return true;
  }

  // Stands before the next element of the array; false at its end. Take each with value.
  element(): bool {
    return this.step(0x5d);
  }

  // Stands before the value of the object's next member; false at the end. Take each value.
  member(): bool {
    if (!this.step(0x7d)) return false;
    if (this.peek() != 0x22) return this.fail();
    const from = this.at + 1;
    this.quoted();
    const to = this.at - 1;
    if (this.peek() != 0x3a) return this.fail();
    this.at++;
    this.name = this.text.slice(from, to);
    return true;
  }

  // Takes the next value whole and gives its text, which is empty if there is none.
  value(): Text {
    this.peek();
    const from = this.at;
    let depth = 0;
    let wanted = Wanted.VALUE;
    do {
      const c = this.peek();
      const key = wanted == Wanted.KEY || wanted == Wanted.FIRST_KEY;
      if (depth > 0 && c == CLOSERS[depth - 1] && wanted != Wanted.VALUE && wanted != Wanted.KEY) {
        depth--;
        this.at++;
        wanted = Wanted.AFTER;
      } else if (wanted == Wanted.AFTER && c == 0x2c) {
        this.at++;
        wanted = CLOSERS[depth - 1] == 0x7d ? Wanted.KEY : Wanted.VALUE;
      } else if (wanted == Wanted.AFTER || (key && c != 0x22)) {
        this.fail();
      } else if (key) {
        this.quoted();
        if (this.peek() != 0x3a) this.fail();
        else this.at++;
        wanted = Wanted.VALUE;
      } else if ((c == 0x7b || c == 0x5b) && depth < DEPTH_MAX) {
        CLOSERS[depth++] = c + 2; // the other bracket
        this.at++;
        wanted = c == 0x7b ? Wanted.FIRST_KEY : Wanted.FIRST_VALUE;
      } else {
        if (c == 0x22) this.quoted();
        else this.plain();
        wanted = Wanted.AFTER;
      }
    } while ((depth > 0 || wanted != Wanted.AFTER) && !this.bad);
    return this.text.slice(from, this.bad ? from : this.at);
  }

  // Tells whether the text was well formed as far as it was read and nothing follows. Ask it
  // after the outermost value was left.
  end(): bool {
    return this.peek() == 0 && this.at == this.text.n && !this.bad;
  }
}

// The length of the escape at a place of a text; 0 if it is none.
function escape(t: Text, at: i32): i32 {
  if (t.n - at < 2 || t.byte(at) != 0x5c) return 0;
  const c = t.byte(at + 1);
  if (c == 0x75) {
    for (let i = 2; i < 6; i++) if (t.n - at < 6 || hexDigit(t.byte(at + i)) < 0) return 0;
    return 6;
  }
  return c == 0x22 || c == 0x5c || c == 0x2f || c == 0x62 || c == 0x66 || c == 0x6e || c == 0x72 || c == 0x74 ? 2 : 0;
}

// The number of a hexadecimal digit; -1 if it is none.
function hexDigit(c: u8): i32 {
  if (c >= 0x30 && c <= 0x39) return c - 0x30;
  const letter = c | 0x20;
  return letter >= 0x61 && letter <= 0x66 ? letter - 0x57 : -1;
}

// What a string says, of its text between the quotes.
export function unescape(text: Text): Text {
  let n = 0;
  const to = heap.alloc(text.n);
  for (let i = 0; i < text.n; ) {
    const length = text.byte(i) == 0x5c ? escape(text, i) : 0;
    if (length == 0) {
      store<u8>(to + n++, text.byte(i++));
      continue;
    }
    const c = text.byte(i + 1);
    let code: u32 = c == 0x62 ? 8 : c == 0x66 ? 12 : c == 0x6e ? 10 : c == 0x72 ? 13 : c == 0x74 ? 9 : c;
    if (length == 6) code = unit(text, i);
    i += length;
    if ((code & 0xf800) == 0xd800) {
      const next = code < 0xdc00 && i < text.n && escape(text, i) == 6 ? unit(text, i) : 0;
      const pair = (next & 0xfc00) == 0xdc00;
      code = pair ? 0x10000 + ((code & 0x3ff) << 10) + (next & 0x3ff) : 0xfffd;
      if (pair) i += 6;
    }
    n += encode(to + n, code);
  }
  return new Text(to, n);
}

// Writes a character in UTF-8 and gives its length.
function encode(at: usize, code: u32): i32 {
  if (code < 0x80) {
    store<u8>(at, <u8>code);
    return 1;
  }
  const more = code < 0x800 ? 1 : code < 0x10000 ? 2 : 3;
  store<u8>(at, <u8>((0xff80 >> more) | (code >> (6 * more))));
  for (let i = 1; i <= more; i++) store<u8>(at + i, <u8>(0x80 | ((code >> (6 * (more - i))) & 0x3f)));
  return more + 1;
}

// The number of an escape of six bytes.
function unit(t: Text, at: i32): u32 {
  let code = 0;
  for (let i = 2; i < 6; i++) code = (code << 4) | hexDigit(t.byte(at + i));
  return code;
}

// Whole reads a value that is a whole number.
export class Whole {
  ok: bool = false;
  n: i64 = 0;

  constructor(v: Text) {
    this.read(v);
  }

  private read(v: Text): void {
    const negative = v.n > 0 && v.byte(0) == 0x2d ? 1 : 0;
    const limit = <u64>i64.MAX_VALUE + negative;
    let n: u64 = 0;
    if (negative == v.n || (v.byte(negative) == 0x30 && v.n > negative + 1)) return;
    for (let i = negative; i < v.n; i++) {
      const digit = <u64>v.byte(i) - 0x30;
      if (digit > 9 || n > (limit - digit) / 10) return;
      n = 10 * n + digit;
    }
    this.n = negative ? <i64>(0 - n) : <i64>n;
    this.ok = true;
  }
}
