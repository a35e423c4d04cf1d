#!/usr/bin/env bash
# An unmodified coding agent that speaks chat completions completes a turn. Its settings keep
# it from a second agent, which takes notes behind each turn as long as the model calls tools,
# and ask for the model's likeliest answer.
set -euo pipefail
dir=$1
mkdir -p "$dir/chat-home/.qwen" "$dir/chat-project"
cat >"$dir/chat-home/.qwen/settings.json" <<'S'
{"memory": {"enableManagedAutoMemory": false}, "model": {"generationConfig": {"samplingParams": {"temperature": 0, "max_tokens": 400}}}}
S
cd "$dir/chat-project"
echo "hello" > notes.txt
HOME=$dir/chat-home QWEN_TELEMETRY_ENABLED=false NO_COLOR=1 \
  timeout 240 "$dir/node_modules/.bin/qwen" --auth-type openai --openai-base-url "$BASE_URL/v1" --openai-api-key "$API_KEY" \
  --model core-1.1 -p "Say hello." --output-format json >"$dir/chat.json" </dev/null
python3 - "$dir/chat.json" <<'P'
import json, sys
r = [e for e in json.load(open(sys.argv[1])) if e["type"] == "result"][-1]
print(r)
assert not r["is_error"], r
assert r["usage"]["output_tokens"] > 0 and r["usage"]["input_tokens"] > 0, r
P
