#include "viz/read/flight_recorder/mismatch.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

namespace lockstep::flight {
namespace {

/// Which of an operation's tensors must agree on all ranks.
struct Agreement {
  bool inputs = true, outputs = true;
};

Agreement agreement_of(std::string_view operation) {
  if (operation.starts_with("all_to_all") || operation.starts_with("alltoall") ||
      operation.find("barrier") != std::string_view::npos ||
      operation.find("_v") != std::string_view::npos)
    return {false, false};
  // In these, the inputs or the outputs of the root differ from those of the other ranks.
  if (operation.starts_with("scatter")) return {false, true};
  if (operation.starts_with("gather")) return {true, false};
  if (operation.starts_with("broadcast") || operation.starts_with("_broadcast"))
    return {false, true};
  if (operation.starts_with("reduce") && operation.find("scatter") == std::string_view::npos)
    return {true, false};
  return {};
}

/// Returns the texts that must agree: the sizes and types of the inputs and of the outputs, or ""
/// for those that need not agree.
std::array<std::string_view, 4> requirements(const Call& call) {
  const Agreement agree = agreement_of(call.operation);
  std::array<std::string_view, 4> texts{};
  if (agree.inputs) texts[0] = call.input.sizes, texts[1] = call.input.dtypes;
  if (agree.outputs) texts[2] = call.output.sizes, texts[3] = call.output.dtypes;
  return texts;
}

/// Returns "all_reduce of [4, 3] Float": the texts of a call's tensors without the outer brackets.
std::string described(const Call& call) {
  std::string words{call.operation};
  if (call.operations > 1) words = fmt::format("{} coalesced {}", call.operations, words);
  const Agreement agree = agreement_of(call.operation);
  const Tensors& tensors = agree.inputs ? call.input : call.output;
  const auto strip = [](std::string_view text) {
    return text.size() > 2 ? text.substr(1, text.size() - 2) : std::string_view{};
  };
  if (!strip(tensors.sizes).empty())
    words += fmt::format(" of {} {}", strip(tensors.sizes), strip(tensors.dtypes));
  while (words.ends_with(' ')) words.pop_back();
  return words;
}

}  // namespace

std::vector<SameCall> same_calls(const std::vector<CallOfRank>& calls) {
  // Compare only texts that every rank's dump contains.
  std::array<bool, 4> known{true, true, true, true};
  for (const CallOfRank& each : calls) {
    const auto texts = requirements(*each.call);
    for (std::size_t i = 0; i < texts.size(); ++i) known[i] = known[i] && !texts[i].empty();
  }
  struct Key {
    std::string_view operation;
    int operations = 1;
    std::array<std::string_view, 4> texts{};
    auto operator<=>(const Key&) const = default;
  };
  std::map<Key, std::vector<CallOfRank>> sets;
  for (const CallOfRank& each : calls) {
    Key key{each.call->operation, each.call->operations, requirements(*each.call)};
    for (std::size_t i = 0; i < known.size(); ++i)
      if (!known[i]) key.texts[i] = {};
    sets[key].push_back(each);
  }
  std::vector<SameCall> same;
  for (const auto& [key, set] : sets) {
    SameCall& alike = same.emplace_back(SameCall{.call = described(*set.front().call)});
    for (const CallOfRank& each : set) alike.ranks.push_back(each.rank);
  }
  std::ranges::stable_sort(same, [](const SameCall& a, const SameCall& b) {
    return a.ranks.size() != b.ranks.size() ? a.ranks.size() > b.ranks.size() : a.ranks < b.ranks;
  });
  return same;
}

}  // namespace lockstep::flight
