#include "core/run/results/process_memory.h"

#include <algorithm>
#include <fstream>
#include <string>

#include "core/run/results/rank_results.h"

namespace lockstep {

std::optional<ResidentBytes> resident_bytes() {
  std::ifstream status{"/proc/self/status"};
  ResidentBytes bytes;
  for (std::string key; status >> key;) {  // "VmRSS:     12345 kB"
    std::int64_t kilobytes = 0;
    if (key == "VmRSS:" && status >> kilobytes) bytes.now = 1024 * kilobytes;
    if (key == "VmHWM:" && status >> kilobytes) bytes.peak = 1024 * kilobytes;
  }
  if (bytes.now == 0 || bytes.peak == 0) return {};
  return bytes;
}

std::vector<ProcessMemory> process_memory(const std::vector<RankResults>& ranks) {
  std::vector<ProcessMemory> processes;
  std::vector<const RankResults*> firsts;  // the first rank of each process
  for (const RankResults& rank : ranks) {
    if (rank.process.id == 0) return {};
    const auto found = std::ranges::find_if(firsts, [&](const RankResults* first) {
      return first->host == rank.host && first->process.id == rank.process.id;
    });
    const auto at = static_cast<std::size_t>(found - firsts.begin());
    if (found == firsts.end()) {
      firsts.push_back(&rank);
      processes.push_back(
          {.ranks = {}, .resident = rank.process.resident, .program = rank.process.program});
    }
    ProcessMemory& process = processes[at];
    process.ranks.push_back(rank.rank);
    // Uses the value from the rank that finished training first, because later values include that
    // rank's results.
    process.resident = std::min(process.resident, rank.process.resident);
    std::int64_t peak = 0;
    for (const PhaseResults& phase : rank.phases) peak = std::max(peak, phase.peak_total);
    process.tensors += peak;
  }
  return processes;
}

}  // namespace lockstep
