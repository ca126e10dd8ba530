#!/usr/bin/env bash
# The check of one exercise: rejects the stub; accepts the solution and every other right answer; rejects each wrong
# answer (tests/exercises/NN_name/wrong) with the diagnosis that its first line names. Prints "N passed, N failed".
#
#   test_exercise.sh PROGRAMS FOLDER     PROGRAMS is the folder of the built answers, FOLDER is the exercise's.
#                                        Answers that were not built are left out.
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
programs=$1 folder=$2 name=${2##*/}
tries=$(portion_of 20 2)    # each with other random numbers
# A check that states how long it may take is tried once, and may take as long.
stated=$(sed -n 's,^// This check may take \([0-9]*\) seconds\.$,\1,p' "$folder/check.cpp")
if [[ -n $stated ]]; then tries=1 limit=$((stated > 120 ? stated : 120)); fi
judge() { run "$programs/supervise" --source "exercises/$name/answer.cpp" --limit 600 "$1"; } # PROGRAM

# If a bug is to be found, the stub is the program that has it.
if grep -q '^// find the bug' "$folder/stub.cpp"; then
  judge "$programs/exercise_$name-stub"
  claim "$name: the stub is wrong" ended 4
elif [[ -n ${LOCKSTEP_TEST_ALL-} || -x $programs/exercise_$name-stub ]]; then
  judge "$programs/exercise_$name-stub"
  claim "$name: the stub is not written" ended 3
fi
for answer in "$programs/exercise_$name"-{solution,right-*}; do
  [[ -x $answer ]] || continue
  for ((i = 0; i < tries; ++i)); do
    judge "$answer"
    claim "${answer##*/exercise_}: is right" ended 0
  done
done
wrong=0
for answer in "$folder/../../tests/exercises/$name/wrong"/*.cpp; do
  what=$(basename "$answer" .cpp)
  [[ -x $programs/exercise_$name-wrong-$what ]] || continue
  wrong=$((wrong + 1))
  for ((i = 0; i < tries; ++i)); do
    judge "$programs/exercise_$name-wrong-$what"
    claim "$name, $what: is rejected" ended 4
    claim "$name, $what: its diagnosis" says "$(sed -n '1s,^// diagnosis: ,,p' "$answer")"
    claim "$name, $what: names the case once" [ -z "$(grep -E '^✗ (.+): \1: ' <<<"$out")" ]
  done
done
claim "$name: at least one wrong answer was there" [ "$wrong" -ge "$(portion_of 4 1)" ]
claim "$name: exercises/README.md lists it" grep -q "($name/README.md)" "$folder/../README.md"
claim "$name: a lesson sends the reader to it" \
  grep -q "exercises/$name/README.md" "$folder"/../../lessons/*/*.md
claim "$name: three hints" [ "$(grep -c '^---$' "$folder/hints.md")" = 2 ]
conclude
