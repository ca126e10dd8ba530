#!/usr/bin/env bash
# Runs tests/gpu/run on a machine without a GPU: in a copy of the tree with a small project in place of Lockstep's, whose
# programs start those of this build, on the emulator. Checks what the script reports if a source file does not compile,
# if a library is missing, if a program is late, and if the script is cut off; that several calls make one table; and what
# it reads from NVIDIA's tools, of which it gets imitations. Prints "N passed, N failed".
#
#   test_run.sh BUILD LIBRARY    BUILD is the folder of the build; LIBRARY is lockstep_cuda_emulated
set -uo pipefail
# shellcheck source=../command/claims.sh
source "$(dirname "${BASH_SOURCE[0]}")/../command/claims.sh"
here=$(readlink -f "$(dirname "${BASH_SOURCE[0]}")")
build=$(realpath "$1")
LOCKSTEP_GPU_LIBRARY=$(realpath "$2")
tree=$scratch/tree gpu=$scratch/gpu
export LOCKSTEP_GPU_LIBRARY LOCKSTEP_EMULATED_GPUS=1 OUT=$gpu
if [[ ! -x $build/tests/gpu/bench/bench_gpu ]]; then echo 'skipped: bench_gpu is not built'; exit 77; fi
unset STALL FLOOD DIFFER VERSIONS CC CUDA_MODULE_LOADING
not() { ! "$@"; }

# --- The project ---------------------------------------------------------------------------------

mkdir -p "$tree/tests/gpu" "$tree/kernels/cuda" "$scratch/nothing"
cp -r "$here/run" "$here/run.d" "$here/ladders.py" "$tree/tests/gpu/"
cp "$here/../../kernels/cuda/README.md" "$tree/kernels/cuda/"
cp "$here/../../cmake/LeftOut.cmake" "$tree/"
# Each program starts the one of the same name in BUILD, but waits for ever if $STALL names it, prints 40 MB if $FLOOD
# does, and trains in f32 if $DIFFER does and kernels are loaded eagerly. With --list, $VERSIONS replaces its versions.
cat >"$tree/program.c" <<'END'
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static int is_named_by(const char* variable) {
  const char* name = getenv(variable);
  return name != NULL && strcmp(name, NAME) == 0;
}
int main(int count, char** words) {
  char* call[64] = {0};
  const char* loading = getenv("CUDA_MODULE_LOADING");
  const int lists = strcmp(words[count - 1], "--list") == 0;
  for (int i = 0; i < count; ++i) call[i] = words[i];
  if (lists && getenv("VERSIONS") != NULL) {
    printf("%s\na GPU\n", getenv("VERSIONS"));
    return 0;
  }
  if (getenv("NCCL_MULTI_RANK_GPU_ENABLE") != NULL && strcmp(NAME, "bench_nccl") == 0) {
    puts("asked to share a GPU");
    fflush(stdout);
  }
  if (is_named_by("DIFFER") && loading != NULL && strcmp(loading, "EAGER") == 0) {
    call[count++] = "--precision";
    call[count++] = "f32";
  }
  if (sizeof MORE > 1) call[count] = MORE;
  if (is_named_by("STALL") && !lists) {
    puts("half of the work");
    fflush(stdout);
    FILE* file = fopen(getenv("STALLED"), "w");
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    for (;;) sleep(1);
  }
  if (is_named_by("FLOOD") && !lists)
    for (int i = 0; i < 1000000; ++i) puts("0123456789012345678901234567890123456789");
  else
    execv(REAL, call);
  return 0;
}
END
# The tests of the kernels and of training run only a few of their cases, except in the whole plan.
few_kernels='--source-file=*/test_ptx.cpp' few_trainings='--last=1'
sources() { # SOURCE OF bench_training, CMAKE
  cat <<END
cmake_minimum_required(VERSION 3.25)
project(gpu_run LANGUAGES C CXX)
$2
message(STATUS "Lockstep: CUDA left out, as asked")
add_library(aside SHARED aside.c)
# As in Lockstep, every program contains the kernels.
include(LeftOut.cmake)
set(kernels kernels/cuda/gelu.cu kernels/cuda/other.cu)
lockstep_leave_out(kernels)
add_library(kernels STATIC \${kernels})
set_source_files_properties(\${kernels} PROPERTIES LANGUAGE CXX)
target_include_directories(kernels PRIVATE .)
function(program name where more)
  set(source program.c)
  if(name STREQUAL bench_training)
    set(source $1)
  endif()
  add_executable(\${name} \${source})
  target_link_libraries(\${name} PRIVATE kernels)
  target_compile_definitions(\${name} PRIVATE NAME="\${name}" REAL="$build/\${where}/\${name}" MORE="\${more}")
endfunction()
program(test_kernels_emulated tests/gpu "$few_kernels")
program(bench_gpu tests/gpu/bench "")
program(bench_training tests/gpu/bench "")
program(bench_nccl tests/gpu/bench "")
program(compare_runs tests/gpu/bench "")
program(test_gpu_runtime tests/gpu "")
program(test_gpu_training tests/gpu "$few_trainings")
program(lesson_02_data_parallel lessons "")
program(lesson_09_1f1b lessons "")
target_link_options(bench_nccl PRIVATE -Wl,--no-as-needed)
target_link_libraries(bench_nccl PRIVATE aside)
add_custom_target(lockstep_gpu_first DEPENDS test_kernels_emulated bench_gpu bench_training)
add_custom_target(lockstep_gpu_checks DEPENDS lockstep_gpu_first bench_nccl compare_runs test_gpu_runtime
  test_gpu_training lesson_02_data_parallel lesson_09_1f1b)
END
}
echo 'int aside(void) { return 1; }' >"$tree/aside.c"
printf '%s\n' '#include "program.c"' 'int broken = no_such_name;' >"$tree/broken.c"
# What the stand-in of a kernel file needs.
cat >"$tree/kernels/cuda/left_out.h" <<'END'
namespace lockstep::cuda {
struct Kernels { int gelu_forward, gelu_backward; };
inline void leave_out(int& kernel, const char*, const char*) { kernel = 0; }
[[noreturn]] void throw_left_out(const char*, const char*);
}
END
kernel_file() { # STATEMENT
  cat <<END
#include "kernels/cuda/left_out.h"
namespace lockstep::cuda {
namespace {
void helper() {}
}  // namespace

void set_gelu(Kernels& kernels) {
  helper();
  kernels.gelu_forward = 1;
  kernels.gelu_backward = 2;
  $1
}
}
END
}
kernel_file '' >"$tree/kernels/cuda/gelu.cu"
echo 'int other() { return 1; }' >"$tree/kernels/cuda/other.cu"
whole() { sources program.c '' >"$tree/CMakeLists.txt"; }

# Lines of the table: ROW STEP NAME RESULT, and a text that the detail contains.
table=''
row() { # STEP NAME RESULT [DETAIL]
  local line
  line=$(grep -E "^$1 +$2 +$3 " <<<"$table") && [[ $line == *"${4-}"* ]]
}
no_row() { ! grep -qE "^$1 +${2-}" <<<"$table"; }
is_json() { perl -MJSON::PP -0777 -ne 'exit(ref decode_json($_) eq "HASH" ? 0 : 1)' "$gpu/gpu.json" 2>/dev/null; }
below_16_MB() { [[ -z $(find "$gpu" -type f -size +16000000c) ]]; }
read_table() { table=$(cat "$gpu/gpu.txt" 2>/dev/null); }
gpu_continue() { # FLAG...
  rm -rf "$gpu"
  limit=3000 run "$tree/tests/gpu/run" --quick "$@"
  read_table
}
# The same, without the results of earlier calls.
gpu_run() { # FLAG...
  rm -rf "$tree/build/gpu/results"
  gpu_continue "$@"
}
# The steps of the table, in its order.
steps_are() { [[ $(awk '/^$/ {exit} NR > 1 {print $1}' <<<"$table" | uniq | paste -sd' ') == "$*" ]]; }
rows() { grep -cE "^$1 " <<<"$table"; } # STEP
figure() { # STEP NAME VALUE UNIT
  awk '/^$/ {figures = 1} figures' <<<"$table" | grep -qE "^$1 +$2 +$3 $4 "
}
short=build,kernels,training,bench,nccl

# --- The real tree, as the script configures it, on a machine that lacks all that is optional -----

run cmake -S "$here/../.." -B "$scratch/bare" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_CUDA=OFF -DLOCKSTEP_MPI=OFF \
  -DLOCKSTEP_VIEWER=OFF -DLOCKSTEP_BENCH=OFF -DLOCKSTEP_WERROR=OFF
claim 'the tree without its optional parts is configured' ended 0
run ninja -C "$scratch/bare" -n lockstep_gpu_first lockstep_gpu_checks
claim 'it has the targets that the script builds' ended 0

# With nvcc, but without any kernel file, because all of them would take nvcc minutes.
kernels=$(cd "$here/../.." && printf '%s\n' kernels/cuda/*.cu kernels/cuda/ladder/*.cu tests/gpu/*.cu | paste -sd';')
run cmake -S "$here/../.." -B "$scratch/no_kernels" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLOCKSTEP_UNITY=ON \
  -DLOCKSTEP_VIEWER=OFF -DLOCKSTEP_BENCH=OFF -DLOCKSTEP_WERROR=OFF -DLOCKSTEP_LEAVE_OUT_KERNELS="$kernels"
claim 'the tree without its kernel files is configured' ended 0
if says 'CUDA found'; then
  limit=300 run ninja -C "$scratch/no_kernels" lockstep_cuda
  claim 'its GPU library is built' ended 0
fi

# --- A source file that does not compile ---------------------------------------------------------

sources broken.c '' >"$tree/CMakeLists.txt"
gpu_run --only "$short"
claim 'a broken file: exit code 1' ended 1
claim 'a broken file is named' row build 'first targets' FAILED 'not compiled: broken.c'
claim 'with what the compiler says' row build 'first targets' FAILED no_such_name
claim 'mma and ldmatrix are tested' row kernels 'mma and ldmatrix' ok '2 test cases'
claim 'and come first' test "$(grep -m 1 '^kernels' <<<"$table" | awk '{print $2}')" = mma
claim 'its program is not built' row training 'GPT-2 124M, V 257' skipped 'not built'
claim 'the other programs are, and run' row bench kernels ok
claim 'the rest is built and run' row nccl '2 processes on one GPU' skipped 'bench_nccl'
claim 'also with blocking communicators' row nccl '2 processes on one GPU, blocking' skipped 'bench_nccl'
if [[ $("$build"/lessons/lesson_09_1f1b --launch mpi --heads 7 2>&1) == *'without MPI'* ]]; then
  claim 'no processes without MPI' row nccl '09_1f1b, 2 processes on one GPU' skipped 'there is no MPI'
else
  claim 'processes that share a GPU use NCCL, which the emulator refuses' row nccl \
    '09_1f1b, 2 processes on one GPU' skipped 'communicators join threads'
fi
claim 'the JSON is one' is_json
claim 'the log has what the compiler said' grep -q no_such_name "$gpu/gpu.log"
claim 'the run came to its end' grep -q '"finished": true' "$gpu/gpu.json"
claim 'three files, and nothing else' test "$(find "$gpu" -type f | wc -l)" = 3

# --- A kernel's file that does not compile -------------------------------------------------------

whole
kernel_file 'no_such_kernel();' >"$tree/kernels/cuda/gelu.cu"
gpu_run --only build,kernels,training,bench --folder "$scratch/broken_kernel"
claim 'a broken kernel: exit code 1' ended 1
claim 'its file is named' row build 'first targets' FAILED 'not compiled: kernels/cuda/gelu.cu;'
claim 'with what the compiler says' row build 'first targets' FAILED no_such_kernel
claim 'the kernels that it costs are named' row build 'left out kernels/cuda/gelu.cu' FAILED 'fails: gelu_forward, gelu_backward'
claim 'no other file is left out' test "$(grep -c 'left out kernels' <<<"$table")" = 1
claim 'the rest is built' row build 'first targets, without them' ok
claim 'all other kernels are tested' row kernels 'mma and ldmatrix' ok
claim 'training is measured' row training 'GPT-2 124M, V 257' ok
claim 'the benchmarks run' row bench kernels ok
kernel_file '' >"$tree/kernels/cuda/gelu.cu"
gpu_run --only build --folder "$scratch/broken_kernel"
claim 'a mended kernel: good' ended 0
claim 'nothing is left out' no_row build 'left out'

# --- Missing things ------------------------------------------------------------------------------

sources program.c 'find_package(Absent REQUIRED)' >"$tree/CMakeLists.txt"
gpu_run --folder "$scratch/absent"
claim 'a missing library: exit code 1' ended 1
claim 'it is named, with the way to bring it' row build configure FAILED 'Absent is missing: run tests/gpu/pack'
claim 'there is a table nevertheless' row here GPUs ok
claim 'nothing else was tried' no_row kernels
sources program.c 'find_path(absent_INCLUDE_DIR absent.h REQUIRED)' >"$tree/CMakeLists.txt"
gpu_run --folder "$scratch/absent"
claim 'a missing header: its library is named' row build configure FAILED 'absent is missing: run tests/gpu/pack'
whole
CC=/nowhere/cc gpu_run --folder "$scratch/no_compiler"
claim 'no compiler: --built is named' row build configure FAILED '--built'
gpu_run --built "$scratch/nowhere"
claim 'no folder of programs: exit code 2' ended 2
claim 'no folder of programs: one line' complains_in_one_line

# --- The whole project ---------------------------------------------------------------------------

gpu_run --only "$short"
claim 'all is built: good' ended 0

# --- Several calls that make one table -----------------------------------------------------------

gpu_run --until training
claim 'a first call: good' ended 0
claim 'it ends after its last step' steps_are here build kernels training
gpu_continue --from products --until ncu
claim 'a second call: good' ended 0
claim 'its results join the first' steps_are here build kernels training products ncu
claim 'the table counts the calls' grep -q 'The table of 2 calls' "$gpu/gpu.txt"
claim 'and the JSON names them' grep -q '"steps": "here build kernels training"' "$gpu/gpu.json"
claim 'the log has the output of both' grep -q 'Status: SUCCESS' "$gpu/gpu.log"
claim 'the proposals are measured' row products 'proposals measured' ok products
claim 'the choices come back' grep -q '^cuBLASLt' "$gpu/gpu.products"
claim 'training runs again with them' row products 'GPT-2 124M, V 257, tuned products' ok
if ! command -v ncu >/dev/null; then
  claim 'Nsight Compute is missing' row ncu 'kernels of a training step' skipped 'not installed'
fi
before=$(rows training)
gpu_continue --only training
claim 'a step that runs again replaces its results' test "$(rows training)" = "$before"
claim 'the others stay' steps_are here build kernels training products ncu
claim 'two runs are compared' row training 'two runs' ok 'bitwise equal: CRC-32'
gpu_continue --until here
claim 'a call without --from or --only starts anew' steps_are here
mv "$tree/build/gpu" "$scratch/moved"
gpu_continue --folder "$scratch/moved" --built "$scratch/moved" --only kernels
claim 'so does another build' not row here CPU ok
claim 'which the script says' complains 'The table starts anew'
mv "$scratch/moved" "$tree/build/gpu"
gpu_continue --only nccl --until bench
claim '--only with --until: exit code 2' ended 2
gpu_continue --from bench --until training
claim 'an end before the beginning: one line' complains_in_one_line

DIFFER=bench_training gpu_run --built "$tree/build/gpu" --only training
claim 'two runs that differ: exit code 1' ended 1
claim 'two runs that differ' row training 'two runs' FAILED 'they differ: CRC-32'

# --- A program that is late ----------------------------------------------------------------------

export STALLED=$scratch/stalled
STALL=bench_training gpu_run --built "$tree/build/gpu" --seconds 12 --only training
claim 'late: exit code 3' ended 3
claim 'late is no failure' row training 'GPT-2 124M, V 257' late 'not done after'
claim 'what had no time left is skipped' row training 'GPT-2 124M, V 304' skipped 'no time left'
claim 'the last line counts it' grep -qE '^[0-9]+ ok, 0 failed, 1 late, [0-9]+ skipped$' "$gpu/gpu.txt"
claim 'and the JSON has it' grep -q '"result": "late"' "$gpu/gpu.json"

# --- What NVIDIA's tools say ---------------------------------------------------------------------

fake=$scratch/fake
mkdir "$fake"
cat >"$fake/nvidia-smi" <<'END'
#!/bin/sh
case "$*" in
  *-lms*)
    # utilization, SM clock, memory clock, power, temperature, throttle reasons
    echo '0, 345, 2619, 70.12, 31, 0x0000000000000001'
    for sample in '97, 1980, 2619, 655.10, 52, 0x0000000000000000' '100, 1755, 2619, 698.70, 58, 0x0000000000000004' \
      '100, 1740, 2619, 699.20, 61, 0x0000000000000024' '100, 1770, 2619, [N/A], 60, 0x0000000000000000' \
      '99, 1800, 2619, 690.00, 60, 0x0000000000000000'; do echo "$sample"; done
    exec sleep 60 ;;
  *driver_version*) echo 580.65.06 ;;
  *clocks.max.sm*) echo '1980 MHz, 2619 MHz, 700.00 W' ;;
esac
END
# $NCU says what it finds: all kernels, one, or no permission.
cat >"$fake/ncu" <<'END'
#!/bin/sh
if [ "$1" = --version ]; then printf 'NVIDIA (R) Nsight Compute Command Line Profiler\nVersion 2025.3.1.0\n'; exit; fi
echo "==PROF== called with $*"
if [ "$NCU" = denied ]; then
  echo '==ERROR== ERR_NVGPUCTRPERM - The user does not have permission to access NVIDIA GPU Performance Counters'
  exit 1
fi
kernels='forward backward_keys backward_queries layernorm_kernel backward_input_kernel loss_kernel backward_kernel'
[ "$NCU" = all ] || kernels=forward
for kernel in add_layernorm_kernel $kernels; do
  duration=812.45
  [ $kernel = forward ] || duration=1,234.50
  cat <<TABLE
  void lockstep::cuda::<unnamed>::$kernel<__nv_bfloat16, (int)64>(lockstep::cuda::Problem, float *) (384, 1, 1)x(128, 1, 1), Context 1, Stream 13, Device 0, CC 9.0
    Section: GPU Speed Of Light Throughput
    ----------------------- ----------- ------------
    Metric Name             Metric Unit Metric Value
    ----------------------- ----------- ------------
    DRAM Frequency                  Ghz         2.59
    Memory Throughput                 %        31.75
    Duration                         us     $duration
    Compute (SM) Throughput           %        54.20
    ----------------------- ----------- ------------

    OPT   Compute is more heavily utilized than Memory.

    Section: Occupancy
    Theoretical Occupancy                     %        25.00
    Achieved Occupancy                        %        23.81
TABLE
done
END
cat >"$fake/compute-sanitizer" <<'END'
#!/bin/sh
if [ "$1" = --help ]; then echo "  ${FILTER:---kernel-name} arg"; exit; fi
echo "called with $* and CUDA_MODULE_LOADING=$CUDA_MODULE_LOADING"
END
chmod +x "$fake/nvidia-smi" "$fake/ncu" "$fake/compute-sanitizer"
NCU=all PATH=$fake:$PATH gpu_run --built "$tree/build/gpu" --only here,sanitizer,ncu,training
claim 'steps run in their order' steps_are here training ncu sanitizer
claim 'the limits of the GPU' row here 'GPU limits' ok '1980 MHz, 2619 MHz, 700.00 W'
claim 'clocks: five samples had work' row training clocks ok '5 samples'
claim 'clocks: the median' figure training 'SM clock' 1770 MHz
claim 'power: the most' figure training power 699.2 W
claim 'throttled in two of five' figure training throttled 40 %
claim 'by these' grep -q 'of 5 samples: sw_power_cap, sw_thermal_slowdown' "$gpu/gpu.txt"
claim 'Nsight Compute profiles each kernel' row ncu 'kernels of a training step' ok '7 profiled, by Version 2025'
claim 'its times are figures' figure ncu 'attention forward: duration' 812.45 us
claim 'also from 1,000' figure ncu 'cross-entropy backward: duration' 1234.5 us
claim 'so is the occupancy' figure ncu 'layernorm backward: achieved occupancy' 23.81 %
claim 'no other kernel is in the table' test "$(grep -cE '^ncu .*: duration ' <<<"$table")" = 7
claim 'its report is in the log' grep -q 'Compute is more heavily utilized' "$gpu/gpu.log"
claim 'the sanitizer sees only the own kernels' grep -q 'kernel-name kns=lockstep .*CUDA_MODULE_LOADING=LAZY' "$gpu/gpu.log"
NCU=one FILTER=--kernel-regex PATH=$fake:$PATH gpu_run --built "$tree/build/gpu" --only sanitizer,ncu
claim 'kernels that are not in the report' row ncu 'kernels of a training step' FAILED 'attention backward dq;layernorm forward'
claim 'an older sanitizer' grep -q 'kernel-regex kns=lockstep' "$gpu/gpu.log"
NCU=denied PATH=$fake:$PATH gpu_run --built "$tree/build/gpu" --only ncu
claim 'no permission' row ncu 'kernels of a training step' skipped 'ERR_NVGPUCTRPERM'

# --- Several ranks -------------------------------------------------------------------------------

gpu_run --built "$tree/build/gpu" --only nccl
claim 'an old NCCL is not asked' not grep -q 'asked to share' "$gpu/gpu.log"
VERSIONS='CUDA 13.0, driver 13.0, NCCL 2.30.3' gpu_run --built "$tree/build/gpu" --only nccl
claim 'a new NCCL is asked to share a GPU' grep -q 'asked to share' "$gpu/gpu.log"
claim 'which the table says' row nccl '2 processes on one GPU' skipped 'NCCL_HOSTID and NCCL_MULTI_RANK_GPU_ENABLE'
LOCKSTEP_EMULATED_GPUS=2 gpu_run --built "$tree/build/gpu" --only scaling
claim 'scaling: one GPU' row scaling '09_1f1b, 1 GPUs, threads' ok
claim 'scaling: threads' row scaling '09_1f1b, 2 GPUs, threads' ok
if [[ $("$build"/lessons/lesson_09_1f1b --launch mpi --heads 7 2>&1) != *'without MPI'* ]]; then
  claim 'scaling: also processes, which the emulator refuses' row scaling '09_1f1b, 2 GPUs, mpi' FAILED
fi

# --- The ladders' tables -------------------------------------------------------------------------

cat >"$scratch/measured.json" <<'END'
{"when": "2030-01-02T03:04:05Z", "gpu": "1 x NVIDIA H200", "emulated": false, "figures": [
  {"name": "copy", "value": 4000, "unit": "GB/s", "detail": ""},
  {"name": "gelu forward bf16", "value": 70, "unit": "% of copy", "detail": "2800 GB/s, 1.0 us"},
  {"name": "layernorm forward bf16", "value": 10, "unit": "% of copy", "detail": "400 GB/s, 1.0 us"},
  {"name": "layernorm forward, step 4: in use", "value": 91.26, "unit": "% of copy", "detail": "3650 GB/s, 1.0 us"},
  {"name": "large product bf16", "value": 800, "unit": "TFLOP/s", "detail": ""},
  {"name": "large product f32", "value": 50, "unit": "TFLOP/s", "detail": ""},
  {"name": "attention forward, step 3: in use, f32", "value": 10, "unit": "TFLOP/s", "detail": ""},
  {"name": "attention forward, step 4: in use", "value": 400, "unit": "TFLOP/s", "detail": ""}]}
END
page=$tree/kernels/cuda/README.md
run "$tree/tests/gpu/ladders.py" "$scratch/measured.json" --update
claim 'measurements of the ladders: good' ended 0
claim 'they name the GPU and the day' grep -qF "reads x | measured (NVIDIA H200, 2030-01-02) | of a copy's bandwidth |" "$page"
claim "a rate, and its share of a copy's" grep -qE '^\| 4 \| \[layernorm_forward.cu\].* \| 3,650 GB/s \| 91.3 % of 4,000 \|$' "$page"
claim 'a kernel in use, whose ladder was not measured' \
  grep -qE '^\| 3 \| \[gelu.cu\].* \| 2,800 GB/s \| 70 % of 4,000 \|$' "$page"
claim "a share of a large product's rate in f32" \
  grep -qE '^\| 3 \| \[attention_f32_forward.cu\].* \| 10 TFLOP/s \| 20 % of 50 \(f32\) \|$' "$page"
claim 'and in bf16' grep -qE '^\| 4 \| \[attention_forward.cu\].* \| 400 TFLOP/s \| 50 % of 800 \(bf16\) \|$' "$page"
claim 'what was not measured' grep -qE '^\| 2 \| \[shared_tiles\].* \| not measured \| +\|$' "$page"
cp "$page" "$scratch/page"
run "$tree/tests/gpu/ladders.py" "$scratch/measured.json" --update
claim 'the same again changes nothing' cmp -s "$page" "$scratch/page"
run "$tree/tests/gpu/ladders.py" "$gpu/gpu.json" --update
claim "the emulator's run is refused" ended 1
claim 'in one line' complains_in_one_line

# --- Programs that were built before, one of them without its library ----------------------------

rm "$tree/build/gpu/libaside.so"
gpu_run --built "$tree/build/gpu" --only here,training,nccl
claim 'nothing is built' no_row build
claim 'the missing library is named, with the way to bring it' row here libraries FAILED 'missing: libaside.so; tests/gpu/pack'
claim 'what does not need it runs' row training 'GPT-2 124M, V 304' ok
claim 'what needs it says so' row nccl '2 processes on one GPU' skipped libaside.so

# --- Much output, and a run that is cut off ------------------------------------------------------

FLOOD=bench_training gpu_run --built "$tree/build/gpu" --only training,bench
claim 'much output: the files stay small' below_16_MB
claim 'much output: the log has the rest' grep -q 'large product' "$gpu/gpu.log"

cut() { # SIGNAL: stops the script while bench_training waits
  rm -rf "$gpu" "$STALLED" "$tree/build/gpu/results"
  STALL=bench_training "$tree/tests/gpu/run" --quick --built "$tree/build/gpu" --only here,kernels,training \
    >"$scratch/out" 2>"$scratch/err" </dev/null &
  run=$!
  claim "$1: the benchmark runs" within 120 test -s "$STALLED"
  kill "-$1" "$run"
  await 2>/dev/null
  read_table
  claim "$1: the steps before are in the table" row kernels 'mma and ldmatrix' ok
  claim "$1: the JSON is whole" is_json
  claim "$1: and says that the run did not finish" grep -q '"finished": false' "$gpu/gpu.json"
  claim "$1: the log has their output" grep -q 'Status: SUCCESS' "$gpu/gpu.log"
}
stalled_is_gone() { ! kill -0 "$(<"$STALLED")" 2>/dev/null; }
cut TERM
claim 'TERM: exit code 1' ended 1
claim 'TERM: the table says so' row here 'cut off' FAILED 'by TERM'
claim 'TERM: the log has the output of the program that ran' grep -q 'half of the work' "$gpu/gpu.log"
claim 'TERM: no program is left' within 20 stalled_is_gone
cut KILL
kill "$(<"$STALLED")"    # nobody else can
gpu_continue --built "$tree/build/gpu" --only training
claim 'KILL: a further call completes the table' row training 'GPT-2 124M, V 304' ok
claim 'KILL: it keeps the steps before' row kernels 'mma and ldmatrix' ok
claim 'KILL: the run came to its end' grep -q '"finished": true' "$gpu/gpu.json"

# --- The whole plan ------------------------------------------------------------------------------

if [[ -n ${LOCKSTEP_TEST_ALL-} ]]; then
  unset LOCKSTEP_TEST_ALL    # within the limits of --quick, the emulator manages only a portion of the tests
  few_kernels='' few_trainings=''
  whole
  gpu_run
  claim 'the whole plan: good' ended 0
  claim 'every kernel' row kernels 'all others' ok
  claim 'the runtime' row runtime test_gpu_runtime ok
  claim 'training on several ranks' row runtime test_gpu_training ok
  claim 'lesson 09 on four ranks that share' row lessons '09_1f1b, 4 ranks, threads' ok 'difference from the CPU'
  claim 'lesson 09 on the wall clock' row lessons '09_1f1b, 2 ranks, threads, wall clock' ok 'difference from the CPU'
  claim 'lesson 02 on the wall clock' row lessons '02_data_parallel, 4 ranks, threads, wall clock' ok
fi
conclude
