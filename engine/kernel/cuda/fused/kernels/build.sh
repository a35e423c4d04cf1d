#!/bin/sh
# Makes the PTX of the kernels as eager/kernels/build.sh does: with the same compilers and for the same files.
exec "$(dirname "$0")/../../eager/kernels/build.sh" "$(cd "$(dirname "$0")" && pwd)"
