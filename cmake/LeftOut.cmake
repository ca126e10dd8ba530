# Kernel files that a build leaves out. If nvcc can't compile a file, tests/gpu/run builds without it, so that the file
# costs only its own kernels. A generated C++ file takes its place: its functions have the same signatures, but throw
# an exception that names the file. The function with which a family sets its kernels sets kernels that throw.
#
#   -DLOCKSTEP_LEAVE_OUT_KERNELS="kernels/cuda/gelu.cu;tests/gpu/ptx_kernels.cu"
set(LOCKSTEP_LEAVE_OUT_KERNELS "" CACHE STRING "Kernel files to leave out, such as kernels/cuda/gelu.cu")
foreach(file IN LISTS LOCKSTEP_LEAVE_OUT_KERNELS)
  if(NOT file MATCHES "\\.cu$" OR NOT EXISTS ${CMAKE_SOURCE_DIR}/${file})
    message(FATAL_ERROR "LOCKSTEP_LEAVE_OUT_KERNELS: there is no kernel file '${file}'")
  endif()
endforeach()

# Writes the file that takes the place of FILE, and sets OUT to its path. FILE is relative to the source folder. All that
# it defines for other files follows its unnamed namespace.
function(lockstep_stand_in out file)
  file(READ ${CMAKE_SOURCE_DIR}/${file} source)
  string(REGEX MATCH "\nnamespace (lockstep[a-z:]*) {" namespace "${source}")
  set(namespace ${CMAKE_MATCH_1})
  string(FIND "${source}" "\n}  // namespace\n" end REVERSE)
  string(SUBSTRING "${source}" ${end} -1 source)
  string(REGEX MATCHALL "\n[a-z][A-Za-z_:<>0-9]* [a-z_0-9]+\\([^;{}]*\\) {\n" functions "${source}")
  if(NOT namespace OR NOT functions)
    message(FATAL_ERROR "${file} can't be left out: it has no function after its unnamed namespace")
  endif()
  string(REGEX REPLACE "\\.cu$" ".h" header ${file})
  set(includes "#include \"kernels/cuda/left_out.h\"\n")
  if(EXISTS ${CMAKE_SOURCE_DIR}/${header})
    string(APPEND includes "#include \"${header}\"\n")
  endif()
  set(names)
  set(text "")
  foreach(function IN LISTS functions)
    string(APPEND text "${function}")
    string(REGEX MATCH "([a-z_0-9]+)\\(" name "${function}")
    set(name ${CMAKE_MATCH_1})
    if(name MATCHES "^set_")
      string(REGEX MATCHALL "\n  kernels\\.[a-z_0-9]+ = " kernels "${source}")
      foreach(kernel IN LISTS kernels)
        string(REGEX MATCH "\\.([a-z_0-9]+)" kernel "${kernel}")
        string(APPEND text "  leave_out(kernels.${CMAKE_MATCH_1}, \"${CMAKE_MATCH_1}\", \"${file}\");\n")
        list(APPEND names ${CMAKE_MATCH_1})
      endforeach()
    else()
      string(APPEND text "  throw_left_out(\"${name}\", \"${file}\");\n")
      list(APPEND names ${name})
    endif()
    string(APPEND text "}\n")
  endforeach()
  string(REGEX REPLACE "\\.cu$" ".cpp" generated ${CMAKE_BINARY_DIR}/left_out/${file})
  file(CONFIGURE OUTPUT ${generated} CONTENT "// In place of ${file}; written by cmake/LeftOut.cmake.
${includes}
#pragma GCC diagnostic ignored \"-Wunused-parameter\"

namespace ${namespace} {
using lockstep::cuda::leave_out, lockstep::cuda::throw_left_out;
${text}
}  // namespace ${namespace}
")
  set(${out} ${generated} PARENT_SCOPE)
  list(JOIN names ", " names)
  set(lockstep_left_out ${names} PARENT_SCOPE)
endfunction()

# Replaces, in the list VARIABLE of sources, the files to be left out.
function(lockstep_leave_out variable)
  set(lockstep_kept)
  foreach(source IN LISTS ${variable})
    cmake_path(ABSOLUTE_PATH source)
    cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR} OUTPUT_VARIABLE file)
    if(file IN_LIST LOCKSTEP_LEAVE_OUT_KERNELS)
      lockstep_stand_in(source ${file})
      message(STATUS "Lockstep: left out ${file}: ${lockstep_left_out}")
    endif()
    list(APPEND lockstep_kept ${source})
  endforeach()
  set(${variable} ${lockstep_kept} PARENT_SCOPE)
endfunction()
