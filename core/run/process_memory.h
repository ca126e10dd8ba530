#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

struct RankRecord;

/// What the operating system counts for this process: bytes that are resident in memory, now and at
/// their peak (proc_pid_status(5): VmRSS, VmHWM).
struct ResidentBytes {
  std::int64_t now = 0;
  std::int64_t peak = 0;
};
/// Nothing if the system does not tell.
std::optional<ResidentBytes> resident_bytes();

/// What a rank notes of the process that it runs in. Ranks that are threads share one.
struct ProcessRecord {
  int id = 0;                 ///< 0: nothing is known
  std::int64_t program = 0;   ///< bytes resident before the ranks allocated anything
  std::int64_t resident = 0;  ///< the peak until this rank had trained
};

/// One process's peak of resident memory, and what it consists of.
struct ProcessMemory {
  std::vector<int> ranks;
  std::int64_t resident = 0;
  std::int64_t tensors = 0;  ///< the sum of the ranks' peaks by the allocator's account
  std::int64_t program = 0;  ///< before the ranks allocated anything
  /// Not in the account: stacks, buffers for matrix products, messages and the trace, and blocks
  /// that are idle at the peak.
  std::int64_t other() const { return resident - tensors - program; }
};
/// In the order of each process's first rank; none if nothing is known of them.
std::vector<ProcessMemory> process_memory(const std::vector<RankRecord>& ranks);

}  // namespace lockstep
