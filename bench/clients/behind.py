"""Compares what two nodes say that each request took: the one that clients talked to, in
its ledger (JSON lines on standard input), and the one behind it, in its request log (the
argument). Without one, as before a llama-server, which keeps no such log: whether all is
billed as reported. Prints what differs, and how many requests were compared."""
import json
import sys

behind = {}
for line in open(sys.argv[1]) if sys.argv[1:] else []:
    entry = json.loads(line)
    if entry.get("msg") == "request":
        behind[entry["id"]] = entry

seen = 0
for line in sys.stdin:
    row = json.loads(line)
    if row.get("reason") != "finished":
        continue
    if not sys.argv[1:]:
        seen += 1
        if row.get("usage_source") != "reported":
            print("usage not reported:", row["usage"], row.get("usage_source"))
        continue
    theirs = behind.get(row.get("upstream_request_id", ""))
    if theirs is None:
        print("no request behind:", row)
        continue
    seen += 1
    usage = [row["usage"].get(k, 0) for k in ("input_uncached", "cache_read", "output")]
    want = [theirs.get(k, 0) for k in ("input_tokens", "cache_read_tokens", "output_tokens")]
    if usage != want or row.get("usage_source") != "reported":
        print(f"usage {usage} ({row.get('usage_source')}), behind {want}: {row}")
print("compared", seen, file=sys.stderr)
if seen == 0:
    print("no request was compared")
