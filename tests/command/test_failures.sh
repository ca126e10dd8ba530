#!/usr/bin/env bash
# Ranks that throw, stall, leave or crash, whatever the others are doing. The exit code shows which; the
# message names the rank and what the others were doing; the trace so far is kept; and no process remains.
# Prints "N passed, N failed".
#
#   test_failures.sh LESSON FAILING [--in-time]    LESSON is a pipeline's, such as lesson_09_1f1b;
#                                                  FAILING is tests/command/failing
#
# --in-time asserts the same as in test_endings.sh.
set -uo pipefail
lesson=$(realpath "$1") failing=$(realpath "$2") in_time=${3-}
# shellcheck source=endings.sh
source "$(dirname "${BASH_SOURCE[0]}")/endings.sh"

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
