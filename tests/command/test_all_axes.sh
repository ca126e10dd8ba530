#!/usr/bin/env bash
# Lesson 16 on the command line: its techniques together, the table of groups, checkpoints of other meshes, and the
# flags that it refuses. Prints "N passed, N failed".
#
#   test_all_axes.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
#   test_all_axes.sh FOLDER --large        4,096 ranks on the meta device, without experts and with them
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

# The lines of a lesson's table together name as many RANKS.
every_rank_has_a_line() { # RANKS
  local named
  named=$(grep -E '^  ranks? [0-9]' <<<"$out" | grep -E 'B [=/]' |
    perl -ne '$n += /^  ranks (\d+) to (\d+)/ ? $2 - $1 + 1 : 1; END { print $n }')
  [[ $named == "$1" ]]
}

text=$scratch/text
seq 1 2000 >"$text"
lesson() { # FLAGS...: with a small model and no trace, unless FLAGS say otherwise
  local flag small=()
  for flag in '--trace none' '--clock modelled' '--layers 4' '--hidden 32' '--sequence 32' '--steps 4'; do
    # shellcheck disable=SC2206  # a flag and its value
    [[ " $* " == *" ${flag% *} "* ]] || small+=($flag)
  done
  run "$folder/lesson_16_all_axes" --data "$text" "${small[@]}" "$@"
}

# The run on the lesson's page. 4,096 threads take minutes.
if [[ $* == --large ]]; then
  pod=$(dirname "${BASH_SOURCE[0]}")/../../lessons/16_all_axes/pod.json
  large=(--device meta --cluster "$pod" --ranks 4096 --dp 8 --pp 16 --cp 4 --tp 8 --layers 96 --hidden 12288 --heads 96
    --sequence 8192 --vocab 50257 --precision bf16 --batch 64 --microbatches 8 --steps 1 --trace none --layout zigzag)
  for flags in '--experts 0 --zero 1' '--experts 8 --ep 8'; do
    SECONDS=0
    # shellcheck disable=SC2086  # several flags
    limit=1200 run "$folder/lesson_16_all_axes" "${large[@]}" $flags
    claim "4,096 ranks, $flags: ends well" ended 0
    claim "4,096 ranks, $flags: bytes and memory are as predicted" as_predicted
    claim "4,096 ranks, $flags: a line for every group of equal ranks" every_rank_has_a_line 4096
    printf '%s: %d s\n' "$flags" "$SECONDS"
  done
  conclude
  exit
fi

combinations=('--clip 0.5 --tied --layout zigzag'
  '--dp 1 --pp 2 --cp 2 --tp 2 --experts 4 --capacity 1 --method gather --sequence-parallel off'
  '--dp 2 --cp 4 --experts 0 --zero 3 --shard 4 --recompute selective --precision bf16'
  '--dp 2 --cp 2 --tp 2 --experts 0 --zero 2 --method ulysses')
for launch in "$@"; do
  portion "$(per_launch 4 1)" "${combinations[@]}" >"$scratch/combinations"
  while read -r flags; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" $flags
    claim "$flags ($launch) ends well" ended 0
    claim "$flags ($launch): bytes and memory are as predicted" as_predicted
    claim "$flags ($launch) tells its parity" says 'parity with one device over 4 steps'
  done <"$scratch/combinations"
done

lesson --device meta --layout zigzag --report "$scratch/report.json"
claim "the meta device: ends well" ended 0
claim "the meta device: bytes and memory are as predicted" as_predicted
claim "every tp group has its ranks" says '0 1 | 2 3 | 4 5 | 6 7 | 8 9 | 10 11 | 12 13 | 14 15'
claim "every cp group" says '0 2 | 1 3 | 4 6 | 5 7 | 8 10 | 9 11 | 12 14 | 13 15'
claim "every pp group" says '0 8 | 1 9 | 2 10 | 3 11 | 4 12 | 5 13 | 6 14 | 7 15'
claim "every group of replicas" says '0 2 4 6 | 1 3 5 7 | 8 10 12 14 | 9 11 13 15'
claim "every group that divides experts" says 'ep     the experts     0 2 4 6 | 1 3 5 7'
claim "the report has the groups" grep -q '"dp_cp": *\[\[0, *2, *4, *6\]' <(tr -d '\n' <"$scratch/report.json" | sed 's/  */ /g; s/\[ /[/g; s/ \]/]/g')

# Checkpoints of other lessons' meshes, and of this one's.
lesson --steps 2 --quiet --save "$scratch/all"
claim "a checkpoint is saved" ended 0
lesson --steps 2 --load "$scratch/all" --ranks 8 --dp 1 --cp 4 --pp 2 --layout zigzag
claim "... and goes on with other axes" ended 0
lesson --steps 2 --quiet --experts 0 --zero 1 --save "$scratch/dense"
claim "a checkpoint without experts is saved" ended 0
run "$folder/lesson_15_3d" --data "$text" --trace none --clock modelled --steps 2 --load "$scratch/dense" --zero 3
claim "... and in lesson 15" ended 0
run "$folder/lesson_05_zero_3" --data "$text" --trace none --clock modelled --batch 24 --hidden 32 --layers 4 --sequence 32 \
  --steps 2 --ranks 3 --save "$scratch/zero"
claim "lesson 5 saves a checkpoint" ended 0
lesson --steps 2 --experts 0 --load "$scratch/zero" --batch 16
claim "... which goes on with all axes" ended 0

lesson_refuses --ranks 12 -- '--ranks 12 with the default --tp 2 --cp 2 --pp 2' '--ranks 8 or --ranks 16'
lesson_refuses --sequence 36 --tp 4 --cp 2 --dp 2 --pp 1 -- '--sequence 36 with --cp 2 --tp 4' '--sequence 32 or --sequence 40'
lesson_refuses --experts 0 --sequence 30 --cp 4 --layout zigzag -- '--sequence 24 or --sequence 32'
lesson_refuses --recompute none -- '--recompute none with the default --cp 2' '--recompute selective'
lesson_refuses --method ulysses --cp 4 --tp 4 --dp 1 --pp 1 -- '--method ulysses with --cp 4, --tp 4 and the default --heads 4' '--heads 16' '--method ring'
lesson_refuses --experts 0 --zero 1 --shard 3 -- '--shard 3 with the default --dp 2 --cp 2' 'use --shard 2 or --shard 4'
lesson_refuses --experts 6 -- '--experts 6 with the default --ep 4' '--experts 4 or --experts 8'
lesson_refuses --ep 3 -- '--ep 3' '16 ranks of dp and cp' 'use --ep 2 or --ep 4'
lesson_refuses --zero 1 -- '--zero 1 with the default --experts 8' '--zero 0, or --experts 0'
lesson_refuses --top-k 9 -- '--top-k 9 with the default --experts 8' '--top-k 8'
lesson_refuses --routing zipf -- '--routing zipf' '--device meta'
lesson_refuses --shard 2 --zero 0 -- '--shard 2 with --zero 0'
lesson_refuses --layers 1 -- '--layers 1' '--pp 1'
lesson_refuses --batch 9 -- '--batch 9' '--batch 8'
conclude
