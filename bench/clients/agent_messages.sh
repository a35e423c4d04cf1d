#!/usr/bin/env bash
# An unmodified coding agent completes a turn against the node: nothing but the
# base URL, the key and the model names matters to the node; the other variables
# keep the agent from the network and its system prompt as it is. With MAX_THINKING_TOKENS=0
# it says nothing of thinking, which is on then.
set -euo pipefail
dir=$1
mkdir -p "$dir/home" "$dir/project"
cd "$dir/project"
echo "hello" > notes.txt
HOME=$dir/home ANTHROPIC_BASE_URL=$BASE_URL ANTHROPIC_API_KEY=$API_KEY \
  ANTHROPIC_MODEL=core-1.1 ANTHROPIC_SMALL_FAST_MODEL=core-1.1-mini \
  ANTHROPIC_DEFAULT_HAIKU_MODEL=core-1.1-mini CLAUDE_CODE_ATTRIBUTION_HEADER=0 \
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 MAX_THINKING_TOKENS=0 DISABLE_AUTOUPDATER=1 \
  timeout 240 "$dir/node_modules/.bin/claude" -p "Say hello." --output-format json >"$dir/agent.json" </dev/null
python3 - "$dir/agent.json" <<'P'
import json, sys
r = json.load(open(sys.argv[1]))
print(r)
assert r["type"] == "result" and not r["is_error"] and r["stop_reason"] == "end_turn", r
u = r["usage"]
assert u["output_tokens"] > 0 and u["input_tokens"] + u["cache_read_input_tokens"] > 0, u
P
