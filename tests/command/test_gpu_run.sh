#!/usr/bin/env bash
# The parts of tests/gpu/run that need no GPU: its output, its errors, and its comparison of two
# runs.
#
#   test_gpu_run.sh LESSON_BINARY COMPARE_RUNS
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
gpu=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../gpu")
lesson=$1 compare=$2
not() { ! "$@"; }
is_number() { [[ $1 =~ ^[0-9.e+]+$ ]]; }
export OUT=$scratch/gpu
unset LOCKSTEP_GPU_LIBRARY

for script in run pack; do
  run "$gpu/$script" --help
  claim "$script --help" ended 0
  claim "$script --help says how it is called" says "tests/gpu/$script"
  run "$gpu/$script" --nope
  claim "$script has no such flag" ended 2
  claim "it is named" complains "--nope"
done
run "$gpu/run" --only kernels,none
claim "an unknown step is refused" ended 2
claim "those that there are are listed" complains sanitizer
claim "and nothing else is said" complains_in_one_line
run "$gpu/run" --only
claim "--only without a step is refused" ended 2
if ! compgen -G '/dev/nvidia[0-9]*' >/dev/null; then
  run "$gpu/run" --quick
  claim "no GPU is exit code 2" ended 2
  claim "in one line" complains_in_one_line
  claim "that says so" complains 'no GPU here'
fi

# Two runs with different learning rates; and a run with itself.
seq 1 2000 >"$scratch/text"
train() { # NAME FLAG...
  local name=$1
  shift
  run "$lesson" --ranks 2 --steps 3 --layers 2 --data "$scratch/text" --parity off --trace none --quiet \
    --report "$scratch/$name.json" --save "$scratch/$name.safetensors" "$@"
  claim "$name trains" ended 0
}
compare() { run "$compare" "$scratch/$1.json" "$scratch/$2.json" "$scratch/$1.safetensors" "$scratch/$2.safetensors" "${@:3}"; }
train a
train b --lr 0.00100001
train c --lr 0.01
compare a a --within 0,0
claim "a run is itself" ended 0
claim "to the bit" says bitwise
compare a b --within 1e-3,1e-3
claim "a rate that is nearly the same is near" ended 0
claim "not to the bit" not says bitwise
compare a b --within 1e-12,1
claim "losses are compared" ended 1
compare a b --within 1,1e-12
claim "parameters are compared" ended 1
compare a c --within 1e-3,1e-3
claim "another rate is far" ended 1
sed 's/"losses": \[/"losses": [null,/' "$scratch/a.json" >"$scratch/broken.json"
run "$compare" "$scratch/broken.json" "$scratch/a.json"
claim "a loss that is no number is no small difference" not ended 0
run "$compare" --field tokens_per_second "$scratch/a.json"
claim "one number of a report" ended 0
claim "it is one" is_number "$out"
run "$compare" --field parity.nope "$scratch/a.json"
claim "one that is not there is refused" ended 2
conclude
