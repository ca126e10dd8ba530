#include "viz/data/step/expert_load.h"
#include "viz/data/step/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <numeric>
#include <ranges>
#include <string_view>

namespace lockstep::viz {
namespace {

constexpr std::string_view counter_name = "tokens per expert";
constexpr std::string_view expert_prefix = "expert ", dropped_suffix = " dropped";
constexpr std::size_t most_experts = 4096;
constexpr std::size_t most_loads = std::size_t{1} << 20;     // experts of all layers together
constexpr std::int64_t most_tokens = std::int64_t{1} << 36;  // so that sums cannot overflow

struct Series {
  std::size_t expert = 0;
  bool dropped = false;
};

/// Parses the name of a series: "expert 3" or "expert 3 dropped".
std::optional<Series> series_of(std::string_view name) {
  if (!name.starts_with(expert_prefix)) return std::nullopt;
  name.remove_prefix(expert_prefix.size());
  Series series;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), series.expert);
  if (error != std::errc{} || series.expert >= most_experts) return std::nullopt;
  name.remove_prefix(static_cast<std::size_t>(end - name.data()));
  series.dropped = name == dropped_suffix;
  if (!name.empty() && !series.dropped) return std::nullopt;
  return series;
}

std::string share_words(std::int64_t part, std::int64_t whole) {
  return percent_words(static_cast<double>(part) /
                       static_cast<double>(std::max<std::int64_t>(whole, 1)));
}

std::string place(const LayerLoad& layer, std::size_t expert) {
  return layer.layer < 0 ? fmt::format("expert {}", expert)
                         : fmt::format("expert {} of layer {}", expert, layer.layer);
}

}  // namespace

std::int64_t LayerLoad::sum() const {
  return std::accumulate(dropped.begin(), dropped.end(),
                         std::accumulate(accepted.begin(), accepted.end(), std::int64_t{0}));
}

double LayerLoad::mean() const {
  return static_cast<double>(sum()) /
         static_cast<double>(std::max<std::size_t>(accepted.size(), 1));
}

std::size_t LayerLoad::busiest() const {
  std::size_t most = 0;
  for (std::size_t i = 1; i < accepted.size(); ++i)
    if (chosen(i) > chosen(most)) most = i;
  return most;
}

double LayerLoad::imbalance() const {
  return sum() > 0 ? static_cast<double>(chosen(busiest())) / mean() : 0;
}

std::int64_t ExpertLoad::highest() const {
  std::int64_t most = 0;
  for (const LayerLoad& layer : layers) most = std::max(most, layer.chosen(layer.busiest()));
  return most;
}

std::size_t ExpertLoad::least_balanced() const {
  const auto most = std::ranges::max_element(layers, {}, &LayerLoad::imbalance);
  return static_cast<std::size_t>(most - layers.begin());
}

bool counts_experts(const Timeline& timeline) {
  return timeline.find_name(counter_name).has_value();
}

ExpertLoad expert_load(const Timeline& timeline, int step) {
  ExpertLoad load{.step = step, .layers = {}};
  const auto counter = timeline.find_name(counter_name);
  if (!counter) return load;
  std::size_t loads = 0;
  std::map<NameId, std::optional<Series>> series;
  std::map<int, LayerLoad> layers;
  for (const auto& rank : timeline.ranks()) {
    for (const CounterSample& sample : rank->counters) {
      if (sample.step != step || sample.name != *counter) continue;
      LayerLoad& layer = layers[sample.layer];
      layer.layer = sample.layer;
      for (const auto& [name, value] : sample.series) {
        const auto [found, fresh] = series.try_emplace(name);
        if (fresh) found->second = series_of(timeline.name(name));
        if (!found->second || !(value >= 0)) continue;
        const auto [expert, dropped] = *found->second;
        if (expert >= layer.accepted.size()) {
          const std::size_t more = expert + 1 - layer.accepted.size();
          if (more > most_loads - loads) continue;
          loads += more;
          layer.accepted.resize(expert + 1);
          layer.dropped.resize(expert + 1);
        }
        std::int64_t& sum = (dropped ? layer.dropped : layer.accepted)[expert];
        sum = std::min(
            sum + static_cast<std::int64_t>(std::min(value, static_cast<double>(most_tokens))),
            most_tokens);
      }
    }
  }
  for (auto& [number, layer] : layers)
    if (!layer.accepted.empty()) load.layers.push_back(std::move(layer));
  return load;
}

std::vector<std::string> load_sentences(const ExpertLoad& load, std::optional<std::size_t> only) {
  std::vector<std::string> sentences;
  if (load.layers.empty()) return sentences;
  const LayerLoad& worst = load.layers[only ? *only : load.least_balanced()];
  std::int64_t chosen = 0, dropped = 0;
  for (std::size_t i = 0; i < load.layers.size(); ++i) {
    if (only && i != *only) continue;
    chosen += load.layers[i].sum();
    dropped += std::accumulate(load.layers[i].dropped.begin(), load.layers[i].dropped.end(),
                               std::int64_t{0});
  }
  if (worst.sum() == 0) {
    sentences.emplace_back("no token in this step");
    return sentences;
  }
  const std::size_t busiest = worst.busiest();
  const std::int64_t most = worst.chosen(busiest);
  if (static_cast<double>(most) == worst.mean()) {
    sentences.emplace_back(only ? "All experts get equally many tokens."
                                : "In each layer, all experts get equally many tokens.");
  } else {
    sentences.push_back(fmt::format("{} is the busiest: {} tokens, {} times the mean",
                                    place(worst, busiest), most, ratio_words(worst.imbalance())));
  }
  sentences.push_back(fmt::format("mean: {} tokens per expert{}", ratio_words(worst.mean()),
                                  only ? "" : " and layer"));
  if (dropped == 0)
    sentences.emplace_back("No token is dropped.");
  else
    sentences.push_back(
        fmt::format("{} of {} choices of an expert are dropped because it is full ({})", dropped,
                    chosen, share_words(dropped, chosen)));
  return sentences;
}

std::vector<std::string> expert_words(const LayerLoad& layer, std::size_t expert) {
  std::vector<std::string> lines{place(layer, expert)};
  lines.push_back(fmt::format(
      "chosen by {} tokens, {} times the mean of {}", layer.chosen(expert),
      ratio_words(layer.mean() > 0 ? static_cast<double>(layer.chosen(expert)) / layer.mean()
                                   : 0.0),
      ratio_words(layer.mean())));
  if (layer.dropped[expert] > 0)
    lines.push_back(fmt::format("{} of them dropped, because it is full", layer.dropped[expert]));
  return lines;
}

}  // namespace lockstep::viz
