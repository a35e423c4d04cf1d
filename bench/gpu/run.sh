#!/usr/bin/env bash
# What a machine with an NVIDIA GPU is asked, from binaries that make gpu-tests built: no Go is needed there.
# a, first light: the machine, the instructions, every kernel against the reference, whole models against
# llama.cpp's logits, the costs of calls, launches and copies. b, correctness: the same kernels under
# compute-sanitizer. c, speed: corebench gpu, from what tells most to what tells least. Each ends by itself
# and leaves what it has in the folder. Where there is no GPU, it is a rehearsal on the interpreter.
# The parts of c, and after how many of its 540 s each begins nothing more; a minute later it is ended, and what it wrote stays:
#   product    60 s  what torch makes of a product: the ceiling of prompts
#   gates     170 s  the cells that have gates, in bf16
#   node      150 s  the whole node over HTTP at 64 and 256 streams, beside a bare loop
#   tune       70 s  ways to launch kernels: the fastest go to tune.json, a table of engine/kernel/cuda/tune
#   fp8 .. q4_k      their gates' cells, a part of what is left each
#   more             all other cells in bf16, until the time is up
#   bench/gpu/run.sh a FOLDER
set -uo pipefail
cd "$(dirname "$0")/../.."
run=${1:?a, b or c} out=${2:?a folder for the results}
mkdir -p "$out"
out=$(cd "$out" && pwd)
bin=$PWD/bin/gpu
seconds=${SECONDS_MAX:-540}
failed=0

# A driver that can be opened is a GPU: the tests ask the same way.
unset CORENODE_GPU
if nvidia-smi -L >/dev/null 2>&1; then
	export CORENODE_GPU=1
fi

# most SECONDS says what the next step takes at most, of what is left.
most() {
	limit=$((seconds - SECONDS - 10 < $1 ? seconds - SECONDS - 10 : $1))
	limit=$((limit > 1 ? limit : 1))
}

# step NAME FOLDER COMMAND... runs a command in a folder of the tree, within what is left of the time.
step() {
	local name=$1 folder=$2 left=$((seconds - SECONDS))
	shift 2
	if [ "$left" -lt 5 ]; then
		echo "$name: not run, no time is left" | tee -a "$out/summary.txt"
		failed=1
		return
	fi
	[ -z "${bound:-}" ] || left=$((left < bound ? left : bound))
	local began=$SECONDS code=0
	(cd "$folder" && timeout -k 5 "$left" "$@") >"$out/$name.txt" 2>&1 || code=$?
	echo "$name: exit $code, $((SECONDS - began)) s" | tee -a "$out/summary.txt"
	[ "$code" = 0 ] || { failed=1; tail -5 "$out/$name.txt"; }
}

: >"$out/summary.txt"
echo "run $run, $(date -u +%FT%TZ), $([ -n "${CORENODE_GPU:-}" ] && echo "on a GPU" || echo "rehearsal on the interpreter")" | tee -a "$out/summary.txt"
[ -z "${CORENODE_GPU:-}" ] || step machine . nvidia-smi
case $run in
a)
	step instructions engine/kernel/cuda/devicetest "$bin/devicetest.test" -test.v -test.timeout 5m
	step kernels engine/kernel/cuda/eager "$bin/eager.test" -test.v -test.timeout 5m
	step wide engine/kernel/cuda/wide "$bin/wide.test" -test.v -test.run 'TestOperations|TestTheInterpreter' -test.timeout 5m
	step fused engine/kernel/cuda/fused "$bin/fused.test" -test.v -test.timeout 5m
	step models engine/model "$bin/model.test" -test.v -test.run 'TestParityOfTheGPU|TestPromptsOnMatrixUnits|TestFusedModels|TestQuantizedModels' -test.timeout 8m
	step costs engine/kernel/cuda/devicetest "$bin/devicetest.test" -test.run '^$' -test.bench . -test.benchtime "${BENCHTIME:-1s}"
	;;
b)
	if command -v compute-sanitizer >/dev/null; then
		for tool in memcheck racecheck synccheck initcheck; do
			# A call that the driver refuses is no fault: the list of a kernel's parameters ends with one. The tests see the others.
			calls=()
			[ "$tool" != memcheck ] || calls=(--report-api-errors no)
			step "$tool" engine/kernel/cuda/eager compute-sanitizer --tool "$tool" ${calls[@]+"${calls[@]}"} --error-exitcode 9 \
				"$bin/eager.test" -test.run 'TestOperations|TestBits' -test.timeout 5m
			step "$tool-wide" engine/kernel/cuda/wide compute-sanitizer --tool "$tool" ${calls[@]+"${calls[@]}"} --error-exitcode 9 \
				"$bin/wide.test" -test.run 'TestOperations' -test.timeout 5m
			step "$tool-fused" engine/kernel/cuda/fused compute-sanitizer --tool "$tool" ${calls[@]+"${calls[@]}"} --error-exitcode 9 \
				"$bin/fused.test" -test.run 'TestSteps' -test.timeout 5m
		done
	else
		echo "compute-sanitizer: not there" | tee -a "$out/summary.txt"
	fi
	step bits engine/kernel/cuda/eager "$bin/eager.test" -test.v -test.run 'TestTheInterpreter|TestBits' -test.timeout 5m
	step bits-wide engine/kernel/cuda/wide "$bin/wide.test" -test.v -test.run 'TestTheInterpreter' -test.timeout 5m
	;;
c)
	shape=() tflops=0 node=$bin/corenode
	gates=(--decode 64x4k,1x4k,16x4k,256x4k --prefill 8k)
	more=(--decode 64x1k,1x1k,16x1k,256x1k,1x32k,16x32k,64x32k,256x32k --prefill 2k,32k)
	streams=(--streams 64,256 --stream-tokens 160) steps=16
	# 40 layers of 2 bytes a value are 69 GB: half of them where the device has less than 100.
	memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1)
	layers=() blocks=()
	[ "${memory:-100000}" -ge 100000 ] || layers=(--layers 20)
	if [ -n "${CORENODE_GPU:-}" ]; then
		# What the vendor's library makes of the same product: the ceiling where it is more than ours.
		step product . timeout 60 python3 "$PWD/bench/gpu/product.py"
		tflops=$(tail -n 1 "$out/product.txt" | grep -Ex '[0-9.]+' || echo 0)
	else
		shape=(--interpret --layers 4 --hidden 64 --heads 4 --head-dim 64 --k-heads 2 --v-heads 4 --state-dim 64 --experts 6
			--experts-used 2 --expert-width 64 --vocabulary 1024 --copy 1 --product 64 --steps 1 --rows 64)
		gates=(--decode 2x5 --prefill 3) more=(--decode 1x6 --kernels=false) node=$bin/corenode-interpreted
		steps=1
		streams=(--streams 2 --stream-prompt 64 --stream-tokens 10)
		blocks=(--hidden 256 --expert-width 256 --decode 1x5 --kernels=false) # of 4 bits are 256 values of a row, of FP8 128
	fi
	# measure NAME OPTION... is corebench gpu with a report of its own.
	measure() {
		local name=$1 bound=$((limit + 60))
		shift
		step "gpu-$name" . "$bin/corebench" gpu ${shape[@]+"${shape[@]}"} --tflops "$tflops" --limit "${limit}s" \
			--each "$out/gpu-$name.json" --html "$out/gpu-$name.html" "$@"
		grep -s '^no gate applies' "$out/gpu-$name.txt" | tee -a "$out/summary.txt"
	}
	most 170
	measure bf16 ${layers[@]+"${layers[@]}"} "${gates[@]}"
	most 150
	measure node ${layers[@]+"${layers[@]}"} --node "$node" "${streams[@]}"
	most 70
	measure tune ${layers[@]+"${layers[@]}"} --tune "$out/tune.json" --steps "$steps"
	for type in fp8 q8_0 q4_k; do
		most $(((seconds - SECONDS) * 2 / 5))
		if [ "$type" != q8_0 ] && [ -n "${blocks[*]:-}" ]; then
			measure "$type" --type "$type" "${blocks[@]}"
		else
			measure "$type" --type "$type" "${gates[@]}"
		fi
	done
	most "$seconds"
	measure more ${layers[@]+"${layers[@]}"} "${more[@]}"
	;;
*)
	echo "which run? a, b or c"
	exit 2
	;;
esac
echo "ended after $SECONDS s" | tee -a "$out/summary.txt"
exit $failed
