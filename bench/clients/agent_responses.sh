#!/usr/bin/env bash
# An unmodified coding agent that speaks the responses subset completes a turn, and two with nothing but another base
# URL: it tries a WebSocket first then, and leaves the summary before the second turn to the service.
set -euo pipefail
dir=$1
mkdir -p "$dir/responses-home" "$dir/responses-project"
cd "$dir/responses-project"
echo "hello" > notes.txt
agent() {
  HOME=$dir/responses-home CODEX_HOME=$dir/responses-home NODE_KEY=$API_KEY CODEX_API_KEY=$API_KEY \
    timeout 240 "$dir/node_modules/.bin/codex" exec "$@" --skip-git-repo-check --json \
    -c model=core-1.1 -c model_reasoning_effort=none -c sandbox_mode=read-only </dev/null
}
agent -c model_provider=node -c model_providers.node.name=node -c model_providers.node.base_url="$BASE_URL/v1" \
  -c model_providers.node.env_key=NODE_KEY -c model_providers.node.wire_api=responses "Say hello." >"$dir/responses.jsonl"
alone=(-c openai_base_url="$BASE_URL/v1" -c model_auto_compact_token_limit=500)
agent "${alone[@]}" "Say hello." >>"$dir/responses.jsonl"
agent resume --last "${alone[@]}" "Say hello again." >>"$dir/responses.jsonl"
python3 - "$dir/responses.jsonl" <<'P'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
print(*events, sep="\n")
done = [e for e in events if e["type"] == "turn.completed"]
assert len(done) == 3 and all(e["usage"]["output_tokens"] > 0 for e in done), "no completed turn"
assert not [e for e in events if e["type"] in ("turn.failed", "error")]
P
grep -q '"type":"compaction"' -r "$dir/responses-home/sessions" || { echo "no summary of the service's"; exit 1; }
