#!/usr/bin/env bash
# The cost of tracing a lesson: alternates runs with and without a trace, and prints the ratio of
# their medians, in wall-clock and in CPU time. Slow.
#
#   trace_cost.sh LESSON_BINARY [ROUNDS [MOST]]
#
# Exits with 1 if the ratio of processor times exceeds MOST (1.01). Other processes change the wall
# clock's ratio, so it is only printed.
set -euo pipefail
lesson=$1
rounds=${2:-11}
most=${3:-1.01}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
TIMEFORMAT='%R %U %S'

# timed FILE TRACE: appends one run's wall-clock and processor seconds.
timed() {
  { time "$lesson" --launch threads --clock wall --ranks 2 --steps 30 --parity off --quiet --trace "$2" >/dev/null 2>&1; } \
    2>&1 | awk '{print $1, $2 + $3}' >>"$folder/$1"
}
median() { awk -v c="$2" '{print $c}' "$folder/$1" | sort -g | awk '{v[NR] = $1} END {print NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2}'; }

timed warm_up none
for round in $(seq "$rounds"); do
  if [ $((round % 2)) = 0 ]; then timed none none; fi
  timed traced "$folder/run"
  if [ $((round % 2)) = 1 ]; then timed none none; fi
done
spans=$(cat "$folder"/run/rank*.json | grep -c '"ph":"X"')
awk -v w0="$(median none 1)" -v w1="$(median traced 1)" -v c0="$(median none 2)" -v c1="$(median traced 2)" \
    -v n="$spans" -v rounds="$rounds" -v most="$most" 'BEGIN {
  printf "%d rounds, medians, %d spans: wall %.3f s traced, %.3f s not: ratio %.4f; processor %.3f s, %.3f s: ratio %.4f\n",
    rounds, n, w1, w0, w1 / w0, c1, c0, c1 / c0
  exit c1 / c0 > most
}'
