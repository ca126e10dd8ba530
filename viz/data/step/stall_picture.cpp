#include "viz/data/step/stall_picture.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "viz/read/flight_recorder/rank_list.h"
#include "viz/read/flight_recorder/words.h"

namespace lockstep::viz {
namespace {

using flight::Place;
using flight::place_words;
using flight::Stall;
using flight::StalledRank;

constexpr std::size_t most_arrows = 4096;
constexpr std::size_t most_targets = 3;  // of a wait without an awaited rank

/// Returns the axis of the columns, or "" if the ranks' places are unknown or ambiguous.
std::string axis_of_columns(const Stall& stall) {
  std::map<std::string, int> sizes;
  std::set<Place> places;
  for (const StalledRank& rank : stall.ranks) {
    if (rank.place.empty() || !places.insert(rank.place).second) return {};
    for (const auto& [axis, index] : rank.place) sizes[axis] = std::max(sizes[axis], index + 1);
  }
  if (sizes.contains("pp")) return "pp";
  const auto largest = std::ranges::max_element(
      sizes, [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest == sizes.end() ? std::string{} : largest->first;
}

void arrange_on_mesh(StallPicture& picture, const Stall& stall, const std::string& axis) {
  std::map<Place, int> rows;
  std::vector<Place> others;
  for (const StalledRank& rank : stall.ranks) {
    Place other = rank.place;
    std::erase_if(other, [&](const auto& each) { return each.first == axis; });
    rows.emplace(other, 0);
    others.push_back(std::move(other));
  }
  for (auto& [place, row] : rows) {
    row = picture.rows++;
    picture.row_names.push_back(place_words(place));
  }
  for (std::size_t i = 0; i < stall.ranks.size(); ++i) {
    StallNode& node = picture.nodes[i];
    node.row = rows.at(others[i]);
    for (const auto& [name, index] : stall.ranks[i].place)
      if (name == axis) node.column = index;
    picture.columns = std::max(picture.columns, node.column + 1);
  }
  for (int column = 0; column < picture.columns; ++column)
    picture.column_names.push_back(fmt::format("{}{}", axis, column));
}

void arrange_in_order(StallPicture& picture) {
  const auto count = static_cast<int>(picture.nodes.size());
  picture.columns = std::max(1, static_cast<int>(std::ceil(std::sqrt(count))));
  for (int i = 0; i < count; ++i) {
    picture.nodes[static_cast<std::size_t>(i)].column = i % picture.columns;
    picture.nodes[static_cast<std::size_t>(i)].row = i / picture.columns;
  }
  picture.rows = (count + picture.columns - 1) / picture.columns;
}

StallNode::Role role_of(const StalledRank& rank) {
  switch (rank.state) {
    case StalledRank::State::waiting:
      return StallNode::Role::waiting;
    case StalledRank::State::inside:
      return StallNode::Role::inside;
    case StalledRank::State::no_dump:
      return StallNode::Role::unknown;
    case StalledRank::State::silent:
      break;
  }
  return StallNode::Role::silent;
}

std::string label_of(const Stall& stall, const flight::Wait& wait) {
  std::string axis;
  if (wait.group >= 0) axis = stall.groups[static_cast<std::size_t>(wait.group)].axis;
  return axis.empty() ? wait.operation : axis + " " + wait.operation;
}

class Arrows {
 public:
  Arrows(StallPicture& picture, const Stall& stall) : picture_(picture), stall_(stall) {
    for (std::size_t i = 0; i < picture.nodes.size(); ++i) index_[picture.nodes[i].rank] = i;
  }
  void draw_all() {
    for (const flight::Wait& wait : stall_.waits) {
      std::vector<std::size_t> targets;
      for (const int rank : wait.to)
        if (is_awaited(index_.at(rank))) targets.push_back(index_.at(rank));
      if (targets.empty())
        for (const int rank : wait.to)
          if (targets.size() < most_targets) targets.push_back(index_.at(rank));
      const std::string label = label_of(stall_, wait);
      picture_.left_out += (wait.to.size() - targets.size()) * wait.from.size();
      for (const int from : wait.from)
        for (const std::size_t to : targets) add(index_.at(from), to, label);
    }
  }

 private:
  bool is_awaited(std::size_t node) const {
    return picture_.nodes[node].role == StallNode::Role::awaited;
  }
  void add(std::size_t from, std::size_t to, const std::string& label) {
    const auto [found, is_new] = arrows_.emplace(std::pair{from, to}, picture_.arrows.size());
    if (!is_new) {
      picture_.arrows[found->second].label += "; " + label;
    } else if (picture_.arrows.size() < most_arrows) {
      picture_.arrows.push_back({from, to, label, is_awaited(to)});
    } else {
      arrows_.erase(found);
      ++picture_.left_out;
    }
  }

  StallPicture& picture_;
  const Stall& stall_;
  std::map<int, std::size_t> index_;
  std::map<std::pair<std::size_t, std::size_t>, std::size_t> arrows_;
};

}  // namespace

StallPicture picture_of(const Stall& stall) {
  StallPicture picture;
  std::map<int, const flight::Sink*> sinks;
  for (const flight::Sink& sink : stall.sinks)
    for (const int rank : sink.ranks) sinks[rank] = &sink;
  for (const StalledRank& rank : stall.ranks) {
    StallNode node{.rank = rank.rank, .role = role_of(rank), .lines = {}};
    node.known = rank.state != StalledRank::State::no_dump;
    std::string title = fmt::format("Rank {}", rank.rank);
    if (!rank.place.empty()) title += "  " + place_words(rank.place);
    node.lines = {title, "last call: " + flight::last_words(rank)};
    if (const std::string waits = flight::waits_words(stall, rank.rank); waits != "-")
      node.lines.push_back("waits for " + waits);
    if (const auto sink = sinks.find(rank.rank); sink != sinks.end()) {
      node.role = sink->second->cycle() ? StallNode::Role::cycle : StallNode::Role::awaited;
      if (!sink->second->waiters.empty())
        node.lines.push_back("awaited by " + flight::rank_words(sink->second->waiters));
    }
    picture.nodes.push_back(std::move(node));
  }
  if (const std::string axis = axis_of_columns(stall); !axis.empty()) {
    arrange_on_mesh(picture, stall, axis);
  } else {
    arrange_in_order(picture);
  }
  Arrows{picture, stall}.draw_all();
  picture.sentences = flight::stall_sentences(stall);
  picture.groups = flight::group_table(stall);
  return picture;
}

}  // namespace lockstep::viz
