# For tests of programs: source this file, call `run` and `claim`, and end with `conclude`.
# shellcheck shell=bash

# A shell that starts its tests in the background makes them ignore Ctrl-C, and so would all programs under test.
if [[ $(trap -p INT) == *"''"* ]] && env --default-signal=INT true 2>/dev/null; then
  exec env --default-signal=INT,QUIT "$BASH" "$0" "$@"
fi

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
passed=0 failed=0 code=0 out='' err=''
unset DISPLAY WAYLAND_DISPLAY

# Limits are generous, because a busy machine may be slow: they only catch hangs.

# Runs a command with a limit of two minutes, or $limit seconds. Sets $out and $err to its output
# and $code to its exit code. A lesson prints every table, for the claims, unless its flags say how much.
run() {
  [[ $1 != */lesson_* || " $* " == *' --'@(detail|verbose|quiet)[\ =]* ]] || set -- "$1" --detail full "${@:2}"
  timeout -k 2 "${limit:-120}" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  code=$?
  out=$(<"$scratch/out") err=$(<"$scratch/err")
}

claim() { # WHAT, then a command that holds
  local what=$1
  shift
  if "$@"; then
    passed=$((passed + 1))
  else
    failed=$((failed + 1))
    printf 'FAILED: %s\n  exit code %s\n  stdout: %s\n  stderr: %s\n' "$what" "$code" \
      "${out//$'\n'/$'\n'    }" "${err//$'\n'/$'\n'    }"
  fi
}
# The portion of a long test that runs without `./lockstep test --all`, as in tests/support/portion.h: prints the first
# QUICK items, or all; and one of two numbers.
portion() { # QUICK ITEM...
  if [[ -n ${LOCKSTEP_TEST_ALL-} ]]; then printf '%s\n' "${@:2}"; else printf '%s\n' "${@:2:$1}"; fi
}
# How many items `portion` is to take if $launch is threads, and if it is mpi, whose processes take longer.
per_launch() { # THREADS MPI
  if [[ $launch == threads ]]; then echo "$1"; else echo "$2"; fi
}
portion_of() { # ALL QUICK
  if [[ -n ${LOCKSTEP_TEST_ALL-} ]]; then echo "$1"; else echo "$2"; fi
}
ended() { [[ $code == "$1" ]]; }
says() { [[ $out == *"$1"* ]]; }
complains() { [[ $err == *"$1"* ]]; }
complains_in_one_line() { [[ -n $err && $err != *$'\n'* ]]; }
says_nothing() { [[ -z $out ]]; }

# Every predicted figure of a lesson's table was observed: no cell reads "predicted / observed".
as_predicted() {
  local rows
  rows=$(grep -E '^  ranks? [0-9]' <<<"$out" | grep -E 'B [=/]') && [[ $rows == *'B ='* && $rows != *' / '* ]]
}

# The last run was refused, as impossible settings are.
is_refused() { # WHAT
  claim "$1 is refused" ended 2
  claim "$1 is refused in one line" complains_in_one_line
  claim "$1 is refused on stderr alone" says_nothing
}
# A command fails with one line if its output is lost.
fails_on_full_stdout() { # WHAT COMMAND...
  # shellcheck disable=SC2016  # expanded by the inner shell
  run bash -c '"$@" >/dev/full' - "${@:2}"
  claim "$1 with a full device as stdout fails" ended 1
  claim "$1 with a full device as stdout: one line says so" complains_in_one_line
  claim "$1 with a full device as stdout: and why" complains "can't write to stdout: "
}
# For scripts with a function `lesson`, which runs a lesson with flags: it refuses these, with a line that has all WORDS.
lesson_refuses() { # FLAGS... -- WORDS...
  local flags=() word
  while [[ $1 != -- ]]; do flags+=("$1"); shift; done
  shift
  lesson "${flags[@]}"
  is_refused "${flags[*]}"
  for word in "$@"; do claim "${flags[*]}: says $word" complains "$word"; done
}

# Prints the losses of reports, one a line.
losses() { perl -MJSON::PP -0777 -e 'printf "%.17g\n", $_ for map { local @ARGV = $_; @{decode_json(<>)->{losses}} } @ARGV' "$@"; }
# Whether two lists of losses differ by at most a relative DIFFERENCE.
are_close() { # DIFFERENCE FILE FILE
  perl -e 'my $most = shift; my @all = map { open my $f, "<", $_; [<$f>] } @ARGV; exit 1 if @{$all[0]} != @{$all[1]};
    for (0 .. $#{$all[0]}) { exit 1 if abs($all[0][$_] / $all[1][$_] - 1) > $most } exit(@{$all[0]} == 0)' "$@"
}

# Waits up to $1 seconds for a command to succeed.
within() {
  local tenths=$(($1 * 10))
  shift
  for ((; tenths > 0; --tenths)); do
    "$@" && return 0
    sleep 0.1
  done
  "$@"
}

# For a run in the background, $run, whose output goes to $scratch.
has_ended() { ! kill -0 "$run" 2>/dev/null; }
# Waits up to a minute for it to end.
await() {
  within 60 has_ended || kill -KILL "$run"
  wait "$run"
  code=$?
  out=$(<"$scratch/out") err=$(<"$scratch/err")
}

conclude() {
  printf '%d passed, %d failed\n' "$passed" "$failed"
  ((failed == 0))
}
