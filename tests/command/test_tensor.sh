#!/usr/bin/env bash
# The lessons on tensor and sequence parallelism on the command line: their output, checkpoints of a
# different number of ranks, and the flags they refuse. Prints "N passed, N failed".
#
#   test_tensor.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
for ((i = 0; i < 600; ++i)); do echo "rank $((i % 7)) has head $((i * i % 11)) now"; done >"$text"
lesson() { # NUMBER_NAME FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local name=$1 flag small=()
  shift
  for flag in '--trace none' '--clock modelled' '--layers 2' '--batch 4' '--heads 12' '--hidden 48' '--sequence 24'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  run "$folder/lesson_$name" --data "$text" "${small[@]}" "$@"
}
shows() { grep -qF -- "$1" <<<"$out"; }

lessons=(06_tensor_parallel 07_sequence_parallel)
for name in "${lessons[@]}"; do
  for launch in "$@"; do
    for flags in "--tp 2" "--ranks 3 --tied --vocab 257" "--ranks 2 --precision bf16 --microbatches 2"; do
      # shellcheck disable=SC2086  # several flags
      lesson "$name" --launch "$launch" --steps 6 $flags
      claim "$name $flags ($launch) ends well" ended 0
      claim "$name $flags ($launch): bytes and memory are as predicted" as_predicted
      claim "$name $flags ($launch) tells its parity" says 'parity with one device over 6 steps'
    done
  done
  lesson "$name" --device meta --ranks 4 --steps 2
  claim "$name on the meta device ends well" ended 0
  claim "$name on the meta device: bytes and memory are as predicted" as_predicted
  lesson "$name" --ranks 2 --clock wall --steps 3
  claim "$name on the wall clock ends well" ended 0
done
lesson 07_sequence_parallel --ranks 4 --steps 6 --regather
claim "regathering ends well" ended 0
claim "regathering: bytes and memory are as predicted" as_predicted

for launch in "$@"; do
  [[ $launch == mpi ]] || continue
  for name in "${lessons[@]}"; do
    lesson "$name" --launch mpi --comm native --clock wall --ranks 2 --steps 3
    claim "$name with MPI's own collectives ends well" ended 0
  done
done

# Who holds what.
lesson 06_tensor_parallel --ranks 3 --steps 1 --vocab 257 --trace "$scratch/trace"
claim "the grid shows q, k and v in columns of heads" shows '48 x 144   000111222000111222000111222'
claim "the grid shows the last row of the embedding" shows '222222222222222222222222222'
claim "padding is announced" says 'vocabulary padded from 257 to 258 tokens, a multiple of --tp 3'
claim "the trace has the rank's slices" \
  grep -q '"name":"slices".*h\.\*\.attn\.c_attn\.weight"[^}]*"boxes":\[\[0,16,48,16\],\[0,64,48,16\],\[0,112,48,16\]\]' \
  "$scratch/trace/rank1.json"

# A checkpoint of four ranks goes on in the other lesson, on three.
lesson 06_tensor_parallel --ranks 4 --steps 6 --quiet --save "$scratch/half"
claim "a checkpoint is saved" ended 0
for name in "${lessons[@]}"; do
  lesson "$name" --ranks 3 --steps 6 --load "$scratch/half"
  claim "$name takes a checkpoint of 4 ranks on 3" ended 0
  claim "$name says where it goes on" says "resumes after the 6 steps of $scratch/half"
done

for name in "${lessons[@]}"; do
  lesson_refuses "$name" --tp 8 -- '--tp 8' '--heads 12' '--tp 6' '--tp 12' '--heads 16'
  lesson_refuses "$name" --ranks 4 --tp 2 -- '--ranks 4' '--tp 2'
  lesson_refuses "$name" --dp 2 -- '--dp 2' 'leave it out'
  lesson_refuses "$name" --clip 1 -- '--clip 1'
done
lesson 07_sequence_parallel --tp 4 --sequence 22
claim "a sequence that t does not divide is refused" ended 2
claim "... with the nearest lengths" complains '--sequence 20 or --sequence 24'
lesson 07_sequence_parallel --tp 4 --sequence 3
claim "a sequence shorter than t is refused" ended 2
claim "... with the one length that is near" complains 'shards; use --sequence 4'
conclude
