#!/bin/sh
# Makes the PTX of the test kernels with both compilers, and the list of digests.
# NVCC is nvcc 13.0.88 (pip: nvidia-cuda-nvcc, nvidia-nvvm, nvidia-cuda-crt,
# nvidia-cuda-runtime), CLANG is clang++ 19.1.7. Neither is needed to build or to test.
set -e
cd "$(dirname "$0")"
for source in *.cu; do
	name=${source%.cu} arch=80 version=80
	[ "$name" = wgemm ] && arch=90a version=83
	"${NVCC:-nvcc}" -std=c++17 -O3 -ptx -arch=compute_$arch -o "$name.nvcc.ptx" "$source"
	"${CLANG:-clang++-19}" -x cuda --cuda-device-only -nocudainc -nocudalib -std=c++17 --cuda-gpu-arch=sm_$arch -O3 \
		-Xclang -target-feature -Xclang +ptx$version -S -o "$name.clang.ptx" "$source"
done
sha256sum *.cu *.h *.ptx >SHA256SUMS
