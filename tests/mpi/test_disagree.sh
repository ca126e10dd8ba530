#!/usr/bin/env bash
# Runs programs in which four processes disagree on their messages or collectives, or in which one hangs inside MPI.
# Each must fail soon, with the right error. Usage: test_disagree.sh TEST_MPI_COMM MPIRUN [FLAG ...]
set -u
program=$1
shift
failed=0
checked=0

check() {  # NUMBER NAME [ARGUMENT ...]: one program
  local number=$1 name=$2 output status
  shift 2
  checked=$((checked + 1))
  output=$(timeout 60 "${mpirun[@]}" 4 "$program" disagree "$number" "$@" 2>&1 </dev/null)
  status=$?
  if [[ $status -eq 0 || $status -eq 124 || $output != *"reported: "* ]]; then
    echo "FAILED: $name $*: exit code $status"
    echo "$output"
    failed=1
  fi
}

mpirun=("$@")
while read -r number name; do
  check "$number" "$name"
  # These errors are detected before MPI's own collectives begin, so they are checked with those, too.
  case $name in
    "different collectives" | "9 and 10 elements by ring" | "different roots" | \
      "all_to_all_v counts") check "$number" "$name" native ;;
  esac
done < <("$program" list)
[[ $checked -ge 10 ]] || failed=1  # the list was complete

hangs() {  # CALL sleep|stop TEXT: the lookout ends the run and says what it waits for
  output=$(timeout 60 "${mpirun[@]}" 4 "$program" hang "$1" "$2" 2>&1 </dev/null)
  status=$?
  if [[ $status -eq 0 || $status -eq 124 ]] || ! grep -qE "^rank [0-3] has waited 3 s inside $1 for ranks $3$" <<<"$output"; then
    echo "FAILED: rank 1 hangs in $1 ($2): exit code $status"
    echo "$output"
    failed=1
  fi
}
for call in MPI_Allreduce MPI_Comm_create_group; do
  hangs $call stop '[0-3, ]+; rank 1 does not answer'
  hangs $call sleep '[0-3, ]+; they answer, but none of them computes'
done
exit $failed
