#include "core/operations/operation_log.h"

#include <bit>
#include <cstring>
#include <type_traits>

namespace lockstep {

namespace {

/// Combines values into a hash, by the mixing function of SplitMix64.
class Hash {
 public:
  template <class T>
  Hash& operator<<(T value) {
    std::uint64_t bits;
    if constexpr (std::is_floating_point_v<T>)
      bits = std::bit_cast<std::uint64_t>(static_cast<double>(value));
    else if constexpr (std::is_pointer_v<T>)
      bits = reinterpret_cast<std::uintptr_t>(value);
    else
      bits = static_cast<std::uint64_t>(value);
    state_ = (state_ ^ bits) * 0xbf58476d1ce4e5b9;
    state_ ^= state_ >> 29;
    return *this;
  }
  operator std::size_t() const { return state_; }

 private:
  std::uint64_t state_ = 0x9e3779b97f4a7c15;
};

std::size_t hash_of(const RecordedOperation& operation) {
  Hash hash;
  const Cost& cost = operation.cost;
  const Collective& collective = operation.collective;
  hash << operation.kind << operation.category << operation.name << operation.stage
       << operation.microbatch << operation.layer << cost.flops << cost.bytes << cost.m << cost.n
       << cost.k << operation.stream << operation.peer << operation.bytes << operation.group
       << collective.operation << collective.elements << operation.back;
  for (const std::int64_t count : collective.counts) hash << count;
  return hash;
}

std::size_t hash_of(const std::vector<std::uint32_t>& list) {
  Hash hash;
  for (const std::uint32_t each : list) hash << each;
  return hash;
}

}  // namespace

// -- the book -------------------------------------------------------------------------------------

const char* OperationBook::keep(const char* name) {
  const auto [found, is_new] = kept_.try_emplace(name);
  // An earlier, different name may have been at this address.
  if (is_new || std::strcmp(found->second, name) != 0)
    found->second = run_.names.insert(name).first->c_str();
  return found->second;
}

void OperationBook::add_group(int rank, RunOperations::GroupMembers group) {
  std::lock_guard lock{mutex_};
  const auto [found, is_new] =
      groups_.try_emplace(std::move(group), static_cast<std::uint32_t>(run_.groups.size()));
  if (is_new) run_.groups.push_back(found->first);
  run_.ranks[static_cast<std::size_t>(rank)].groups.push_back(found->second);
}

std::uint32_t OperationBook::index_of(const RecordedOperation& operation) {
  std::lock_guard lock{mutex_};
  RecordedOperation kept = operation;
  kept.name = keep(operation.name);
  kept.axis = keep(operation.axis);
  const std::size_t hash = hash_of(kept);
  const auto [first, last] = operations_.equal_range(hash);
  for (auto each = first; each != last; ++each)
    if (run_.operations[each->second] == kept) return each->second;
  const auto index = static_cast<std::uint32_t>(run_.operations.size());
  operations_.emplace(hash, index);
  run_.operations.push_back(std::move(kept));
  return index;
}

void OperationBook::add_section(int rank, int step, std::vector<std::uint32_t> list) {
  const std::size_t hash = hash_of(list);
  std::lock_guard lock{mutex_};
  auto& sections = run_.ranks[static_cast<std::size_t>(rank)].sections;
  const auto [first, last] = lists_.equal_range(hash);
  for (auto each = first; each != last; ++each)
    if (run_.lists[each->second] == list) return sections.push_back({step, each->second});
  const auto index = static_cast<std::uint32_t>(run_.lists.size());
  lists_.emplace(hash, index);
  run_.lists.push_back(std::move(list));
  sections.push_back({step, index});
}

void OperationBook::add(const RunOperations& other) {
  std::vector<std::uint32_t> indices;
  for (const RecordedOperation& each : other.operations) indices.push_back(index_of(each));
  for (std::size_t rank = 0; rank < other.ranks.size(); ++rank) {
    for (const std::uint32_t group : other.ranks[rank].groups)
      add_group(static_cast<int>(rank), other.groups[group]);
    for (const auto& [step, list] : other.ranks[rank].sections) {
      std::vector<std::uint32_t> mine;
      for (const std::uint32_t each : other.lists[list]) mine.push_back(indices[each]);
      add_section(static_cast<int>(rank), step, std::move(mine));
    }
  }
}

// -- a rank's log ---------------------------------------------------------------------------------

void OperationLog::add(const RecordedOperation& operation) {
  if (operation.is_issued()) ++issued_;
  const Entry* next = expected();
  if (next != nullptr && next->operation == operation) return append(entries_[last_].next);
  const std::uint32_t index = find(operation);
  entries_[last_].next = index;
  append(index);
}

void OperationLog::append(std::uint32_t entry) {
  last_ = entry;
  section_.push_back(entry);
}

std::uint32_t OperationLog::find(const RecordedOperation& operation) {
  const std::size_t hash = hash_of(operation);
  const auto [first, last] = index_.equal_range(hash);
  for (auto each = first; each != last; ++each)
    if (entries_[each->second].operation == operation) return each->second;
  const auto index = static_cast<std::uint32_t>(entries_.size());
  index_.emplace(hash, index);
  entries_.push_back({0, book_.index_of(operation), operation});
  return index;
}

void OperationLog::kernel(const Span& span, const Cost& cost) {
  const auto [category, stage] = ranges_.empty() ? std::pair{Category::kernel, -1} : ranges_.back();
  // Kernels are by far the most frequent operations, so the expected one is compared without
  // building another.
  if (const Entry* next = expected()) {
    const RecordedOperation& operation = next->operation;
    if (operation.kind == RecordedOperation::Kind::kernel && operation.name == span.name &&
        operation.category == category && operation.stage == stage &&
        operation.layer == span.layer && operation.cost == cost)
      return append(entries_[last_].next);
  }
  add({.category = category, .name = span.name, .stage = stage, .layer = span.layer, .cost = cost});
}

void OperationLog::begin(const Span& span) {
  add({.kind = RecordedOperation::Kind::begin,
       .category = span.category,
       .name = span.name,
       .stage = span.stage,
       .microbatch = span.microbatch});
  const int around = ranges_.empty() ? -1 : ranges_.back().second;
  ranges_.emplace_back(span.category, span.stage >= 0 ? span.stage : around);
}

void OperationLog::end(Category category) {
  const int stage = ranges_.back().second;
  ranges_.pop_back();
  add({.kind = RecordedOperation::Kind::end, .category = category, .stage = stage});
}

void OperationLog::together() {
  add({.kind = RecordedOperation::Kind::together});
}

OperationLog::Issued OperationLog::message(RecordedOperation::Kind direction, const Route& route,
                                           int peer, std::int64_t bytes, const Span& span) {
  add({.kind = direction,
       .stage = span.stage,
       .microbatch = span.microbatch,
       .stream = route.stream,
       .channel = route.channel,
       .peer = peer - rank_,
       .bytes = bytes,
       .axis = route.axis});
  return issued_ - 1;
}

int OperationLog::open_group(RunOperations::GroupMembers group) {
  book_.add_group(rank_, std::move(group));
  return groups_++;
}

OperationLog::Issued OperationLog::collective(int group, Collective collective) {
  add({.kind = RecordedOperation::Kind::collective,
       .group = group,
       .collective = std::move(collective)});
  return issued_ - 1;
}

void OperationLog::wait(Issued issued) {
  if (issued == not_recorded) return;
  const Entry* next = expected();
  if (next != nullptr && next->operation.kind == RecordedOperation::Kind::wait &&
      next->operation.back == issued_ - issued)
    return append(entries_[last_].next);
  add({.kind = RecordedOperation::Kind::wait, .back = issued_ - issued});
}

void OperationLog::end_section(int step) {
  if (section_.empty()) return;
  std::vector<std::uint32_t> list;
  list.reserve(section_.size());
  for (const std::uint32_t each : section_) list.push_back(entries_[each].in_book);
  section_.clear();
  book_.add_section(rank_, step, std::move(list));
}

}  // namespace lockstep
