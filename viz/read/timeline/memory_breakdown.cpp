#include "viz/read/timeline/memory_breakdown.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "core/base/printable.h"

namespace lockstep {

std::int64_t MemoryBreakdown::total() const {
  return std::accumulate(categories.begin(), categories.end(), std::int64_t{0},
                         [](std::int64_t sum, const Category& each) { return sum + each.bytes; });
}

MemoryBreakdown memory_breakdown(const Timeline& timeline, const RankTimeline& rank, int state) {
  const MemoryStates& states = rank.memory_states;
  const std::vector<std::int64_t> bytes = states.bytes(state);
  std::map<MemoryCategory, std::map<NameId, std::map<int, std::int64_t>>> sums;
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > 0) {
      const MemoryPart& part = states.parts()[i];
      sums[part.category][part.kind][part.layer] += bytes[i];
    }
  MemoryBreakdown breakdown;
  for (const auto& [category, kinds] : sums) {
    MemoryBreakdown::Category& of_category = breakdown.categories.emplace_back();
    of_category.category = category;
    for (const auto& [name, layers] : kinds) {
      MemoryBreakdown::Kind& kind = of_category.kinds.emplace_back();
      kind.name = printable(timeline.name(name));
      for (const auto& [layer, of_layer] : layers) {
        kind.bytes += of_layer;
        if (layer >= 0)
          kind.layers.emplace_back(layer, of_layer);
        else
          kind.outside += of_layer;
      }
      of_category.bytes += kind.bytes;
    }
    std::ranges::stable_sort(of_category.kinds, std::greater{}, &MemoryBreakdown::Kind::bytes);
  }
  std::ranges::stable_sort(breakdown.categories, std::greater{}, &MemoryBreakdown::Category::bytes);
  return breakdown;
}

std::optional<MemoryBreakdown> memory_breakdown_at(const Timeline& timeline,
                                                   const RankTimeline& rank, Picoseconds at) {
  const auto after = std::ranges::upper_bound(rank.memory, at, {}, &MemorySample::at);
  if (after == rank.memory.begin()) return {};
  const MemorySample& sample = *std::prev(after);
  if (!rank.memory_states.has(sample.state)) return {};
  MemoryBreakdown breakdown = memory_breakdown(timeline, rank, sample.state);
  std::array<std::int64_t, memory_category_count> sums{};
  for (const MemoryBreakdown::Category& each : breakdown.categories)
    sums[static_cast<std::size_t>(each.category)] = each.bytes;
  return sums == sample.bytes ? std::optional{std::move(breakdown)} : std::nullopt;
}

std::optional<StatePeak> peak_of_steps(const RankTimeline& rank, int first, int last) {
  std::optional<StatePeak> found;
  for (const StatePeak& peak : rank.state_peaks)
    if (peak.step >= first && peak.step <= last &&
        (!found || rank.memory_states.total(peak.state) > rank.memory_states.total(found->state)))
      found = peak;
  return found;
}

namespace {

/// "layers 0-2, 5"
std::string layer_numbers(const std::vector<MemoryBreakdown::LayerBytes>& layers) {
  std::string text = layers.size() > 1 ? "layers " : "layer ";
  for (std::size_t i = 0; i < layers.size();) {
    std::size_t last = i;
    while (last + 1 < layers.size() && layers[last + 1].first == layers[last].first + 1) ++last;
    text += fmt::format("{}{}", i > 0 ? ", " : "", layers[i].first);
    if (last > i) text += fmt::format("-{}", layers[last].first);
    i = last + 1;
  }
  return text;
}

}  // namespace

std::string places_of(const MemoryBreakdown::Kind& kind,
                      const std::function<std::string(std::int64_t)>& words) {
  const auto& layers = kind.layers;
  if (layers.empty()) return "";
  if (layers.size() == 1 && kind.outside == 0) return layer_numbers(layers);
  const auto [least, most] = std::ranges::minmax(layers, {}, &MemoryBreakdown::LayerBytes::second);
  const bool equal = least.second == most.second;
  return fmt::format("{}{} in {}{}{}", words(least.second),
                     equal ? "" : " to " + words(most.second),
                     equal && layers.size() > 1 ? "each of " : "", layer_numbers(layers),
                     kind.outside > 0 ? ", " + words(kind.outside) + " elsewhere" : "");
}

}  // namespace lockstep
