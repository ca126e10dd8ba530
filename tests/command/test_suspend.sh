#!/usr/bin/env bash
# Runs that are stopped and continue, as by Ctrl-Z and fg or by Slurm's suspend and resume: they end as if nothing had
# happened, even if they were stopped for longer than --timeout. Prints "N passed, N failed".
#
#   test_suspend.sh LESSON LAUNCH...    LESSON is a pipeline's, such as lesson_09_1f1b; LAUNCH is threads or mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$(realpath "$1")
shift
trap 'end_all; rm -rf "$scratch"' EXIT
text=$scratch/text
seq 1 2000 >"$text"
flags=(--data "$text" --quiet --parity off --steps 200 --layers 4 --hidden 16 --sequence 16 --timeout 2)
set -m    # a run in the background gets a process group of its own, which a shell can stop

# Every process that this test starts has the test's folder in its arguments.
processes() { pgrep -f -- "$scratch/" ; }
nobody() { [[ -z $(processes) ]]; }
end_all() { local all; all=$(processes) && xargs kill -KILL <<<"$all" 2>/dev/null; }
trains() { [[ $(stat -c %s "$scratch/trace/rank3.json" 2>/dev/null || echo 0) -gt 20000 ]]; }
all_stopped() { # LAUNCH: the process that was started and, under mpi, its four ranks; mpirun itself handles SIGTSTP
  local process stopped=0
  for process in $(processes); do
    [[ /proc/$process/exe -ef $lesson && $(sed 's/.*) //' "/proc/$process/stat" 2>/dev/null) == T* ]] || continue
    stopped=$((stopped + 1))
  done
  [[ $1 == threads && $stopped == 1 || $1 == mpi && $stopped == 5 ]]
}
send() { # SIGNAL
  case $whom in
    group) kill "-$1" -- "-$run" ;;
    everyone) processes | xargs kill "-$1" ;;
    mpirun) pkill "-$1" -P "$run" 'mpirun|prterun' ;;
  esac
}

suspend() { # SIGNALS WHOM SECONDS LAUNCH CLOCK
  local signals=$1 signal whom=$2 what="$1 to $2 ($4, $5)"
  rm -rf "$scratch/trace" "$scratch/report.json"
  "$lesson" "${flags[@]}" --launch "$4" --clock "$5" --trace "$scratch/trace" --report "$scratch/report.json" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
  claim "$what: a run is under way" within 60 trains
  for signal in $signals; do send "$signal"; done
  [[ $whom == mpirun || $signals-$whom == STOP-group ]] || claim "$what: all ranks stop" within 30 all_stopped "$4"
  sleep "$3"
  claim "$what: the run has not ended" kill -0 "$run"
  send CONT
  await 2>/dev/null
  claim "$what: exit code 0" ended 0
  claim "$what: nothing is said" [ -z "$err" ]
  claim "$what: the same losses" [ "$(losses "$scratch/report.json")" == "$(losses "$scratch/good-$5.json")" ]
  claim "$what: nobody stays" within 30 nobody
}

for clock in wall modelled; do
  run "$lesson" "${flags[@]}" --clock $clock --trace none --report "$scratch/good-$clock.json"
  claim "a run is good ($clock)" ended 0
  for launch in "$@"; do
    suspend STOP group 5 "$launch" $clock    # under mpi, each process has a group of its own
    if [[ $launch == mpi ]]; then
      suspend STOP everyone 5 mpi $clock
      suspend STOP mpirun 1 mpi $clock
    fi
    suspend TSTP group 4 "$launch" $clock             # Ctrl-Z
    suspend 'TSTP STOP' everyone 4 "$launch" $clock   # Slurm
  done
done
conclude
