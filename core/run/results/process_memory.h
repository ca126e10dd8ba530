#pragma once

#include <cstdint>
#include <optional>
#include <vector>

namespace lockstep {

struct RankResults;

/// The operating system's figures for this process: resident bytes, current and peak
/// (proc_pid_status(5): VmRSS, VmHWM).
struct ResidentBytes {
  std::int64_t now = 0;
  std::int64_t peak = 0;
};
/// Empty if the system does not provide these figures.
std::optional<ResidentBytes> resident_bytes();

/// The process that a rank belongs to. Ranks that are threads share one process.
struct RankProcess {
  int id = 0;                 ///< 0: not measured
  std::int64_t program = 0;   ///< bytes resident before the ranks allocate
  std::int64_t resident = 0;  ///< the peak up to the end of this rank's last step
};

/// One process's peak resident memory, and its parts.
struct ProcessMemory {
  std::vector<int> ranks;
  std::int64_t resident = 0;
  std::int64_t tensors = 0;  ///< the sum of the ranks' peaks, by the allocator's account
  std::int64_t program = 0;  ///< before the ranks allocate
  /// The rest, which the account does not cover: stacks, idle blocks, and buffers for matrix
  /// products, messages and the trace.
  std::int64_t other() const { return resident - tensors - program; }
};
/// One entry per process, ordered by the process's first rank. Empty unless every rank's process
/// was measured.
std::vector<ProcessMemory> process_memory(const std::vector<RankResults>& ranks);

}  // namespace lockstep
