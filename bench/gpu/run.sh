#!/usr/bin/env bash
# What a machine with an NVIDIA GPU is asked, from binaries that make gpu-tests built: no Go is needed there.
# a, first light: the machine, the instructions, every kernel against the reference, whole models against
# llama.cpp's logits, the costs of calls, launches and copies. b, correctness: the same kernels under
# compute-sanitizer. c, speed: corebench gpu, from the most to the least important cell. Each ends by itself
# and leaves what it has in the folder. Where there is no GPU, it is a rehearsal on the interpreter.
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

# step NAME FOLDER COMMAND... runs a command in a folder of the tree, within what is left of the time.
step() {
	local name=$1 folder=$2 left=$((seconds - SECONDS))
	shift 2
	if [ "$left" -lt 5 ]; then
		echo "$name: not run, no time is left" | tee -a "$out/summary.txt"
		failed=1
		return
	fi
	local began=$SECONDS code=0
	(cd "$folder" && timeout "$left" "$@") >"$out/$name.txt" 2>&1 || code=$?
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
	step models engine/model "$bin/model.test" -test.v -test.run 'TestParityOfTheGPU|TestPromptsOnMatrixUnits|TestFusedModels' -test.timeout 8m
	step costs engine/kernel/cuda/devicetest "$bin/devicetest.test" -test.run '^$' -test.bench . -test.benchtime "${BENCHTIME:-1s}"
	;;
b)
	if command -v compute-sanitizer >/dev/null; then
		for tool in memcheck racecheck synccheck initcheck; do
			step "$tool" engine/kernel/cuda/eager compute-sanitizer --tool "$tool" --error-exitcode 9 \
				"$bin/eager.test" -test.run 'TestOperations|TestBits' -test.timeout 5m
			step "$tool-wide" engine/kernel/cuda/wide compute-sanitizer --tool "$tool" --error-exitcode 9 \
				"$bin/wide.test" -test.run 'TestOperations' -test.timeout 5m
			step "$tool-fused" engine/kernel/cuda/fused compute-sanitizer --tool "$tool" --error-exitcode 9 \
				"$bin/fused.test" -test.run 'TestSteps' -test.timeout 5m
		done
	else
		echo "compute-sanitizer: not there" | tee -a "$out/summary.txt"
	fi
	step bits engine/kernel/cuda/eager "$bin/eager.test" -test.v -test.run 'TestTheInterpreter|TestBits' -test.timeout 5m
	step bits-wide engine/kernel/cuda/wide "$bin/wide.test" -test.v -test.run 'TestTheInterpreter' -test.timeout 5m
	;;
c)
	shape=(--kernels) tflops=0
	if [ -n "${CORENODE_GPU:-}" ]; then
		# What the vendor's library makes of the same product: the ceiling where it is more than ours.
		step product . timeout 60 python3 "$PWD/bench/gpu/product.py"
		tflops=$(tail -n 1 "$out/product.txt" | grep -Ex '[0-9.]+' || echo 0)
	else
		shape=(--interpret --layers 4 --hidden 64 --heads 4 --head-dim 64 --k-heads 2 --v-heads 4 --state-dim 64 --experts 6
			--experts-used 2 --expert-width 64 --vocabulary 128 --copy 1 --product 64 --steps 1 --rows 64)
	fi
	# A cell takes a minute at most. What is left is for blocks of 8 and of 4 bits, their gates' cells first.
	for type in bf16 q8_0 q4_k; do
		left=$((seconds - SECONDS))
		[ "$type" = bf16 ] && limit=$((left * 5 / 9)) || limit=$((left * 3 / 5))
		# Blocks of 4 bits are 256 values of a row.
		more=() memory=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | head -n 1)
		# 40 layers of 2 bytes a value are 69 GB: half of them where the device has less than 100.
		[ "$type" != bf16 ] || [ "${memory:-100000}" -ge 100000 ] || more=(--layers 20)
		[ -n "${CORENODE_GPU:-}" ] || case $type in
		q4_k) more=(--hidden 256 --expert-width 256 --decode 1x5 --kernels=false) ;;
		*) more=(--decode 2x5 --prefill 3) ;;
		esac
		step "gpu-$type" . "$bin/corebench" gpu "${shape[@]}" "${more[@]}" --type "$type" --tflops "$tflops" --limit "$((limit > 1 ? limit : 1))s" \
			--each "$out/gpu-$type.json" --html "$out/gpu-$type.html"
	done
	;;
*)
	echo "which run? a, b or c"
	exit 2
	;;
esac
echo "ended after $SECONDS s" | tee -a "$out/summary.txt"
exit $failed
