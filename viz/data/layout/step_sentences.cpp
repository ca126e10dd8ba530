#include "viz/data/layout/step_sentences.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "viz/data/step/mean_step.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

/// Lists the parts of a time that are not zero: " (transfer 1.18 ms and latency 0.22 ms)", or
/// " (all transfer)".
std::string parts_words(std::vector<std::pair<StepPart, Picoseconds>> parts,
                        const StepAccount& account, const Scale& scale) {
  std::erase_if(parts, [](const auto& part) { return part.second == 0; });
  if (parts.empty()) return {};
  if (parts.size() == 1) return fmt::format(" (all {})", name_of(parts.front().first));
  std::ranges::stable_sort(parts, std::ranges::greater{},
                           [](const auto& part) { return part.second; });
  std::vector<std::string> words;
  for (const auto& [part, sum] : parts)
    words.push_back(fmt::format("{} {}", name_of(part), scale(mean_of(sum, account))));
  return fmt::format(" ({})", list_words(words));
}

std::string axis_sentence(const StepAccount& account, std::size_t axis, const Exposed& exposed) {
  const Overlap overlap = account.overlap(axis);
  const Scale scale =
      Scale::durations(mean_of(std::max(exposed.sum(), overlap.communication), account));
  std::string words = account.axes[axis] + ": ";
  if (exposed.sum() == 0)
    words += "never exposed";
  else
    words += fmt::format("{} exposed per rank{}", scale(mean_of(exposed.sum(), account)),
                         parts_words({{StepPart::transfer, exposed.transfer},
                                      {StepPart::latency, exposed.latency},
                                      {StepPart::late_peer, exposed.late_peer}},
                                     account, scale));
  if (overlap.communication > 0)
    words +=
        fmt::format("; its messages take {} on the lanes, {}",
                    scale(mean_of(overlap.communication, account)), hidden_share_words(overlap));
  return words + ".";
}

}  // namespace

std::string hidden_share_words(const Overlap& overlap) {
  if (overlap.hidden == 0) return "none of it hidden";
  if (overlap.hidden == overlap.communication) return "all of it hidden";
  const std::string share = percent_words(overlap.share());
  if (share == percent_words(0)) return "less than 0.1 % of it hidden";
  if (share == percent_words(1)) return "more than 99.9 % of it hidden";
  return share + " of it hidden";
}

std::string part_sentence(const StepAccount& account, const MeanPart& part) {
  const StepSums sum = account.sum();
  if (part.kind == MeanPart::Kind::exposed)
    for (std::size_t axis = 0; axis < account.axes.size(); ++axis)
      if (account.axes[axis] == part.name) return axis_sentence(account, axis, sum.axes[axis]);
  if (part.kind != MeanPart::Kind::bubble || sum.bubble() == 0) return {};
  const Scale scale = Scale::durations(mean_of(sum.bubble(), account));
  return fmt::format("Bubble: {} per rank{}.", scale(mean_of(sum.bubble(), account)),
                     parts_words({{StepPart::cool_down, sum.cool_down},
                                  {StepPart::warm_up, sum.warm_up},
                                  {StepPart::waiting, sum.waiting}},
                                 account, scale));
}

std::vector<std::string> step_sentences(const BubbleSeries::Point& point) {
  const StepAccount& account = point.account;
  std::vector<std::string> sentences;
  for (const std::string& axis : account.axes)
    sentences.push_back(part_sentence(account, {MeanPart::Kind::exposed, axis}));
  if (std::string bubble = part_sentence(account, {MeanPart::Kind::bubble, "bubble"});
      !bubble.empty())
    sentences.push_back(std::move(bubble));
  if (point.internal.idle() > 0)
    sentences.push_back(fmt::format(
        "Rank {}, which takes longest from its first to its last action, runs no action for {} of "
        "that time.",
        point.longest_rank, percent_words(point.internal.share())));
  return sentences;
}

}  // namespace lockstep::viz
