# What all of our own code is compiled with; for nvcc see Cuda.cmake. Packages' headers are system headers
# and exempt.
add_library(lockstep_options INTERFACE)
target_include_directories(lockstep_options INTERFACE ${CMAKE_SOURCE_DIR})
set(flags
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Werror
  -Wno-missing-field-initializers  # designated initializers leave the rest at its defaults, on purpose
  -Wno-restrict  # GCC 12 sees overlaps in std::string additions that are not there (its bug 105651)
  # The same source gives the same bits wherever a loop is split: products and sums are fused only
  # where the code says so.
  -ffp-contract=off)
target_compile_options(lockstep_options INTERFACE "$<$<COMPILE_LANGUAGE:C,CXX>:${flags}>")

if(LOCKSTEP_SANITIZE)
  target_compile_options(lockstep_options INTERFACE
    -fsanitize=${LOCKSTEP_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(lockstep_options INTERFACE -fsanitize=${LOCKSTEP_SANITIZE})
endif()
