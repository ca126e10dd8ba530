#!/usr/bin/env bash
# Runs under tight limits (ulimit), with closed streams, a full device as stdout, a deleted working directory, or another
# launcher's variables in the environment: they succeed, or end soon with one clear line. Prints "N passed, N failed".
#
#   test_surroundings.sh LESSON RECOMPUTING LAUNCH...    LESSON is a pipeline's, such as lesson_09_1f1b; RECOMPUTING is
#       lesson_14_mixed_precision; LAUNCH is threads or mpi
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
lesson=$(realpath "$1") recomputing=$(realpath "$2")
shift 2
text=$scratch/text
seq 1 2000 >"$text"
flags=("$lesson" --data "$text" --trace none --parity off --steps 2 --timeout 5)

# Runs bash commands, in which "$@" stands for the lesson with its flags.
under() { # COMMANDS FLAGS...
  local commands=$1
  shift
  run bash -c "$commands" - "${flags[@]}" "$@"
}
# OpenMPI's apology if it can't open its own help files, which depends on when a limit strikes.
apology='Sorry!  You were supposed|        orte_|But I couldn.t open the help file|        /.*help-.*\.txt'
is_clear() { # WHAT: the run has failed with one line that begins as every failure does, whose operations may follow
  claim "$1: exit code 1" ended 1
  claim "$1: one line says why" [ "$(grep -c '^the run failed: ' <<<"$err")" = 1 ]
  claim "$1: nothing else is said" [ -z "$(grep -vE "^(the run failed: |the last operations of each rank|  |$apology)" <<<"$err")" ]
}
is_good_or_clear() { if ((code == 0)); then claim "$1: in silence" [ -z "$err" ]; else is_clear "$1"; fi; }

for launch in "$@"; do
  # shellcheck disable=SC2016  # expanded by the inner shell
  for streams in '2>&-' '>&- 2>&-' '<&- >&- 2>&-'; do
    under '"$@" '"$streams" --launch "$launch" --nope
    claim "a wrong flag, with $streams ($launch)" ended 2
    under '"$@" '"$streams" --launch "$launch"
    claim "a good run, with $streams ($launch)" ended 0
  done
  under 'exec "$@" >/dev/full' --launch "$launch"
  claim "a full device as stdout ($launch)" ended 1
  claim "a full device as stdout is named ($launch)" complains "can't write to stdout: No space left on device"
  under 'mkdir gone && cd gone && rmdir ../gone && exec "$@"' --launch "$launch"
  claim "no working directory ($launch)" ended 2
  claim "no working directory: in one line ($launch)" complains_in_one_line
  claim "no working directory: the reason ($launch)" complains 'the working directory'

  # Variables that a shell has kept from a run of mpirun that is over, or some of them.
  leaked=(OMPI_COMM_WORLD_SIZE=7 OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=7 OMPI_COMM_WORLD_LOCAL_RANK=3
    OMPI_MCA_ess_base_jobid=7 OMPI_MCA_ess_base_vpid=3 OMPI_MCA_orte_hnp_uri=7.0\;tcp://127.0.0.1:1)
  pmix=(PMIX_RANK=3 PMIX_NAMESPACE=7 PMIX_SERVER_URI3=7.0\;tcp4://127.0.0.1:1 PMIX_SERVER_TMPDIR="$scratch/none")
  run env "${leaked[@]:0:2}" "${flags[@]}" --launch "$launch" --quiet
  claim "a number and size that leaked ($launch)" ended 0
  run env "${leaked[@]}" "${pmix[@]}" "${flags[@]}" --launch "$launch" --quiet
  claim "an environment that leaked ($launch)" ended 0

  limit=60
  # shellcheck disable=SC2016
  for kilobytes in $(portion 5 400000 100000 200000 300000 350000 150000 250000 450000); do
    under "ulimit -v $kilobytes; exec \"\$@\"" --launch "$launch" --quiet
    [[ $launch == mpi ]] || is_good_or_clear "an address space of $kilobytes kB ($launch)"
    [[ $launch == threads ]] || claim "an address space of $kilobytes kB ($launch): ends" [ "$code" -lt 3 ]
  done
  unset limit
done

# Here oneDNN's memory often ends within a call_once, so that an exception passes through libc.
flags[0]=$recomputing
for kilobytes in 168000 170000 172000 176000 178000 180000; do
  # shellcheck disable=SC2016
  under "ulimit -v $kilobytes; exec \"\$@\"" --launch threads --ranks 4 --quiet
  is_good_or_clear "lesson 14 in $kilobytes kB"
done
flags[0]=$lesson

if [[ " $* " == *' mpi '* ]]; then
  limit=30    # without our own limit, mpirun would hang
  # shellcheck disable=SC2016
  for files in 25 32 40; do
    under "ulimit -n $files; exec \"\$@\"" --launch mpi --quiet
    is_clear "$files open files"
    claim "$files open files: the limit is named" complains "may open $files files (ulimit -n)"
  done
  for blocks in $(portion 2 100 1000 10 3000); do
    for _ in 1 2 3; do
      under "ulimit -f $blocks; exec \"\$@\"" --launch mpi --quiet
      is_clear "files of $blocks kB"
      claim "files of $blocks kB: the limit is named" complains '(ulimit -f)'
    done
  done
  unset limit
fi

# The superuser can read every file, so a user without rights tries.
mkdir "$scratch/closed"
echo '{}' >"$scratch/closed/manifest.json"
cp "$text" "$scratch/closed/model.safetensors"
chmod 755 "$scratch"
chmod 000 "$scratch/closed"
as_nobody=()
((EUID != 0)) || as_nobody=(setpriv --reuid=65534 --regid=65534 --clear-groups)
if "${as_nobody[@]}" test -x "$lesson" 2>/dev/null && ! "${as_nobody[@]}" ls "$scratch/closed" &>/dev/null; then
  for file in closed closed/model.safetensors; do
    run "${as_nobody[@]}" "${flags[@]}" --load "$scratch/$file"
    is_refused "--load $file, which is not readable"
    claim "--load $file, which is not readable: the reason" complains "can't be read: Permission denied"
  done
  run "${as_nobody[@]}" "${flags[@]/#$text/$scratch/closed/model.safetensors}"
  claim '--data that is not readable: the reason' complains "can't be read: Permission denied"
else
  echo 'not tested: files without permission'
fi
ln -s loop.safetensors "$scratch/loop.safetensors"
run "${flags[@]}" --load "$scratch/loop.safetensors"
is_refused '--load of a loop of links'
claim '--load of a loop of links: the reason' complains "can't be read: Too many levels"
chmod 755 "$scratch/closed"
conclude
