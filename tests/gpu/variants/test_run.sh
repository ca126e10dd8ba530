#!/usr/bin/env bash
# Tests tests/gpu/variants/run without a GPU: with the emulated programs of a build, and with programs that fail, hang or
# are missing.
#
#   tests/gpu/variants/test_run.sh BUILD
set -uo pipefail
here=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")") build=${1:?a build}
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
wrong=0
expect() { # PATTERN
  grep -qE -- "$1" "$scratch/out/variants.txt" || { echo "no line matches: $1"; wrong=1; }
}
program() { # NAME LINE...
  printf '%s\n' '#!/usr/bin/env bash' "${@:2}" >"$scratch/built/$1"
  chmod +x "$scratch/built/$1"
}
mkdir -p "$scratch"/{built,bin}
export OUT=$scratch/out LOCKSTEP_VARIANTS_TINY=1

# The emulated programs. The test of the variants has its own test.
for each in wgmma_encodings bench_variants; do ln -s "$build/tests/gpu/variants/${each}_emulated" "$scratch/built/$each"; done
"$here/run" A --built "$scratch/built" encodings epilogues attention head >"$scratch/said" 2>&1 ||
  { cat "$scratch/said"; wrong=1; }
expect '^variant encodings as the kernels use them: 1 of 1$'
expect '^variant part encodings: ok, [0-9]+ s$'
expect '^variant attention forward, .*, Hopper, 3 warpgroups: [0-9.e+-]+ TFLOP/s$'
expect '^variant epilogues, dgelu, DGELU, error of du: [0-9.e-]+ of the norm$'
expect '^variant head, logits, padded to 1032, times the speed of in use, two parts: [0-9.e+-]+ x$'

# Stubs: each part has its own limit, and the others go on.
rm -r "$scratch/built" "$scratch/out"
mkdir "$scratch/built"
program wgmma_encodings 'echo "variant encodings as the kernels use them: 0 of 1"; exit 1'
program test_variants 'sleep 100'
program bench_variants 'echo "variant $*: 1 ms"; [[ $* != *layernorm* ]] || exit 3'
# shellcheck disable=SC2016  # the program expands it
program bench_training 'printf "tokens per second\t%d\ttokens/s\tdetail\n" $((${#LOCKSTEP_PRODUCTS} > 0))'
program nvidia-smi 'while echo "1980, 300.5, 4000"; do sleep 0.1; done'
began=$SECONDS
PATH=$scratch/built:$PATH "$here/run" A --built "$scratch/built" --seconds 30 encodings oracle layernorm head training \
  >"$scratch/said" 2>&1
[[ $? == 1 ]] || { echo "the exit code is not 1"; wrong=1; }
(( SECONDS - began <= 32 )) || { echo "took $((SECONDS - began)) s instead of 30"; wrong=1; }
expect '^variant part encodings: failed with exit code 1, '
expect '^variant part oracle-mma: skipped, there is no test_kernels_cuda$'
expect '^variant part oracle-variants: late, after 2[0-9] s$'
expect '^variant encodings, most memory: 4000 MB$'

# With more time, what follows the late part runs, too.
program test_variants 'exit 0'
PATH=$scratch/built:$PATH "$here/run" A --built "$scratch/built" --seconds 60 oracle layernorm head training >/dev/null 2>&1
expect '^variant part layernorm: failed with exit code 3, '
expect '^variant --tiny head: 1 ms$'
expect '^variant training-2-in-use, tokens per second: 0 tokens/s$'
expect '^variant training-3-proposals, tokens per second: 1 tokens/s$'
expect '^variant part training-3-padded: ok, '
(( wrong )) || echo "the script's report is as expected"
exit $wrong
