#!/usr/bin/env bash
# The lesson on ring attention on the command line: its output, checkpoints of a different number of ranks, and the
# flags it refuses. Prints "N passed, N failed".
#
#   test_context.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
for ((i = 0; i < 600; ++i)); do echo "rank $((i % 7)) has chunk $((i * i % 11)) now"; done >"$text"
lesson() { # FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local flag small=()
  for flag in '--trace none' '--clock modelled' '--layers 2' '--batch 4' '--heads 12' '--hidden 48' '--sequence 48'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  run "$folder/lesson_13_ring_attention" --data "$text" "${small[@]}" "$@"
}
shows() { grep -qE -- "$1" <<<"$out"; }

for launch in "$@"; do
  for method in ring ulysses gather; do
    for flags in "--cp 2" "--ranks 3 --tied --layout zigzag" "--ranks 2 --precision bf16 --microbatches 2 --layout zigzag"; do
      # shellcheck disable=SC2086  # several flags
      lesson --launch "$launch" --steps 6 --method "$method" $flags
      claim "$method $flags ($launch) ends well" ended 0
      claim "$method $flags ($launch): bytes and memory are as predicted" as_predicted
      claim "$method $flags ($launch) tells its parity" says 'parity with one device over 6 steps'
    done
  done
done
for layout in contiguous zigzag; do
  lesson --device meta --ranks 4 --steps 2 --layout "$layout"
  claim "$layout on the meta device ends well" ended 0
  claim "$layout on the meta device: bytes and memory are as predicted" as_predicted
done
lesson --ranks 2 --clock wall --steps 3
claim "the wall clock: ends well" ended 0
claim "the wall clock: no table of modelled times" grep -vq 'ring attention alone' <<<"$out"
for launch in "$@"; do
  [[ $launch == mpi ]] || continue
  for method in ring ulysses gather; do
    lesson --launch mpi --comm native --clock wall --ranks 2 --steps 3 --method "$method"
    claim "$method with MPI's own collectives ends well" ended 0
  done
done

# The table of attention alone: four ranks are 4/7 efficient if contiguous, and zigzag ranks entirely.
lesson --device meta --ranks 4 --steps 1 --cluster free --sequence 64
claim "free communication: N/(2N-1) and all, in both passes" \
  shows '^ +16 +0\.000 µs .* 57\.1 % +57\.1 % +100\.0 % +100\.0 %$'

# A checkpoint of four ranks goes on, on three and in another layout.
lesson --ranks 4 --steps 6 --quiet --save "$scratch/half"
claim "a checkpoint is saved" ended 0
lesson --ranks 3 --steps 6 --layout zigzag --load "$scratch/half"
claim "a checkpoint of 4 ranks goes on with 3" ended 0
claim "... and says where" says "resumes after the 6 steps of $scratch/half"

lesson_refuses --cp 5 -- '--sequence 48 with --cp 5' '--sequence 45 or --sequence 50'
lesson_refuses --cp 4 --sequence 52 --layout zigzag -- '8 equal chunks' '--sequence 48 or --sequence 56'
lesson_refuses --cp 4 --sequence 3 -- 'use --sequence 4'
lesson_refuses --cp 8 --method ulysses -- '--method ulysses with --cp 8 and --heads 12' '--cp 6' '--cp 12' '--heads 16' '--method ring'
lesson_refuses --method star -- '--method' 'ring, ulysses, gather'
lesson_refuses --layout spiral -- '--layout' 'contiguous, zigzag'
lesson_refuses --ranks 4 --cp 3 -- '--ranks 4' '--cp 3'
lesson_refuses --tp 2 -- '--tp 2' 'leave it out'
lesson_refuses --clip 1 -- '--clip 1'
conclude
