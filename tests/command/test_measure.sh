#!/usr/bin/env bash
# `./lockstep measure` writes a cluster file that a modelled run accepts. Does not test whether the numbers in the file
# are accurate.
#
#   test_measure.sh MEASURE LESSON LAUNCH...      LESSON is a pipeline's
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
measure=$1 lesson=$2
shift 2

text=$scratch/text cluster=$scratch/cluster.json
seq 1 2000 >"$text"
run_lesson() { # RANKS
  run "$lesson" --ranks "$1" --layers "$1" --steps 1 --data "$text" --trace none --clock modelled \
    --cluster "$cluster"
}

for launch in "$@"; do
  rm -f "$cluster"
  run "$measure" --launch "$launch" --ranks 4 --output "$cluster"
  claim "measure ends well ($launch)" ended 0
  claim "measure shows 0 B ($launch)" says ' 0 B '
  claim "measure shows 16 MB ($launch)" says ' 16 MB '
  claim "measure says what to do with the file ($launch)" says "--clock modelled --cluster $cluster"
  claim "measure shows the products' rates ($launch)" says ' 64 products '
  claim "measure says how the ranks were started ($launch)" grep -q "measured, $launch" "$cluster"
  run_lesson 4; claim "a run on that cluster ends well ($launch)" ended 0
  claim "... and says that its kernels run at measured rates ($launch)" says 'at measured rates'
  run_lesson 5; claim "the cluster has as many ranks as were asked for ($launch)" complains '1 nodes of 4 ranks'
done

refuse() { # FLAG...
  run "$measure" "$@"
  is_refused "'$*'"
  claim "'$*' is named" complains "$1"
}
refuse --fast 1
refuse --output
refuse --ranks 4 --ranks 4
refuse --output "$scratch"
refuse --output "$scratch/no/such/folder/x.json"
refuse --launch processes
for ranks in 0 1 -4 two 40000 99999999999; do refuse --ranks "$ranks"; done

conclude
