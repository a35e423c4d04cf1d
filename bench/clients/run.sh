#!/usr/bin/env bash
# Runs unmodified official clients of both protocols against a node that this
# script starts: the TypeScript and Python SDKs, a layer over the protocols and
# three coding agents. Needs node, npm and python3 and their package registries;
# nothing is left behind.
# With CLIENTS_ONLY="word ..." only the clients whose name holds one of the words run.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
dir=$(mktemp -d)
pid=
cleanup() { [ -z "$pid" ] || { kill "$pid" 2>/dev/null; wait "$pid" 2>/dev/null; } || true; rm -rf "$dir"; }
trap cleanup EXIT

"$root/bin/corenode" serve --listen 127.0.0.1:0 --data-dir "$dir/data" >"$dir/out" 2>"$dir/log" &
pid=$!
for _ in $(seq 300); do
  url=$(grep -om1 'http://127[^ /"]*' "$dir/out" || true)
  [ -n "$url" ] && [ -f "$dir/data/default.key" ] && break
  kill -0 "$pid" || { cat "$dir/log"; exit 1; }
  sleep 0.1
done
export BASE_URL=$url API_KEY
API_KEY=$(cat "$dir/data/default.key")

failed=0 passed=0
run() { # name, command...
  local name=$1; shift
  if [ -n "${CLIENTS_ONLY:-}" ] && ! grep -qF "$(tr ' ' '\n' <<<"$CLIENTS_ONLY")" <<<"$name"; then return; fi
  if "$@" >"$dir/result" 2>&1; then passed=$((passed + 1)); echo "ok    $name"; else
    failed=$((failed + 1)); echo "FAIL  $name"; tail -40 "$dir/result"; tail -5 "$dir/log"; fi
}

cp "$here/package.json" "$here"/*.mjs "$dir"
(cd "$dir" && npm install --no-audit --no-fund --silent)
run "messages: TypeScript SDK" node "$dir/messages.mjs"
run "chat and responses: TypeScript SDK" node "$dir/openai.mjs"
run "messages, chat and responses: layer over the protocols" node "$dir/layers.mjs"

python3 -m venv "$dir/venv"
"$dir/venv/bin/pip" install -q --disable-pip-version-check -r "$here/requirements.txt"
run "messages: Python SDK" "$dir/venv/bin/python" "$here/messages.py"
run "chat and responses: Python SDK" "$dir/venv/bin/python" "$here/openai_client.py"

run "messages: coding agent" "$here/agent_messages.sh" "$dir"
run "chat: coding agent" "$here/agent_chat.sh" "$dir"
run "responses: coding agent" "$here/agent_responses.sh" "$dir"

kill -TERM "$pid"; wait "$pid"; pid=
echo "clients: $passed passed, $failed failed"
[ $((passed + failed)) -gt 0 ] || { echo "no client's name holds a word of CLIENTS_ONLY"; exit 1; }
exit "$failed"
