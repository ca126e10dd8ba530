#!/usr/bin/env bash
# Runs that are interrupted, and ranks that are killed. The exit code shows which; the message names the
# rank and what the others were doing; the trace so far is kept and readable; and no process remains.
# Prints "N passed, N failed".
#
#   test_endings.sh LESSON [--in-time]    LESSON is a pipeline's, such as lesson_09_1f1b
#
# A run must end within 2 s of a rank's failure. Only --in-time asserts this, with 1 s more for
# starting processes and for the machine's load; otherwise only a run that takes a minute counts as
# hung.
set -uo pipefail
lesson=$(realpath "$1") in_time=${2-}
# shellcheck source=endings.sh
source "$(dirname "${BASH_SOURCE[0]}")/endings.sh"

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
    for delay in $(portion 2 0 0.1 0.02); do
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

if ((has_mpi == 1)); then
  # Killed at any moment from the very start, with more ranks than cores.
  seed=${LOCKSTEP_TEST_SEED-$((RANDOM * 32768 + RANDOM))}
  echo "moments and ranks are of LOCKSTEP_TEST_SEED=$seed"
  RANDOM=$((seed % 32768))
  rank_is_there() { victim_process=$(rank_process "$1") && [[ -n $victim_process ]]; }
  burners=()
  rounds=$(portion_of 6 2)    # the second half on a busy machine
  for ((round = 1; round <= rounds; ++round)); do
    if ((round == rounds / 2 + 1)); then
      for _ in 1 2; do
        (while :; do :; done) &
        burners+=($!)
      done
    fi
    victim=$((RANDOM % 4)) moment=$((round % 2 ? RANDOM % 40 : RANDOM % 800))
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
  done
  start "busy" --launch mpi
  kill -TERM "$run"
  await
  interrupted 'SIGTERM on a busy machine'
  kill "${burners[@]}"
  wait "${burners[@]}" 2>/dev/null
fi

conclude
