#!/usr/bin/env bash
# Answers that do more than they should (hostile.cpp): each gets the right verdict, no process is left, what reaches the
# terminal is short and has no control characters, and the supervisor stops reading endless output. Prints "N passed,
# N failed".
#
#   test_hostile.sh SUPERVISE PROGRAM LAUNCH...     LAUNCH is threads or mpi
set -uo pipefail
# shellcheck source=tests/command/claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/../command/claims.sh"
supervise=$1 program=$2
shift 2

# What the answer does, the exit code, and what the verdict says; with ranks as processes, "mpi" columns replace these,
# and a dash says why no verdict is expected. The first ones are the quick portion.
kinds='
exit                    4  exit code 0 before the check was over
print_for_ever          4  prints more than 64 MB                      mpi  4  prints more than 64 MB|rank 0: has waited
fork_holds_pipe         0  6 cases are right
allocate_100_gb         4  hostile.cpp:[0-9]*: asks for 100.0 GB
throw_escapes           4  red: \\x1b\[31m, title: \\x1b\]0;a title\\x07
abort                   4  signal 6 \(Aborted\) before the check was over
exit_in_atexit          4  they should return
print_much              0  and 616[0-9]* more lines.*6 cases are right
static_exit             4  exit code 0 before the check began
stack_overflow          4  hostile.cpp:[0-9]*: needs more memory on the stack
_exit                   4  exit code 0 before the check was over
quick_exit              4  exit code 0 before the check was over
exit_in_thread          4  exit code 0 before the check was over
exit_in_destructor      4  they should return
print_escapes           0  \\x1b\[2J\\x1b\]0;a title\\x07\\x9b\[31m\\xc2\\x9b\[31m.*6 cases are right
fork_daemon             0  6 cases are right
close_all               0  6 cases are right                           mpi  4  has not returned|has waited|on rank
loop                    4  has not returned within                     mpi  4  has not returned within|rank 0: has waited
print_one_line_for_ever 4  prints more than 64 MB                      mpi  4  prints more than 64 MB|rank 0: has waited
print_errors_for_ever   4  prints more than 64 MB                      mpi  4  prints more than 64 MB|rank 0: has waited
print_a_verdict         4  they should return
write_everywhere        0  6 cases are right
exit_3                  4  exit code 3 before the check was over
exit_4                  4  exit code 4 before the check was over
exec                    4  exit code 0 before the check was over
pthread_exit            4  calls pthread_exit\(\)
longjmp                 4  signal 6 \(Aborted\) before the check was over
kill                    4  signal 9 \(Killed\) before the check was over
kill_group              4  signal 9 \(Killed\) before the check was over
kill_parent           137  ^$                                          mpi  4  does your answer kill others
terminate_signal        4  signal 15 \(Terminated\) before the check was over
stop                    4  stopped by signal 19 
alarm                   4  signal 14 \(Alarm clock\)
null_pointer            4  hostile.cpp:[0-9]*: uses an address where there is no memory
exit_in_handler         4  exit code 0 before the check was over
ignore_signals          4  has not returned within                     mpi  4  has not returned within|rank 0: has waited
throw_int               4  exception of the type int
throw_text              4  exception of the type char const\*
throw_much              4  a line of outp... \(10[0-9]* more bytes\)
terminate               4  signal 6 \(Aborted\) before the check was over
noexcept                4  through noexcept.*signal 6 \(Aborted\) before the check was over
throw_twice             4  from a destructor.*signal 6 \(Aborted\) before the check was over
throw_in_thread         4  from a thread.*signal 6 \(Aborted\) before the check was over
thread_not_joined       4  signal 6 \(Aborted\) before the check was over
allocate_for_ever       4  more than 2 GB of memory                    mpi  4  more than 2 GB of memory|rank 0: has waited
negative_size           4  rank 1 of 3: .*vector
outside_buffer          4  hostile.cpp:[0-9]*: reads or writes outside a buffer
free_twice              4  hostile.cpp:[0-9]*: frees the same memory twice
overflow_int            4  hostile.cpp:[0-9]*: signed integer overflow
limit_descriptors       0  6 cases are right
limit_file_size         0  6 cases are right
limit_cpu               4  signal 24 \(CPU time limit exceeded\)
fork_and_wait           0  6 cases are right
fork_goes_on            0  6 cases are right                           mpi  -  both copies use the same MPI
fork_prints_for_ever    4  prints more than 64 MB                      mpi  4  prints more than 64 MB|rank 0: has waited
fork_deadlock           4  has not returned within                     mpi  4  has not returned within|rank 0: has waited
fork_many               4  more than 200 processes
session                 0  6 cases are right
threads                 0  6 cases are right
thread_detached         0  6 cases are right
thread_loops            4  has not returned within                     mpi  4  has not returned within|rank 0: has waited
thread_crashes_later    4  signal 6 \(Aborted\) before the check was over
lock_twice              4  has not returned within                     mpi  4  has not returned within|rank 0: has waited
close_output            0  6 cases are right
redirect_output         0  6 cases are right
delete_folder           0  6 cases are right
read_input              0  6 cases are right
static_throw            4  from a static object.*signal 6 \(Aborted\) before the check began
static_loop             4  has not returned within
destructor_aborts       4  All cases are right, but then it was ended by signal 6
destructor_loops        4  All cases are right, but the program has not ended within'

# A busy machine may take long to begin, so a short limit is only for an answer that never ends by itself.
seconds_for() { # KIND
  case $1 in
    loop | *_loop | thread_loops | lock_twice | fork_deadlock | ignore_signals) echo 3 ;;
    destructor_loops) per_launch 10 20 ;;
    *) echo 100 ;;
  esac
}
processes_left() { # VARIABLE=VALUE: the number of processes with this in their environment
  grep -slzxF "$1" /proc/[0-9]*/environ | wc -l
}
# VARIABLE=VALUE: whether the program runs: under the supervisor, or under mpirun and one supervisor per rank.
answers() { (( $(processes_left "$1") >= $(per_launch 2 12) )); }
matches() { [[ $out =~ $1 ]]; }
is_printable() { ! LC_ALL=C grep -q $'[\x01-\x08\x0b-\x1f\x7f]' <<<"$out"; }
# The last read, and the pipe, may add some.
wrote_little() { [[ ! -s $scratch/written ]] || (( $(od -An -tu8 "$scratch/written") <= (64 << 20) + (1 << 20) )); }

for launch in "$@"; do
  tried=0
  while read -r kind code_expected words; do
    other='^(.*[^ ]) +mpi +([-0-9]) +(.*)$'
    if [[ $words =~ $other ]]; then
      words=${BASH_REMATCH[1]}
      [[ $launch == threads ]] || code_expected=${BASH_REMATCH[2]} words=${BASH_REMATCH[3]}
    fi
    [[ $code_expected != - ]] || continue
    mkdir -p "$scratch/folder"
    rm -f "$scratch/written"
    mark=LOCKSTEP_MARK=$$.$launch.$kind
    run env -C "$scratch/folder" "$mark" "LOCKSTEP_HOSTILE=$kind" "LOCKSTEP_WRITTEN=$scratch/written" "$supervise" \
      --source exercises/hostile.cpp --limit "$(seconds_for "$kind")" "$program" --launch "$launch"
    claim "$launch, $kind: exit code $code_expected" ended "$code_expected"
    claim "$launch, $kind: says '$words'" matches "$words"
    claim "$launch, $kind: no process is left" [ "$(processes_left "$mark")" = 0 ]
    claim "$launch, $kind: a short text" [ ${#out} -lt 20000 ]
    claim "$launch, $kind: no control characters" is_printable
    claim "$launch, $kind: endless output is not read to its end" wrote_little
    tried=$((tried + 1))
  done < <(sed '/./!d' <<<"$kinds" | { mapfile -t lines; portion "$(per_launch 15 4)" "${lines[@]}"; })
  printf '%s: %d kinds of answers\n' "$launch" "$tried"

  mark=LOCKSTEP_MARK=$$.$launch.interrupted
  env "$mark" LOCKSTEP_HOSTILE=ignore_signals "$supervise" --source exercises/hostile.cpp --limit 100 "$program" \
    --launch "$launch" >"$scratch/out" 2>"$scratch/err" &
  run=$!
  within 60 answers "$mark"
  kill -TERM "$run"
  await
  claim "$launch: an interruption ends the check" ended 130
  claim "$launch: an interruption leaves no process" [ "$(processes_left "$mark")" = 0 ]
done
conclude
