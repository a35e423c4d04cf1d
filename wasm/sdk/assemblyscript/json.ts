// JSON: enough to find values in a body or a configuration.

import { Text } from "./wire";

const DEPTH_MAX = 128;

// Json walks one text forward without taking it apart:
//
//     const j = new Json(body);
//     j.object();
//     while (j.member())
//       if (j.name.is("model")) model = j.value();
//       else return refuse(j.name, "no such field");
//     if (!j.end()) ...
//
// It knows where values end, at any depth up to 128. It does not look into numbers and
// strings: the node checks the whole body that comes out.
export class Json {
  // Of the member: as it stands in the text, without quotes.
  name: Text = new Text(0, 0);
  private at: usize;
  private to: usize;
  private started: bool = false;
  private bad: bool = false;

  constructor(text: Text) {
    this.at = text.at;
    this.to = text.at + text.n;
  }

  private fail(): bool {
    this.bad = true;
    this.at = this.to;
    return false;
  }

  // The next byte that is no space; 0 at the end.
  private peek(): u8 {
    for (; this.at < this.to; this.at++) {
      const c = load<u8>(this.at);
      if (c != 0x20 && c != 0x0a && c != 0x0d && c != 0x09) return c;
    }
    return 0;
  }

  // Takes a string, quotes and all.
  private quoted(): Text {
    const from = this.at;
    for (let at = from + 1; at < this.to; at++) {
      const c = load<u8>(at);
      if (c == 0x22) {
        this.at = at + 1;
        return new Text(from, <i32>(this.at - from));
      }
      if (c < 0x20) break;
      if (c == 0x5c) at++;
    }
    this.fail();
    return new Text(0, 0);
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
    const name = this.quoted();
    if (this.peek() != 0x3a) return this.fail();
    this.at++;
    this.name = name.slice(1, name.n - 1);
    return true;
  }

  // Takes the next value whole and gives its text, which is empty if there is none.
  value(): Text {
    this.peek();
    const from = this.at;
    const closers = new StaticArray<u8>(DEPTH_MAX);
    let depth = 0;
    do {
      const c = this.peek();
      if (c == 0x22) {
        this.quoted();
      } else if ((c == 0x7b || c == 0x5b) && depth < DEPTH_MAX) {
        closers[depth++] = c + 2;
        this.at++;
      } else if ((c == 0x7d || c == 0x5d) && depth > 0 && closers[depth - 1] == c) {
        depth--;
        this.at++;
      } else if (depth > 0 && (c == 0x2c || c == 0x3a)) {
        this.at++;
      } else if (plain(c) && c != 0x2b && c != 0x2e && c != 0x45) {
        while (this.at < this.to && plain(load<u8>(this.at))) this.at++;
      } else {
        this.fail();
      }
    } while (depth > 0 && !this.bad);
    return new Text(from, this.bad ? 0 : <i32>(this.at - from));
  }

  // Tells whether the text was well formed as far as it was read and nothing follows. Ask it
  // after the outermost value was left.
  end(): bool {
    return this.peek() == 0 && this.at == this.to && !this.bad;
  }
}

// What numbers and names consist of.
function plain(c: u8): bool {
  return c == 0x2d || c == 0x2b || c == 0x2e || (c >= 0x30 && c <= 0x39) || (c >= 0x61 && c <= 0x7a) || c == 0x45;
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
