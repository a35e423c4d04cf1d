// An admission policy: when the node is busy, cheap requests go first, and accounts that
// spend their own limit fast are asked to come back. The operator's configuration says from
// how many of the node's requests on it is busy:
//
//     {"busy_requests": 48}

import {
  Admission, AdmissionInput, Decision, Json, Kind, Status, Text, Verdict, Whole, refuse, serve,
} from "../../sdk/assemblyscript/corenode";
export { abi, buf, init, call } from "../../sdk/assemblyscript/corenode";

class CheapFirst extends Admission {
  private busy: i64 = 0;

  configure(config: Text): i32 {
    const j = new Json(config);
    this.busy = 48;
    j.object();
    while (j.member()) {
      const value = new Whole(j.value());
      if (!j.name.is("busy_requests")) return refuse(j.name, "no such key; the only one is busy_requests");
      if (!value.ok || value.n < 0) return refuse(j.name, "want a whole number of requests, zero or more");
      this.busy = value.n;
    }
    return j.end() ? <i32>Status.OK : refuse(Text.of(""), "want a JSON object");
  }

  decide(input: AdmissionInput, result: Decision): bool {
    if (input.nodeRequests < this.busy) return true; // it allows until it is told otherwise
    if (input.tokensPerMinute > 0 && input.tokensRemaining < input.tokensPerMinute / 4) {
      result.verdict = Verdict.DENY;
      result.kind = Kind.RATE_LIMITED;
      result.retryAfterMs = 15000;
      result.msg = "the node is busy and this account has used most of its tokens of this minute";
      return true;
    }
    const thousands = (input.promptTokens + input.outputMax) / 1000;
    result.verdict = Verdict.QUEUE;
    result.priority = <i8>-(thousands < 100 ? thousands : 100);
    return true;
  }
}

serve(new CheapFirst());
