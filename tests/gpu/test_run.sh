#!/usr/bin/env bash
# Runs tests/gpu/run on a machine without a GPU: in a copy of the tree with a small project in place of Lockstep's, whose
# programs start those of this build, on the emulator. Checks what the script reports if a source file does not compile,
# if a library is missing, and if it is cut off. Prints "N passed, N failed".
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
unset STALL FLOOD CC
not() { ! "$@"; }

# --- The project ---------------------------------------------------------------------------------

mkdir -p "$tree/tests/gpu" "$tree/kernels/cuda" "$scratch/nothing"
cp "$here/run" "$tree/tests/gpu/"
cp "$here/../../cmake/LeftOut.cmake" "$tree/"
# Each program starts the one of the same name in BUILD, but waits for ever if $STALL names it, and prints 40 MB if
# $FLOOD does.
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
  for (int i = 0; i < count; ++i) call[i] = words[i];
  if (sizeof MORE > 1) call[count] = MORE;
  if (is_named_by("STALL") && strcmp(words[count - 1], "--list") != 0) {
    puts("half of the work");
    fflush(stdout);
    FILE* file = fopen(getenv("STALLED"), "w");
    fprintf(file, "%d\n", (int)getpid());
    fclose(file);
    for (;;) sleep(1);
  }
  if (is_named_by("FLOOD") && strcmp(words[count - 1], "--list") != 0)
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
gpu_run() { # FLAG...
  rm -rf "$gpu"
  limit=300 run "$tree/tests/gpu/run" --quick "$@"
  read_table
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

# --- Programs that were built before, one of them without its library ----------------------------

gpu_run --only "$short"
claim 'all is built: good' ended 0
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

export STALLED=$scratch/stalled
cut() { # SIGNAL: stops the script while bench_training waits
  rm -rf "$gpu" "$STALLED"
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
