#include "viz/data/step/shards.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <unordered_set>

#include "viz/data/step/buckets.h"
#include "viz/data/step/words.h"
#include "viz/read/flight_recorder/rank_list.h"
#include "viz/read/timeline/visit_band.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t most_tensors = 100'000;
constexpr std::size_t most_names = 1'000'000;  // in all lists together, including repeated names

const char* kind_name(StoredKind kind) {
  return kind == StoredKind::optimizer ? "optimizer state" : lockstep::name_of(category_of(kind));
}

std::string copies_words(double copies) {
  if (copies == 1) return "one copy in the run";
  return ratio_words(copies) + " copies in the run";
}

/// Says how the ranks divide a tensor.
std::string layout_sentence(const ShardLayout& layout, const Shape& whole) {
  const auto& holders = layout.holders;
  const std::string kinds = kinds_words(layout);
  const bool all_whole = std::ranges::all_of(
      holders, [&](const Holders& each) { return each.elements == whole.elements(); });
  const std::string copies = copies_words(layout.copies(whole));
  if (holders.size() == 1 && all_whole)
    return fmt::format("{}: whole on {}, {} each, {}", kinds, ranks_words(holders.front().ranks),
                       bytes_words(layout.bytes(holders.front())), copies);
  const auto [least, most] =
      std::ranges::minmax(holders, {}, [&](const Holders& each) { return layout.bytes(each); });
  const Scale scale = Scale::bytes(static_cast<double>(layout.bytes(most)));
  std::string size = scale(layout.bytes(most));
  if (scale(layout.bytes(least)) != size)
    size = fmt::format("{} to {}", scale(layout.bytes(least)), size);
  return fmt::format("{}: in {} part{} of {}, {}", kinds, holders.size(),
                     holders.size() == 1 ? "" : "s", size, copies);
}

/// Returns when a rank holds all values of each module in a step.
std::map<std::string, Intervals> whole_modules(const Timeline& timeline, const RankTimeline& rank,
                                               int step, const Interval& window) {
  const auto counter = timeline.find_name(whole_parameters_counter);
  if (!counter) return {};
  std::map<NameId, std::vector<Interval>> found;
  std::map<NameId, Picoseconds> since;
  const auto close = [&](NameId module, Picoseconds at) {
    const auto open = since.find(module);
    if (open == since.end()) return;
    const Interval time{std::max(open->second, window.start), std::min(at, window.end)};
    if (time.start < time.end) found[module].push_back(time);
    since.erase(open);
  };
  for (const CounterSample& sample : rank.counters) {
    if (sample.step != step || sample.name != *counter) continue;
    for (const auto& [module, bytes] : sample.series) {
      if (bytes > 0)
        since.try_emplace(module, sample.at);
      else
        close(module, sample.at);
    }
  }
  while (!since.empty()) close(since.begin()->first, window.end);
  std::map<std::string, Intervals> whole;
  for (auto& [module, times] : found)
    whole.emplace(timeline.name(module), merged(std::move(times)));
  return whole;
}

}  // namespace

double ShardLayout::copies(const Shape& whole) const {
  double stored = 0;
  for (const Holders& each : holders)
    stored += static_cast<double>(each.elements) * static_cast<double>(each.ranks.size());
  return stored / static_cast<double>(std::max<std::int64_t>(whole.elements(), 1));
}

std::int64_t ShardLayout::bytes(const Holders& of) const {
  std::int64_t sum = 0;
  for (const Kind& kind : kinds) sum += of.elements * kind.bytes_per_element;
  return sum;
}

Shards::Shards(const Timeline& timeline) {
  std::unordered_set<std::string> named;
  // Most ranks list the same tensors, so only new lists are expanded.
  std::unordered_set<std::string> listed;
  std::size_t names = 0;
  for (const auto& rank : timeline.ranks()) {
    if (rank->slices.empty()) continue;
    ReadSlices read = read_slices(rank->slices);
    omitted_ += read.omitted;
    for (const StoredSlice& slice : read.slices) {
      std::string list = slice.tensor;
      for (const auto& [first, last] : slice.blocks) list += fmt::format(" {} {}", first, last);
      if (names >= most_names || named.size() >= most_tensors) break;
      if (!listed.insert(std::move(list)).second) continue;
      std::vector<std::string> all = slice.tensors();
      names += all.size();
      for (std::string& name : all)
        if (named.size() < most_tensors && named.insert(name).second)
          tensors_.push_back(std::move(name));
    }
    ranks_.push_back({rank->rank, std::move(read.slices)});
  }
}

std::size_t Shards::first_choice() const {
  // A tensor of a block is recognised by its list of block numbers.
  const StoredSlice* best = nullptr;
  const auto worth = [](const StoredSlice& slice) {
    const bool divided = slice.elements() < slice.whole.elements();
    return std::tuple{slice.whole.rank() >= 2, divided, !slice.blocks.empty(),
                      slice.whole.elements()};
  };
  for (const RankSlices& rank : ranks_)
    for (const StoredSlice& slice : rank.slices)
      if (!best || worth(slice) > worth(*best)) best = &slice;
  if (!best) return 0;
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    if (best->is_of(tensors_[i])) return i;
  return 0;
}

TensorShards Shards::shards_of(const std::string& tensor) const {
  TensorShards result{.tensor = tensor, .whole = {}, .layouts = {}};
  std::array<std::vector<Holders>, stored_kind_count> by_kind;
  std::array<std::int64_t, stored_kind_count> sizes{};
  for (const RankSlices& rank : ranks_) {
    std::array<std::vector<Box>, stored_kind_count> boxes;
    for (const StoredSlice& slice : rank.slices) {
      if (!slice.is_of(tensor)) continue;
      if (result.whole.rank() == 0) result.whole = slice.whole;
      if (slice.whole != result.whole) continue;  // from another trace
      for (std::size_t k = 0; k < boxes.size(); ++k) {
        if (!slice.has(static_cast<StoredKind>(k))) continue;
        sizes[k] = std::max(sizes[k], slice.bytes_per_element[k]);
        for (const Box& box : slice.boxes)
          if (std::ranges::count(boxes[k], box) == 0) boxes[k].push_back(box);
      }
    }
    for (std::size_t k = 0; k < boxes.size(); ++k) {
      if (boxes[k].empty()) continue;
      const auto same = std::ranges::find(by_kind[k], boxes[k], &Holders::boxes);
      if (same != by_kind[k].end()) {
        same->ranks.push_back(rank.rank);
        continue;
      }
      std::int64_t elements = 0;
      for (const Box& box : boxes[k]) elements = plus(elements, box.extent.elements());
      // The sum exceeds the tensor's size only if the entries of a damaged trace overlap.
      elements = std::min(elements, result.whole.elements());
      by_kind[k].push_back({{rank.rank}, std::move(boxes[k]), elements});
    }
  }
  for (std::size_t k = 0; k < by_kind.size(); ++k) {
    if (by_kind[k].empty()) continue;
    const ShardLayout::Kind kind{static_cast<StoredKind>(k), sizes[k]};
    const auto same = std::ranges::find(result.layouts, by_kind[k], &ShardLayout::holders);
    if (same != result.layouts.end())
      same->kinds.push_back(kind);
    else
      result.layouts.push_back({{kind}, std::move(by_kind[k])});
  }
  return result;
}

std::vector<MatrixBox> in_matrix(const Box& box, const Shape& whole, std::size_t most) {
  const int last = whole.rank() - 1;
  const auto begin = [&](int i) { return box.begin[static_cast<std::size_t>(i)]; };
  if (last == 0) return {{0, begin(0), 1, box.extent[0]}};
  // The dimensions from `inner` to `last` are contiguous rows.
  int inner = last - 1;
  std::int64_t stride = 1;
  while (inner > 0 && box.extent[inner] == whole[inner]) stride *= whole[inner--];
  const std::int64_t rows = stride * box.extent[inner];
  std::vector<std::int64_t> starts{begin(inner) * stride};
  stride *= whole[inner];
  for (int i = inner - 1; i >= 0; --i) {
    std::vector<std::int64_t> more;
    for (std::int64_t k = 0; k < box.extent[i] && more.size() < most; ++k)
      for (const std::int64_t start : starts) more.push_back((begin(i) + k) * stride + start);
    starts = std::move(more);
    stride *= whole[i];
  }
  std::vector<MatrixBox> parts;
  for (const std::int64_t start : starts)
    parts.push_back({start, begin(last), rows, box.extent[last]});
  return parts;
}

std::string shape_words(const Shape& shape) {
  return fmt::format("{}", fmt::join(extents_of(shape), " × "));
}

std::string ranks_words(const std::vector<int>& ranks) {
  return fmt::format("rank{} {}", ranks.size() == 1 ? "" : "s",
                     fmt::join(flight::rank_ranges(ranks, ranks.size()), ", "));
}

std::string kinds_words(const ShardLayout& layout) {
  std::vector<std::string> names;
  for (const ShardLayout::Kind& kind : layout.kinds) names.emplace_back(kind_name(kind.kind));
  return list_words(names);
}

std::vector<std::string> shard_sentences(const TensorShards& shards) {
  std::vector<std::string> sentences;
  sentences.push_back(
      fmt::format("{}, {} elements", shape_words(shards.whole), shards.whole.elements()));
  std::array<bool, stored_kind_count> stored{};
  for (const ShardLayout& layout : shards.layouts) {
    sentences.push_back(layout_sentence(layout, shards.whole));
    for (const ShardLayout::Kind& kind : layout.kinds)
      stored[static_cast<std::size_t>(kind.kind)] = true;
  }
  for (std::size_t k = 0; k < stored.size(); ++k)
    if (!stored[k])
      sentences.push_back(
          fmt::format("{}: not stored between steps", kind_name(static_cast<StoredKind>(k))));
  return sentences;
}

std::vector<std::string> holders_words(const TensorShards& shards, const ShardLayout& layout,
                                       const Holders& holders) {
  constexpr std::size_t most_boxes = 4;
  const std::string ranks = ranks_words(holders.ranks);
  std::vector<std::string> lines{
      holders.ranks.size() > 1 ? ranks + " store the same" : ranks,
      fmt::format(
          "{}: {} elements, {} of the tensor, {}{}", kinds_words(layout), holders.elements,
          percent_words(static_cast<double>(holders.elements) /
                        static_cast<double>(std::max<std::int64_t>(shards.whole.elements(), 1))),
          bytes_words(layout.bytes(holders)), holders.ranks.size() > 1 ? " each" : "")};
  std::vector<std::string> boxes;
  for (std::size_t i = 0; i < std::min(holders.boxes.size(), most_boxes); ++i)
    boxes.push_back(holders.boxes[i].text());
  std::string line = fmt::format("{}", fmt::join(boxes, " + "));
  if (holders.boxes.size() > most_boxes)
    line += fmt::format(" and {} more boxes", holders.boxes.size() - most_boxes);
  lines.push_back(std::move(line));
  for (const ShardLayout::Kind& kind : layout.kinds)
    lines.push_back(
        fmt::format("{}: {} bytes per element", kind_name(kind.kind), kind.bytes_per_element));
  return lines;
}

std::int64_t ParameterMemory::at(Picoseconds time) const {
  const auto after = std::ranges::upper_bound(samples, time, {}, &Sample::at);
  return after == samples.begin() ? 0 : (after - 1)->bytes;
}

const Intervals& ParameterMemory::whole_times(const std::string& tensor) const {
  static const Intervals never;
  const auto found = whole.find(module_of(tensor));
  return found == whole.end() ? never : found->second;
}

bool ParameterMemory::is_whole(const std::string& tensor, Picoseconds time) const {
  return std::ranges::any_of(whole_times(tensor), [&](const Interval& each) {
    return each.start <= time && time < each.end;
  });
}

std::optional<ParameterMemory> parameter_memory(const Timeline& timeline, int rank, int step) {
  const RankTimeline* of = timeline.find_rank(rank);
  const auto window = of ? step_of_rank(timeline, *of, step) : std::nullopt;
  if (!window || of->memory.empty()) return std::nullopt;
  ParameterMemory memory{
      .rank = rank, .window = *window, .samples = {}, .gathers = {}, .whole = {}};
  const auto add = [&](Picoseconds at, std::int64_t bytes) {
    if (!memory.samples.empty() && memory.samples.back().at == at)
      memory.samples.back().bytes = bytes;
    else if (memory.samples.empty() || memory.samples.back().bytes != bytes)
      memory.samples.push_back({at, bytes});
  };
  auto sample = std::ranges::upper_bound(of->memory, window->start, {}, &MemorySample::at);
  // Without an earlier sample, the first one holds from the start.
  const auto first = sample == of->memory.begin() ? sample : sample - 1;
  const auto bytes = [](const MemorySample& each) { return each.bytes.front(); };
  add(window->start, bytes(*first));
  for (; sample != of->memory.end() && sample->at < window->end; ++sample)
    add(sample->at, bytes(*sample));
  const auto [least, most] =
      std::ranges::minmax(memory.samples, {}, &ParameterMemory::Sample::bytes);
  memory.least = least.bytes;
  memory.most = most.bytes;
  if (!memory.changes()) return memory;
  std::vector<Interval> gathers;
  for (const auto& lane : of->lanes)
    visit_band(*lane, Band::action, *window, [&](const TimelineSpan& span) {
      if (span.step == step && span.category == Category::communication &&
          timeline.name(span.name) == "all_gather" && is_of_bucket(timeline, span))
        gathers.push_back({span.start, span.end});
    });
  memory.gathers = merged(std::move(gathers));
  memory.whole = whole_modules(timeline, *of, step, *window);
  return memory;
}

std::vector<std::string> memory_sentences(const ParameterMemory& memory,
                                          const TensorShards& shards) {
  std::vector<std::string> sentences;
  const Scale bytes = Scale::bytes(static_cast<double>(memory.most));
  bool whole = false;  // on this rank, between steps
  for (const ShardLayout& layout : shards.layouts)
    if (layout.kinds.front().kind == StoredKind::parameters)
      for (const Holders& each : layout.holders)
        whole |= each.elements == shards.whole.elements() &&
                 std::ranges::count(each.ranks, memory.rank) > 0;
  if (!memory.changes())
    sentences.push_back(fmt::format(
        "Rank {}'s parameters take {} throughout the step: {}.", memory.rank, bytes(memory.least),
        whole ? "this tensor is always stored in full" : "no gather makes this tensor whole"));
  else if (memory.gathers.empty())
    sentences.push_back(fmt::format("Rank {}'s parameters take between {} and {}.", memory.rank,
                                    bytes(memory.least), bytes(memory.most)));
  else
    sentences.push_back(
        fmt::format("Rank {}'s parameters take {}, and up to {} with gathered ones.", memory.rank,
                    bytes(memory.least), bytes(memory.most)));
  if (const Intervals& times = memory.whole_times(shards.tensor); !times.empty())
    sentences.push_back(
        fmt::format("It holds all of this tensor {} in the step, for {}{}.",
                    times.size() == 1 ? std::string{"once"} : fmt::format("{} times", times.size()),
                    duration_words(length(times)), times.size() == 1 ? "" : " in total"));
  return sentences;
}

std::string moment_sentence(const ParameterMemory& memory, const TensorShards& shards,
                            Picoseconds time, Picoseconds origin) {
  if (!memory.changes() || time < memory.window.start || time > memory.window.end) return "";
  const std::int64_t now = memory.at(time);
  const Scale bytes = Scale::bytes(static_cast<double>(now));
  const bool gathering = std::ranges::any_of(
      memory.gathers, [&](const Interval& each) { return each.start <= time && time < each.end; });
  const char* of_this = memory.whole_times(shards.tensor).empty() ? ""
                        : memory.is_whole(shards.tensor, time)    ? ", all of this tensor among it"
                                                                  : ", but not this tensor";
  std::string what;
  if (!memory.gathers.empty())
    what = now > memory.least ? fmt::format(", {} of it gathered from other ranks{}",
                                            bytes(now - memory.least), of_this)
                              : ", only its own slices";
  return fmt::format("At {}, rank {} holds {}{}{}.", duration_words(time - origin), memory.rank,
                     bytes(now), what, gathering ? "; an all-gather is in flight" : "");
}

}  // namespace lockstep::viz
