# Functions for tests of runs that end badly: source this file with $lesson, a pipeline's program such as
# lesson_09_1f1b, and $in_time, which is empty if no time is asserted.
# shellcheck shell=bash
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
trap 'end_all; rm -rf "$scratch"' EXIT

text=$scratch/text
seq 1 2000 >"$text"
has_mpi=1
"$lesson" --data "$text" --trace none --launch mpi --heads 7 2>&1 | grep -q 'without MPI' && has_mpi=0

# Every process that this test starts has the test's folder in its arguments.
processes() { pgrep -f -- "$scratch/" ; }
nobody() { [[ -z $(processes) ]]; }
end_all() { local all; all=$(processes) && xargs kill -KILL <<<"$all" 2>/dev/null; }

# start NAME FLAGS...: starts a long run in its own session, with its trace in $scratch/NAME;
# returns once each of its 4 ranks has written a good part of it.
start() {
  trace=$scratch/$1
  shift
  out='' err=''
  setsid "$lesson" --data "$text" --trace "$trace" --steps 1000000 --parity off "$@" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
  within 60 all_traces_have 20000
  claim "a run is under way ($*)" all_traces_have 20000
}
all_traces_have() { # BYTES
  local rank
  for rank in 0 1 2 3; do
    [[ $(stat -c %s "$trace/rank$rank.json" 2>/dev/null || echo 0) -ge $1 ]] || return 1
  done
}
# A rank's file is JSON once its bracket is closed; with "whole", it must also contain the end
# event.
is_readable() { # RANK [whole]
  perl -MJSON::PP -0777 -e '
    open F, "<", $ARGV[0] or die; $_ = <F>;
    s/\n[^\n]*\z/\n/ if $ARGV[1] ne "whole";
    s/,\n\z/]/ or die "cut off";
    my $events = decode_json($_);
    die "no end" if $ARGV[1] eq "whole" && $events->[-1]{name} ne "end";
    die "no spans" unless grep { $_->{ph} eq "X" } @$events' "$trace/rank$1.json" "${2-}"
}

# For a run that was cut off: each rank's file and the merge consist of complete lines.
has_whole_lines() {
  perl -e 'for my $file (@ARGV) { open F, "<", $file or next;
      while (<F>) { /^\[\n\z/ || /^\{.*\},\n\z/ or die "$file: $_" } }' "$trace"/*.json
}
# Prints the process id of a rank under mpirun.
rank_process() {
  local process
  for process in $(processes); do
    { tr '\0' '\n' <"/proc/$process/environ"; } 2>/dev/null | grep -x "OMPI_COMM_WORLD_RANK=$1" >/dev/null &&
      echo "$process" && return
  done
}
clock() { date +%s%N; }
is_over_in_time() { # WHAT SINCE
  local took=$((($(clock) - $2) / 1000000))
  echo "$1: over after $took ms"
  [[ $1 != *'3 s of patience' ]] || took=$((took - 3000))
  [[ $1 != *'a rank computes for long'* ]] || took=$((took - 7000))    # the kernel's own time
  [[ -z $in_time ]] || claim "$1: over within 2 s (and 1 s for the machine's load): $took ms" [ $took -le 3000 ]
}
# The run has failed with exit code 1 and blames RANK, once; it reports what every other rank was
# doing, unless (with an empty third argument) the others may not have begun yet.
failed_by() { # WHAT RANK [""]
  claim "$1: rank $2 is named" complains "the run failed: rank $2"
  failed_without_name "$1"
  local rank
  for rank in 0 1 2 3; do
    [[ $rank == "$2" ]] || claim "$1: what rank $rank did" grep -qE "^  rank $rank( on [^ ]+)?:${3-$}" <<<"$err"
  done
}
failed_without_name() { # WHAT
  claim "$1: exit code 1" ended 1
  claim "$1: once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
  claim "$1: nobody stays" within 30 nobody
  claim "$1: lines of traces are whole" has_whole_lines
}

interrupted() { # HOW
  claim "$1: exit code 130" ended 130
  claim "$1: says so, and where the trace is" complains "the trace up to that point is in"
  claim "$1: nobody stays" within 30 nobody
  local rank
  for rank in 0 1 2 3; do claim "$1: rank $rank's trace is whole" is_readable $rank whole; done
}

launches=threads
((has_mpi == 0)) || launches='threads mpi'
