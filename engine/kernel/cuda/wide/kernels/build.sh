#!/bin/sh
# Makes the PTX of the kernels, packed into one file, with nvcc 13.0.88 (pip: nvidia-cuda-nvcc, nvidia-nvvm, nvidia-cuda-crt,
# nvidia-cuda-runtime), for group.cu a cubin too, the table of what ptxas makes of it, and the list of
# digests. Compiles everything with clang++ 19.1.7, too, and throws that away. None is needed to build or to test.
set -e
cd "$(dirname "$0")"
nvcc=${NVCC:-nvcc} clang=${CLANG:-clang++-19}
ptxas=$(dirname "$(command -v "$nvcc")")/ptxas
out=$(mktemp -d)
trap 'rm -rf "$out"' EXIT
mkdir "$out/ptx"
for source in *.cu; do
	name=${source%.cu} compute=80 version=80 archs="80 90"
	[ "$name" = group ] && compute=90a version=83 archs=90a
	"$nvcc" -std=c++17 -O3 -ptx -arch=compute_$compute -o "$out/ptx/$name.ptx" "$source"
	sed -i 's/^\.version 9\.0$/.version 8.3/' "$out/ptx/$name.ptx" # as eager/kernels/build.sh says
	"$clang" -x cuda --cuda-device-only -Wno-unknown-cuda-version -nocudainc -nocudalib -std=c++17 --cuda-gpu-arch=sm_$compute -O3 \
		-Xclang -target-feature -Xclang +ptx$version -S -o "$out/$name.clang.ptx" "$source"
	for arch in $archs; do
		"$ptxas" -v -arch=sm_$arch -o "$out/$name.cubin" "$out/ptx/$name.ptx" 2>>"$out/$arch.log"
		"$ptxas" -arch=sm_$arch -o "$out/x.cubin" "$out/$name.clang.ptx"
	done
done
cp "$out/group.cubin" group.cubin
if grep -i 'wgmma\|warning' "$out"/*.log; then
	exit 1
fi
{
	echo "kernel architecture registers shared stack spills"
	for arch in 80 90 90a; do
		awk -v arch=$arch '
			/Compiling entry function/ { split($0, q, "\x27"); name = q[2] }
			/bytes stack frame/ { stack = $1; spills = $5 + $9 }
			/Used [0-9]+ registers/ {
				shared = 0
				for (i = 1; i <= NF; i++) {
					if ($i ~ /^registers/) registers = $(i - 1)
					if ($i ~ /^smem/) shared = $(i - 2)
				}
				print name, "sm_" arch, registers, shared, stack, spills
			}' "$out/$arch.log"
	done | sort
} >ptxas.txt
{
	sha256sum *.cu *.h ../../eager/kernels/common.h ../../eager/kernels/states.h
	(cd "$out/ptx" && sha256sum *.ptx)
	sha256sum *.cubin ptxas.txt
} >SHA256SUMS
"${GO:-go}" run corenode/engine/kernel/cuda/pack "$out"/ptx/*.ptx
