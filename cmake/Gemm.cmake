# The library that computes the CPU's matrix products. On x86-64 it is oneDNN, which selects code for the processor's
# features. OpenBLAS selects code for the processor's model; on a model newer than the package, it runs code for SSE3,
# at a fifth of the speed. On other architectures, or if oneDNN is missing, the library is OpenBLAS.
set(LOCKSTEP_GEMM openblas)
add_library(lockstep_gemm INTERFACE)
if(CMAKE_SYSTEM_PROCESSOR MATCHES "x86_64|AMD64")
  find_path(onednn_INCLUDE_DIR oneapi/dnnl/dnnl.hpp)
  find_library(onednn_LIBRARY NAMES dnnl)
  if(onednn_INCLUDE_DIR AND onednn_LIBRARY)
    set(LOCKSTEP_GEMM onednn)
    target_include_directories(lockstep_gemm SYSTEM INTERFACE ${onednn_INCLUDE_DIR})
    target_link_libraries(lockstep_gemm INTERFACE ${onednn_LIBRARY} gomp)  # oneDNN's OpenMP
  endif()
endif()
if(LOCKSTEP_GEMM STREQUAL openblas)
  # Packages unpacked into a folder of CMAKE_PREFIX_PATH (tests/gpu/pack) have no pkg-config that knows it.
  if(PkgConfig_FOUND)
    pkg_check_modules(openblas QUIET IMPORTED_TARGET openblas)
  endif()
  if(TARGET PkgConfig::openblas)
    target_link_libraries(lockstep_gemm INTERFACE PkgConfig::openblas)
  else()
    find_path(openblas_INCLUDE_DIR cblas.h REQUIRED
      PATH_SUFFIXES openblas openblas-serial openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial
        ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
    find_library(openblas_LIBRARY NAMES openblas libopenblas.so.0 REQUIRED
      PATH_SUFFIXES openblas-serial openblas-pthread ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-serial
        ${CMAKE_LIBRARY_ARCHITECTURE}/openblas-pthread)
    target_include_directories(lockstep_gemm SYSTEM INTERFACE ${openblas_INCLUDE_DIR})
    target_link_libraries(lockstep_gemm INTERFACE ${openblas_LIBRARY})
  endif()
endif()
