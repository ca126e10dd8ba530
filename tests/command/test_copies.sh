#!/usr/bin/env bash
# The lessons on data parallelism and ZeRO on the command line: their output, resuming from a
# checkpoint of a different number of ranks, and the flags they refuse. Prints "N passed, N failed".
#
#   test_copies.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

text=$scratch/text
for ((i = 0; i < 600; ++i)); do echo "rank $((i % 7)) has shard $((i * i % 11)) now"; done >"$text"
lesson() { # NUMBER_NAME FLAGS...
  local name=$1 size=(--layers 2)
  shift
  [[ " $* " != *' --layers '* ]] || size=()
  run "$folder/lesson_$name" --data "$text" --trace none --clock modelled "${size[@]}" "$@"
}

lessons=(02_data_parallel 03_zero_1 04_zero_2 05_zero_3)
for name in "${lessons[@]}"; do
  for launch in "$@"; do
    portion "$(per_launch 3 1)" '--ranks 3 --tied --freeze 0' '--ranks 2' '--ranks 2 --precision bf16 --microbatches 2' \
      >"$scratch/flags"
    while read -r flags; do
      # shellcheck disable=SC2086  # several flags
      lesson "$name" --launch "$launch" --steps 6 $flags
      claim "$name $flags ($launch) ends well" ended 0
      claim "$name $flags ($launch): bytes and memory are as predicted" as_predicted
      claim "$name $flags ($launch) tells its parity" says 'parity with one device over 6 steps'
    done <"$scratch/flags"
  done
done

for launch in "$@"; do
  [[ $launch == mpi ]] || continue
  for name in "${lessons[@]}"; do
    run "$folder/lesson_$name" --data "$text" --trace none --launch mpi --comm native --clock wall \
      --ranks 2 --steps 4 --layers 2
    claim "$name with MPI's own collectives ends well" ended 0
    claim "$name does not say what MPI sent" says 'not counted'
    claim "$name with MPI's own collectives: memory is as predicted" as_predicted
  done
done

run "$folder/lesson_05_zero_3" --data "$text" --trace "$scratch/trace" --clock modelled --layers 2 --steps 4
claim "a step of each prefetch is drawn" says 'step 1, prefetch 0, modelled time'
claim "... and the last one" says 'step 3, prefetch 1, modelled time'
claim "the drawing's signs are explained" says 'dots: waiting'

lesson 02_data_parallel --ranks 2 --steps 6 --lr 1e4 --parity off --quiet
claim "a run that has diverged fails" ended 1
claim "... and says from which step on" complains 'the loss is not a number from step'

# Training resumed from a checkpoint equals uninterrupted training, even on a different number of
# ranks.
steps() { # FROM TO FLAGS...: $scratch/FROM, if any, goes on for 6 steps and becomes $scratch/TO
  local from=$1 to=$2
  shift 2
  [[ $from == - ]] || set -- "$@" --load "$scratch/$from"
  lesson 05_zero_3 --steps 6 --prefetch 1 --quiet --save "$scratch/$to" "$@"
  claim "$from goes on and becomes $to" ended 0
}
lesson 05_zero_3 --ranks 4 --steps 12 --prefetch 1 --quiet --save "$scratch/at_once"
steps - half --ranks 4
steps half on_four --ranks 4
claim "a run that goes on has the bits of one that was never ended" diff -r "$scratch/at_once" "$scratch/on_four"
for name in "${lessons[@]}"; do
  for ranks in 1 3; do
    lesson "$name" --ranks $ranks --steps 6 --load "$scratch/half" --batch 24
    claim "$name takes a checkpoint of 4 ranks on $ranks" ended 0
    claim "$name says where it goes on ($ranks)" says "resumes after the 6 steps of $scratch/half"
  done
done
lesson 09_1f1b --ranks 2 --steps 6 --batch 24 --load "$scratch/half"
claim "a pipeline takes a checkpoint of ZeRO-3" ended 0
claim "a pipeline that goes on has one device's bits" says 'bitwise equal'

for name in "${lessons[@]}"; do
  lesson_refuses "$name" --bucket 0 -- '--bucket 0' 'at least 1'
  lesson_refuses "$name" --bucket -5 -- '--bucket'
  lesson_refuses "$name" --clip 1 -- '--clip 1'
  lesson_refuses "$name" --time backward=1ms -- '--time' '--cluster'
  lesson_refuses "$name" --freeze 2 -- '--freeze 2' 'blocks 0 to 1'
  lesson_refuses "$name" --freeze tail -- '--freeze tail' 'embedding'
  lesson_refuses "$name" --freeze embedding,0,1,head -- '--freeze' 'leave at least one to train'
  lesson_refuses "$name" --batch 25 --ranks 3 -- '--batch 25' '--batch 24'
  lesson_refuses "$name" --precision f8 -- '--precision' 'bf16'
  lesson_refuses "$name" --ranks 128 --batch 128 --layers 1 --hidden 1 --heads 1 --freeze embedding,head -- \
    '--ranks 128' '25 parameters'
  lesson_refuses "$name" --load "$scratch/half" --freeze 1 -- '--load' '--freeze'
done
lesson_refuses 02_data_parallel --overlap some -- '--overlap' 'bucket'
lesson_refuses 05_zero_3 --prefetch 0,x -- '--prefetch 0,x' "'x'"
lesson_refuses 05_zero_3 --prefetch -1 -- '--prefetch'
lesson 05_zero_3 --ranks 4 --steps 6 --prefetch 1 --quiet --export "$scratch/weights"
claim "a run exports its weights" ended 0
lesson 05_zero_3 --ranks 4 --steps 6 --prefetch 1 --quiet --export "$scratch/weights.safetensors"
claim "a run exports its weights to a single file" ended 0
claim "which equals the one in the folder" cmp "$scratch/weights.safetensors" "$scratch/weights/model.safetensors"
lesson 05_zero_3 --ranks 2 --steps 3 --load "$scratch/weights/model.safetensors"
claim "weights without an optimizer are a model to begin from" ended 0
conclude
