// Reading inputs and writing outputs, byte by byte.

import { Elapsed, Usage } from "./records";

// Text is n bytes of UTF-8 that belong to the input, to the output or to a string.
export class Text {
  constructor(
    public at: usize,
    public n: i32,
  ) {}

  // The bytes of a string; half of a pair of surrogates becomes U+FFFD.
  static of(s: string): Text {
    const bytes = String.UTF8.encode(s, false, String.UTF8.ErrorMode.REPLACE);
    return new Text(changetype<usize>(bytes), bytes.byteLength);
  }

  // Tells whether it is a string.
  is(s: string): bool {
    const n = s.length;
    if (this.n < n) return false;
    for (let i = 0; i < n; i++) {
      const c = s.charCodeAt(i);
      if (c >= 0x80) return this.same(Text.of(s));
      if (<i32>this.byte(i) != c) return false;
    }
    return this.n == n;
  }

  // Tells whether it has the same bytes.
  same(other: Text): bool {
    return this.n == other.n && memory.compare(this.at, other.at, this.n) == 0;
  }

  byte(i: i32): u8 {
    return load<u8>(this.at + i);
  }

  slice(from: i32, to: i32): Text {
    return new Text(this.at + from, to - from);
  }

  // A copy that stays: for what configure keeps.
  copy(): Text {
    const at = heap.alloc(this.n);
    memory.copy(at, this.at, this.n);
    return new Text(at, this.n);
  }

  toString(): string {
    return String.UTF8.decodeUnsafe(this.at, this.n);
  }
}

// Reader reads a record from its front. After the first malformed field it gives zeros.
export class Reader {
  bad: bool = false;

  constructor(
    private at: usize,
    private n: i32,
  ) {}

  // Of what a record does not have.
  static get none(): Reader {
    const r = new Reader(0, 0);
    r.bad = true;
    return r;
  }

  static of(t: Text): Reader {
    return new Reader(t.at, t.n);
  }

  fail(): i32 {
    this.bad = true;
    return 0;
  }

  take(n: u32): usize {
    if (this.bad || n > <u32>this.n) {
      this.bad = true;
      return changetype<usize>(ZEROS);
    }
    const at = this.at;
    this.at += n;
    this.n -= n;
    return at;
  }

  u8(): u8 {
    return load<u8>(this.take(1));
  }

  u16(): u16 {
    return load<u16>(this.take(2));
  }

  u32(): u32 {
    return load<u32>(this.take(4));
  }

  i64(): i64 {
    return load<i64>(this.take(8));
  }

  section(): Text {
    const n = this.u32();
    const at = this.take(n);
    return new Text(at, this.bad ? 0 : n);
  }

  rest(): Text {
    const n = this.bad ? 0 : this.n;
    return new Text(this.take(n), n);
  }

  // Takes a tag of eight bytes if the record begins with it.
  tagged(tag: string): bool {
    if (this.bad || this.n < 8 || !new Text(this.at, 8).is(tag)) return false;
    this.take(8);
    return true;
  }
}

const ZEROS: StaticArray<u8> = new StaticArray<u8>(8);

// Frame is one event frame. Skip kinds that you do not know.
export class Frame {
  kind: u8; // a number of Event
  mark: u8; // of the end a number of Stop, else of Block
  index: u16;
  payload: Text; // of a delta its text, escaped

  constructor(r: Reader) {
    this.kind = r.u8();
    this.mark = r.u8();
    this.index = r.u16();
    this.payload = r.section();
  }

  // The usage of a start or an end.
  get usage(): Usage {
    return new Usage(Reader.of(this.payload));
  }

  // The escaped stop sequence of an end.
  get stopSequence(): Text {
    return this.payload.n < 40 ? this.payload.slice(0, 0) : this.payload.slice(40, this.payload.n);
  }

  // How long the answer took.
  get elapsed(): Elapsed {
    return new Elapsed(Reader.of(this.payload));
  }

  // The escaped id and name of a tool use that begins.
  get tool(): Text[] {
    const r = Reader.of(this.payload);
    const n = r.u16();
    const id = new Text(r.take(n), r.bad ? 0 : n);
    return [id, r.rest()];
  }
}

// Frames gives the frames that a text holds, until the first that is not whole:
//
//     for (const all = new Frames(input.events); all.next(); ) use(all.frame);
export class Frames {
  frame: Frame = new Frame(Reader.none);
  private r: Reader;

  constructor(events: Text) {
    this.r = Reader.of(events);
  }

  next(): bool {
    this.frame = new Frame(this.r);
    return !this.r.bad;
  }
}

const REFUSAL_BYTES_MAX = 2048;

// Out is an output, written from front to end.
export class Out {
  at: usize = 0;
  n: i32 = 0;
  private room: i32 = 0;

  // Begins again, with room for n bytes.
  begin(n: i32): void {
    this.at = heap.alloc(n);
    this.room = n;
    this.n = 0;
  }

  // Makes room for n bytes at the end and gives their place.
  more(n: i32): usize {
    if (n > this.room - this.n) {
      this.room = max(2 * this.room, this.n + n);
      this.at = heap.realloc(this.at, this.room);
    }
    const at = this.at + this.n;
    this.n += n;
    return at;
  }

  // Writes bytes as they are. Texts in event frames and in JSON are escaped already.
  put(t: Text): Out {
    return this.bytes(t.at, t.n);
  }

  private bytes(at: usize, n: i32): Out {
    memory.copy(this.more(n), at, n);
    return this;
  }

  // Writes a string.
  puts(s: string): Out {
    const n = s.length;
    const at = this.more(n);
    for (let i = 0; i < n; i++) {
      const c = s.charCodeAt(i);
      if (c >= 0x80) {
        this.n -= n;
        return this.put(Text.of(s));
      }
      store<u8>(at + i, <u8>c);
    }
    return this;
  }

  byte(b: u8): Out {
    store<u8>(this.more(1), b);
    return this;
  }

  u16(v: u16): void {
    store<u16>(this.more(2), v);
  }

  u32(v: u32): void {
    store<u32>(this.more(4), v);
  }

  i64(v: i64): void {
    store<i64>(this.more(8), v);
  }

  decimal(v: i64): Out {
    let rest: u64 = v < 0 ? 0 - <u64>v : <u64>v;
    let digits = 1;
    for (let r = rest; r > 9; r /= 10) digits++;
    if (v < 0) this.byte(0x2d);
    const at = this.more(digits);
    for (let i = digits; i-- > 0; rest /= 10) store<u8>(at + i, 0x30 + <u8>(rest % 10));
    return this;
  }

  // Writes text as it stands between the quotes of a JSON string; bytes that are no UTF-8
  // become U+FFFD.
  escaped(t: Text): Out {
    let clean = 0; // from there to i nothing needs a change
    for (let i = 0; i < t.n; ) {
      const c = t.byte(i);
      const length = c == 0x22 || c == 0x5c || c < 0x20 ? 0 : character(t, i);
      if (length > 0) {
        i += length;
        continue;
      }
      this.bytes(t.at + clean, i - clean);
      clean = ++i;
      if (c >= 0x80) this.byte(0xef).byte(0xbf).byte(0xbd);
      else if (c == 0x22 || c == 0x5c) this.byte(0x5c).byte(c);
      else if (c == 0x0a) this.puts("\\n");
      else if (c == 0x0d) this.puts("\\r");
      else if (c == 0x09) this.puts("\\t");
      else this.puts("\\u00").byte(hex(c >> 4)).byte(hex(c & 15));
    }
    return this.bytes(t.at + clean, t.n - clean);
  }

  // Writes what a refusal may have of a text: UTF-8 of at most 2048 bytes.
  clipped(t: Text): void {
    for (let i = 0; i < t.n; ) {
      const length = character(t, i);
      if (i + max(length, 1) > REFUSAL_BYTES_MAX) return;
      if (length > 0) this.bytes(t.at + i, length);
      else this.byte(0x3f);
      i += max(length, 1);
    }
  }

  unit(s: string): void {
    const text = Text.of(s);
    const at = this.more(16);
    memory.fill(at, 0, 16);
    memory.copy(at, text.at, min(text.n, 16));
  }

  // The text, or of one that lies in the output a copy.
  apart(t: Text): Text {
    return t.at >= this.at && t.at < this.at + this.room ? t.copy() : t;
  }

  // Puts a section in the place of the one of n bytes at a position. It may lie in the output,
  // in what moves.
  section(place: i32, n: i32, section: Text): void {
    const end = this.n;
    if (section.n != n) section = this.apart(section);
    if (section.n > n) this.more(section.n - n);
    const at = this.at + place + 4;
    memory.copy(at + section.n, at + n, end - place - 4 - n);
    memory.copy(at, section.at, section.n);
    store<u32>(at - 4, section.n);
    this.n = end + section.n - n;
  }

  // What is written from a position on.
  since(place: i32): Text {
    return new Text(this.at + place, this.n - place);
  }
}

// The output of the call.
export const out: Out = new Out();

function hex(digit: u8): u8 {
  return digit < 10 ? 0x30 + digit : 0x57 + digit;
}

// The length of the UTF-8 character at a place; 0 if there is none.
export function character(t: Text, at: i32): i32 {
  const c = t.byte(at);
  const length = c < 0x80 ? 1 : c < 0xc2 ? 0 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : c < 0xf5 ? 4 : 0;
  if (length > t.n - at) return 0;
  for (let i = 1; i < length; i++) if ((t.byte(at + i) & 0xc0) != 0x80) return 0;
  if (length < 3) return length;
  const next = t.byte(at + 1);
  const odd = (c == 0xe0 && next < 0xa0) || (c == 0xed && next > 0x9f) || (c == 0xf0 && next < 0x90) || (c == 0xf4 && next > 0x8f);
  return odd ? 0 : length;
}
