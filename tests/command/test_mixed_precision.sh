#!/usr/bin/env bash
# Lesson 14 on the command line: its output about overflows, the table of 16 bytes per parameter, and how runs end.
# Prints "N passed, N failed".
#
#   test_mixed_precision.sh LESSON
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1

short=(--trace "$scratch/run" --clock modelled --layers 2 --hidden 32 --sequence 32)

run "$lesson" "${short[@]}" --steps 8 --parity off --precision f16 --overflow-at 3 --growth-interval 4
claim "a run survives an overflow" ended 0
claim "the run reports the skipped step and halves the scale" says "step 3: overflow, step skipped, loss scale 65536 -> 32768"
claim "after four good steps the scale doubles" says "step 7: 4 steps without overflow, loss scale 32768 -> 65536"
claim "the trace has the scale" grep -q '"loss_scale".*"step":3,"from":65536,"to":32768' "$scratch/run/trace.json"
claim "the trace has the step that was skipped" grep -q '"name":"skipped"' "$scratch/run/trace.json"

run "$lesson" "${short[@]}" --steps 8 --parity off --precision bf16
claim "bf16 runs" ended 0
claim "a parameter takes 16 bytes in both types" says "model states             16.00 =      16.00 ="
claim "every count equals its formula" [ "$(grep -c ' / ' <<<"${out%%predicted / observed*}")" = 0 ]

for precision in f32 bf16; do
  for recompute in none selective full; do
    run "$lesson" "${short[@]}" --steps 4 --parity off --precision "$precision" --recompute "$recompute" --ranks 2 \
      --report "$scratch/$precision-$recompute.json"
    claim "$precision, recompute $recompute runs on two ranks" ended 0
    claim "$precision, recompute $recompute: bytes and memory as derived" \
      [ "$(grep -c ' / ' <<<"${out%%predicted / observed*}")" = 0 ]
  done
  losses() { grep -A 5 '"losses"' "$scratch/$precision-$1.json"; }
  claim "$precision: recomputation changes no bit" [ "$(losses none)" = "$(losses full)" ]
  claim "$precision: nor does the selective kind" [ "$(losses none)" = "$(losses selective)" ]
done

run "$lesson" --trace none --clock modelled --layers 2 --hidden 32 --sequence 32 --precision bf16
claim "after 200 steps bf16 is within 1 % of f32" ended 0
claim "and the run says so" says "against one device in f32 over 200 steps: the mean loss of the last 20 steps"

for bad in "--precision fp8" "--scale 3" "--overflow-at 5" "--precision f16 --overflow-at 200" "--growth-interval 0" \
  "--recompute some"; do
  # shellcheck disable=SC2086  # several words
  run "$lesson" --trace none $bad
  claim "$bad is refused" ended 2
  claim "$bad is refused in one line" complains_in_one_line
done
conclude
