# Finds CUDA and NCCL in the usual places. If one is left out, the reason is printed.
#
#   LOCKSTEP_HAS_CUDA, LOCKSTEP_HAS_NCCL      ON or OFF
#   LOCKSTEP_ABOUT_CUDA, LOCKSTEP_ABOUT_NCCL  version and place, or the reason for leaving it out
#   lockstep::cudart                          the runtime, with the headers of CUDA, CUB and NVTX
#   lockstep::cublas, lockstep::cublaslt, lockstep::nccl
#
# The search order is: the user's settings (CMAKE_CUDA_COMPILER, CUDACXX, CUDAToolkit_ROOT, CUDA_HOME, CUDA_PATH,
# NCCL_HOME), PATH (modules, conda), NVIDIA's folders, Debian's, PyPI's nvidia-* wheels. The wheels of CUDA 12 contain
# no nvcc, but those of CUDA 13 do; neither contains a libNAME.so without a version number. Each part is therefore
# searched for separately, and may come from a different place than nvcc.
set(LOCKSTEP_HAS_CUDA OFF)
set(LOCKSTEP_HAS_NCCL OFF)
set(LOCKSTEP_ABOUT_CUDA "")
set(LOCKSTEP_ABOUT_NCCL "so is CUDA")
if(NOT LOCKSTEP_CUDA)
  return()
elseif(LOCKSTEP_CUDA STREQUAL "when_wanted")  # set by build.sh for builds that do not need the GPU part
  set(LOCKSTEP_ABOUT_CUDA "not looked for before --device cuda or the tests want it")
  return()
elseif(LOCKSTEP_SANITIZE)
  # Kernels are checked with compute-sanitizer (tests/gpu); the host code runs under sanitizers in tests/gpu/emulator.
  set(LOCKSTEP_ABOUT_CUDA "a build with sanitizers")
  return()
endif()

# --- Where to look -------------------------------------------------------------------------------

# Sets OUT to the wheels' folders, such as site-packages/nvidia/cu13 or, for CUDA 12, site-packages/nvidia/cuda_runtime.
function(lockstep_find_wheels out)
  set(folders)
  find_program(python NAMES python3 python NO_CACHE)
  if(python)
    execute_process(COMMAND ${python} -c "import nvidia; print(*nvidia.__path__, sep=';')"
      OUTPUT_VARIABLE paths OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
    foreach(path IN LISTS paths)
      file(GLOB found LIST_DIRECTORIES true ${path}/*)
      list(APPEND folders ${found})
    endforeach()
  endif()
  list(SORT folders COMPARE NATURAL ORDER DESCENDING)
  set(${out} ${folders} PARENT_SCOPE)
endfunction()

# Sets OUT to all candidates for nvcc, the most likely first; if the user names an nvcc, only to that one.
function(lockstep_find_nvccs out)
  set(nvccs ${CMAKE_CUDA_COMPILER} $ENV{CUDACXX})
  if(nvccs)
    list(SUBLIST nvccs 0 1 nvccs)
  else()
    find_program(in_path nvcc NO_CACHE NO_CMAKE_PATH NO_CMAKE_SYSTEM_PATH)
    file(GLOB toolkits LIST_DIRECTORIES true /usr/local/cuda-* /opt/cuda-*)
    list(SORT toolkits COMPARE NATURAL ORDER DESCENDING)
    foreach(root ${CUDAToolkit_ROOT} $ENV{CUDAToolkit_ROOT} $ENV{CUDA_HOME} $ENV{CUDA_PATH} "PATH"
        /usr/local/cuda /opt/cuda ${toolkits} /usr/lib/nvidia-cuda-toolkit ${ARGN})
      if(root STREQUAL "PATH" AND in_path)
        list(APPEND nvccs ${in_path})
      elseif(EXISTS ${root}/bin/nvcc)
        list(APPEND nvccs ${root}/bin/nvcc)
      endif()
    endforeach()
    list(REMOVE_DUPLICATES nvccs)
  endif()
  set(${out} ${nvccs} PARENT_SCOPE)
endfunction()

# Sets OUT to the folder of a header. If the header is not found, appends its name to lockstep_missing.
function(lockstep_find_header out header)
  find_path(found ${header} NO_CACHE HINTS ${lockstep_roots} PATHS ENV CPATH PATH_SUFFIXES include include/cccl)
  set(${out} ${found} PARENT_SCOPE)
  if(NOT found)
    set(lockstep_missing ${lockstep_missing} ${header} PARENT_SCOPE)
  endif()
endfunction()

# Defines lockstep::TARGET, or appends the library's name to lockstep_missing. Prefers the file name with the version,
# because libNAME.so may belong to another installed version.
function(lockstep_find_library target name version includes)
  find_library(found NAMES lib${name}.so.${version} ${name} NAMES_PER_DIR NO_CACHE HINTS ${lockstep_roots}
    PATHS ENV LD_LIBRARY_PATH PATH_SUFFIXES lib64 lib lib/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux-gnu)
  if(NOT found)
    set(lockstep_missing ${lockstep_missing} lib${name} PARENT_SCOPE)
  elseif(NOT TARGET lockstep::${target})
    add_library(lockstep::${target} SHARED IMPORTED GLOBAL)
    set_target_properties(lockstep::${target} PROPERTIES IMPORTED_LOCATION ${found}
      INTERFACE_INCLUDE_DIRECTORIES "${includes}")
  endif()
endfunction()

# --- nvcc ----------------------------------------------------------------------------------------

# Sets OUT to the reason why this nvcc can't be used, or to nothing. nvcc must be new enough, and must compile a kernel
# with the host compiler (it refuses host compilers newer than those it knows). Also sets lockstep_cuda_version,
# lockstep_cuda_home (the toolkit's folder), lockstep_cuda_includes, and lockstep_roots (folders that may contain
# libraries).
function(lockstep_judge_nvcc out nvcc)
  execute_process(COMMAND ${nvcc} --version OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE status)
  if(NOT status EQUAL 0 OR NOT said MATCHES "release ([0-9.]+), V([0-9.]+)")
    set(${out} "${nvcc} does not run" PARENT_SCOPE)
    return()
  endif()
  set(version ${CMAKE_MATCH_2})
  if(version VERSION_LESS 12)
    set(${out} "${nvcc} is ${version}, and 12 is needed" PARENT_SCOPE)
    return()
  endif()

  # Asks nvcc for its toolkit's folder, because the nvcc that was found may be a link or a script.
  execute_process(COMMAND ${nvcc} --dryrun -E -x cu /dev/null OUTPUT_VARIABLE said ERROR_VARIABLE said)
  string(REGEX MATCH "TOP=([^\n]*)" home "${said}")
  file(REAL_PATH "${CMAKE_MATCH_1}" home)
  set(lockstep_roots)
  foreach(root ${home} $ENV{CUDA_HOME} $ENV{CUDA_PATH} $ENV{CONDA_PREFIX})
    list(APPEND lockstep_roots ${root} ${root}/targets/${CMAKE_HOST_SYSTEM_PROCESSOR}-linux)
  endforeach()
  list(APPEND lockstep_roots ${lockstep_wheels})
  set(lockstep_missing)
  set(includes)
  foreach(header cuda_runtime.h crt/host_config.h cublasLt.h nvtx3/nvtx3.hpp cub/version.cuh)
    lockstep_find_header(folder ${header})
    list(APPEND includes ${folder})
  endforeach()
  list(REMOVE_DUPLICATES includes)
  if(lockstep_missing)
    list(JOIN lockstep_missing ", " missing)
    set(${out} "${nvcc} is there, ${missing} not" PARENT_SCOPE)
    return()
  endif()

  set(probed "${nvcc} ${version} ${lockstep_cuda_host} ${includes}")
  if(NOT LOCKSTEP_CUDA_PROBED STREQUAL probed)
    set(probe ${CMAKE_BINARY_DIR}/CMakeFiles/lockstep_cuda.cu)
    file(WRITE ${probe} "#include <cuda_bf16.h>\n#include <cub/version.cuh>\n#include <span>\n"
      "__global__ void one(float* x) { *x = 1; }\n"
      "void run(std::span<float> x) { one<<<1, 1>>>(x.data()); }\n")
    list(TRANSFORM includes PREPEND -I OUTPUT_VARIABLE flags)
    execute_process(COMMAND ${nvcc} -std=c++20 -ccbin ${lockstep_cuda_host} ${flags} -c ${probe} -o ${probe}.o
      OUTPUT_VARIABLE said ERROR_VARIABLE said RESULT_VARIABLE status)
    if(NOT status EQUAL 0)
      string(REGEX MATCH "[^\n]*(error|fatal)[^\n]*" line "${said}")
      string(REGEX REPLACE "^.*(error|fatal)[^:a-z]*(: *| -- *)" "" line "${line}")
      string(REGEX REPLACE " The nvcc flag.*" "" line "${line}")
      set(${out} "${nvcc} with ${lockstep_cuda_host}: ${line} CUDAHOSTCXX names another" PARENT_SCOPE)
      return()
    endif()
    set(LOCKSTEP_CUDA_PROBED "${probed}" CACHE INTERNAL "The nvcc, host compiler and headers that compile")
  endif()
  set(${out} "" PARENT_SCOPE)
  set(lockstep_cuda_version ${version} PARENT_SCOPE)
  set(lockstep_cuda_home ${home} PARENT_SCOPE)
  set(lockstep_roots ${lockstep_roots} PARENT_SCOPE)
  set(lockstep_cuda_includes ${includes} PARENT_SCOPE)
endfunction()

lockstep_find_wheels(lockstep_wheels)
lockstep_find_nvccs(lockstep_nvccs ${lockstep_wheels})
set(lockstep_cuda_host ${CMAKE_CUDA_HOST_COMPILER} $ENV{CUDAHOSTCXX} ${CMAKE_CXX_COMPILER})
list(GET lockstep_cuda_host 0 lockstep_cuda_host)
set(lockstep_nvcc)
foreach(candidate IN LISTS lockstep_nvccs)
  lockstep_judge_nvcc(lockstep_reason ${candidate})
  if(NOT lockstep_reason)
    set(lockstep_nvcc ${candidate})
    break()
  elseif(NOT LOCKSTEP_ABOUT_CUDA)
    set(LOCKSTEP_ABOUT_CUDA ${lockstep_reason})    # the reason for the most likely candidate
  endif()
endforeach()
if(NOT lockstep_nvcc)
  return()
endif()

set(lockstep_missing)
string(REGEX MATCH "^[0-9]+" lockstep_major ${lockstep_cuda_version})
lockstep_find_library(cudart cudart ${lockstep_major} "${lockstep_cuda_includes}")
lockstep_find_library(cublas cublas ${lockstep_major} "${lockstep_cuda_includes}")
lockstep_find_library(cublaslt cublasLt ${lockstep_major} "${lockstep_cuda_includes}")
if(lockstep_missing)
  list(JOIN lockstep_missing ", " lockstep_missing)
  set(LOCKSTEP_ABOUT_CUDA "${lockstep_nvcc} is there, ${lockstep_missing} not")
  return()
endif()

# --- The language --------------------------------------------------------------------------------

# The architectures that the kernels are compiled for. Each one takes the same compile time again, so the default is a
# single architecture: that of this machine's GPUs or, without a GPU, the oldest one that supports the kernels'
# instructions (80, the A100) with its PTX, which the driver of any later GPU can translate. CMAKE_CUDA_ARCHITECTURES
# and CUDAARCHS take precedence.
set(LOCKSTEP_CUDA_ARCHITECTURES auto CACHE STRING
  "auto: this machine's GPUs, or one architecture and its PTX; all: sm_80, sm_90, sm_100 and PTX")
execute_process(COMMAND ${lockstep_nvcc} --list-gpu-arch OUTPUT_VARIABLE lockstep_known)
string(REGEX MATCHALL "[0-9]+" lockstep_known "${lockstep_known}")

# Sets OUT to the architectures of this machine's GPUs, such as 90-real; to nothing if there are no GPUs, or if the
# kernels or this nvcc do not support one of them.
function(lockstep_find_gpus out)
  execute_process(COMMAND nvidia-smi --query-gpu=compute_cap --format=csv,noheader
    OUTPUT_VARIABLE said ERROR_QUIET RESULT_VARIABLE status)
  set(found)
  if(status EQUAL 0)
    string(REPLACE "." "" said "${said}")
    string(REGEX MATCHALL "[0-9]+" found "${said}")
    list(REMOVE_DUPLICATES found)
    foreach(architecture IN LISTS found)
      if(architecture LESS 80 OR NOT architecture IN_LIST lockstep_known)
        set(found)
        break()
      endif()
    endforeach()
    list(TRANSFORM found APPEND -real)
  endif()
  set(${out} ${found} PARENT_SCOPE)
endfunction()

set(lockstep_all)
foreach(architecture 80 90 100)    # A100, H100, B200
  if(architecture IN_LIST lockstep_known)
    list(APPEND lockstep_all ${architecture})
  endif()
endforeach()
list(GET lockstep_all 0 lockstep_one)
list(GET lockstep_all -1 lockstep_newest)
list(TRANSFORM lockstep_all APPEND -real)
list(APPEND lockstep_all ${lockstep_newest}-virtual)
set(lockstep_why)
if(CMAKE_CUDA_ARCHITECTURES OR DEFINED ENV{CUDAARCHS})
  set(lockstep_why ", as asked")
elseif(LOCKSTEP_CUDA_ARCHITECTURES STREQUAL "all")
  set(CMAKE_CUDA_ARCHITECTURES ${lockstep_all})
elseif(LOCKSTEP_CUDA_ARCHITECTURES STREQUAL "auto")
  lockstep_find_gpus(CMAKE_CUDA_ARCHITECTURES)
  set(lockstep_why ", this machine's GPUs")
  if(NOT CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES ${lockstep_one})
    set(lockstep_why " and its PTX; LOCKSTEP_CUDA_ARCHITECTURES=all for more")
  endif()
else()
  message(FATAL_ERROR "LOCKSTEP_CUDA_ARCHITECTURES is '${LOCKSTEP_CUDA_ARCHITECTURES}'; it can be auto or "
    "all. CMAKE_CUDA_ARCHITECTURES takes a list such as '86;90'.")
endif()
set(CMAKE_CUDA_COMPILER ${lockstep_nvcc})
if(NOT CMAKE_CUDA_HOST_COMPILER)
  set(CMAKE_CUDA_HOST_COMPILER ${lockstep_cuda_host})
endif()
# Adds folders outside the place where nvcc looks, such as those of wheels: header folders permanently, and library
# folders while CMake tests the compiler.
foreach(folder IN LISTS lockstep_cuda_includes)
  cmake_path(IS_PREFIX lockstep_cuda_home ${folder} lockstep_expected)
  if(NOT lockstep_expected)
    string(APPEND CMAKE_CUDA_FLAGS " -isystem=${folder}")
  endif()
endforeach()
set(lockstep_library_path "$ENV{LIBRARY_PATH}")
list(TRANSFORM lockstep_roots APPEND /lib OUTPUT_VARIABLE lockstep_folders)
list(JOIN lockstep_folders ":" lockstep_folders)
set(ENV{LIBRARY_PATH} "${lockstep_folders}:${lockstep_library_path}")
enable_language(CUDA)
set(ENV{LIBRARY_PATH} "${lockstep_library_path}")

set(lockstep_for)
if(CMAKE_CUDA_ARCHITECTURES STREQUAL "native" AND NOT CMAKE_CUDA_ARCHITECTURES_NATIVE)
  set(CMAKE_CUDA_ARCHITECTURES ${lockstep_one})
  set(lockstep_for "no native GPU here, so ")
  set(lockstep_why " and its PTX")
endif()
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)    # CMake 3.25 does not know that nvcc 12 supports it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)
set(CMAKE_CUDA_EXTENSIONS OFF)
# The process uses only the shared lockstep::cudart; without this setting, CMake would also link a static copy.
set(CMAKE_CUDA_RUNTIME_LIBRARY None)
# Uses the strictest warnings that the code generated by nvcc for the host compiler passes (it does not pass
# -Wpedantic). -lineinfo costs nothing at run time, and lets compute-sanitizer and Nsight name source lines.
target_compile_options(lockstep_options INTERFACE "$<$<COMPILE_LANGUAGE:CUDA>:SHELL:$<$<BOOL:${LOCKSTEP_WERROR}>:--Werror all-warnings>
 --expt-relaxed-constexpr -lineinfo -Xcompiler=-Wall,-Wextra,-Wshadow,-Wconversion,-ffp-contract=off>")

set(LOCKSTEP_HAS_CUDA ON)
list(JOIN CMAKE_CUDA_ARCHITECTURES ", " lockstep_architectures)
set(LOCKSTEP_ABOUT_CUDA "${lockstep_cuda_version}, ${lockstep_nvcc}, ${lockstep_for}for ${lockstep_architectures}${lockstep_why}")

# --- NCCL ----------------------------------------------------------------------------------------

set(LOCKSTEP_ABOUT_NCCL "")
if(LOCKSTEP_NCCL)
  set(lockstep_missing)
  list(PREPEND lockstep_roots ${NCCL_HOME} $ENV{NCCL_HOME} ${NCCL_ROOT} $ENV{NCCL_ROOT})
  lockstep_find_header(lockstep_nccl_h nccl.h)
  lockstep_find_library(nccl nccl 2 "${lockstep_nccl_h};${lockstep_cuda_includes}")
  list(JOIN lockstep_missing ", " LOCKSTEP_ABOUT_NCCL)
  if(lockstep_missing)
    string(PREPEND LOCKSTEP_ABOUT_NCCL "no ")
  else()
    set(LOCKSTEP_HAS_NCCL ON)
    file(STRINGS ${lockstep_nccl_h}/nccl.h lockstep_nccl REGEX "define NCCL_(MAJOR|MINOR|PATCH) ")
    string(REGEX REPLACE "[^0-9]+" "." lockstep_nccl "${lockstep_nccl}")
    string(REGEX MATCH "[0-9].*[0-9]" lockstep_nccl "${lockstep_nccl}")
    get_target_property(lockstep_library lockstep::nccl IMPORTED_LOCATION)
    set(LOCKSTEP_ABOUT_NCCL "${lockstep_nccl}, ${lockstep_library}")
  endif()
endif()
