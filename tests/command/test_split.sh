#!/usr/bin/env bash
# --split: the report's proposal, a run that follows it, checkpoints between splits, and refusals. Prints "N passed, N
# failed".
#
#   test_split.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
for ((i = 0; i < 600; ++i)); do echo "stage $((i % 7)) has block $((i * i % 11)) now"; done >"$text"
lesson() { # NUMBER FLAGS...: an uneven model (11 blocks on 4 stages, and a large head), unless FLAGS say otherwise
  local number flag small=()
  printf -v number %02d "$1"
  shift
  for flag in "--trace $scratch/run" '--clock modelled' '--ranks 4' '--layers 11' '--heads 2' '--hidden 16' \
    '--sequence 16' '--vocab 1000' '--steps 4'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  local program=("$folder/lesson_$number"_*) # the first; what-ifs follow
  run "${program[0]}" --data "$text" "${small[@]}" "$@"
}
# Without flags of a schedule, a lesson's last phase is the one whose proposal is printed.
proposal() { sed -n 's/^--split \([0-9,]*\) is better: the pipeline.s actions take \([0-9.]*\) ms.*/\1 \2/p' <<<"$out"; }
step_takes() { [[ $out == *"of which $1 ms from the first action to the last"* || $out == *"modelled time: $1 ms"* ]]; }

# A run with the proposed split takes the time that the simulator gave, and finds nothing better.
follow() { # NUMBER FLAGS...
  local what="lesson $*" better time
  lesson "$@"
  claim "$what ends well" ended 0
  claim "$what names the stage that takes longest" says "takes longest"
  read -r better time <<<"$(proposal)"
  claim "$what proposes a split" test -n "$better"
  lesson "$@" --split "$better"
  claim "$what --split $better ends well" ended 0
  # With dp, the order of additions is not one device's; the exit code then says that parity holds.
  [[ $1 == 15 ]] || claim "$what --split $better: the bits of one device" says 'bitwise equal'
  claim "$what --split $better: bytes and memory are as predicted" as_predicted
  claim "$what --split $better: a step takes $time ms, as proposed" step_takes "$time"
  claim "$what --split $better is better than any other" says "no split is better than $better: the pipeline's actions take $time ms"
}
for launch in "$@"; do
  follow 9 --launch "$launch"
done
follow 8 --microbatches 4 --tied
follow 9 --clip 0.5 --cluster ethernet
follow 10 --schedule interleaved --ranks 2
follow 11 --schedule zb-h1
follow 11 --schedule dualpipe-v --ranks 2
follow 15 --ranks 4 --pp 2 --dp 2 --tp 1

# The report has the same figures.
lesson 9 --split 2,2,4,3 --report "$scratch/report.json"
claim "the report has the split" grep -qzP '"split": \[\s*2,\s*2,\s*4,\s*3\s*\]' "$scratch/report.json"
claim "the report has the proposal" grep -q '"proposal": {' "$scratch/report.json"

# With fixed times, all stages take equally long; layers that communicate are not simulated.
lesson 9 --time forward=1ms,backward=2ms
claim "fixed times: equal stages" says 'all stages take 3.000 ms per microbatch'
claim "fixed times: no proposal" says 'no split is better than 3,3,3,2'
lesson 15 --ranks 4 --pp 2 --tp 2
claim "divided layers: a stage takes longest" says 'stage 1 takes longest'
claim "divided layers: no proposal" says 'no split is proposed: layers that communicate'
lesson 9 --clock wall
claim "the wall clock: a stage's pace, and where a proposal is" says 'with --clock modelled, this report also proposes'
lesson 9 --ranks 1
claim "one stage: none takes longest" test "$code" = 0 -a "${out/takes longest/}" = "$out"
lesson 16 --ranks 4 --pp 2 --cp 2 --split 7,4
claim "lesson 16 with --split ends well" ended 0
claim "lesson 16 with --split: bytes and memory are as predicted" as_predicted

# Checkpoints do not depend on the split.
lesson 9 --split 2,2,4,3 --save "$scratch/uneven"
claim "a checkpoint is saved" ended 0
lesson 9 --split 5,1,3,2 --load "$scratch/uneven"
claim "a checkpoint of another split goes on" ended 0
claim "a checkpoint of another split: the bits of one device" says 'bitwise equal'

lesson_refuses() { # NUMBER FLAGS... -- WORDS...
  local flags=()
  while [[ $1 != -- ]]; do flags+=("$1") && shift; done
  shift
  lesson "${flags[@]}"
  claim "lesson ${flags[*]} is refused" ended 2
  claim "lesson ${flags[*]} is refused in one line" complains_in_one_line
  for word in "$@"; do claim "lesson ${flags[*]}: says '$word'" complains "$word"; done
}
lesson_refuses 9 --split 3,3,5 -- '4 stages need 4 numbers of blocks, not 3' 'use --split 3,3,3,2'
lesson_refuses 9 --split 3,3,3,3 -- 'these are 12 blocks, but --layers is 11' '--layers 12' '--split 3,3,3,2'
lesson_refuses 9 --split 5,6,0,0 -- 'stage 2 needs at least one block' 'use --split 3,3,3,2'
lesson_refuses 9 --split 5,x -- "'x' must be a whole number"
lesson_refuses 10 --ranks 2 --split 6,5 -- '4 stages need 4 numbers' 'use --split 3,3,3,2'
lesson_refuses 11 --ranks 2 --schedule automatic --split 6,3,2 -- '2 stages need 2 numbers' 'use --split 6,5'
lesson_refuses 2 --split 6,5 -- '--split'
conclude
