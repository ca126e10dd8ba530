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

number=11
for launch in "$@"; do
  for schedule in 1f1b,zb-h1,zb-h2 zb-v dualpipe-v 'automatic --memory-limit 3'; do
    # shellcheck disable=SC2086  # several flags
    lesson --launch "$launch" --ranks 3 --microbatches 8 --batch 8 --tied --clip 0.5 --schedule $schedule
    claim "lesson 11 $schedule ($launch) ends well" ended 0
    claim "lesson 11 $schedule ($launch): bytes and memory are as predicted" as_predicted
    claim "lesson 11 $schedule ($launch): the bits of one device" says 'bitwise equal'
  done
done

# Files: those that PyTorch wrote, with and without messages, and our own.
golden=$(dirname "${BASH_SOURCE[0]}")/../golden/schedules
for file in ScheduleInterleavedZeroBubble_p4_v1_m8 ScheduleZBVZeroBubble_p3_v2_m8 ScheduleDualPipeV_p4_v2_m8 \
  with_messages/ScheduleZBVZeroBubble_p2_v2_m4 with_messages/ScheduleDualPipeV_p2_v2_m4; do
  ranks=${file##*_p} m=${file##*_m}
  lesson --schedule "$golden/$file.csv" --ranks "${ranks%%_*}" --microbatches "$m" --batch "$m"
  claim "$file runs" ended 0
  claim "$file: bytes and memory are as predicted" as_predicted
  claim "$file: the bits of one device" says 'bitwise equal'
done
# PyTorch's breadth-first schedule runs backward in descending order, which gives other bits.
lesson --schedule "$golden/ScheduleLoopedBFS_p2_v2_m4.csv" --ranks 2 --microbatches 4
claim "a descending order runs within the tolerance of f32" ended 0
claim "a descending order has other bits" grep -q 'losses differ by [1-9]' <<<"$out"
lesson --schedule dualpipe-v --ranks 2 --microbatches 4 --export-schedule "$scratch/mine.csv"
claim "a schedule is exported as PyTorch writes it" \
  diff -q <(sed 's/^,*//; s/,*$//' "$golden/ScheduleDualPipeV_p2_v2_m4.csv") "$scratch/mine.csv"
lesson --schedule "$scratch/mine.csv" --ranks 2 --microbatches 4
claim "the exported schedule runs" ended 0
echo '0F0,0B0' >"$scratch/one.csv"
echo '0F0,0F1,0B0,0B1,0B0' >"$scratch/twice.csv"
printf '0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0\n' >"$scratch/lost.csv"
lesson_refuses --schedule "$scratch/none.csv" -- 'no such file'
lesson_refuses --schedule "$scratch/one.csv" --ranks 2 -- 'a row for each of 1 ranks' '--pp 1'
lesson_refuses --schedule "$scratch/one.csv" --ranks 1 -- '1 microbatches' '--microbatches 1'
lesson_refuses --schedule "$scratch/twice.csv" --ranks 1 --microbatches 2 -- 'runs 0B0 twice'
lesson_refuses --schedule "$scratch/lost.csv" --ranks 2 --microbatches 1 -- '1RECV_F0 is missing'
lesson_refuses --schedule zb-v --chunks 3 -- 'ZB-V has 2 chunks per rank' '--chunks 2'
lesson_refuses --schedule dualpipe-v --microbatches 7 --batch 7 -- 'at least 8 microbatches' '--microbatches 8'
lesson_refuses --schedule zb-h1 --memory-limit 3 -- '--memory-limit 3' '--schedule automatic'
lesson_refuses --schedule dualpipev -- "there is no schedule 'dualpipev'; did you mean dualpipe-v?" 'automatic, dualpipe-v'
lesson_refuses --time forward=1ms,backward=2ms -- '--time backward=2ms' 'ZB-H1' 'backward_input=1ms,backward_weight=1ms'

# The table beside the run: `in_table NAME COLUMN`, from the end.
in_table() { grep "^  $1 " <<<"$out" | awk -v back="$2" '{ print $(NF - 2 * back - 1) }'; }
halves=forward=1ms,backward=2ms,backward_input=1ms,backward_weight=1ms
same_as_run() { # the automatic row's longest window and peak activations
  local step peak
  step=$(sed -n 's/^automatic: a step takes \([^ ]*\) ms.*/\1/p' <<<"$out")
  peak=$(awk '/^  ranks? [0-9]/ && $0 ~ /B =/ { print $6 }' <<<"$out" | sort -n | tail -n 1)
  [[ -n $step && $(in_table automatic 2) == "$step" && $(in_table automatic 0) == "$peak" ]]
}
for limit in 3 4 5 7; do
  lesson --device meta --schedule automatic --memory-limit "$limit" --cluster free --time "$halves" --steps 2
  claim "lesson 11's table shows the automatic schedule of --memory-limit $limit" same_as_run
done
lesson --device meta --schedule zb-h1 --chunks 2 --cluster free --steps 1
claim "... and ZB-H1 with --chunks 2" grep -q '^  ZB-H1 *2 ' <<<"$out"
claim "... but 1F1B with the chunk that it has" grep -q '^  1F1B *1 ' <<<"$out"
cat >"$scratch/slow.json" <<END
{"name": "slow", "nodes": 1, "ranks_per_node": 4, "flops": 1, "memory_bandwidth": 1, "launch_seconds": 0,
 "within": {"latency_seconds": 0, "bandwidth": null}, "between": {"latency_seconds": 0, "bandwidth": null}}
END
lesson --device meta --schedule zb-h1 --cluster "$scratch/slow.json" --time "$halves" --steps 1
claim "with fixed times, no rank's prediction depends on how slow the cluster computes" ended 0
lesson --device meta --schedule 1f1b --cluster free --time forward=1ms,backward=2ms --steps 1
claim "... and none that splits backward passes if the halves have no time" \
  [ -n "$(in_table 1F1B 2)" -a -z "$(in_table ZB-H1 2)" ]

lesson_refuses --export-schedule "$scratch/no/such.csv" -- '--export-schedule' "can't write"

# Checkpoints do not depend on the placement.
number=10
lesson --ranks 2 --chunks 4 --tied --save "$scratch/half"
claim "a checkpoint is saved" ended 0
lesson --ranks 4 --schedule 1f1b --tied --load "$scratch/half"
claim "a checkpoint of 2 ranks with 4 chunks goes on with 4 ranks" ended 0

lesson_refuses --schedule zigzag -- "there is no schedule 'zigzag'" 'gpipe, 1f1b'
lesson_refuses --schedule interleaved,1f1b -- 'different ranks' 'two runs'
lesson_refuses --chunks 1 -- 'looped breadth-first' '--chunks 2' '--schedule gpipe'
lesson_refuses --schedule interleaved --chunks 1 -- 'interleaved 1F1B' '--chunks 2' '--schedule 1f1b'
lesson_refuses --schedule 1f1b --chunks 2 -- '1F1B has 1 chunk per rank' '--schedule interleaved'
lesson_refuses --ranks 4 --chunks 3 -- '--layers 8' '12 stages on 4 ranks' '--layers 12'
lesson_refuses --schedule '' -- '--schedule'
conclude
