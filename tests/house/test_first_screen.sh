#!/usr/bin/env bash
# Checks that a reader who opens a lesson's header finds the technique on the first screen: the technique's first
# function begins within 45 lines.
#
#   test_first_screen.sh [ROOT]    without ROOT: this tree, and then small trees with one fault each
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")
screen=45

# For each lesson the file that bears its name, or its technique's, and the technique's first function as the file
# defines it.
table() {
  cat <<'END'
00_ranks             main.cpp               int main(
01_collectives       ring_all_reduce.h      void ring_all_reduce(
02_data_parallel     data_parallel.h        void sum_gradients()
03_zero_1            zero_1.h               void gradients_ready(
04_zero_2            zero_2.h               void enter(
05_zero_3            zero_3.h               void unshard(
06_tensor_parallel   tensor_parallel.h      Tensor forward(
07_sequence_parallel sequence_parallel.h    Tensor gather(
08_gpipe             gpipe.h                Schedule gpipe(
09_1f1b              one_f_one_b.h          Schedule one_f_one_b(
10_interleaved       interleaved.h          std::vector<Action> interleaved_order(
11_zero_bubble       zero_bubble.h          std::vector<Action> place_weights(
12_expert_parallel   expert_parallel.h      Tensor forward(
13_ring_attention    ring_attention.h       Tensor forward(
14_mixed_precision   mixed_precision.h      bool take(
15_3d                three_d.h              builder_of(const Composition& chosen) {
16_all_axes          all_axes.h             built_on(const AllAxes& chosen
17_choosing          choosing.h             void train_configuration(
18_low_communication low_communication.h    void train_workers(
19_unlike_machines   unlike_machines.h      WorkDivision division_of(
20_when_ranks_die    surviving_replica.h    std::optional<double> step(
END
}

check() { # ROOT: prints every fault, one line each
  local lesson file function path line folder
  while read -r lesson file function; do
    path=lessons/$lesson/$file
    if [[ ! -f $1/$path ]]; then
      echo "$path does not exist"
      continue
    fi
    # The first line that is no comment and contains the function.
    line=$(awk -v function_="$function" '!/^ *\/\// && index($0, function_) { print NR; exit }' "$1/$path")
    if [[ -z $line ]]; then
      echo "$path does not define '$function'"
    elif ((line > screen)); then
      echo "$path: '$function' begins on line $line, below the first $screen"
    fi
  done < <(table)
  for folder in "$1"/lessons/[0-9]*/; do
    lesson=$(basename "$folder")
    table | grep -q "^$lesson " || echo "lessons/$lesson is not in the table of test_first_screen.sh"
  done
}

if [[ ${1-} ]]; then
  faults=$(check "$1")
  [[ -z $faults ]] || { printf '%s\n' "$faults"; exit 1; }
  exit 0
fi

fail=0
faults=$(check "$here/../..")
[[ -z $faults ]] || { printf '%s\n' "$faults"; fail=1; }

# Copies of the headers with one fault each, and the line that is expected to name it.
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
finds() { # EXPECTED
  local found
  found=$(check "$scratch")
  [[ $found == "$1" ]] || { printf 'expected: %s\nfound: %s\n' "$1" "$found"; fail=1; }
}
while read -r lesson file _; do
  mkdir -p "$scratch/lessons/$lesson"
  cp "$here/../../lessons/$lesson/$file" "$scratch/lessons/$lesson/"
done < <(table)
gpipe=$scratch/lessons/08_gpipe/gpipe.h
cp "$gpipe" "$scratch/gpipe.h"
sed -i "1i $(printf '\\n%.0s' {1..40})" "$gpipe"
finds "lessons/08_gpipe/gpipe.h: 'Schedule gpipe(' begins on line $(grep -n 'Schedule gpipe(' "$gpipe" | cut -d: -f1), below the first $screen"
sed 's/^inline Schedule gpipe(/\/\/ &/' "$scratch/gpipe.h" >"$gpipe"
finds "lessons/08_gpipe/gpipe.h does not define 'Schedule gpipe('"
cp "$scratch/gpipe.h" "$gpipe"
mkdir "$scratch/lessons/21_new"
finds "lessons/21_new is not in the table of test_first_screen.sh"

((fail == 0)) && echo "each lesson's technique begins on the first screen"
exit $fail
