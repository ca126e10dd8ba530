#!/usr/bin/env bash
# A run streams into the viewer while in progress, under Xvfb: a screenshot taken before it ends
# shows all ranks; every emitted span is in the file and in the viewer; and a span soon becomes
# visible after it ends.
#
#   test_live.sh LESSON_BINARY VIEWER_BINARY [--latency]
#
# Prints the time from a span's end to its frame; only --latency requires at most 250 ms (95th
# percentile), because that depends on the machine's load.
set -euo pipefail
lesson=$1
viewer=$2
must_be_soon=${3:-}
# shellcheck source=viewer.sh
source "$(dirname "${BASH_SOURCE[0]}")/viewer.sh"

# run LESSON_FLAGS -- VIEWER_FLAGS: starts the viewer, and the run once the viewer listens. Returns
# when the viewer has ended. The run's process is $running.
run() {
  local flags=()
  while [ "$1" != -- ]; do flags+=("$1"); shift; done
  shift
  local port
  port=$(free_port)
  timeout 300 xvfb-run -a -s "-screen 0 1600x900x24" "$viewer" --listen "127.0.0.1:$port" \
    --stats "$stats" "$@" &
  local shown=$!
  within 60 is_open "$port"
  timeout 300 "$lesson" "${flags[@]}" --quiet --parity off --trace "$traces" --view "127.0.0.1:$port" &
  running=$!
  wait "$shown"
}
for launch in threads mpi; do
  if [ "$launch" = mpi ] && ! command -v mpirun >/dev/null; then continue; fi

  # The viewer takes the screenshot as soon as every rank has sent spans. The run continues until
  # then, however long that takes.
  run --launch $launch --ranks 4 --steps 1000000 --pace 0.005 -- --screenshot "$scratch/live.png" --when all-ranks
  claim "$launch: there is a picture" test -s "$scratch/live.png"
  claim "$launch: it was taken while the run went on" kill -0 "$running"
  kill -TERM "$running"
  wait "$running" || code=$?
  claim "$launch: the run is interrupted" ended 130
  for rank in 0 1 2 3; do
    claim "$launch: it shows rank $rank" test "$(number $rank)" -gt 0
  done

  # On the wall clock, to the end: no span is lost.
  run --launch $launch --ranks 2 --steps 25 --clock wall -- --exit-when-done
  claim "$launch: the run ends well" wait "$running"
  claim "$launch: all that was emitted is in the files ($(emitted), $(written))" \
    test "$(emitted)" -eq "$(written)"
  claim "$launch: and in the viewer ($(number total))" test "$(emitted)" -eq "$(number total)"
  claim "$launch: no line was malformed" test "$(number malformed)" -eq 0
  echo "$launch: from a span's end to its frame: $(number p50) ms (median), $(number p95) ms (95th percentile) of $(number count) spans"
  if [ -n "$must_be_soon" ]; then
    claim "$launch: 95 of 100 spans are shown within 250 ms" test "$(number p95 | cut -d. -f1)" -le 250
  fi
done
conclude
