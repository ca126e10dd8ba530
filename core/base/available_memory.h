#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Returns the bytes that this process can still allocate without swapping: the least of what the
/// kernel estimates (MemAvailable), what its control groups leave (memory.max of version 2,
/// memory.limit_in_bytes of version 1; file pages count as free), and its address space limit
/// (ulimit -v). Returns the largest number if nothing is known. `proc` and `groups` are the folders
/// to read, for tests.
std::int64_t available_memory(const std::string& proc = "/proc",
                              const std::string& groups = "/sys/fs/cgroup");

/// "12.3 GB", with the unit that gives at least one whole digit.
std::string text_of_bytes(double bytes);

}  // namespace lockstep
