#!/usr/bin/env bash
# What a run prints at its end. With --detail brief, as the demo runs: a timeline, a sentence about the bubble, and what the
# model says, which it has learned by heart. By default: at most 25 lines. Without the reader: one line.
#
#   test_brief.sh LESSON DATA_PARALLEL READER PRECISION
#
# The arguments are lesson_09_1f1b, lesson_02_data_parallel, lockstep_read and lesson_14_mixed_precision.
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1 data_parallel=$2 reader=$3 precision=$4
says_no() { [[ $out != *"$1"* ]]; }

# One short sentence, so that a few steps suffice; each word begins with another letter.
echo 'The cat sat on my hat. ' >"$scratch/text"
flags=(--clock modelled --detail brief)
run "$lesson" "${flags[@]}" --trace "$scratch/run" --layers 4 --sequence 16 --steps 120 --lr 0.003 --clip 1 --data "$scratch/text"
claim 'brief: succeeds' ended 0
claim 'brief: a timeline' says $'\nrank 3   .'
claim 'brief: the formula of the bubble' says '(p-1)/(m+p-1) = 27.3 %'
claim 'brief: parity' says 'One device, trained on the same data, has the same weights, bit for bit.'
claim 'brief: the model says the sentence' says 'The model says: "The cat sat on my hat. '
claim 'brief: no tables' says_no 'sent/step'
claim 'brief: at most 30 lines' [ "$(wc -l <<<"$out")" -le 30 ]
share=$(grep -o 'idle for [0-9.]* %' <<<"$out" | grep -o '[0-9.]*')
claim 'brief: the share is that of the report' [ "$share" = "$(python3 -c "
import json, sys
print(f'{100 * json.load(open(sys.argv[1]))[\"phases\"][-1][\"bubble\"][\"observed\"]:.1f}')" "$scratch/run/report.json")" ]
run "$lesson" "${flags[@]}" --steps 2 --trace none --verbose
claim '--verbose: the whole report' says 'sent/step'
run "$data_parallel" "${flags[@]}" --trace "$scratch/dp" --steps 2
claim 'without a pipeline: how much the ranks compute' says 'Ranks compute for '
claim 'without a pipeline: no bubble' says_no 'bubble'
run "$lesson" "${flags[@]}" --steps 2 --trace none --data lessons/09_1f1b/demo.txt
claim 'a text of the source tree is found from any folder' ended 0
run "$lesson" "${flags[@]}" --steps 2 --trace none --data lessons/09_1f1b/none.txt
claim 'another is refused' ended 2

for flags in '--ranks 4' '--ranks 4 --compare 1' '--ranks 16 --layers 16' '--ranks 64 --layers 64 --device meta'; do
  # shellcheck disable=SC2086  # several flags
  run "$lesson" --detail summary --clock modelled --microbatches 8 --steps 2 --trace "$scratch/short" $flags
  claim "by default, $flags: succeeds" ended 0
  end=$(tac <<<"$out" | sed '/^step  *[0-9]*\/[0-9]/Q' | wc -l)
  claim "by default, $flags: at most 25 lines after training" [ "$end" -ge 8 -a "$end" -le 25 ]
  claim "by default, $flags: predicted beside observed" says "'=': exactly as predicted"
  claim "by default, $flags: what would shorten the step" says 'what would shorten step'
done
for ranks in 2 4 8; do    # several phases without a pipeline: each has a drawing
  run "$data_parallel" --detail summary --clock modelled --steps 4 --batch 16 --ranks $ranks --trace "$scratch/short"
  end=$(tac <<<"$out" | sed '/^step  *[0-9]*\/[0-9]/Q' | wc -l)
  claim "by default, phases on $ranks ranks: at most 25 lines after training" [ "$end" -ge 8 -a "$end" -le 25 ]
done
run "$precision" --clock modelled --detail brief --trace none --ranks 2 --layers 1 --steps 2
claim 'brief, if only losses are compared: nothing about weights' says_no 'same weights'
claim 'brief, if only losses are compared: the mean loss' says 'the mean loss of the last'
run "$lesson" --detail summary --clock modelled --steps 2 --trace "$scratch/again"
report=$(sed -n '/^all tables/q; /^step 1, /,$p' <<<"$out")
claim 'the run says how far parity is meant to go' says 'bitwise equal, and no difference is accepted'
run "$reader" report "$scratch/again"
claim 'the reader prints the same report again' says "$report"

cp "$lesson" "$scratch/alone"
run "$scratch/alone" --clock modelled --steps 2 --trace "$scratch/unread"
claim 'without the reader, a run succeeds' ended 0
claim 'without the reader: one line says so' complains_in_one_line
claim 'without the reader: which program is missing' complains 'no report: lockstep_read'
claim 'without the reader: its results are there' test -s "$scratch/unread/results.json"
claim 'without the reader: report.json has what needs no trace' grep -q '"max_relative_loss"' "$scratch/unread/report.json"
run "$reader" report "$scratch/unread" --quiet
claim 'the reader adds what the trace says' grep -q '"counterfactuals"' "$scratch/unread/report.json"
run "$reader" report "$scratch"
is_refused 'a folder without results'
conclude
