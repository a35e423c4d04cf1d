// A rewrite module: it refuses requests about what the operator's configuration names, lets a
// name of a model stand for another, and puts instructions before those of the client.
//
//     {"refuse": "project zebulon", "alias": "fast", "serves": "core-1.1-mini", "system": "Answer in English."}
//
// The phrase is looked for in all of messages and system, without regard to the case of a to z,
// and however it or the name of the member is escaped. Each of the keys may be left out.

import { Json, Rewrite, RewriteInput, Status, Text, out, refuse, serve, unescape } from "../../sdk/assemblyscript/corenode";
export { abi, buf, init, call } from "../../sdk/assemblyscript/corenode";

const TEXT_MAX = 4096;

class GuardRail extends Rewrite {
  // Not escaped.
  private phrase: Text = new Text(0, 0);
  private alias: Text = new Text(0, 0);
  private serves: Text = new Text(0, 0);
  private system: Text = new Text(0, 0);

  configure(config: Text): i32 {
    const j = new Json(config);
    j.object();
    while (j.member()) {
      const value = j.value();
      if (!j.name.is("refuse") && !j.name.is("alias") && !j.name.is("serves") && !j.name.is("system"))
        return refuse(j.name, "no such key, want refuse, alias, serves or system");
      if (value.n < 2 || value.byte(0) != 0x22 || value.n - 2 > TEXT_MAX)
        return refuse(j.name, "want a text of at most 4096 bytes");
      const text = unescape(value.slice(1, value.n - 1));
      if (j.name.is("refuse")) this.phrase = text;
      else if (j.name.is("alias")) this.alias = text;
      else if (j.name.is("serves")) this.serves = text;
      else this.system = text;
    }
    return j.end() ? <i32>Status.OK : refuse(Text.of(""), "want a JSON object");
  }

  // What is no JSON object is the node's to refuse.
  rewrite(input: RewriteInput): i32 {
    const j = new Json(input.body);
    let given = false;
    let first = true;
    j.object();
    out.byte(0x7b);
    while (j.member()) {
      const name = unescape(j.name);
      const value = j.value();
      const system = name.is("system");
      if ((system || name.is("messages")) && this.isAbout(value)) return refuse(name, "this topic is not served here");
      if (!first) out.byte(0x2c);
      first = false;
      out.byte(0x22).escaped(name).puts('":');
      if (name.is("model") && this.isAlias(value)) {
        out.byte(0x22).escaped(this.serves).byte(0x22);
      } else if (system && this.system.n > 0) {
        given = true;
        this.instruct(value);
      } else {
        out.put(value);
      }
    }
    if (!j.end()) return Status.DECLINE;
    if (this.system.n > 0 && !given) {
      if (!first) out.byte(0x2c);
      out.puts('"system":');
      this.instruct(new Text(0, 0));
    }
    out.byte(0x7d);
    return Status.OK;
  }

  // Says whether the phrase is in a value.
  private isAbout(value: Text): bool {
    const text = unescape(value);
    for (let at = 0; this.phrase.n > 0 && at + this.phrase.n <= text.n; at++) {
      let same = 0;
      while (same < this.phrase.n && small(text.byte(at + same)) == small(this.phrase.byte(same))) same++;
      if (same == this.phrase.n) return true;
    }
    return false;
  }

  // Says whether a value is the name that stands for another.
  private isAlias(value: Text): bool {
    return this.alias.n > 0 && value.n > 2 && value.byte(0) == 0x22 && unescape(value.slice(1, value.n - 1)).same(this.alias);
  }

  // Puts the instructions before a value, which is a text or a list of blocks.
  private instruct(value: Text): void {
    let first = 1; // byte of a list that is no space
    while (first < value.n && value.byte(first) <= 0x20) first++;
    if (value.n > 2 && value.byte(0) == 0x22) {
      out.byte(0x22).escaped(this.system).puts("\\n\\n").put(value.slice(1, value.n));
    } else if (first < value.n && value.byte(0) == 0x5b && value.byte(first) != 0x5d) {
      out.puts('[{"type":"text","text":"').escaped(this.system).puts('"},').put(value.slice(1, value.n));
    } else {
      out.byte(0x22).escaped(this.system).byte(0x22);
    }
  }
}

function small(c: u8): u8 {
  return c >= 0x41 && c <= 0x5a ? c + 0x20 : c;
}

serve(new GuardRail());
