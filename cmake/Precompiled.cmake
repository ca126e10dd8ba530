# The headers below take half of the time that the compiler spends on a small file. lockstep_precompiled compiles them
# once for all targets that name it in REUSE_FROM; for the tests, test_main and test_device do so, together with
# doctest. The sanitizer presets do not use precompiled headers, which shows that no file relies on them.
# GCC 14 ignores them in files that are compiled with a different -O, and would warn about each of these files.
set(CMAKE_PCH_WARN_INVALID OFF)
set(LOCKSTEP_PRECOMPILED <fmt/format.h> <algorithm> <chrono> <filesystem> <fstream> <functional> <map> <memory> <mutex> <optional> <sstream> <string> <thread> <vector>)
if(NOT EXISTS ${CMAKE_BINARY_DIR}/precompiled.cpp)
  file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "// Nothing but the precompiled headers.\n")
endif()
add_library(lockstep_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
target_link_libraries(lockstep_precompiled PRIVATE lockstep_options fmt::fmt)
target_precompile_headers(lockstep_precompiled PRIVATE ${LOCKSTEP_PRECOMPILED})
