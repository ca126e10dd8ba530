#!/usr/bin/env bash
# Data parallelism and ZeRO on a model of 14 million parameters: each process's resident memory,
# minus the program itself, agrees with its ranks' account within 10 %. Prints "N passed, N failed".
#
#   test_resident.sh FOLDER LAUNCH...      FOLDER has the lessons' programs, LAUNCH is threads, mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
limit=300
folder=$1
shift

# For each of N processes in the report,
# other
# is at most a tenth of the tensors.
agrees() {
  awk -F '[:,]' '
    /"resident_memory"/ { inside = 1 }
    inside && /"other"/ { other = $2 < 0 ? -$2 : +$2 }
    inside && /"tensors"/ { processes++; if (10 * other > $2) bad++ }
    inside && /^  \]/ { inside = 0 }
    END { exit !(processes == '"$1"' && bad == 0) }' "$scratch/report"
}
for name in 02_data_parallel 03_zero_1 04_zero_2 05_zero_3; do
  for launch in "$@"; do
    run "$folder/lesson_$name" --launch "$launch" --ranks 4 --hidden 384 --heads 8 --steps 3 --parity off \
      --trace none --report "$scratch/report"
    claim "$name ($launch) ends well" ended 0
    claim "$name ($launch): resident memory agrees with the account" \
      agrees "$([[ $launch == mpi ]] && echo 4 || echo 1)"
    claim "$name ($launch) reports it" says 'resident memory'
  done
done
conclude
