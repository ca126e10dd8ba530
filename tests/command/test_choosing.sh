#!/usr/bin/env bash
# Lesson 17 on the command line: techniques and schedules together, a schedule from a file, and the flags that it
# refuses. Prints "N passed, N failed".
#
#   test_choosing.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
seq 1 2000 >"$text"
lesson() { # FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local flag small=()
  for flag in '--trace none' '--clock modelled' '--layers 6' '--hidden 32' '--sequence 32' '--steps 3'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  run "$folder/lesson_17_choosing" --data "$text" "${small[@]}" "$@"
}

combinations=('--schedule zb-v --recompute full --zero 1 --tied --clip 0.5'
  '--dp 2 --pp 2 --experts 4 --schedule interleaved --chunks 3 --recompute full --capacity 1'
  '--dp 1 --cp 2 --schedule dualpipe-v --recompute selective --layout zigzag'
  '--dp 2 --pp 2 --zero 3 --recompute full --sequence-parallel off'
  '--dp 1 --cp 2 --schedule zb-h1 --recompute full --experts 4 --precision bf16')
for launch in "$@"; do
  portion "$(per_launch 5 2)" "${combinations[@]}" >"$scratch/combinations"
  while read -r flags; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" $flags
    claim "$flags ($launch) ends well" ended 0
    claim "$flags ($launch): bytes and memory are as predicted" as_predicted
    claim "$flags ($launch) tells its parity" says 'parity with one device over 3 steps'
  done <"$scratch/combinations"
done

# The defaults: a dense model on the mesh of lesson 15, under 1F1B, without recomputation.
lesson --device meta --report "$scratch/report.json"
claim "the meta device: ends well" ended 0
claim "the meta device: bytes and memory are as predicted" as_predicted
claim "every pp group has its ranks" says 'pp     the stages      0 4 | 1 5 | 2 6 | 3 7'
# shellcheck disable=SC2016  # claim expands it
claim "no group divides experts" eval '[[ $out != *"the experts"* ]]'
claim "the table of schedules has 1F1B" says '1F1B            1'

# Several schedules in one run, and one that a run has exported.
lesson --device meta --schedule interleaved,breadth-first --steps 4
claim "two schedules in one run: bytes and memory are as predicted" as_predicted
claim "... and a row for each" says 'looped breadth-first        2'
lesson --schedule automatic --recompute full --export-schedule "$scratch/found.csv"
claim "a search ends well" ended 0
lesson --schedule "$scratch/found.csv" --recompute full --experts 4
claim "its schedule from a file, with experts: ends well" ended 0
claim "... bytes and memory are as predicted" as_predicted
printf '0F0,0F1,0B1,0B0\n1F0,1F1,1B1,1B0\n' >"$scratch/descending.csv"
lesson --schedule "$scratch/descending.csv" --microbatches 2
claim "any order of microbatches is valid" ended 0
lesson_refuses --schedule "$scratch/descending.csv" --microbatches 2 --experts 4 -- \
  '--schedule descending.csv with --experts 4' 'microbatch 0 after that of 1' 'use --experts 0'

# A checkpoint of several stages per rank goes on in another configuration.
lesson --steps 2 --quiet --schedule zb-v --recompute full --zero 1 --save "$scratch/dense"
claim "a checkpoint is saved" ended 0
lesson --steps 2 --load "$scratch/dense" --dp 1 --pp 2 --cp 2 --tp 2 --recompute selective --schedule interleaved
claim "... and goes on with other axes and another placement" ended 0

lesson_refuses --dp 1 --cp 2 -- '--recompute none with --cp 2' 'use --recompute selective, or --cp 1'
lesson_refuses --zero 2 --schedule zb-v -- '--zero 2 with --schedule zb-v' 'use --schedule 1f1b, or --zero 1'
lesson_refuses --zero 1 --experts 4 -- '--zero 1 with --experts 4' 'use --zero 0, or --experts 0'
lesson_refuses --zero 4 -- '--zero 4' 'use --zero 3'
lesson_refuses --schedule interleaved --chunks 1 -- '--schedule interleaved --chunks 1' '--chunks 2, or --schedule 1f1b'
lesson_refuses --schedule zb-v --layers 3 -- '--layers 3' 'use --layers 4'
lesson_refuses --schedule dualpipe-v --microbatches 2 -- 'DualPipeV needs at least 4 microbatches' '--microbatches 4'
lesson_refuses --schedule gpipe,zb-v -- 'place their stages on different ranks'
lesson_refuses --experts 4 --ep 3 -- '--ep 3' 'use --ep 2 or --ep 4'
lesson_refuses --time 1,2 -- '--time' '--cluster'
conclude
