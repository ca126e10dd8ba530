#include "core/device/memory_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <string>
#include <string_view>

#include "core/trace/recorder.h"

namespace lockstep {

namespace {

constexpr const char* no_name = "other";

/// Mixes all bits (splitmix64, Steele 2014).
std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

/// Sums over parts; empty parts add nothing.
std::uint64_t hash_of(const std::vector<std::int64_t>& bytes) {
  std::uint64_t hash = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != 0)
      hash += mixed(mixed(i + 1) + static_cast<std::uint64_t>(bytes[i]) * 0x9e3779b97f4a7c15);
  return hash;
}

}  // namespace

MemoryParts::MemoryParts() : bytes_(memory_category_count), peak_bytes_(memory_category_count) {
  for (const MemoryCategory category : all_memory_categories)
    parts_.push_back({category, no_name, -1});
}

MemoryParts::Id MemoryParts::find(MemoryCategory category, const char* kind, int layer) {
  if (!on_ || (kind == nullptr && layer < 0)) return unnamed(category);
  if (kind == nullptr) kind = no_name;
  const std::uint64_t hash =
      (reinterpret_cast<std::uintptr_t>(kind) + static_cast<std::uint64_t>(layer) * 8 +
       static_cast<std::uint64_t>(category)) *
      0x9e3779b97f4a7c15;
  Found& found = found_[hash >> 55];  // 9 bits
  if (found.kind != kind || found.layer != layer || found.category != category)
    found = {kind, layer, category, search(category, kind, layer)};
  return found.id;
}

MemoryParts::Id MemoryParts::search(MemoryCategory category, const char* kind, int layer) {
  const auto [at, fresh] = ids_.try_emplace({category, kind, layer}, unnamed(category));
  if (!fresh) return at->second;
  // Equal strings may have different addresses.
  const auto same = std::ranges::find_if(parts_, [&](const Part& part) {
    return part.category == category && part.layer == layer && std::string_view{part.kind} == kind;
  });
  if (same != parts_.end()) {
    at->second = static_cast<Id>(same - parts_.begin());
  } else if (parts_.size() < most_memory_parts) {
    at->second = static_cast<Id>(parts_.size());
    parts_.push_back({category, kind, layer});
    bytes_.push_back(0);
    peak_bytes_.reserve(bytes_.capacity());  // leave_peak() must not throw
  }
  return at->second;
}

MemoryParts::Id MemoryParts::in_category(Id part, MemoryCategory category) {
  return find(category, parts_[part].kind, parts_[part].layer);
}

void MemoryParts::leave_peak() {
  peak_bytes_ = bytes_;
  at_peak_ = false;
}

void MemoryParts::reset_peak() {
  peak_total_ = std::accumulate(bytes_.begin(), bytes_.end(), std::int64_t{0});
  at_peak_ = true;
}

int MemoryParts::state(Recorder& trace) {
  return on_ && trace.on() ? number_of(bytes_, most_memory_changes / 2, trace) : -1;
}

void MemoryParts::record_peak(Recorder& trace) {
  if (on_ && trace.on())
    if (const int number = number_of(at_peak_ ? bytes_ : peak_bytes_, most_memory_changes, trace);
        number >= 0)
      trace.metadata("memory at peak",
                     fmt::format(R"({{"step":{},"state":{}}})", trace.step(), number));
  reset_peak();
}

int MemoryParts::number_of(const Bytes& bytes, std::size_t most_changes, Recorder& trace) {
  const std::uint64_t hash = hash_of(bytes);
  if (const auto known = states_.find(hash); known != states_.end()) return known->second;
  // A state has at most one change for each part.
  if (states_.size() >= most_memory_states * most_changes / most_memory_changes ||
      written_changes_ + parts_.size() > most_changes)
    return -1;
  const int number = static_cast<int>(states_.size());
  states_.emplace(hash, number);
  write_state(bytes, trace);
  return number;
}

/// Writes the parts that are new since the last state, and the bytes that differ from it.
void MemoryParts::write_state(const Bytes& bytes, Recorder& trace) {
  std::string text = fmt::format(R"({{"state":{},"parts":[)", states_.size() - 1);
  for (const char* comma = ""; written_parts_ < parts_.size(); ++written_parts_, comma = ",") {
    const Part& part = parts_[written_parts_];
    text +=
        fmt::format(R"({}["{}","{}",{}])", comma, name_of(part.category), part.kind, part.layer);
  }
  text += R"(],"bytes":[)";
  written_bytes_.resize(parts_.size());
  const char* comma = "";
  for (std::size_t i = 0; i < parts_.size(); ++i) {
    const std::int64_t now = i < bytes.size() ? bytes[i] : 0;
    if (now == written_bytes_[i]) continue;
    text += fmt::format("{}{},{}", std::exchange(comma, ","), i, now);
    written_bytes_[i] = now;
    ++written_changes_;
  }
  trace.metadata("memory state", text + "]}");
}

}  // namespace lockstep
