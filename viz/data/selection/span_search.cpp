#include "viz/data/selection/span_search.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <utility>

#include <fmt/format.h>

#include "core/base/number.h"
#include "core/base/printable.h"
#include "viz/data/layout/folding.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_key = 40;

char lower(char character) {
  return static_cast<char>(std::tolower(static_cast<unsigned char>(character)));
}

/// Returns whether `text` contains `part`, which is in lower case.
bool contains(std::string_view text, std::string_view part) {
  return std::ranges::search(text, part, [](char a, char b) { return lower(a) == b; }).begin() !=
         text.end();
}

}  // namespace

const std::array<std::pair<std::string_view, SpanSearch::Kind>, 6> SpanSearch::fields{
    {{"rank:", Kind::rank},
     {"step:", Kind::step},
     {"stage:", Kind::stage},
     {"microbatch:", Kind::microbatch},
     {"layer:", Kind::layer},
     {"peer:", Kind::peer}}};

SpanSearch::SpanSearch(std::string_view query) {
  for (std::size_t at = 0; at < query.size();) {
    const std::size_t begin = query.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(query.find(' ', begin), query.size());
    at = end;
    Word word;
    std::ranges::transform(query.substr(begin, end - begin), std::back_inserter(word.text), lower);
    if (std::string_view{"fbiw"}.find(word.text[0]) != std::string_view::npos) {
      if (const auto number = number_from<int>(std::string_view{word.text}.substr(1)))
        word = {Kind::label, word.text.substr(0, 1), *number};
    }
    for (const auto& [name, kind] : fields) {
      if (!word.text.starts_with(name)) continue;
      if (const auto number = number_from<int>(std::string_view{word.text}.substr(name.size())))
        word = {kind, {}, *number};
    }
    words_.push_back(std::move(word));
  }
}

std::string SpanSearch::trouble(const Timeline& timeline) const {
  for (const Word& word : words_) {
    if (word.kind != Kind::text) continue;
    const std::size_t colon = word.text.find(':');
    // "c10d::allreduce_" and ":0" have no key.
    if (colon == std::string::npos || colon == 0 || word.text.find(':', colon + 1) == colon + 1)
      continue;
    bool is_name = false;
    for (NameId id = 0; id < timeline.name_count() && !is_name; ++id)
      is_name = in_name(timeline, word, id);
    if (is_name) continue;
    const std::string key = excerpt(word.text.substr(0, colon), longest_key);
    std::vector<std::string> keys;
    for (const auto& [name, kind] : fields) keys.emplace_back(name.substr(0, name.size() - 1));
    if (std::ranges::count(keys, word.text.substr(0, colon)) > 0)
      return fmt::format("{0} needs a number, such as {0}:0", key);
    return fmt::format("unknown key {}; the keys are {}", key, list_words(keys));
  }
  return {};
}

bool SpanSearch::matches(const Timeline& timeline, int rank, const TimelineSpan& span) const {
  return std::ranges::all_of(words_, [&](const Word& word) {
    switch (word.kind) {
      case Kind::label:
        return span.microbatch == word.number && lower(letter_of(span.category)) == word.text[0];
      case Kind::rank:
        return rank == word.number;
      case Kind::step:
        return span.step == word.number;
      case Kind::stage:
        return span.stage == word.number;
      case Kind::microbatch:
        return span.microbatch == word.number;
      case Kind::layer:
        return span.layer == word.number;
      case Kind::peer:
        return span.peer == word.number;
      case Kind::text:
        break;
    }
    return in_name(timeline, word, span.name) || in_name(timeline, word, span.group) ||
           contains(name_of(span.category), word.text);
  });
}

bool SpanSearch::in_name(const Timeline& timeline, const Word& word, NameId name) {
  if (name >= word.in_names.size()) word.in_names.resize(name + std::size_t{1}, -1);
  std::int8_t& known = word.in_names[name];
  if (known < 0) known = contains(timeline.name(name), word.text) ? 1 : 0;
  return known == 1;
}

void SpanSearch::count(const Timeline& timeline, Count& count,
                       std::chrono::microseconds budget) const {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t piece = 4096;  // spans visited between two readings of the clock
  constexpr Band bands[] = {Band::action, Band::kernel};
  const auto until = Clock::now() + budget;
  // Moves to the next object of a level once the level below is exhausted.
  const auto next = [&](std::size_t& level, auto&... below) {
    ++level;
    ((below = 0), ...);
  };
  const auto& ranks = timeline.ranks();
  while (count.rank < ranks.size()) {
    const RankTimeline& rank = *ranks[count.rank];
    if (count.lane >= rank.lanes.size()) {
      next(count.rank, count.lane, count.band, count.row, count.span);
      continue;
    }
    if (count.band >= std::size(bands)) {
      next(count.lane, count.band, count.row, count.span);
      continue;
    }
    const auto& rows = rank.lanes[count.lane]->rows(bands[count.band]);
    if (count.row >= rows.size()) {
      next(count.band, count.row, count.span);
      continue;
    }
    const SpanRow& row = rows[count.row];
    if (count.span >= row.size()) {
      next(count.row, count.span);
      continue;
    }
    const std::size_t end = std::min(row.size(), count.span + piece);
    for (; count.span < end; ++count.span)
      if (matches(timeline, rank.rank, row[count.span])) ++count.found;
    if (Clock::now() >= until) return;
  }
  count.complete = true;
}

std::optional<Finding> SpanSearch::next(const Timeline& timeline, Picoseconds time, int by) const {
  std::optional<Finding> best;
  const auto offer = [&](const RankTimeline& rank, const Lane& lane, const TimelineSpan& span) {
    if (!matches(timeline, rank.rank, span)) return false;
    if (!best || (by > 0 ? span.start < best->span.start : span.start > best->span.start))
      best = Finding{.kind = Finding::Kind::span, .rank = &rank, .lane = &lane, .span = span};
    return true;
  };
  for (const auto& rank : timeline.ranks()) {
    for (const auto& lane : rank->lanes) {
      for (const Band band : {Band::action, Band::kernel}) {
        for (const SpanRow& row : lane->rows(band)) {
          // Starts are ascending within a row.
          const auto from =
              std::partition_point(row.begin(), row.end(), [&](const TimelineSpan& span) {
                return by > 0 ? span.start <= time : span.start < time;
              });
          if (by > 0) {
            for (auto at = from; at != row.end() && !offer(*rank, *lane, *at);) ++at;
          } else {
            for (auto at = from; at != row.begin() && !offer(*rank, *lane, *std::prev(at));) --at;
          }
        }
      }
    }
  }
  return best;
}

std::optional<TimelineSpan> neighbour(const Lane& lane, Band band, Picoseconds time, int by) {
  const auto& rows = lane.rows(band);
  if (rows.empty()) return {};
  const SpanRow& row = rows.front();
  if (by > 0) {
    auto at = std::partition_point(row.begin(), row.end(),
                                   [&](const TimelineSpan& span) { return span.start < time; });
    while (at != row.end() && at->category == Category::wait) ++at;
    return at != row.end() ? std::optional{*at} : std::nullopt;
  }
  auto at = std::partition_point(row.begin(), row.end(),
                                 [&](const TimelineSpan& span) { return span.end <= time; });
  while (at != row.begin() && std::prev(at)->category == Category::wait) --at;
  return at != row.begin() ? std::optional{*std::prev(at)} : std::nullopt;
}

std::optional<TimelineSpan> nearest(const Lane& lane, Band band, Picoseconds time) {
  const auto& rows = lane.rows(band);
  if (rows.empty() || rows.front().empty()) return {};
  const SpanRow& row = rows.front();
  const auto after = first_ending_after(row, static_cast<double>(time));
  if (after == row.end()) return row.back();
  if (after == row.begin() || after->start <= time) return *after;
  const auto before = std::prev(after);
  return time - before->end < after->start - time ? *before : *after;
}

}  // namespace lockstep::viz
