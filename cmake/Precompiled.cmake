# Half of what the compiler does for a small file is reading these. lockstep_precompiled reads them once for
# all (REUSE_FROM), test_main and test_device for the tests, with doctest. That no file relies on it shows
# in the sanitizers' presets, which do without. So do lessons: with it GCC 12 sees overflows in std::string
# additions that are not there (as in Options.cmake).
set(LOCKSTEP_PRECOMPILED <fmt/format.h> <algorithm> <functional> <map> <memory> <mutex> <string> <vector>)
if(NOT EXISTS ${CMAKE_BINARY_DIR}/precompiled.cpp)
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "// Nothing but the precompiled headers.\n")
endif()
add_library(lockstep_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
target_link_libraries(lockstep_precompiled PRIVATE lockstep_options fmt::fmt)
target_precompile_headers(lockstep_precompiled PRIVATE ${LOCKSTEP_PRECOMPILED})
