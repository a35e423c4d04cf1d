#!/usr/bin/env bash
# An unmodified coding agent that speaks the responses subset completes a turn.
set -euo pipefail
dir=$1
mkdir -p "$dir/responses-home" "$dir/responses-project"
cd "$dir/responses-project"
echo "hello" > notes.txt
HOME=$dir/responses-home CODEX_HOME=$dir/responses-home NODE_KEY=$API_KEY \
  timeout 240 "$dir/node_modules/.bin/codex" exec --skip-git-repo-check --sandbox read-only --json \
  -c model=core-1.1 -c model_provider=node -c model_reasoning_effort=none \
  -c model_providers.node.name=node -c model_providers.node.base_url="$BASE_URL/v1" \
  -c model_providers.node.env_key=NODE_KEY -c model_providers.node.wire_api=responses \
  "Say hello." >"$dir/responses.jsonl" </dev/null
python3 - "$dir/responses.jsonl" <<'P'
import json, sys
events = [json.loads(line) for line in open(sys.argv[1]) if line.startswith("{")]
print(*events, sep="\n")
done = [e for e in events if e["type"] == "turn.completed"]
assert done and done[-1]["usage"]["output_tokens"] > 0, "no completed turn"
assert not [e for e in events if e["type"] in ("turn.failed", "error")]
P
