#!/usr/bin/env bash
# Runs that end badly: interrupted, or with a rank that is killed, throws or stalls. The exit code
# shows which; the message names the rank and what the others were doing; the trace so far is kept
# and readable; and no process remains. Prints "N passed, N failed".
#
#   test_endings.sh LESSON FAILING [--in-time]    LESSON is a pipeline's, such as lesson_09_1f1b;
#                                                 FAILING is tests/command/failing
#
# A run must end within 2 s of a rank's failure. Only --in-time asserts this, with 1 s more for
# starting processes and for the machine's load; otherwise only a run that takes a minute counts as
# hung.
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$(realpath "$1") failing=$(realpath "$2") in_time=${3-}
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
  claim "$1: exit code 1" ended 1
  claim "$1: rank $2 is named" complains "the run failed: rank $2"
  claim "$1: once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
  local rank
  for rank in 0 1 2 3; do
    [[ $rank == "$2" ]] || claim "$1: what rank $rank did" grep -qE "^  rank $rank( on [^ ]+)?:${3-$}" <<<"$err"
  done
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
      if { tr '\0' '\n' <"/proc/$process/environ"; } 2>/dev/null | grep -x "OMPI_COMM_WORLD_RANK=$victim" >/dev/null; then
        kill -KILL "$process"
      fi
    done
    await
    claim "rank $victim killed: exit code 1" ended 1
    claim "rank $victim killed: it is named" complains "rank $victim "
    claim "rank $victim killed: by the signal" complains "signal 9"
    # Ranks that were reading from it may cause messages from MPI itself too.
    claim "rank $victim killed: once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
    claim "rank $victim killed: where the trace is" complains "the trace up to that point is in"
    claim "rank $victim killed: nobody stays" within 30 nobody
    for rank in 0 1 2 3; do
      claim "rank $victim killed: rank $rank's trace is readable" is_readable $rank
    done
  done
fi

if ((has_mpi == 1)); then
  start lost --launch mpi
  kill -KILL "$run"
  await 2>/dev/null
  claim 'mpirun and its ranks end with the process that started them' within 30 nobody
  for rank in 0 1 2 3; do claim "and rank $rank's trace is readable" is_readable $rank; done
fi

# A run that is interrupted as soon as it catches signals, while it is still reading the text (before that, the system
# handles signals), also exits with 130, however many ranks exist by then.
catches() { # SIGNAL
  local mask
  [[ /proc/$run/exe -ef $lesson ]] || return
  mask=$(sed -n 's/^SigCgt:\s*//p' "/proc/$run/status" 2>/dev/null)
  ((0x0${mask: -8} & 1 << ($1 - 1)))
}
seq 1 8000000 >"$scratch/long"
for launch in $launches; do
  for signal in 2 15; do
    for delay in 0 0.02 0.1; do
      trace=$scratch/early
      data=$text
      [[ $delay != 0 ]] || data=$scratch/long
      setsid "$lesson" --data "$data" --trace "$trace" --steps 1000000 --parity off --launch "$launch" \
        >"$scratch/out" 2>"$scratch/err" </dev/null &
      run=$!
      for ((tries = 0; tries < 30000; ++tries)); do if catches $signal; then break; fi; sleep 0.002; done
      sleep $delay
      kill -$signal "$run"
      await
      claim "signal $signal at the start under $launch, $delay s in: exit code 130" ended 130
      claim "signal $signal at the start under $launch, $delay s in: nobody stays" within 30 nobody
    done
  done
done

# A rank that throws, whatever the others are doing.
fails() { # WHAT FLAGS...
  local what=$1 begin
  trace=$scratch/fails
  begin=$(clock)
  shift
  run "$failing" --data "$text" --trace "$trace" --quiet "$@"
  is_over_in_time "$what" "$begin"
}
computes='^rank 2 has been computing forward \(long\) for [0-9.]+ s; the others wait for it$'
notices_are_apart() { # SECONDS
  perl -e 'my $least = shift; my $last = 0;
    for (grep { /computing/ } split /\n/, shift) { /for ([\d.]+) s/ or exit 1;
      exit 1 if $1 - $last < $least; $last = $1 }' "$1" "$err"
}
for launch in $launches; do
  for others in wait sleep compute; do
    fails "a rank throws under $launch, others $others" --launch "$launch" --others $others --how throw
    failed_by "a rank throws under $launch, others $others" 2
    claim "a rank throws under $launch, others $others: what" complains 'its own words'
    claim "a rank throws under $launch, others $others: where the trace is" complains 'the trace up to that point is in'
    claim "a rank throws under $launch, others $others: it is merged" test -s "$trace/trace.json"
  done
  # The first rank that has waited for --timeout reports a stalled rank.
  for how in sleep compute; do
    what="a rank stalls under $launch ($how)"
    fails "$what, after 3 s of patience" --launch "$launch" --how $how --timeout 3
    claim "$what: exit code 1" ended 1
    claim "$what: by whom it is given up" grep -qE '(has waited 3 s for rank 2|rank 2 has stalled: .* 3 s)' <<<"$err"
    claim "$what: told once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
    for rank in 0 1 2 3; do
      claim "$what: what rank $rank did" grep -qE "^  rank $rank( on [^ ]+)?:\$" <<<"$err"
    done
    claim "$what: nobody stays" within 30 nobody
    claim "$what: lines of traces are whole" has_whole_lines
  done
  # A rank that computes keeps the others waiting, but has not stalled.
  what="a rank computes for long under $launch"
  fails "$what" --launch "$launch" --how kernel --seconds 7 --timeout 2 --steps 6
  claim "$what: good" ended 0
  claim "$what: says so" grep -qE "$computes" <<<"$err"
  claim "$what: once in 2 s at most" notices_are_apart 1.7
  fails "a rank refuses under $launch" --launch "$launch" --how refuse
  claim "a rank refuses under $launch: exit code 2" ended 2
  claim "a rank refuses under $launch: in its own words alone" [ "$err" = 'its own refusal' ]
done
if ((has_mpi == 1)); then
  fails 'a rank leaves' --launch mpi --how exit
  failed_by 'a rank leaves' 2
  claim 'a rank leaves: with what' complains 'exit code 1'
  fails 'a rank crashes' --launch mpi --how crash
  failed_by 'a rank crashes' 2
  claim 'a rank crashes: by what' complains 'signal 11'
  fails 'rank 0 throws' --launch mpi --how throw --victim 0
  failed_by 'rank 0 throws' 0

  # Without our wrapper, each rank prints its own report.
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  run mpirun --oversubscribe -n 4 "$failing" --data "$text" --trace "$scratch/direct" --quiet --how throw
  claim 'a rank throws under mpirun alone: exit code 1' ended 1
  claim 'a rank throws under mpirun alone: it is named' grep -q '^the run failed: rank 2 on .*: its own words' <<<"$err"
  for rank in 0 1 2 3; do
    claim "a rank throws under mpirun alone: rank $rank says what it did" \
      grep -qE "the last operations of rank $rank on [^ ]+ when the run ended:" <<<"$err"
  done
  claim 'a rank throws under mpirun alone: nobody stays' within 30 nobody

  # A process that is stopped inside a kernel no longer answers that it is computing.
  trace=$scratch/stopped
  setsid "$failing" --data "$text" --trace "$trace" --quiet --launch mpi --how kernel --seconds 1000 --timeout 2 \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
  says_that_it_computes() { grep -qE "$computes" "$scratch/err"; }
  claim 'a rank computes, and says so' within 60 says_that_it_computes
  kill -STOP "$(rank_process 2)"
  await
  claim 'a rank is stopped in a kernel: exit code 1' ended 1
  claim 'a rank is stopped in a kernel: it is named' grep -qE '^the run failed: rank 2 on [^ ]+: its process .* has been stopped' <<<"$err"
  claim 'a rank is stopped in a kernel: nobody stays' within 30 nobody

  # Killed at any moment from the very start, with more ranks than cores.
  seed=${LOCKSTEP_TEST_SEED-$((RANDOM * 32768 + RANDOM))}
  echo "moments and ranks are of LOCKSTEP_TEST_SEED=$seed"
  RANDOM=$((seed % 32768))
  rank_is_there() { victim_process=$(rank_process "$1") && [[ -n $victim_process ]]; }
  burners=()
  for round in 1 2 3 4 5 6; do
    if ((round == 4)); then
      for _ in 1 2; do
        (while :; do :; done) &
        burners+=($!)
      done
    fi
    victim=$((RANDOM % 4)) moment=$((RANDOM % 800))
    what="rank $victim killed $moment ms in${burners[0]+, on a busy machine}"
    trace=$scratch/killed
    rm -rf "$trace"
    setsid "$lesson" --data "$text" --trace "$trace" --steps 1000000 --parity off --launch mpi \
      >"$scratch/out" 2>"$scratch/err" </dev/null &
    run=$!
    victim_process=''
    within 60 rank_is_there $victim
    sleep "$(printf '0.%03d' $moment)"
    begin=$(clock)
    kill -KILL "$victim_process"
    await
    is_over_in_time "$what" "$begin"
    failed_by "$what" $victim ""
    claim "$what: by the signal" complains 'signal 9'
  done
  start "busy" --launch mpi
  kill -TERM "$run"
  await
  interrupted 'SIGTERM on a busy machine'
  kill "${burners[@]}"
  wait "${burners[@]}" 2>/dev/null
fi

# Two runs in the same second get two folders. They are in the project's runs/, and the test deletes
# them.
runs=''
for _ in {1..40}; do
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
if [[ -L $runs/latest && ! -e $runs/latest ]]; then # it pointed to a deleted run
  rm "$runs/latest"
  newest=$(find "$runs" -mindepth 1 -maxdepth 1 -type d -printf '%f\n' | sort | tail -n 1)
  [[ -z $newest ]] || ln -s "$newest" "$runs/latest"
fi

conclude
