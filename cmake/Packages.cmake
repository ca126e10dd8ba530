# Every dependency comes from the distribution, but for NVIDIA's. What a lesson can't do without is
# REQUIRED; MPI, CUDA, NCCL, the viewer and the benchmarks' library are found or left out, with a line
# that says so.
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json REQUIRED)
find_package(simdjson REQUIRED)
find_package(PkgConfig)

# Packages unpacked into a folder of CMAKE_PREFIX_PATH (tests/gpu/pack) have no pkg-config that knows it.
add_library(lockstep_openblas INTERFACE)
if(PkgConfig_FOUND)
  pkg_check_modules(openblas QUIET IMPORTED_TARGET openblas)
endif()
if(TARGET PkgConfig::openblas)
  target_link_libraries(lockstep_openblas INTERFACE PkgConfig::openblas)
else()
  find_path(openblas_INCLUDE_DIR cblas.h REQUIRED
    PATH_SUFFIXES openblas openblas-serial openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial
      ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
  find_library(openblas_LIBRARY NAMES openblas libopenblas.so.0 REQUIRED
    PATH_SUFFIXES openblas-serial openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial
      ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
  target_include_directories(lockstep_openblas SYSTEM INTERFACE ${openblas_INCLUDE_DIR})
  target_link_libraries(lockstep_openblas INTERFACE ${openblas_LIBRARY})
endif()

set(LOCKSTEP_HAS_MPI OFF)
if(LOCKSTEP_MPI)
  find_package(MPI COMPONENTS C)
  if(MPI_C_FOUND)
    set(LOCKSTEP_HAS_MPI ON)
  endif()
endif()

include(cmake/Cuda.cmake)

set(LOCKSTEP_HAS_VIEWER OFF)
if(LOCKSTEP_VIEWER AND PkgConfig_FOUND)
  find_package(glfw3 3.3)
  find_package(OpenGL COMPONENTS OpenGL)
  pkg_check_modules(imgui IMPORTED_TARGET imgui)
  if(glfw3_FOUND AND OpenGL_FOUND AND imgui_FOUND)
    set(LOCKSTEP_HAS_VIEWER ON)
  endif()
endif()

set(LOCKSTEP_HAS_BENCH OFF)
if(LOCKSTEP_BENCH)
  find_package(benchmark)
  if(benchmark_FOUND)
    set(LOCKSTEP_HAS_BENCH ON)
  endif()
endif()

# LOCKSTEP_ABOUT_* is which one was found, or why it is left out.
foreach(part MPI CUDA NCCL VIEWER BENCH)
  if(LOCKSTEP_HAS_${part})
    set(said "found")
  elseif(NOT LOCKSTEP_${part})
    set(said "left out, as asked")
  elseif(LOCKSTEP_ABOUT_${part})
    set(said "left out")
  else()
    set(said "not found, left out")
  endif()
  if(LOCKSTEP_${part} AND LOCKSTEP_ABOUT_${part})
    string(APPEND said " (${LOCKSTEP_ABOUT_${part}})")
  endif()
  message(STATUS "Lockstep: ${part} ${said}")
endforeach()
