# The compile options for all of Lockstep's own code; for nvcc, see Cuda.cmake. They do not apply to the packages'
# headers, which are system headers.
add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR})
set(flags
  # GCC's own garbage collection takes a tenth of its time: let it wait until a file needs 1 GB, which most never do.
  $<$<CXX_COMPILER_ID:GNU>:--param=ggc-min-heapsize=1000000>
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion $<$<BOOL:${LOCKSTEP_WERROR}>:-Werror>
  -Wno-missing-field-initializers  # designated initializers leave the other members at their defaults, on purpose
  # In additions of std::string, GCC 12 reports overlaps and accesses out of bounds that do not exist (GCC bug 105651
  # and its relatives), depending on which functions it inlines.
  $<$<CXX_COMPILER_ID:GNU>:-Wno-restrict>
  "$<$<AND:$<CXX_COMPILER_ID:GNU>,$<VERSION_LESS:$<CXX_COMPILER_VERSION>,13>>:-Wno-array-bounds;-Wno-stringop-overflow;-Wno-stringop-overread>"
  # Clang's -Wconversion includes signs, and GCC's does not. Clang does not know the pragma "GCC ivdep", and it reports
  # deprecated functions that GCC's own library uses.
  $<$<CXX_COMPILER_ID:Clang>:-Wno-sign-conversion>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-unknown-pragmas>
  $<$<CXX_COMPILER_ID:Clang>:-Wno-deprecated-declarations>
  # Products and sums are fused only if the code says so, so results are bitwise identical wherever the compiler splits
  # a loop.
  -ffp-contract=off)
target_compile_options(lockstep_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${flags}>")

if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all
    # With the address sanitizer, GCC 12 wrongly reports uninitialized variables in libstdc++'s headers.
    $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized>)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
