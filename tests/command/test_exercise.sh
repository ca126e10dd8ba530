#!/usr/bin/env bash
# The check of one exercise: rejects the stub and accepts the solution; rejects each wrong answer with the diagnosis
# that its first line names. Prints "N passed, N failed".
#
#   test_exercise.sh PROGRAMS FOLDER     PROGRAMS is the folder of the built answers, FOLDER is the exercise's.
#                                        Wrong answers that were not built are left out.
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
programs=$1 folder=$2 name=${2##*/}
export ASAN_OPTIONS=detect_leaks=0
tries=$(portion_of 20 2)    # each with other random numbers

run "$programs/exercise_$name-stub"
claim "$name: the stub is not written" ended 3
for ((i = 0; i < tries; ++i)); do
  run "$programs/exercise_$name-solution"
  claim "$name: the solution is right" ended 0
done
wrong=0
for answer in "$folder"/wrong/*.cpp; do
  what=$(basename "$answer" .cpp)
  [[ -x $programs/exercise_$name-wrong-$what ]] || continue
  wrong=$((wrong + 1))
  for ((i = 0; i < tries; ++i)); do
    run "$programs/exercise_$name-wrong-$what"
    claim "$name, $what: is rejected" ended 4
    claim "$name, $what: its diagnosis" says "$(sed -n '1s,^// diagnosis: ,,p' "$answer")"
  done
done
claim "$name: at least one wrong answer was there" [ "$wrong" -ge "$(portion_of 4 1)" ]
claim "$name: three hints" [ "$(grep -c '^---$' "$folder/hints.md")" = 2 ]
conclude
