#include "viz/read/timeline/memory_states.h"

#include <algorithm>
#include <numeric>

namespace lockstep {

bool MemoryStates::add(int number, const std::vector<MemoryPart>& new_parts,
                       const std::vector<Change>& changes) {
  const std::size_t parts = parts_.size() + new_parts.size();
  if (number != count() || totals_.size() >= most_memory_states || parts > most_memory_parts ||
      changes_.size() + changes.size() > most_memory_changes ||
      std::ranges::any_of(changes, [&](const Change& change) {
        return change.part >= parts || change.bytes < 0 || change.bytes > most_part_bytes;
      }))
    return false;
  parts_.insert(parts_.end(), new_parts.begin(), new_parts.end());
  last_.resize(parts);
  std::int64_t total = totals_.empty() ? 0 : totals_.back();
  for (const Change& change : changes)
    total += change.bytes - std::exchange(last_[change.part], change.bytes);
  for (const Change& change : changes)
    changes_.push_back(static_cast<std::uint64_t>(change.bytes) * most_memory_parts + change.part);
  ends_.push_back(changes_.size());
  totals_.push_back(total);
  return true;
}

std::vector<std::int64_t> MemoryStates::bytes(int number) const {
  std::vector<std::int64_t> bytes(parts_.size());
  for (std::size_t i = 0; i < ends_[static_cast<std::size_t>(number)]; ++i)
    bytes[changes_[i] % most_memory_parts] =
        static_cast<std::int64_t>(changes_[i] / most_memory_parts);
  return bytes;
}

void MemoryStates::rename(const std::vector<NameId>& names) {
  for (MemoryPart& part : parts_) part.kind = names[part.kind];
}

}  // namespace lockstep
