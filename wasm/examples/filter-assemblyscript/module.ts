// A filter: one word of the operator's configuration never reaches a client, however the
// model's answer is cut into pieces.
//
//     {"word": "Zebulon"}
//
// What may be the beginning of the word is held back until the next piece shows whether it is.

import { Filter, FilterInput, Json, Status, Text, out, refuse, serve } from "../../sdk/assemblyscript/corenode";
export { abi, buf, init, call } from "../../sdk/assemblyscript/corenode";

const WORD_MAX = 64; // what is held back of it fits the state

class Redact extends Filter {
  private word: Text = new Text(0, 0);

  configure(config: Text): i32 {
    const j = new Json(config);
    j.object();
    while (j.member()) {
      const value = j.value();
      if (!j.name.is("word")) return refuse(j.name, "no such key; the only one is word");
      if (value.n < 2 || value.byte(0) != 0x22 || value.n - 2 > WORD_MAX)
        return refuse(j.name, "want a text of at most 64 bytes");
      this.word = value.slice(1, value.n - 1).copy();
      for (let i = 0; i < this.word.n; i++)
        if (this.word.byte(i) == 0x5c) return refuse(j.name, "want a text without escapes");
    }
    return j.end() ? <i32>Status.OK : refuse(Text.of(""), "want a JSON object");
  }

  filter(input: FilterInput): void {
    const held = this.state; // the text is held, then input.text
    const n = held.n + input.text.n;
    this.state = new Text(0, 0);
    for (let at = 0; at < n; ) {
      const same = this.matches(held, input.text, at, n - at);
      if (this.word.n > 0 && same == this.word.n) {
        out.puts("[redacted]");
        at += same;
      } else if (this.word.n > 0 && same == n - at && !input.last) {
        this.state = this.word.slice(0, same);
        return;
      } else {
        out.byte(byte(held, input.text, at++));
      }
    }
  }

  // How many of the n bytes from at on the word begins with.
  private matches(held: Text, text: Text, at: i32, n: i32): i32 {
    let same = 0;
    while (same < n && same < this.word.n && byte(held, text, at + same) == this.word.byte(same)) same++;
    return same;
  }
}

function byte(held: Text, text: Text, at: i32): u8 {
  return at < held.n ? held.byte(at) : text.byte(at - held.n);
}

serve(new Redact());
