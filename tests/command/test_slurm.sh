#!/usr/bin/env bash
# The batch script for Slurm, with a fake srun: the program accepts the script's flags, and the
# script reports errors. The flags for srun itself remain untested.
#
#   test_slurm.sh LESSON_BINARY
set -uo pipefail
# shellcheck source=claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/claims.sh"
script=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")/../../lessons/slurm.sbatch")
lesson=$(readlink -f "$1")

# A checkout with one lesson, and a fake srun that starts two ranks itself.
checkout=$scratch/checkout
mkdir -p "$checkout/build/release/lessons" "$scratch/bin"
ln -s "$lesson" "$checkout/build/release/lessons/"
seq 1 2000 >"$scratch/text"
cat >"$scratch/bin/srun" <<'END'
#!/usr/bin/env bash
flags=()
while [[ ${1-} == --* ]]; do flags+=("$1"); shift; done
echo "srun ${flags[*]}"
exec mpirun -n 2 --oversubscribe --allow-run-as-root --bind-to none "$@"
END
chmod +x "$scratch/bin/srun"
export PATH=$scratch/bin:$PATH SLURM_SUBMIT_DIR=$checkout SLURM_JOB_ID=7 SLURM_CPUS_PER_TASK=3

name=${lesson##*/lesson_}
DEVICE=cpu run "$script" "$name" --steps 2 --layers 2 --data "$scratch/text"
claim "two ranks train" ended 0
claim "srun starts them through PMIx" says "--mpi=pmix"
claim "srun is told of the cores" says "--cpus-per-task=3"
claim "it says where the traces are" says "traces: $checkout/runs/slurm-7"
claim "every rank's trace is there" test -s "$checkout/runs/slurm-7/rank1.json"

run "$script" 99_none
claim "a lesson that is not built is refused" ended 2
claim "it is named" complains lesson_99_none
claim "no rank is started" says_nothing
conclude
