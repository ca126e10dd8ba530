#!/usr/bin/env bash
# On x86-64, checks that kernels, core and lessons compile for aarch64 (Apple's and NVIDIA Grace's
# processors): the cross-compiler checks the syntax of every source against this machine's package
# headers. Nothing is linked or run. Exits with 77 if there is no cross-compiler (Debian's
# g++-aarch64-linux-gnu).
set -uo pipefail

source_dir=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd -P)
compiler=aarch64-linux-gnu-g++
command -v "$compiler" >/dev/null || { echo "skipped: there is no $compiler here"; exit 77; }
cd "$source_dir" || exit 1
# fmt as header-only; packages' headers after the compiler's own, which are aarch64's.
flags=(-std=c++20 -O1 -fsyntax-only -I. -idirafter /usr/include
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror -Wno-missing-field-initializers -Wno-restrict
  -ffp-contract=off -DFMT_HEADER_ONLY '-DLOCKSTEP_SOURCE_DIR="/"' '-DLOCKSTEP_CUDA_LIBRARY="/"')
for folder in /usr/include/*-linux-gnu/openblas*/; do flags+=(-idirafter "$folder"); done
mapfile -t sources < <(find kernels core lessons -name '*.cpp' ! -path '*/cuda/*' ! -path '*/nccl/*' ! -name 'mpi_*' ! -name gemm_onednn.cpp | sort)
failed=0
if (( ${#sources[@]} < 50 )); then echo "only ${#sources[@]} sources found"; failed=1; fi
printf '%s\0' "${sources[@]}" | xargs -0 -n 1 -P "$(nproc)" "$compiler" "${flags[@]}" || failed=1
echo "${#sources[@]} sources checked with $compiler"
exit "$failed"
