#!/usr/bin/env bash
# `./lockstep retime`: what it prints and refuses, and that a run of any launch leaves its operations.
#
#   test_retime.sh RETIME PIPELINE MESH LAUNCH...      PIPELINE is lesson 9, MESH is lesson 15
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
retime=$1 pipeline=$2 mesh=$3
shift 3

text=$scratch/text
seq 1 2000 >"$text"
seconds_of() { sed -n 's/.*"step":1,.*"seconds":\([^}]*\)}.*/\1/p' "$1"; }            # REPORT of retime
last_step() { grep -o '"last_step_seconds": [^,]*' "$1" | head -n 1 | cut -d' ' -f2; }  # REPORT of a run
same() { awk -v a="$1" -v b="$2" 'BEGIN { exit !(a != "" && a - b < 1e-13 && b - a < 1e-13) }'; }

for launch in "$@"; do
  flags=(--ranks 3 --layers 3 --steps 2 --data "$text" --launch "$launch" --clock modelled --parity off --quiet)
  run "$pipeline" "${flags[@]}" --trace "$scratch/a" --report "$scratch/a.json"
  claim "a run on the modelled clock ends well ($launch)" ended 0
  claim "... and leaves its operations ($launch)" test -s "$scratch/a/operations.json"
  run "$retime" retime "$scratch/a" --report "$scratch/as_recorded.json"
  claim "retime ends well ($launch)" ended 0
  claim "... and shows the critical path ($launch)" says 'critical path of step 1'
  claim "the step takes as long as in the run ($launch)" \
    same "$(seconds_of "$scratch/as_recorded.json")" "$(last_step "$scratch/a.json")"
  run "$pipeline" "${flags[@]}" --trace "$scratch/b" --report "$scratch/b.json" --cluster ethernet --slow 1=1.5
  run "$retime" retime "$scratch/a" --cluster ethernet --change rank:1=slower:1.5 --report "$scratch/retimed.json"
  claim "retimed, it takes as long as a run with these flags ($launch)" \
    same "$(seconds_of "$scratch/retimed.json")" "$(last_step "$scratch/b.json")"
  claim "... which is longer ($launch)" \
    awk -v a="$(last_step "$scratch/a.json")" -v b="$(last_step "$scratch/b.json")" 'BEGIN { exit !(b > a) }'
done

bubble() { sed -n "/\"bubble\"/,/}/s/.*\"$1\": \([^,]*\).*/\1/p" "$scratch/b.json" | head -n 1; }
claim "with a slow rank, the simulated bubble is the observed one" same "$(bubble simulated)" "$(bubble observed)"

run "$mesh" --device meta --ranks 72 --dp 36 --pp 1 --tp 2 --batch 144 --steps 1 --layers 2 --parity off
claim "a run on many meta ranks ends well" ended 0
claim "... and says how to retime it without a trace" says 'retime'
folder=$(sed -n 's/.*lockstep retime //p' <<<"$out")
claim "it has operations" test -s "$folder/operations.json"
claim "... but no traces" test ! -e "$folder/rank0.json"
run "$retime" retime "$folder" --change tp=free
claim "... which can be retimed" ended 0
rm -rf "$folder"

run "$pipeline" --ranks 2 --layers 2 --steps 1 --data "$text" --clock wall --trace "$scratch/wall" --parity off --quiet
run "$retime" retime "$scratch/wall"
is_refused "a run on the wall clock"
claim "... and why is said" complains 'modelled clock'

run "$mesh" --device meta --ranks 8 --dp 2 --pp 2 --tp 2 --schedule 1f1b,automatic --steps 2 --parity off --quiet --trace "$scratch/automatic"
run "$retime" retime "$scratch/automatic" --cluster a100
claim "what was chosen by modelled time is named" says 'might lead to another choice: --schedule automatic'

refuse() { # WORD FLAG...
  local word=$1
  shift
  run "$retime" retime "$@"
  is_refused "'$*'"
  claim "'$word' is in the line" complains "$word"
}
refuse --fast "$scratch/a" --fast 1
refuse --change "$scratch/a" --change
refuse 'one run' "$scratch/a" "$scratch/b"
refuse 'more than once' "$scratch/a" --cluster a100 --cluster h100
refuse 'more than once' "$scratch/a" --report "$scratch/x.json" --report="$scratch/x.json"
refuse 'no such preset' "$scratch/a" --cluster nowhere
refuse quick "$scratch/a" --change within=quick
refuse 'choose within' "$scratch/a" --change moon=free
refuse 'no such run' "$scratch/none"
refuse 'name a run'
refuse 'has no operations' "$scratch"
echo '{"lockstep_operations":1' >"$scratch/half.json"
refuse 'not a file of operations' "$scratch/half.json"
fails_on_full_stdout retime "$retime" retime "$scratch/a"
conclude
