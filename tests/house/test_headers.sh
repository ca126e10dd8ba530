#!/usr/bin/env bash
# Checks that every lesson has a header named after it, where its reader begins: lessons/NN_name/name.h.
#
#   test_headers.sh [ROOT]    without ROOT: this tree, and then small trees with one fault each
set -euo pipefail
here=$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")

# The header of the lesson in FOLDER. Identifiers don't begin with digits, and lesson 01 builds one collective.
header_of() { # FOLDER
  local name=${1#*_}
  case $name in
    collectives) name=ring_all_reduce ;;
    1f1b) name=one_f_one_b ;;
    3d) name=three_d ;;
  esac
  echo "$name.h"
}

check() { # ROOT: prints every fault, one line each
  local folder lesson
  for folder in "$1"/lessons/[0-9]*/; do
    lesson=$(basename "$folder")
    [[ $lesson == 00_ranks ]] && continue   # its technique is its main.cpp
    [[ -f $folder$(header_of "$lesson") ]] || echo "lessons/$lesson has no $(header_of "$lesson")"
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

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir -p "$scratch"/lessons/{00_ranks,02_data_parallel,09_1f1b}
touch "$scratch"/lessons/{02_data_parallel/data_parallel.h,09_1f1b/pipeline.h}
found=$(check "$scratch")
if [[ $found != "lessons/09_1f1b has no one_f_one_b.h" ]]; then
  printf 'expected the missing header of 09_1f1b, found: %s\n' "$found"
  fail=1
fi

((fail == 0)) && echo "every lesson has a header named after it"
exit $fail
