#!/usr/bin/env bash
# The lessons' reports print the figures that lesson 00's page cites, and no `=` without a
# comparison. Prints "N passed, N failed".
#
#   test_figures.sh LESSON_00 LESSON_09 LAUNCH...      LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
ranks_lesson=$1 pipeline_lesson=$2
shift 2
page=$(dirname "${BASH_SOURCE[0]}")/../../lessons/00_ranks/README.md

page_has() { grep -qF -- "$1" "$page"; }
cited() { # WHAT FIGURE: the run prints it, and the page cites it
  claim "$1 prints $2" says "$2"
  claim "... and the page has it" page_has "$2"
}
report_has() { tr -d ' \n' <"$scratch/report.json" | grep -F -- "$1" >/dev/null; }
sent_cells() { grep -E '^  rank [0-9].* kB' <<<"$out" | sed -E 's/^  rank [0-9]+ +//; s/   .*//'; }

for launch in "$@"; do
  lesson() {
    run "$ranks_lesson" --clock modelled --launch "$launch" --trace "$scratch/run" \
      --report "$scratch/report.json" "$@"
    claim "lesson 0 $* ($launch) ends well" ended 0
    claim "lesson 0 $* ($launch) says how a modelled send behaves" says 'modelled sends are buffered'
  }
  lesson
  cited "lesson 0 ($launch)" 'lost to waiting: 50.0 % of all ranks'
  cited "lesson 0 ($launch)" '833.78756'
  claim "lesson 0 ($launch) reports what was lost" report_has '"lost":0.50000'
  # Half of the time is waiting for the late rank, without latency.
  claim "lesson 0 ($launch): the exposed half is waiting for a late peer" \
    eval 'tr -s " " <<<"$out" | grep -E "^ world 0.417 0.000 0.000 0.417 0.000 " >/dev/null'
  claim "lesson 0 ($launch) reports its clock's sends" report_has '"sends":"buffered"'
  cited "lesson 0 ($launch)" '2793.7 GB'
  lesson --times 1
  cited "lesson 0 --times 1 ($launch)" 'lost to waiting: 0.0 % of all ranks'
  cited "lesson 0 --times 1 ($launch)" '0.01366'
  cited "lesson 0 --times 1 ($launch)" '0.00065'
  lesson --late 0 --ranks 8
  cited "lesson 0 --late 0 --ranks 8 ($launch)" 'lost to waiting: 58.3 % of all ranks'
  lesson --times 0.5
  claim "a rank that is early costs little ($launch)" says '(1-k)/N 12.5 %'
done
run "$ranks_lesson" --clock wall --ranks 2 --late 1 --steps 2 --trace none --report "$scratch/report.json"
claim "on the wall clock nothing is said of modelled sends" [ "${out/buffered/}" == "$out" ]
claim "... and sends are rendezvous" report_has '"sends":"rendezvous"'
run "$ranks_lesson" --clock modelled --launch threads --trace none --report "$scratch/report.json"
claim "threads send no headers" report_has '"overhead_bytes":0'
claim "... so there is no such column" [ "${out/overhead/}" == "$out" ]

if [[ " $* " == *' mpi '* ]]; then
  # One message to the right, and two rounds of the barrier: three headers of 160 B.
  run "$ranks_lesson" --clock modelled --launch mpi --trace none --report "$scratch/report.json"
  claim "under MPI the headers are counted" report_has '"overhead_bytes":480'
  claim "... apart from the payload" report_has '"bytes_sent":{"send":4000}'
  claim "... and shown" says 'overhead: bytes of message headers'
  claim "... in the table" grep -qE '^  rank 0 +4000 B = +480 B ' <<<"$out"

  # The tied tables and the norm use MPI's own collectives, whose bytes are not counted.
  text=$scratch/text
  seq 1 2000 >"$text"
  run "$pipeline_lesson" --launch mpi --ranks 3 --comm native --clock wall --batch 24 --steps 3 --clip 1 \
    --tied --layers 5 --data "$text" --trace none --report "$scratch/report.json"
  claim "lesson 9 with MPI's own collectives ends well" ended 0
  claim "'=' stands beside the operation that was compared" [ "$(sent_cells | grep -c '^send .* =$')" == 3 ]
  claim "... and nowhere else in that column" [ "$(sent_cells | grep -c '=')" == 3 ]
  claim "the others are named" says 'not compared: all_gather, all_reduce (the transport does not count'
  claim "... and in the report" report_has '"all_gather":"thetransportdoesnotcount'
  claim "what was compared is in the report, and nothing else" [ "$(tr -d ' \n' <"$scratch/report.json" \
    | grep -oE '"phase":"1F1B","bytes_sent":\{"send":[0-9]+\},"overhead_bytes":[0-9]+,"predicted":\{"send":[0-9]+\}' \
    | wc -l)" == 3 ]

  # Our own collectives are all counted, and a single '=' covers them.
  run "$pipeline_lesson" --launch mpi --ranks 3 --clock wall --batch 24 --steps 3 --clip 1 --tied --layers 5 \
    --data "$text" --trace none
  claim "with our own collectives there is nothing that is not compared" [ "${out/not compared/}" == "$out" ]
  claim "... and the total is" [ "$(sent_cells | grep -c ' =$')" == 3 ]
fi

conclude
