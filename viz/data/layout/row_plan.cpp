#include "viz/data/layout/row_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <map>
#include <unordered_map>

#include "core/base/number.h"
#include "core/base/printable.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_quoted = 40;

std::string lower_case(std::string_view text) {
  std::string result{text};
  for (char& each : result)
    each = static_cast<char>(std::tolower(static_cast<unsigned char>(each)));
  return result;
}

/// Reads "4" or "4-7".
bool read_numbers(std::string_view text, std::optional<int>& first, std::optional<int>& last) {
  const std::size_t dash = text.find('-');
  const auto from = number_from<int>(text.substr(0, dash));
  const auto to = dash == text.npos ? from : number_from<int>(text.substr(dash + 1));
  if (!from || !to || *to < *from) return false;
  first = from;
  last = to;
  return true;
}

}  // namespace

RowFilter::RowFilter(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = text.find_first_not_of(' ', at);
    if (begin == std::string_view::npos) break;
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    at = end;
    Word word{.text = lower_case(text.substr(begin, end - begin))};
    const std::string_view whole = word.text;
    const std::size_t letters = static_cast<std::size_t>(
        std::ranges::find_if_not(
            whole, [](char each) { return std::isalpha(static_cast<unsigned char>(each)); }) -
        whole.begin());
    const bool separated = letters < whole.size() && whole[letters] == ':';
    const std::string_view rest =
        whole.substr(std::min(letters + (separated ? 1U : 0U), whole.size()));
    if (letters == 0 && !separated) {
      if (read_numbers(rest, word.first, word.last)) word.key = "rank";
    } else if (letters > 0 && (read_numbers(rest, word.first, word.last) || separated)) {
      word.key = whole.substr(0, letters);
      word.separated = separated;
    }
    words_.push_back(std::move(word));
  }
}

bool RowFilter::shows(const RankTimeline& rank, const MeshPlaces& places) const {
  return std::ranges::all_of(words_, [&](const Word& word) {
    const auto in_range = [&](int number) {
      return word.first && number >= *word.first && number <= *word.last;
    };
    if (word.key == "rank") return in_range(rank.rank);
    for (const Axis axis : places.axes())
      if (word.key == name_of(axis)) return in_range(places.coordinate(rank.rank, axis));
    if (lower_case(rank.name).find(word.text) != std::string::npos) return true;
    return std::ranges::any_of(rank.lanes, [&](const auto& lane) {
      return lower_case(lane->name()).find(word.text) != std::string::npos;
    });
  });
}

std::string RowFilter::trouble(const MeshPlaces& places) const {
  std::vector<std::string> keys{"rank"};
  for (const Axis axis : places.axes()) keys.emplace_back(name_of(axis));
  for (const Word& word : words_) {
    if (!word.separated) continue;
    const std::string key = excerpt(word.key, longest_quoted);
    if (std::ranges::count(keys, word.key) == 0)
      return fmt::format("unknown key {}; the keys are {}", key, list_words(keys));
    if (!word.first) return fmt::format("{}: needs a number, such as {}:0", key, key);
  }
  return {};
}

void RowChoices::move(int rank, int before, const Timeline& timeline) {
  std::vector<int> all = order;
  std::set<int> known{order.begin(), order.end()};
  for (const auto& each : timeline.ranks())
    if (known.insert(each->rank).second) all.push_back(each->rank);
  if (rank == before || known.count(rank) == 0) return;
  std::erase(all, rank);
  all.insert(std::ranges::find(all, before), rank);
  order = std::move(all);
  pinned.erase(rank);
}

std::vector<int> foldable_groups(const Timeline& timeline, const MeshPlaces& places,
                                 const RowChoices& choices, int straggler) {
  std::vector<int> groups;
  groups.reserve(timeline.ranks().size());
  for (const auto& rank : timeline.ranks()) {
    const int number = rank->rank;
    const bool alone = number == straggler || choices.pinned.contains(number) ||
                       choices.hidden.contains(number) || choices.unfolded.contains(number) ||
                       !choices.filter.shows(*rank, places);
    const int group = choices.axis ? places.coordinate(number, *choices.axis) + 1 : 0;
    groups.push_back(alone ? -1 : group);
  }
  return groups;
}

RowPlan plan_rows(const Timeline& timeline, const MeshPlaces& places, const RowChoices& choices,
                  const std::vector<std::size_t>* leaders, int straggler) {
  RowPlan plan;
  const auto& ranks = timeline.ranks();
  std::vector<std::size_t> all(ranks.size());
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = i;
  if (!choices.order.empty()) {
    std::unordered_map<int, std::size_t> place;
    for (std::size_t i = 0; i < choices.order.size(); ++i) place.emplace(choices.order[i], i);
    const auto place_of = [&](std::size_t i) {
      const auto found = place.find(ranks[i]->rank);
      return found == place.end() ? choices.order.size() : found->second;
    };
    std::ranges::stable_sort(all, {}, place_of);
  }
  std::vector<int> groups;
  if (leaders && leaders->size() == ranks.size())
    groups = foldable_groups(timeline, places, choices, straggler);
  else
    leaders = nullptr;

  std::map<int, PlannedGroup> by_coordinate;
  struct Place {
    std::size_t row = 0;
    PlannedGroup* group = nullptr;
  };
  std::unordered_map<std::size_t, Place> row_of;  // by leader
  // The row of a leader may come after those of its followers, if the user has moved them.
  const auto is_folded_into = [&](std::size_t i, std::size_t leader) {
    return leader != i && groups[i] >= 0 && groups[i] == groups[leader];
  };
  std::vector<std::size_t> followers;
  for (const std::size_t i : all) {
    const RankTimeline& rank = *ranks[i];
    if (choices.hidden.contains(rank.rank)) continue;
    if (choices.pinned.contains(rank.rank)) {
      plan.pinned.push_back(i);
      ++plan.shown;
      continue;
    }
    if (!choices.filter.shows(rank, places)) {
      ++plan.filtered;
      continue;
    }
    ++plan.shown;
    const int coordinate = choices.axis ? places.coordinate(rank.rank, *choices.axis) : -1;
    PlannedGroup& group = by_coordinate[coordinate];
    group.coordinate = coordinate;
    group.folded = choices.axis && choices.folded.contains(coordinate);
    ++group.ranks;
    if (leaders && is_folded_into(i, (*leaders)[i])) {
      followers.push_back(i);
      continue;
    }
    if (group.folded && rank.rank != straggler) continue;
    row_of[i] = {group.rows.size(), &group};
    group.rows.push_back({.rank = i});
  }
  for (const std::size_t i : followers)
    if (const auto found = row_of.find((*leaders)[i]); found != row_of.end())
      found->second.group->rows[found->second.row].alike.push_back(i);
  for (auto& [coordinate, group] : by_coordinate)
    if (coordinate >= 0) plan.groups.push_back(std::move(group));
  if (const auto rest = by_coordinate.find(-1); rest != by_coordinate.end())
    plan.groups.push_back(std::move(rest->second));
  return plan;
}

}  // namespace lockstep::viz
