# The steps of tests/gpu/run that compare results: kernels with the oracle, ranks with one rank, GPUs with the CPU.
# shellcheck shell=bash
# shellcheck disable=SC2034,SC2154  # tests/gpu/run shares its variables

step_kernels() {
  local test=test_kernels_cuda matrices='mma*,ldmatrix*'
  [[ -z $tiny ]] || test=test_kernels_emulated
  check kernels 'mma and ldmatrix' 30 "$(program $test)" --test-case="$matrices"
  check kernels 'all others' "$(limit 60 1800)" "$(program $test)" --test-case-exclude="$matrices" --duration=true
}

step_runtime() {
  local test
  for test in test_gpu_runtime test_gpu_training; do
    check runtime "$test" "$(limit 45 1800)" "$(program "$test")" --duration=true
  done
}

# --- Lessons -------------------------------------------------------------------------------------

# The ways in which a lesson can start its ranks here.
launches() {
  echo threads
  if has_mpi; then echo mpi; fi
}
# Asks a lesson for 7 heads, which is impossible, so it only prints why it ends.
has_mpi() {
  local lesson
  lesson=$(program lesson_09_1f1b)
  command -v mpirun >/dev/null && [[ -n $lesson && $("$lesson" --launch mpi --heads 7 2>&1) != *'without MPI'* ]]
}

# Runs one lesson with a number of ranks on the CPU and on GPUs, and compares the two.
lesson() { # NAME RANKS LAUNCH LOSS,PARAMETER [FLAG...]
  local lesson=$1 ranks=$2 launch=$3 bounds=$4 name="$1, $2 ranks, $3" words
  local cpu=$scratch/$1-$2-cpu gpu=$scratch/$1-$2-$3 binary flags limit
  shift 4
  limit=$(limit 40 300)
  [[ " $* " != *' wall '* ]] || name+=', wall clock'
  binary=$(program "lesson_$lesson")
  flags=(--ranks "$ranks" --steps 20 --quiet --trace none "$@")
  if [[ ! -e $cpu.json ]]; then
    attempt lessons "$lesson, $ranks ranks, CPU" "$limit" "$binary" "${flags[@]}" --device cpu \
      --parity off --report "$cpu.json" --save "$cpu.safetensors" || return
    succeeded lessons "$lesson, $ranks ranks, CPU" || return
  fi
  attempt lessons "$name" "$limit" "$binary" "${flags[@]}" --device cuda --launch "$launch" \
    --report "$gpu.json" --save "$gpu.safetensors" || return
  succeeded lessons "$name" || return
  if [[ -z $compare ]]; then note lessons "$name" ok "$took" "ran; compare_runs is not built"; return; fi
  if [[ $lesson == 0[89]_* && $("$compare" --field parity.bitwise "$gpu.json") != 1 ]]; then
    note lessons "$name" FAILED "$took" "not bitwise equal to one rank"
    return
  fi
  if words=$("$compare" "$gpu.json" "$cpu.json" "$gpu.safetensors" "$cpu.safetensors" --within "$bounds" 2>&1); then
    note lessons "$name" ok "$took" "difference from the CPU: $words"
  else
    note lessons "$name" FAILED "$took" "difference from the CPU: $words; bounds $bounds"
  fi
}

step_lessons() {
  local name ranks launch compare small=()
  compare=$(program compare_runs)
  # The emulator is about a thousand times slower than a GPU.
  [[ -z $tiny ]] || small=(--layers "$(limit 4 8)" --hidden 16 --heads 2 --sequence 8 --batch 8)
  # Four ranks that share the GPUs. With its own GPU, a rank has the wall clock; ranks that share have the modelled clock
  # unless --clock says otherwise.
  lesson 09_1f1b 4 threads 1e-4,1e-4 "${small[@]}"
  lesson 02_data_parallel 4 threads 1e-4,1e-4 "${small[@]}" --clock wall
  lesson 09_1f1b 2 threads 1e-4,1e-4 "${small[@]}" --clock wall
  [[ -z $quick ]] || return
  for name in 02_data_parallel 03_zero_1 04_zero_2 05_zero_3 08_gpipe 09_1f1b; do
    for ranks in 1 2 4 8; do
      for launch in $(launches); do
        lesson "$name" "$ranks" "$launch" 1e-4,1e-4 "${small[@]}"
      done
    done
  done
  # Both runs use 16 bits, but round in different places.
  lesson 14_mixed_precision 2 threads 1e-2,5e-2 "${small[@]}"
}

# --- NCCL ----------------------------------------------------------------------------------------

# NCCL refuses two ranks on one GPU of a host, so in these two functions each process pretends to be a host. NCCL 2.30 and
# later want to be asked, too. NCCL may still refuse, which is no failure.
share_gpu() { # sets `sharing`, for env, and `how`, for the table
  local version=${versions##*NCCL }
  sharing=() how='with NCCL_HOSTID'
  [[ $version =~ ^[0-9.]+$ ]] && printf '2.30\n%s\n' "$version" | sort -VC || return 0
  sharing=(NCCL_MULTI_RANK_GPU_ENABLE=1) how+=' and NCCL_MULTI_RANK_GPU_ENABLE'
}
nccl_on_one_gpu() { # NAME [VARIABLE=VALUE]
  local name=$1 bench
  shift
  bench=$(program bench_nccl)
  # The first word is empty if there is no such program, for `attempt`.
  attempt nccl "$name" 60 "${bench:+env}" "${sharing[@]}" "$@" "$bench" --processes 2 --largest $((1 << 16)) || return
  case $code in
    0) note nccl "$name" ok "$took" "$how"; figures nccl ;;
    late) succeeded nccl "$name" ;;
    *) note nccl "$name" skipped "$took" "not supported here, $how: $(last_words)" ;;
  esac
}
nccl_lesson() {
  local name='09_1f1b, 2 processes on one GPU' report=$scratch/nccl.json one=${CUDA_VISIBLE_DEVICES:-0} lesson compare small=()
  lesson=$(program lesson_09_1f1b) compare=$(program compare_runs)
  if [[ -n $lesson ]] && ! has_mpi; then note nccl "$name" skipped 0 "there is no MPI"; return; fi
  [[ -z $tiny ]] || small=(--layers 4 --hidden 16 --heads 2 --sequence 8 --batch 8)
  # shellcheck disable=SC2016  # the variable is mpirun's
  attempt nccl "$name" 60 "${lesson:+env}" "${sharing[@]}" CUDA_VISIBLE_DEVICES="${one%%,*}" mpirun --oversubscribe -n 2 \
    bash -c 'NCCL_HOSTID=host-$OMPI_COMM_WORLD_RANK exec "$@"' rank "$lesson" --device cuda --launch mpi --ranks 2 \
    --clock wall --steps 20 --quiet --trace none "${small[@]}" --report "$report" || return
  if [[ $code == late ]]; then
    succeeded nccl "$name"
  elif [[ ! -e $report ]]; then
    note nccl "$name" skipped "$took" "not supported here, $how: $(grep -m 1 'run failed' "$log" | cut -c1-160)"
  elif [[ $code != 0 ]] || [[ -n $compare && $("$compare" --field parity.bitwise "$report") != 1 ]]; then
    note nccl "$name" FAILED "$took" "exit code $code, or not bitwise equal to one rank"
  else
    note nccl "$name" ok "$took" "$how"
  fi
}

step_nccl() {
  local largest=$((256 << 20)) samples sharing how
  share_gpu
  samples=$(limit 5 15)
  [[ -z $tiny ]] || largest=$((1 << 16)) samples=1
  nccl_on_one_gpu "2 processes on one GPU"
  nccl_on_one_gpu "2 processes on one GPU, blocking" NCCL_COMM_BLOCKING=1
  nccl_lesson
  if (( gpus > 1 )); then
    check nccl "$gpus GPUs" 300 "$(program bench_nccl)" --ranks "$gpus" --largest $largest --samples "$samples"
    figures nccl
    # What a call on a non-blocking communicator costs shows on small arrays.
    NCCL_COMM_BLOCKING=1 check nccl "$gpus GPUs, blocking" 300 "$(program bench_nccl)" --ranks "$gpus" \
      --largest $((1 << 20)) --samples "$samples"
    figures nccl
  else
    note nccl "one rank per GPU" skipped 0 "there is one GPU"
  fi
}

# --- compute-sanitizer ---------------------------------------------------------------------------

# Runs a program under compute-sanitizer, which checks only Lockstep's kernels and loads only those that run: cuBLASLt and
# NCCL have thousands, and instrumenting them would take all the time. The tools slow each kernel down many times, so tests
# run a portion of their cases.
sanitize() { # NAME TOOL LIMIT PROGRAM FLAG...
  check sanitizer "$1" "$3" "${4:+env}" -u LOCKSTEP_TEST_ALL CUDA_MODULE_LOADING=LAZY "$sanitizer" --tool "$2" \
    "$filter" kns=lockstep --error-exitcode 9 "${@:4}"
}
step_sanitizer() {
  local sanitizer filter=--kernel-name tool own
  sanitizer=$(command -v compute-sanitizer || find "${CUDA_HOME:-/usr/local/cuda}"/{bin,compute-sanitizer} -name compute-sanitizer 2>/dev/null | head -n 1)
  if [[ -z $sanitizer ]]; then note sanitizer compute-sanitizer skipped 0 "not installed"; return; fi
  [[ $("$sanitizer" --help 2>&1) == *"$filter"* ]] || filter=--kernel-regex    # its older name
  for tool in memcheck racecheck synccheck; do
    # bench_gpu --tiny calls every kernel once or twice; the tests, with their random shapes, take longer. Racecheck
    # breaks cuBLASLt's kernels for Hopper, although they are filtered out.
    own=()
    [[ $tool != racecheck ]] || own=(--own)
    sanitize "$tool, every kernel" "$tool" "$(limit 40 600)" "$(program bench_gpu)" --tiny "${own[@]}"
  done
  [[ -z $quick ]] || return
  for tool in memcheck racecheck; do
    sanitize "$tool, lesson 09" "$tool" 600 "$(program lesson_09_1f1b)" --device cuda --launch threads --ranks 2 --steps 2 --layers 2 \
      --hidden 32 --heads 2 --sequence 16 --parity off --trace none --quiet
    sanitize "$tool, tests of kernels" "$tool" 1800 "$(program test_kernels_cuda)"
  done
}
