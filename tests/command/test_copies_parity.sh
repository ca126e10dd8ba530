#!/usr/bin/env bash
# Lessons 02 to 05 with their own defaults, for 50 steps on 1, 2, 3, 4 and 8 ranks: losses and parameters must be within
# the lessons' stated bounds of a single-device run, and the loss must fall by a fifth or more. Prints "N passed, N
# failed".
#
#   test_copies_parity.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
folder=$1
shift

near_one_device() {
  awk -F'[:,]' '/max_relative_loss/ { loss = $2 } /max_relative_parameter/ { parameter = $2 }
    END { exit !(loss != "" && loss <= 1e-6 && parameter <= 1e-5) }' "$scratch/report.json"
}
learned() {
  local first last
  read -r first last < <(sed -n 's/^loss \([0-9.]*\) → \([0-9.]*\) .*/\1 \2/p' <<<"$out")
  awk -v first="$first" -v last="$last" 'BEGIN { exit !(last < 0.8 * first) }'
}

for launch in "$@"; do
  for name in 02_data_parallel 03_zero_1 04_zero_2 05_zero_3; do
    for ranks in 1 2 3 4 8; do
      flags=()
      [[ $name != 02_data_parallel ]] || flags=(--overlap overlap)
      run timeout 120 "$folder/lesson_$name" --ranks $ranks --steps 50 --launch "$launch" --clock modelled \
        --trace none --report "$scratch/report.json" "${flags[@]}"
      claim "$name on $ranks ($launch) ends well" ended 0
      claim "$name on $ranks ($launch) is near one device" near_one_device
      claim "$name on $ranks ($launch) has learned" learned
    done
  done
done
conclude
