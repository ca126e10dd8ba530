#pragma once

#include <cstdint>
#include <string>

namespace lockstep {

/// Returns the bytes that this process can still allocate without swapping: the minimum of the
/// kernel's estimate (MemAvailable), the bytes left within the limits of its control groups
/// (memory.max in cgroup version 2, memory.limit_in_bytes in version 1; file pages count as free),
/// and the bytes left within its address space limit (ulimit -v). Returns the largest int64 if none
/// of these is known. Tests pass other folders as `proc` and `groups`.
std::int64_t available_memory(const std::string& proc = "/proc",
                              const std::string& groups = "/sys/fs/cgroup");

/// Returns a text such as "12.3 GB", in the largest unit that gives a number of at least 1.
std::string text_of_bytes(double bytes);

/// Returns "; this process may use 410 MB of address space (ulimit -v)", or "" if it is unlimited.
std::string address_space_limit();

}  // namespace lockstep
