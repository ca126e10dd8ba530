#!/usr/bin/env bash
# The lessons whose pipelines follow a schedule of --schedule, on the command line: their output, checkpoints between
# placements, and the flags they refuse. Prints "N passed, N failed".
#
#   test_schedules.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
for ((i = 0; i < 600; ++i)); do echo "rank $((i % 7)) has chunk $((i * i % 11)) now"; done >"$text"
lesson() { # FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local flag small=()
  for flag in '--trace none' '--clock modelled' '--layers 8' '--heads 2' '--hidden 16' '--sequence 16' '--steps 6'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  local program=("$folder/lesson_$number"_*)    # the first; what-ifs follow
  run "${program[0]}" --data "$text" "${small[@]}" "$@"
}

number=10
for launch in "$@"; do
  for flags in "--ranks 2 --chunks 3 --microbatches 4 --tied --clip 0.5" "--ranks 3 --microbatches 5 --batch 10"; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" $flags
    claim "lesson 10 $flags ($launch) ends well" ended 0
    claim "lesson 10 $flags ($launch): bytes and memory are as predicted" as_predicted
    claim "lesson 10 $flags ($launch): the bits of one device" says 'bitwise equal'
  done
done
lesson --device meta --ranks 4 --chunks 2 --trace "$scratch/run" --cluster free --time forward=1ms,backward=2ms --steps 2
claim "with free messages, both schedules idle 3/(2 x 8 + 3)" says '15.8 %          +0.0 %'
lesson --schedule 1f1b --ranks 2
claim "--schedule 1f1b: one chunk per rank" ended 0

# Checkpoints do not depend on the placement.
lesson --ranks 2 --chunks 4 --tied --save "$scratch/half"
claim "a checkpoint is saved" ended 0
lesson --ranks 4 --schedule 1f1b --tied --load "$scratch/half"
claim "a checkpoint of 2 ranks with 4 chunks goes on with 4 ranks" ended 0

lesson_refuses --schedule zigzag -- "there is no schedule 'zigzag'" 'gpipe, 1f1b'
lesson_refuses --schedule interleaved,1f1b -- 'different ranks' 'two runs'
lesson_refuses --chunks 1 -- 'looped breadth-first' '--chunks 2' '--schedule gpipe'
lesson_refuses --schedule interleaved --chunks 1 -- 'interleaved 1F1B' '--chunks 2' '--schedule 1f1b'
lesson_refuses --schedule 1f1b --chunks 2 -- '1F1B has 1 chunk per rank' '--schedule interleaved'
lesson_refuses --ranks 4 --chunks 3 -- '--layers 8' '12 stages' '--layers 12'
lesson_refuses --schedule '' -- '--schedule'
conclude
