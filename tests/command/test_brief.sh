#!/usr/bin/env bash
# --detail brief, as the demo runs: a timeline, a sentence about the bubble, and what the model says, which it has learned by
# heart. Prints "N passed, N failed".
#
#   test_brief.sh LESSON DATA_PARALLEL      lesson_09_1f1b and lesson_02_data_parallel
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1 data_parallel=$2
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
conclude
