#!/bin/sh
# Scores the models in a binary: score.sh BIN OUT. A node of its own answers all skill cases and promises, both models, both
# temperatures; the tables and gates are printed, and OUT/score.json has every wrong answer. The binary's size and the time until a
# second start is ready are promises too.
set -eu
bin=$1 here=$(dirname "$0")/.. work=$(mktemp -d)
case $2 in /*) out=$2 ;; *) out=$here/$2 ;; esac
mkdir -p "$out"
port=${PORT:-18790} node=
stop() { [ -z "$node" ] || { kill "$node" 2>/dev/null || true; wait "$node" 2>/dev/null || true; node=; }; }
trap 'stop; rm -rf "$work"' EXIT
trap 'exit 1' INT TERM
# begin starts a node and waits until it is ready, a minute at most.
begin() {
	"$bin/corenode" serve --listen "127.0.0.1:$port" --data-dir "$work" >"$work/log" 2>&1 &
	node=$!
	tries=0
	until curl -sf -o /dev/null "http://127.0.0.1:$port/readyz"; do
		tries=$((tries + 1))
		if [ $tries -gt 1200 ] || ! kill -0 "$node" 2>/dev/null; then cat "$work/log"; exit 1; fi
		sleep 0.05
	done
}
begin
stop
from=$(date +%s%N)
begin
ready=$((($(date +%s%N) - from) / 1000000)) size=$(wc -c <"$bin/corenode") missed=0
echo "ready after $ready ms on the second start (at most 2000), a binary of $((size / 1000000)) MB (at most 90)"
[ "$ready" -le 2000 ] && [ "$size" -le 90000000 ] || missed=1
"$bin/corebench" skills --url "http://127.0.0.1:$port" --key "@$work/default.key" --model "${MODELS:-core-1.1,core-1.1-mini}" --temperature=0,-1 \
	--file "$here/skills.jsonl,$here/promises.jsonl" --promises --json "$out/score.json" || missed=1
exit $missed
