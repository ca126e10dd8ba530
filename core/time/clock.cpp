#include "core/time/clock.h"

#include <fmt/format.h>

#include <chrono>
#include <sstream>
#include <string_view>
#include <thread>

#include "core/base/error.h"
#include "core/base/number.h"

namespace lockstep {

namespace {

constexpr Category timed_categories[] = {Category::forward, Category::backward,
                                         Category::backward_input, Category::backward_weight,
                                         Category::optimizer};

Category timed_category(const std::string& name, const std::string& text) {
  for (Category category : timed_categories)
    if (name == name_of(category)) return category;
  throw UsageError(fmt::format(
      "--time {}: '{}' is not one of forward, backward, backward_input, backward_weight, optimizer",
      text, name));
}

Picoseconds duration(const std::string& value, const std::string& text) {
  std::size_t used = 0;
  double number = -1;
  try {
    number = std::stod(value, &used);
  } catch (const std::exception&) {
  }
  const std::string unit = value.substr(used);
  const double scale = unit == "s"    ? 1
                       : unit == "ms" ? 1e-3
                       : unit == "us" ? 1e-6
                       : unit == "ns" ? 1e-9
                                      : -1;
  if (!(number >= 0) || number * scale > 1e6 || scale < 0)
    throw UsageError(fmt::format(
        "--time {}: '{}' is not a time; write it like 1.5ms (s, ms, us, ns)", text, value));
  return picoseconds(number * scale);
}

}  // namespace

FixedTimes FixedTimes::parse(const std::string& text) {
  FixedTimes times;
  // The appended comma also terminates the last part, even if that part is empty.
  std::istringstream parts{text + ","};
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    if (equals == std::string::npos)
      throw UsageError(fmt::format("--time {}: '{}' wants the form forward=1ms", text, part));
    const Category category = timed_category(part.substr(0, equals), text);
    if (times.of(category))
      throw UsageError(
          fmt::format("--time {}: {} is there twice; give it once", text, name_of(category)));
    times.set(category, duration(part.substr(equals + 1), text));
  }
  const bool input = times.of(Category::backward_input).has_value();
  const bool weight = times.of(Category::backward_weight).has_value();
  if (input != weight || (input && !times.of(Category::backward)))
    throw UsageError(fmt::format(
        "--time {}: gives only some of backward, backward_input and backward_weight, so "
        "the others would take no time; give all three",
        text));
  return times;
}

std::map<int, double> parse_slow(const std::string& text, int ranks) {
  std::map<int, double> slow;
  std::istringstream parts{text + ","};  // so that an empty last part is refused, too
  for (std::string part; std::getline(parts, part, ',');) {
    const auto equals = part.find('=');
    const auto rank = number_from<int>(part.substr(0, equals));
    const auto factor =
        equals == part.npos ? std::nullopt : number_from<double>(part.substr(equals + 1));
    if (!rank || !factor || !(*factor > 0 && *factor <= most_slow))
      throw UsageError(fmt::format(
          "--slow {}: '{}' wants the form RANK=FACTOR, such as 1=1.5, with a factor above 0 and of "
          "at most {}",
          text, part, most_slow));
    if (*rank < 0 || *rank >= ranks)
      throw UsageError(
          fmt::format("--slow {}: there is no rank {}; ranks are 0 to {}", text, *rank, ranks - 1));
    if (!slow.emplace(*rank, *factor).second)
      throw UsageError(fmt::format("--slow {}: rank {} is there twice; give it once", text, *rank));
  }
  return slow;
}

Clock Clock::wall(int ranks_per_node) {
  Clock clock;
  clock.cluster_.ranks_per_node = ranks_per_node;
  clock.start_ = steady_nanoseconds();
  return clock;
}

Clock Clock::modelled(Cluster cluster, FixedTimes times, double pace) {
  Clock clock = wall();
  clock.kind_ = ClockKind::modelled;
  clock.cluster_ = std::move(cluster);
  clock.times_ = times;
  clock.pace_ = pace;
  clock.start_pace();
  return clock;
}

Clock Clock::modelled(const ModelledTime& time, int rank, double pace) {
  Clock clock = modelled(time.cluster, time.times, pace);
  clock.slowness_ = time.slowness(rank);
  if (time.cluster.group_of(rank) >= 0)
    clock.device_ = std::make_shared<const Cluster>(time.cluster.as_seen_by(rank));
  return clock;
}

void Clock::keep_pace(Picoseconds reached) const {
  if (!is_modelled() || pace_ <= 0) return;
  const auto due =
      pace_start_ + static_cast<std::int64_t>(static_cast<double>(reached) / 1000 / pace_);
  std::this_thread::sleep_until(std::chrono::steady_clock::time_point{
      std::chrono::duration_cast<std::chrono::steady_clock::duration>(
          std::chrono::nanoseconds{due})});
}

}  // namespace lockstep
