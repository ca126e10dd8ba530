#!/usr/bin/env bash
# Lesson 15 on the command line: each technique along dp and tp, and the flags it refuses. Prints
# "N passed, N failed".
#
#   test_3d.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

lesson() { # FLAGS...: with a small model, unless FLAGS say otherwise
  local small=(--trace none --clock modelled --layers 4 --hidden 32 --steps 6)
  [[ " $* " == *' --sequence '* ]] || small+=(--sequence 32)
  run "$folder/lesson_15_3d" "${small[@]}" "$@"
}

for launch in "$@"; do
  portion "$(per_launch 5 1)" '--zero 3 --tied --clip 0.5 --sequence-parallel' '--zero 3 --dp 4 --tp 2 --shard 2' \
    '--zero 1 --tied --clip 0.5' '--zero 2 --sequence-parallel' '--sequence-parallel --precision bf16' >"$scratch/compositions"
  while read -r flags; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" $flags
    claim "$flags ($launch) ends well" ended 0
    claim "$flags ($launch): bytes and memory are as predicted" as_predicted
    claim "$flags ($launch) tells its parity" says 'parity with one device over 6 steps'
  done <"$scratch/compositions"
  [[ $launch == mpi ]] || continue
  for name in 15_3d 16_all_axes; do
    run "$folder/lesson_$name" --trace none --launch mpi --comm native --clock wall --layers 4 --hidden 32 --steps 2
    claim "$name with MPI's own collectives ends well" ended 0
    claim "$name with MPI's own collectives: memory is as predicted, and what is sent between stages" as_predicted
  done
done

for flags in '--schedule gpipe' '--schedule zb-h1,zb-h2,automatic --sequence-parallel' '--schedule zb-v --zero 1 --tied --clip 0.5' \
  '--schedule interleaved,breadth-first,zb-h1 --chunks 2 --zero 1 --sequence-parallel --tied --clip 0.5' \
  '--schedule dualpipe-v --zero 1 --dp 4 --tp 2 --pp 1 --shard 2'; do
  # shellcheck disable=SC2086
  lesson $flags
  claim "$flags ends well" ended 0
  claim "$flags: bytes and memory are as predicted" as_predicted
  claim "$flags tells its parity" says 'parity with one device over 6 steps'
done
lesson --schedule interleaved --chunks 2 --export-schedule "$scratch/schedule.csv"
claim "a schedule can be exported" ended 0
lesson --schedule "$scratch/schedule.csv" --sequence-parallel
claim "a schedule from a file: ends well" ended 0
claim "a schedule from a file: bytes and memory are as predicted" as_predicted

lesson --device meta --zero 3 --ranks 16 --dp 4 --pp 2 --tp 2 --shard 2 --vocab 257
claim "the meta device: ends well" ended 0
claim "the meta device: bytes and memory are as predicted" as_predicted
claim "the meta device: padding is announced" says 'vocabulary padded from 257 to 258 tokens, a multiple of --tp 2'

lesson_refuses --zero 4 -- '--zero 4' 'use --zero 3'
lesson_refuses --zero -1 -- '--zero -1' 'at least 0'
lesson_refuses --shard 2 -- '--shard 2 with the default --zero 0' 'leave --shard out'
lesson_refuses --zero 3 --dp 6 --batch 24 --shard 4 -- '--shard 4 with --dp 6' 'use --shard 3 or --shard 6'
lesson_refuses --zero 1 --dp 6 --batch 24 --shard 1 -- '--shard 1 with --dp 6' 'use --shard 2'
lesson_refuses --zero 1 --dp 4 --shard 9 -- '--shard 9 with --dp 4' 'use --shard 4'
lesson_refuses --zero 1 --dp 1 --tp 2 --shard 2 -- '--shard 2 with --dp 1' 'leave --shard out'
lesson_refuses --sequence-parallel --tp 4 --sequence 30 -- '--sequence 30 with --tp 4' '--sequence 28 or --sequence 32'
lesson_refuses --zero 2 --schedule zb-h1 -- '--zero 2 with --schedule zb-h1' 'use --schedule 1f1b, or --zero 1'
lesson_refuses --schedule interleaved --chunks 3 -- '--layers 4' 'use --layers 6'
lesson_refuses --schedule dualpipe-v --microbatches 2 -- 'DualPipeV needs at least 4 microbatches' 'use --microbatches 4'
lesson_refuses --bucket 0 -- '--bucket 0' 'at least 1 byte'
lesson_refuses --dp 2 --pp 2 --tp 3 -- '--tp 3 with the default --heads 4' '--tp 2'
conclude
