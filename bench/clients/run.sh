#!/usr/bin/env bash
# Points unmodified clients of other people's making at a node and prints a table of
# what works: SDKs of both families, frameworks, a load tool and coding agents. Two
# nodes are started: bin/corenode with the models in the binary, and bin/node.test
# with models that play the answers in answers.json, for what needs a better model.
# Fails when a case fails that is not in expected.json, or one in there does not.
# Needs node, npm and python3 and their package registries; nothing is left behind.
# With CLIENTS_BEHIND=1 (make test-clients-behind) the clients talk to two nodes that
# compute nothing: behind each, as its upstream, stands one of those above. The table is
# the same, and what every request took is compared between the two. With LLAMA_SERVER=path
# beside it that llama-server computes the shipped model instead of the first node behind;
# expected-llama.json has what it cannot do.
# With CLIENTS_ONLY="word ..." only the clients whose name holds one of the words run;
# a word that is in no name ends the script.
# All that is installed is pinned in package-lock.json and constraints*.txt. With
# CLIENTS_PIN=1 what the clients depend on is looked up anew, and written there.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
for name in $(compgen -e | grep -E '^(CORENODE|OTEL)_'); do unset "$name"; done # nodes would read them
names=$(sed -nE 's/^(\[.*\|\| )?(whole|cases) ("([^"]*)"|([^" ]+)) .*/\4\5/p' "$0") # of the clients below
for word in ${CLIENTS_ONLY:-}; do
  grep -qF -- "$word" <<<"$names" || { printf 'no client'\''s name holds "%s"; they are\n%s\n' "$word" "$names" >&2; exit 2; }
done
dir=$(mktemp -d)
pids=()
cleanup() { for p in "${pids[@]}"; do kill "$p" 2>/dev/null || true; wait "$p" 2>/dev/null || true; done; rm -rf "$dir"; }
trap cleanup EXIT

start() { # name, command...: sets url and key
  local name=$1; shift
  CORENODE_LISTEN=127.0.0.1:0 CORENODE_DATA_DIR=$dir/$name "$@" >"$dir/$name.out" 2>>"$dir/$name.log" &
  pid=$!; pids+=("$pid")
  for _ in $(seq 600); do
    url=$(grep -om1 'http://127[^ /"]*' "$dir/$name.out" || true)
    [ -n "$url" ] && [ -f "$dir/$name/default.key" ] && break
    kill -0 "$pid" || { cat "$dir/$name.log"; exit 1; }
    sleep 0.1
  done
  key=$(cat "$dir/$name/default.key")
}
answers() { curl -sf -o /dev/null -H "Authorization: Bearer $key" -H 'Content-Type: application/json' \
  -d "{\"model\":\"$1\",\"max_tokens\":1,\"messages\":[{\"role\":\"user\",\"content\":\"hi\"}]}" "$url/v1/messages/count_tokens"; }
llama() { # sets url
  local port; port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  url=http://127.0.0.1:$port
  "$LLAMA_SERVER" -m "$root/engine/embedded/core-1.1-mini.gguf" --jinja --metrics -c 524288 -np 2 --host 127.0.0.1 --port "$port" >"$dir/llama.log" 2>&1 &
  pids+=($!)
  for _ in $(seq 600); do curl -sf -o /dev/null "$url/health" && return; sleep 0.1; done
  cat "$dir/llama.log"; exit 1
}
serve() { # name, command...: sets url and key of the node that clients talk to
  local name=$1 upstream; shift
  if [ -z "${CLIENTS_BEHIND:-}" ]; then start "$name" "$@"; return; fi
  if [ "$name" = shipped ] && [ -n "${LLAMA_SERVER:-}" ]; then
    llama
    upstream="context_length: 262144, upstream: {flavour: llama-server, urls: [\"$url\"], tokenizer: \"$root/engine/embedded/core-1.1-mini.gguf\"}"
  else
    # The node behind starts twice: its key's id, which its configuration names, is known after the first time.
    start "$name-behind" "$@"
    local peer; peer=$("$root/bin/corenode" key list default --data-dir "$dir/$name-behind" --json | grep -om1 'key_[0-9a-f]*')
    kill "$pid"; wait "$pid" || true
    start "$name-behind" env CORENODE_SERVER_PEER_KEYS="$peer" "$@"
    upstream="context_length: 262144, upstream: {flavour: corenode, urls: [\"$url\"], key_file: \"$dir/$name-behind/default.key\"}"
  fi
  { echo models:
    for model in core-1.1 core-1.1-mini; do echo "  $model: {engine: upstream, $upstream}"; done; } >"$dir/$name.yaml"
  start "$name" env CORENODE_SERVER_CORS_ORIGINS="${PAGE_ORIGIN:-}" "$root/bin/corenode" serve --config "$dir/$name.yaml"
  for model in core-1.1 core-1.1-mini; do
    for _ in $(seq 100); do answers $model && break; sleep 0.1; done
  done
}
export PAGE_ORIGIN=http://chat.example # of the pages that may call the first node
serve shipped env CORENODE_SERVER_CORS_ORIGINS=$PAGE_ORIGIN "$root/bin/corenode" serve; export BASE_URL=$url API_KEY=$key
serve recorded env CORENODE_TEST_ANSWERS="$here/answers.json" "$root/bin/node.test"; export RECORDED_URL=$url RECORDED_KEY=$key
for module in completions generate-content ollama; do for node in shipped recorded; do "$root/bin/corenode" module enable $module --data-dir "$dir/$node" >/dev/null; done; done
export RESULTS=$dir/results; : >"$RESULTS"

wanted() { [ -z "${CLIENTS_ONLY:-}" ] || grep -qF "$(tr ' ' '\n' <<<"$CLIENTS_ONLY")" <<<"$1"; }
result() { # client, version, protocols, case, error
  python3 -c 'import json, sys; print(json.dumps(dict(zip(["client", "version", "protocol", "case", "error"], sys.argv[1:]))))' "$@" >>"$RESULTS"
}
whole() { # client, version, protocols, command...: a script that passes or fails as one
  local error=; wanted "$1" || return 0
  "${@:4}" >"$dir/said" 2>&1 || { error="ended with status $?"; error=$(tail -c 3000 "$dir/said"; echo "$error"); }
  result "$1" "$2" "$3" "all of its script" "$error"; echo "ran $1 ($3)" >&2
}
cases() { # client, command...: a script that writes a result for each case
  local before; wanted "$1" || return 0; before=$(wc -l <"$RESULTS")
  timeout 600 "${@:2}" >"$dir/said" 2>&1 || result "$1" "" "" "its script" "ended with status $?: $(tail -c 3000 "$dir/said")"
  [ "$(wc -l <"$RESULTS")" -gt "$before" ] || result "$1" "" "" "its script" "it ran no case"
  echo "ran $1" >&2
}

cp "$here/package.json" "$here"/*.mjs "$dir"
[ -n "${CLIENTS_PIN:-}" ] || cp "$here/package-lock.json" "$dir"
if wanted "TypeScript AI SDK claude codex qwen"; then
  (cd "$dir" && npm install --no-audit --no-fund --silent --omit-lockfile-registry-resolved)
  [ -z "${CLIENTS_PIN:-}" ] || cp "$dir/package-lock.json" "$here"
fi
npm_version() { node -p "require('$here/package.json').dependencies['$1']"; }
whole "anthropic TypeScript" "$(npm_version @anthropic-ai/sdk)" messages node "$dir/messages.mjs"
whole "openai TypeScript" "$(npm_version openai)" "chat, responses" node "$dir/openai.mjs"
whole "google-genai TypeScript" "$(npm_version @google/genai)" generate-content node "$dir/genai.mjs"
whole "ollama TypeScript" "$(npm_version ollama)" ollama node "$dir/ollama.mjs"
# A node behind takes messages, and no raw text.
[ -n "${CLIENTS_BEHIND:-}" ] || whole "openai TypeScript, legacy" "$(npm_version openai)" completions node "$dir/completions.mjs"
cases "TypeScript SDKs in a page" node "$dir/page.mjs"
cases "AI SDK" node "$dir/ai_sdk.mjs"

# Frameworks hold each other's SDKs back, so they live in two environments; guidellm
# comes without torch, which it only reads prompts from files with.
python() { echo "$dir/$1/bin/python"; }
environment() { # name
  local pinned="$here/constraints-$1.txt" options=(-q --disable-pip-version-check -r "$here/requirements-$1.txt")
  [ -n "${CLIENTS_PIN:-}" ] || options+=(-c "$pinned")
  python3 -m venv "$dir/$1"
  "$(python "$1")" -m pip install "${options[@]}"
  [ -z "${CLIENTS_PIN:-}" ] || "$(python "$1")" -m pip freeze >"$pinned"
}
pip_version() { sed -n "s/^$1==//p" "$here/requirements-sdks.txt"; }
if wanted "anthropic Python google-genai ollama openai-agents pydantic-ai llm"; then environment sdks; fi
whole "anthropic Python" "$(pip_version anthropic)" messages "$(python sdks)" "$here/messages.py"
whole "openai Python" "$(pip_version openai)" "chat, responses" "$(python sdks)" "$here/openai_client.py"
whole "google-genai Python" "$(pip_version google-genai)" generate-content "$(python sdks)" "$here/genai_client.py"
[ -n "${CLIENTS_BEHIND:-}" ] || whole "openai Python, legacy" "$(pip_version openai)" completions "$(python sdks)" "$here/completions_client.py"
whole "ollama Python" "$(pip_version ollama)" ollama "$(python sdks)" "$here/ollama_client.py"
cases openai-agents "$(python sdks)" "$here/agents_client.py"
cases pydantic-ai "$(python sdks)" "$here/pydantic_ai_client.py"
cases llm "$(python sdks)" "$here/llm_client.py"
if wanted "langchain litellm instructor"; then environment frameworks; fi
cases langchain "$(python frameworks)" "$here/langchain_client.py"
cases litellm "$(python frameworks)" "$here/litellm_client.py"
cases instructor "$(python frameworks)" "$here/instructor_client.py"
if wanted guidellm; then
  environment guidellm
  "$(python guidellm)" -m pip install -q --disable-pip-version-check --no-deps "$(sed -n 's/^# \(guidellm==.*\)/\1/p' "$here/requirements-guidellm.txt")"
fi
cases guidellm "$(python guidellm)" "$here/guidellm_client.py"

whole "claude code" "$(npm_version @anthropic-ai/claude-code)" messages "$here/agent_messages.sh" "$dir"
whole "qwen code" "$(npm_version @qwen-code/qwen-code)" chat "$here/agent_chat.sh" "$dir"
whole codex "$(npm_version @openai/codex)" responses "$here/agent_responses.sh" "$dir"

nodes=(shipped recorded) behind=()
[ -z "${CLIENTS_BEHIND:-}" ] || behind=(recorded)
[ -z "${CLIENTS_BEHIND:-}" ] || [ -n "${LLAMA_SERVER:-}" ] || behind+=(shipped)
for node in "${nodes[@]}" "${behind[@]/%/-behind}"; do # what went wrong in a node, and answers that were not played
  result corenode "$("$root/bin/corenode" version | cut -d" " -f2)" "" "no errors logged, $node" "$(grep -h '"level":"ERROR"' "$dir/$node.log" | cut -c1-1000 || true)"
done
[ -z "${CLIENTS_BEHIND:-}" ] || behind=(shipped recorded)
for node in "${behind[@]}"; do
  log=$dir/$node-behind.log; [ -f "$log" ] || log=
  result corenode "$("$root/bin/corenode" version | cut -d" " -f2)" "" "usage as the node behind it says, $node" "$("$root/bin/corenode" \
    ledger export --json --data-dir "$dir/$node" | python3 "$here/behind.py" ${log:+"$log"} | cut -c1-1000)"
done
expected=("$here/expected.json")
[ -z "${CLIENTS_BEHIND:-}" ] || [ -z "${LLAMA_SERVER:-}" ] || expected+=("$here/expected-llama.json")
python3 -c 'import json, sys; print(json.dumps(sum((json.load(open(f)) for f in sys.argv[1:]), [])))' "${expected[@]}" >"$dir/expected.json"
cd "$root" && go run ./bench/clients/table ${CLIENTS_ONLY:+-some} "$dir/expected.json" "$RESULTS"
