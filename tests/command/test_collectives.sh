#!/usr/bin/env bash
# Lesson 01 on the command line: invalid flags give a one-line error and exit code 2; valid ones succeed and print the
# expected lines. Prints "N passed, N failed".
#
#   test_collectives.sh LESSON LAUNCH...      LESSON is lesson_01_collectives
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1
shift
launches=("$@")
clusters=$(dirname "${BASH_SOURCE[0]}")/../../lessons/01_collectives

refuse() { # WORD... -- FLAGS...
  local words=() word launch
  for (( ; $# > 0; )); do [[ $1 == -- ]] && shift && break; words+=("$1"); shift; done
  for launch in "${launches[@]}"; do
    run "$lesson" --trace "$scratch/run" --launch "$launch" "$@"
    is_refused "$launch $*"
    for word in "${words[@]}"; do claim "$launch $*: says $word" complains "$word"; done
    claim "$launch $* leaves no folder" [ ! -e "$scratch/run" ]
  done
}

refuse '--algorithm star' 'ring, naive, tree, recursive_doubling, rabenseifner' -- --algorithm star
refuse '--algorithm' 'value' -- --algorithm
for value in 0 -1 x 2.5 1e6 99999999999; do refuse --elements "$value" -- --elements $value; done
refuse '--sweep' '--ranks 1' '--ranks 2' -- --sweep --ranks 1
for value in 0 255 1001; do refuse "--largest $value" 'multiple of 4' -- --sweep --largest $value; done
refuse '--largest 2048' '--sweep' -- --largest 2048
refuse '--layers' 'no such flag' -- --layers 3
refuse '--ranks 9' 'two nodes' -- --ranks 9 --clock modelled --cluster "$clusters/two_nodes.json"
run "$lesson" --comm native
claim 'native collectives of threads are refused' ended 2
claim 'and it is said why' complains 'no library has collectives for threads'

run "$lesson" --ranks 16 --trace none --quiet --cluster h100 --elements 1000
claim "on a cluster whose all-reduces add in another order: has the bits of Group's ring" ended 0

for launch in "${launches[@]}"; do
  for ranks in 1 2 3 5; do
    run "$lesson" --launch "$launch" --ranks $ranks --trace none --clock modelled --elements 1001
    claim "$launch, $ranks ranks: is well" ended 0
    claim "$launch, $ranks ranks: proves itself" says 'which are those of Group::all_reduce'
    [[ $ranks == 1 ]] || claim "$launch, $ranks ranks: takes the formula's time" says '=, to the picosecond'
  done
  for algorithm in naive tree recursive-doubling rabenseifner; do
    run "$lesson" --launch "$launch" --ranks 4 --trace none --clock modelled --elements 1000 --algorithm $algorithm
    claim "$launch, $algorithm: is well" ended 0
    claim "$launch, $algorithm: takes the formula's time" says '=, to the picosecond'
  done
  run "$lesson" --launch "$launch" --ranks 4 --trace none --quiet --sweep --largest 4096
  claim "$launch, --quiet: is well" ended 0
  claim "$launch, --quiet: says nothing" says_nothing

  run "$lesson" --launch "$launch" --ranks 8 --trace none --clock modelled --sweep --largest 262144 \
    --cluster "$clusters/two_nodes.json"
  claim "$launch, a sweep: is well" ended 0
  claim "$launch, a sweep: all algorithms" says 'all algorithms on 8 ranks'
  claim "$launch, a sweep: goes at the slow link's pace" says '468.752 ='
  run "$lesson" --launch "$launch" --ranks 8 --trace none --clock modelled --sweep --largest 1024 --algorithm rings \
    --cluster "$clusters/two_nodes.json"
  claim "$launch, a sweep of rings, also on one node: is well" ended 0
  run "$lesson" --launch "$launch" --ranks 8 --trace none --clock modelled --sweep --largest 262144 \
    --cluster "$clusters/two_nodes.json"
  claim "$launch, a sweep: no escapes where there is no terminal" [ "${out//$'\033'/}" == "$out" ]
done
run "$lesson" --ranks 4 --trace none --quiet --clock modelled --cluster "$clusters/one_switch.json" \
  --sweep --largest 1024 --report "$scratch/report.json"
claim 'a report: is written' grep -q '"lesson": "01 collectives"' "$scratch/report.json"
claim 'a report: of the one all-reduce' grep -q '"observed_seconds": 0.00066' "$scratch/report.json"
claim 'a report: says its format' grep -q '"format": 1,' "$scratch/report.json"
in_results() { sed -n '/^  "results": {/,/^  }/p' "$scratch/report.json" | grep "^    \"$1\"" >/dev/null; }
claim 'a report: what the lesson adds has a place of its own' in_results all_reduce
claim 'a report: the sweep, too' in_results sweep
claim 'a report: of the sweep' grep -q '"algorithm": "rabenseifner"' "$scratch/report.json"
run "$lesson" --ranks 2 --trace none --clock wall --sweep --largest 4096
claim 'by the wall: says how fast the machine is' says 'by ping-pong'
claim 'by the wall: threads have no native collectives' says 'native: none'
# Predictions know no shared links: with one card per node, eight rings take as long as one, 310 µs instead of 125.
shared=(--trace none --device meta --clock modelled --cluster "$clusters/one_card.json" --elements 1000000)
run "$lesson" "${shared[@]}" --ranks 16 --algorithm rings
claim 'shared links: is well' ended 0
claim 'shared links: says what the prediction ignores' says '2.48 x the prediction for links that are not shared'
run "$lesson" "${shared[@]}" --ranks 16 --algorithm ring
claim 'shared links, one ring: takes the time of the formula' says '=, to the picosecond'
run "$lesson" "${shared[@]}" --ranks 16 --sweep --largest 1048576
claim 'shared links, a sweep: says what the predictions ignore' \
  says '=: as predicted (predictions are for links that are not shared)'
claim 'shared links, a sweep: another algorithm wins' says 'ring (predicted: recursive_doubling)'

if [[ " ${launches[*]} " == *' mpi '* ]]; then
  run "$lesson" --ranks 2 --trace none --launch mpi --clock wall --comm native --sweep --largest 4096
  claim 'native: is well' ended 0
  claim 'native: is there' says "native: MPI's own"
fi

conclude
