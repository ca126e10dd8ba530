#!/usr/bin/env bash
# Runs under mpirun in which a process is stopped (SIGSTOP) or mpirun is killed. --timeout applies from the start of a
# run to its end: the run must fail with exit code 1, name the process, and leave no process behind. Also checks that a
# run on one host listens only on the loopback interface. Prints "N passed, N failed".
#
#   test_stops.sh FAILING      FAILING is tests/command/failing
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
failing=$(realpath "$1")
trap 'end_all; rm -rf "$scratch"' EXIT
text=$scratch/text
seq 1 2000 >"$text"

# Every process that this test starts has the test's folder in its arguments.
processes() { pgrep -f -- "$scratch/" ; }
nobody() { [[ -z $(processes) ]]; }
end_all() { local all; all=$(processes) && xargs kill -KILL <<<"$all" 2>/dev/null; }

begin() { # FLAGS...: starts a run under mpirun in the background
  setsid "$failing" --data "$text" --trace "$scratch/trace" --quiet --launch mpi --timeout "${timeout:-1}" "$@" \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
}
fails_with() { # WHAT REASON: the run has failed for this reason, and says so once
  await
  claim "$1: exit code 1" ended 1
  claim "$1: the reason" grep -qE "^the run failed: $2" <<<"$err"
  claim "$1: once" [ "$(grep -c 'the run failed' <<<"$err")" = 1 ]
  claim "$1: nobody stays" within 30 nobody
}

stopped='rank 2 on [^ ]+: its process \([0-9]+\) has been stopped for [01]\.[0-9] s'
begin --how stop-first
fails_with 'a rank is stopped before MPI starts' "$stopped"
begin --how stop-last --steps 2
fails_with 'a rank is stopped before its results are gathered' "$stopped"
begin --how stop-after --steps 2
fails_with 'a rank is stopped after MPI has ended' "$stopped"
# The other ranks wait for one another, but only rank 2 is at fault.
begin --how stop
fails_with 'a rank is stopped in training' "$stopped"
for rank in 0 1 2 3; do
  claim "a rank is stopped in training: what rank $rank did" grep -qE "^  rank $rank on [^ ]+:\$" <<<"$err"
done

# With --pace, ranks sleep on purpose, but the time-out still applies.
begin --how stop --pace 1
fails_with 'a rank is stopped in a paced run' "$stopped"

# The others wait for a rank that computes, but most of the time all of them are stopped, which is nothing to report.
in_kernel() { grep -q 'the kernel begins' "$scratch/out"; }
timeout=3 begin --how kernel --seconds 6 --steps 6
claim 'a run is stopped while a rank computes: it computes' within 60 in_kernel
processes | xargs kill -STOP
sleep 4.5
processes | xargs kill -CONT
await
claim 'a run is stopped while a rank computes: exit code 0' ended 0
claim 'a run is stopped while a rank computes: nothing is said' [ -z "$err" ]

mpirun() { mpirun=$(pgrep -P "$run" "mpirun|prterun"); }  # as OpenMPI 5 calls it
trains() { [[ -s $scratch/trace/rank3.json ]]; }
for signal in KILL STOP; do
  rm -rf "$scratch/trace"
  begin --how not
  within 60 trains
  claim "mpirun exists" mpirun
  if [[ $signal == KILL ]]; then
    # Processes of the run may listen on the loopback interface only.
    inodes=" $(for process in $(processes); do
      find "/proc/$process/fd" -lname 'socket:*' -printf '%l\n' 2>/dev/null
    done | tr -dc '0-9\n' | sort -u | tr '\n' ' ')"
    listening=$(awk -v inodes="$inodes" '$4 == "0A" && index(inodes, " " $10 " ") {print $2}' /proc/net/tcp /proc/net/tcp6)
    out=$listening
    claim 'a run listens on the loopback interface only' [ -z "$(grep -vE '^(0100007F|0{24}01000000):' <<<"$listening" | tr -d '\n')" ]
  fi
  kill -$signal "$mpirun"
  [[ $signal == KILL ]] && reason='mpirun was killed by signal 9' || reason='mpirun \(process [0-9]+\) has been stopped for [0-9.]+ s'
  fails_with "mpirun gets SIG$signal" "$reason"
done

run "$failing" --data "$text" --trace "$scratch/trace" --launch mpi --hosts "-oProxyCommand=touch $scratch/touched:4"
claim 'an option in place of a host is refused: exit code 2' ended 2
claim 'an option in place of a host is refused in one line' complains_in_one_line
claim 'it is not executed' [ ! -e "$scratch/touched" ]
# Stands in for an mpirun that ends without a word, which happens if a rank is killed while it starts.
mkdir "$scratch/bin"
printf '#!/bin/sh\nexit 137\n' >"$scratch/bin/mpirun"
chmod +x "$scratch/bin/mpirun"
PATH=$scratch/bin:$PATH begin
fails_with 'mpirun says nothing' 'mpirun ended with exit code 137: a rank was killed by signal 9'

conclude
