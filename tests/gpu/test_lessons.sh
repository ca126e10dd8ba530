#!/usr/bin/env bash
# Runs whole lessons with --device cuda on the emulator: checks which devices and libraries they use, that
# parity holds as on the CPU, and how runs end. Prints "N passed, N failed".
#
#   test_lessons.sh LESSONS FAILING LIBRARY    LESSONS is the folder of the lessons' programs; FAILING is
#                                              tests/command/failing; LIBRARY is lockstep_cuda_emulated
set -uo pipefail
# shellcheck source=../command/claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/../command/claims.sh"
lessons=$(realpath "$1") failing=$(realpath "$2")
LOCKSTEP_GPU_LIBRARY=$(realpath "$3")
# Calls wait for connections, as with NCCL, and cuBLASLt loads its kernels late.
export LOCKSTEP_GPU_LIBRARY LOCKSTEP_EMULATED_NCCL_CONNECTS=1 LOCKSTEP_EMULATED_LOADING=1

seq 1 2000 >"$scratch/text"
# Small models, because the emulator is about a thousand times slower than a GPU.
small=(--data "$scratch/text" --trace "$scratch/run" --device cuda --steps 3 --hidden 16 --heads 2
  --sequence 8)
lesson() { # NAME LAYERS FLAGS...: runs it with "${small[@]}"; sets $out, $err and $code
  local program=("$lessons"/lesson_"$1"_*) layers=$2
  shift 2
  # The emulator's GPUs belong to one process, so --launch auto does not do.
  [[ " $* " == *' --launch '* ]] || set -- "$@" --launch threads
  rm -rf "$scratch/run"
  # A longer limit than that of `run`, because two cores may be busy with other tests.
  timeout -k 2 100 "${program[0]}" "${small[@]}" --detail full --layers "$layers" "$@" >"$scratch/out" 2>"$scratch/err" </dev/null
  code=$?
  out=$(<"$scratch/out") err=$(<"$scratch/err")
}
gpus() { export LOCKSTEP_EMULATED_GPUS=$1; }
has_mpi=1
[[ $("$lessons"/lesson_09_1f1b --launch mpi --heads 7 2>&1) != *'without MPI'* ]] || has_mpi=0
launches=threads
((has_mpi == 0)) || launches='threads mpi'

gpus 1
for launch in $launches; do
  lesson 09 2 --launch "$launch" --ranks 2 --microbatches 2 --batch 4
  claim "1F1B, ranks share a GPU, $launch: good" ended 0
  claim "1F1B, ranks share a GPU, $launch: every bit is that of one GPU" says 'bitwise equal'
  claim "1F1B, ranks share a GPU, $launch: says so" says '2 ranks share 1 GPU'
  claim "1F1B, ranks share a GPU, $launch: on the modelled clock" says 'modelled clock'
  claim "the GPU's own account, $launch" says "ranks' tensors"
done
claim 'processes say how messages go' says 'pinned memory'

# A Llama: RMSNorm, rotary positions, SwiGLU and grouped heads, divided by tp; its experts; packed documents.
lesson 06 2 --model llama --ranks 2
claim 'a Llama in tensor parallel: good' ended 0
lesson 12 1 --model llama --ranks 2 --experts 4 --batch 4
claim 'experts of a Llama: good' ended 0
for method in ring gather; do
  lesson 13 1 --model llama --ranks 2 --documents 4 --layout balanced --method "$method"
  claim "packed documents, $method: good" ended 0
done

# On the wall clock, ranks that share a GPU have the GPU's own timeline.
for launch in $launches; do
  lesson 09 2 --launch "$launch" --ranks 2 --microbatches 2 --batch 4 --clock wall
  claim "1F1B, ranks share a GPU, wall clock, $launch: good" ended 0
  claim "1F1B, ranks share a GPU, wall clock, $launch: every bit" says 'bitwise equal'
  claim "1F1B, ranks share a GPU, wall clock, $launch: spans are the GPU's" says "spans use the GPU's clock"
done
# Processes that share a GPU use NCCL if each has its own NCCL_HOSTID. (The emulator's NCCL then refuses, because it
# joins only threads.)
if ((has_mpi)); then
  export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
  # shellcheck disable=SC2016  # the variable is mpirun's
  run mpirun --oversubscribe -n 2 bash -c 'NCCL_HOSTID=host-$OMPI_COMM_WORLD_RANK exec "$@"' rank \
    "$lessons"/lesson_09_1f1b "${small[@]}" --launch mpi --layers 2 --ranks 2 --microbatches 2 --batch 4 --clock wall
  claim 'processes with their own NCCL_HOSTID use NCCL' complains "the emulator's communicators join threads"
fi

gpus 4
for name in $(portion 5 02 05 07 12 13 03 04 06); do
  lesson "$name" 2 --ranks 2 --batch 4 --microbatches 1
  claim "lesson $name by NCCL: good" ended 0
  claim "lesson $name by NCCL: says so" says 'messages and collectives use NCCL'
  claim "lesson $name by NCCL: on the wall clock" says 'wall clock: each of 2 ranks has its own GPU'
  claim "lesson $name: spans are the GPU's" says "spans use the GPU's clock"
done
for name in $(portion 2 05 12 07 02 03 04 06 13); do
  lesson "$name" 2 --ranks 2 --batch 4 --microbatches 1 --comm ring
  claim "lesson $name by our rings over NCCL: good" ended 0
done
if ((has_mpi == 1)); then
  lesson 09 2 --launch auto --ranks 2 --microbatches 2 --batch 4
  claim 'ranks with a GPU each are processes unless the user wants threads' complains 'join threads of one process'
fi
lesson 09 4 --ranks 4 --microbatches 4 --batch 4 --verbose
claim '1F1B by NCCL: good' ended 0
claim '1F1B by NCCL: every bit is that of one GPU' says 'bitwise equal'
claim '1F1B by NCCL: the table of places' grep -qE '^ +3 +[^ ]+ +3 ' <<<"$out"
claim '1F1B by NCCL: streams of a rank' says "CUDA streams of each rank, without NCCL's own: 6, 8, 8, 6"
claim '1F1B by NCCL: the communicators are counted' says "NCCL's communicators: 6 on the rank that has most"
claim 'a trace of GPUs has messages' grep -q '"name":"recv"' "$scratch/run/trace.json"
lesson 08 3 --ranks 3 --microbatches 2 --batch 4 --clock modelled
claim 'GPipe on three GPUs, on the modelled clock: good' ended 0
claim 'GPipe on three GPUs: every bit' says 'bitwise equal'
lesson 10 4 --ranks 2 --microbatches 3 --batch 3
claim 'chunks by NCCL: good' ended 0
claim 'chunks by NCCL: every bit is that of one GPU' says 'bitwise equal'
lesson 11 4 --ranks 2 --microbatches 4 --batch 4 --schedule dualpipe-v
claim 'joint actions by NCCL: good' ended 0
claim 'joint actions by NCCL: every bit is that of one GPU' says 'bitwise equal'
# A sweep over three schedules, each of which uses the connections of the one before.
lesson 11 4 --ranks 4 --microbatches 4 --batch 4 --parity off --verbose --schedule 1f1b,zb-h1,zb-h2
claim 'a sweep over schedules by NCCL: good' ended 0
claim 'a sweep over schedules by NCCL: streams of a rank' says "without NCCL's own: 6, 8, 8, 6"
three_axes=('--dp 2 --pp 1 --tp 2 --zero 1 --sequence-parallel' '--dp 2 --pp 2 --tp 1 --zero 3'
  '--dp 1 --pp 2 --tp 2 --tied --clip 0.5' '--dp 2 --pp 2 --tp 1 --zero 2 --tied --clip 0.5'
  '--dp 4 --pp 1 --tp 1 --zero 3 --shard 2')
portion 2 "${three_axes[@]}" >"$scratch/three_axes"
while read -r flags; do
  # shellcheck disable=SC2086  # several flags
  lesson 15 2 --ranks 4 --microbatches 1 --batch 4 $flags
  claim "lesson 15 by NCCL, $flags: good" ended 0
  claim "lesson 15, $flags: parity" says 'parity with one device over 3 steps'
done <"$scratch/three_axes"
all_axes=('--dp 2 --pp 1 --cp 2 --tp 1' '--dp 1 --pp 1 --cp 2 --tp 2 --experts 0 --layout zigzag'
  '--dp 1 --pp 2 --cp 1 --tp 2')
portion 2 "${all_axes[@]}" >"$scratch/all_axes"
while read -r flags; do
  # shellcheck disable=SC2086  # several flags
  lesson 16 2 --ranks 4 --microbatches 1 --batch 4 $flags
  claim "lesson 16 by NCCL, $flags: good" ended 0
  claim "lesson 16, $flags: parity" says 'parity with one device over 3 steps'
done <"$scratch/all_axes"
# The most streams: every axis, with experts. CUDA has 32 hardware queues (core/device/gpu_library.cpp).
gpus 16
lesson 16 2 --ranks 16 --dp 2 --pp 2 --cp 2 --tp 2 --ep 2 --experts 4 --microbatches 2 --batch 4 \
  --parity off --verbose
claim 'all axes by NCCL: good' ended 0
streams=$(sed -n "s/.*without NCCL's own: //p" <<<"$out")
claim 'all axes by NCCL: at most 32 streams per rank' \
  awk -F', ' 'NF != 16 { exit 1 } { for (i = 1; i <= NF; ++i) if ($i < 1 || $i > 32) exit 1 }' <<<"$streams"
gpus 4
lesson 14 2 --precision bf16 --batch 4 --parity off
claim 'lesson 14 on a GPU' ended 0

run "$lessons"/lesson_01_collectives --device cuda --launch threads --trace none --ranks 4 --steps 1 --quiet
claim 'lesson 01 by NCCL' ended 0
run "$lessons"/lesson_00_ranks --device cuda --launch threads --trace none --ranks 3 --steps 2 --hidden 16 --heads 2 --sequence 8 --quiet
claim 'lesson 00 on GPUs' ended 0

# Impossible requests.
gpus 0
lesson 09 4 --microbatches 2 --batch 4
claim 'no GPU: exit code 2' ended 2
claim 'no GPU: one line' complains_in_one_line
claim 'no GPU: the flag is named' complains '--device cuda'
gpus 1
lesson 02 2 --ranks 2 --batch 4 --comm native
claim 'NCCL for ranks that share: exit code 2' ended 2
claim 'NCCL for ranks that share: one line' complains_in_one_line
LOCKSTEP_GPU_LIBRARY=$scratch/nothing.so lesson 09 4 --microbatches 2 --batch 4
claim 'no library: exit code 2' ended 2
claim 'no library: one line' complains_in_one_line

# Ends of runs: no rank waits inside a library for a rank that is gone.
gpus 4
fail() { # FLAGS...
  run "$failing" --data "$scratch/text" --trace "$scratch/run" --device cuda --launch threads --quiet --ranks 4 "$@"
}
fail --how throw
claim 'a rank throws: exit code 1' ended 1
claim 'a rank throws: its words' complains 'its own words'
fail --how sleep --timeout 3
claim 'a rank stalls: exit code 1' ended 1
claim 'a rank stalls: somebody says that he waits for the GPU' complains 'has waited 3 s for its GPU'
for victim in 0 2; do
  fail --how throw --early --victim $victim
  claim "rank $victim throws while communicators are created: exit code 1" ended 1
  claim "rank $victim throws while communicators are created: it is named" \
    complains "the run failed: rank $victim: its own words"
  fail --how sleep --early --victim $victim --timeout 3
  claim "rank $victim stalls while communicators are created: exit code 1" ended 1
  claim "rank $victim stalls while communicators are created: it is named" complains "rank $victim"
done
gpus 1
fail --how throw
claim 'a rank throws, the GPU is shared: exit code 1' ended 1
fail --how sleep --timeout 1
claim 'a rank stalls, the GPU is shared: exit code 1' ended 1
gpus 4
# The watchdogs abort all communicators. Ranks that go on (--persist) then fail because of that, but the
# report must name NCCL's own error, whichever comes first: the watchdog's query, or a call in progress.
lost='(NCCL: ncclCommGetAsyncError|nccl[A-Za-z]+): remote process exited'
for go_on in '' --persist; do
  # shellcheck disable=SC2086  # a word, or none
  LOCKSTEP_EMULATED_NCCL_ERROR=20 fail --how not $go_on
  claim "NCCL fails by itself: exit code 1 $go_on" ended 1
  claim "NCCL fails by itself: told so $go_on" grep -qE "^the run failed: rank [0-3]: $lost" <<<"$err"
  # shellcheck disable=SC2086
  LOCKSTEP_EMULATED_NCCL_ERROR=2:20 fail --how not $go_on
  claim "NCCL fails on one rank: exit code 1 $go_on" ended 1
  claim "NCCL fails on one rank: it is named $go_on" grep -qE "^the run failed: rank 2: $lost" <<<"$err"
done
conclude
