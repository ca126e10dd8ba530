#pragma once

#include <string>
#include <vector>

#include "tests/flight_recorder/pickle_writer.h"
#include "viz/read/flight_recorder/words.h"

namespace lockstep {

/// Dumps that a test writes entry by entry.
class HandMade {
 public:
  /// Adds a process group to all dumps; `ranks` lists its members as torch writes them: "[0, 1]".
  void group(const std::string& name, const std::string& description, const std::string& ranks) {
    config_[name] = {{"name", name}, {"desc", description}, {"ranks", ranks}};
  }
  /// Adds an entry to a rank's dump and returns it.
  DumpJson& call(int rank, const std::string& group, int sequence, const std::string& name,
                 const std::string& state) {
    if (dumps_.size() <= static_cast<std::size_t>(rank))
      dumps_.resize(static_cast<std::size_t>(rank) + 1, DumpJson::array());
    DumpJson& entries = dumps_[static_cast<std::size_t>(rank)];
    const bool p2p = name.find("send") == 0 || name.find("recv") == 0;
    entries.push_back({{"record_id", entries.size()},
                       {"process_group", DumpJson::array({"tuple", group, ""})},
                       {p2p ? "p2p_seq_id" : "collective_seq_id", sequence},
                       {"profiling_name", "nccl:" + name},
                       {"state", state},
                       {"is_p2p", p2p}});
    return entries.back();
  }
  /// Adds a dump without entries.
  void silent(int rank) {
    if (dumps_.size() <= static_cast<std::size_t>(rank))
      dumps_.resize(static_cast<std::size_t>(rank) + 1, DumpJson::array());
  }
  flight::Job job(const std::vector<int>& without = {}) const {
    flight::Job job;
    for (std::size_t rank = 0; rank < dumps_.size(); ++rank) {
      if (std::ranges::count(without, static_cast<int>(rank)) > 0) continue;
      job.dumps.push_back(
          {static_cast<int>(rank),
           flight::read_dump(pickle_of(
               {{"version", "2.10"}, {"pg_config", config_}, {"entries", dumps_[rank]}}))});
    }
    return job;
  }
  flight::Stall stall(const std::vector<int>& without = {}) const {
    return flight::stall_of(job(without));
  }

 private:
  DumpJson config_ = DumpJson::object();
  std::vector<DumpJson> dumps_;
};

}  // namespace lockstep
