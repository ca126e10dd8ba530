#!/usr/bin/env bash
# How runs end that do not end well: interrupted, or with a rank that is killed. The exit code says
# which, the trace up to then is kept and readable, and no process stays. Prints "N passed, N failed".
#
#   test_endings.sh LESSON      LESSON is that of a pipeline, such as lesson_09_1f1b
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$1
trap 'end_all; rm -rf "$scratch"' EXIT

text=$scratch/text
seq 1 2000 >"$text"
has_mpi=1
"$lesson" --data "$text" --trace none --launch mpi --heads 7 2>&1 | grep -q 'without MPI' && has_mpi=0

# Every process that this test has started has its folder in its arguments.
processes() { pgrep -f -- "$scratch/" ; }
nobody() { [[ -z $(processes) ]]; }
end_all() { local all; all=$(processes) && xargs kill -KILL <<<"$all" 2>/dev/null; }

# start NAME FLAGS...: a long run in a session of its own, with the trace in $scratch/NAME; returns
# when each of its 4 ranks has written a good part of it.
start() {
  trace=$scratch/$1
  shift
  out='' err=''
  setsid "$lesson" --data "$text" --trace "$trace" --steps 1000000 --parity off "$@" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
  within 20 all_traces_have 20000
  claim "a run is under way ($*)" all_traces_have 20000
}
all_traces_have() { # BYTES
  local rank
  for rank in 0 1 2 3; do
    [[ $(stat -c %s "$trace/rank$rank.json" 2>/dev/null || echo 0) -ge $1 ]] || return 1
  done
}
has_ended() { ! kill -0 "$run" 2>/dev/null; }
# The run's end, which must come within 10 seconds.
await() {
  within 10 has_ended || kill -KILL "$run"
  wait "$run"
  code=$?
  out=$(<"$scratch/out") err=$(<"$scratch/err")
}
# The rank's file is JSON once its bracket is closed; with "whole", up to the event that ends it.
is_readable() { # RANK [whole]
  perl -MJSON::PP -0777 -e '
    open F, "<", $ARGV[0] or die; $_ = <F>;
    s/\n[^\n]*\z/\n/ if $ARGV[1] ne "whole";
    s/,\n\z/]/ or die "cut off";
    my $events = decode_json($_);
    die "no end" if $ARGV[1] eq "whole" && $events->[-1]{name} ne "end";
    die "no spans" unless grep { $_->{ph} eq "X" } @$events' "$trace/rank$1.json" "${2-}"
}

interrupted() { # HOW
  claim "$1: exit code 130" ended 130
  claim "$1: says so, and where the trace is" complains "the trace up to then is in"
  claim "$1: nobody stays" within 2 nobody
  local rank
  for rank in 0 1 2 3; do claim "$1: rank $rank's trace is whole" is_readable $rank whole; done
}

launches=threads
((has_mpi == 0)) || launches='threads mpi'
for launch in $launches; do
  start "term-$launch" --launch "$launch"
  kill -TERM "$run"
  await
  interrupted "SIGTERM under $launch"

  start "int-$launch" --launch "$launch"
  kill -INT -- "-$run"    # as Ctrl-C does: to the whole group
  await
  interrupted "Ctrl-C under $launch"
done

if ((has_mpi == 1)); then
  for victim in 2 0; do
    start "kill-$victim" --launch mpi
    for process in $(processes); do
      if tr '\0' '\n' <"/proc/$process/environ" 2>/dev/null | grep -qx "OMPI_COMM_WORLD_RANK=$victim"; then
        kill -KILL "$process"
      fi
    done
    await
    claim "rank $victim killed: exit code 1" ended 1
    claim "rank $victim killed: it is named" complains "rank $victim "
    claim "rank $victim killed: by the signal" complains "signal 9"
    # Beside it there may be words of MPI's own, from ranks that were reading of it.
    claim "rank $victim killed: once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
    claim "rank $victim killed: where the trace is" complains "the trace up to then is in"
    claim "rank $victim killed: nobody stays" within 2 nobody
    for rank in 0 1 2 3; do
      claim "rank $victim killed: rank $rank's trace is readable" is_readable $rank
    done
  done
fi

if ((has_mpi == 1)); then
  start lost --launch mpi
  kill -KILL "$run"
  await 2>/dev/null
  claim 'mpirun and its ranks end with the process that started them' within 5 nobody
  for rank in 0 1 2 3; do claim "and rank $rank's trace is readable" is_readable $rank; done
fi

# Two runs of one second get two folders. They lie in the project's runs/, and are taken away again.
runs=''
for _ in 1 2 3 4 5 6; do
  for i in 1 2; do
    (cd "$scratch" && "$lesson" --data "$text" --steps 1 --compare 0 --parity off --report "$scratch/$i.json") \
      >"$scratch/out$i" 2>"$scratch/err$i" </dev/null &
    eval "process$i=$!"
  done
  # shellcheck disable=SC2154  # set by eval
  wait "$process1"; code1=$?
  # shellcheck disable=SC2154
  wait "$process2"; code2=$?
  folders=()
  for i in 1 2; do
    folder=$(sed -n 's|^trace: \(.*\)/trace.json.*|\1|p' "$scratch/out$i")
    folders+=("$(cd "$scratch" && cd "$folder" && pwd)")
  done
  code=$code1$code2 out=${folders[*]} err=$(cat "$scratch"/err[12])
  claim 'two runs at once end well' ended 00
  claim 'two runs at once have two folders' [ "${folders[0]}" != "${folders[1]}" ]
  for folder in "${folders[@]}"; do
    claim 'each is whole' test -s "$folder/trace.json" -a -s "$folder/report.json"
    runs=$(dirname "$folder")
    [[ $runs == */runs ]] && rm -rf "$folder"
  done
  [[ ${folders[0]##*/} == "${folders[1]##*/}"-* || ${folders[1]##*/} == "${folders[0]##*/}"-* ]] && break
done
claim 'they were of the same second' [ -n "$(grep -E -- '-09-2( |$)' <<<"$out")" ]
if [[ -L $runs/latest && ! -e $runs/latest ]]; then # pointed to what has been taken away
  rm "$runs/latest"
  newest=$(find "$runs" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort | tail -n 1)
  [[ -z $newest ]] || ln -s "$newest" "$runs/latest"
fi

conclude
