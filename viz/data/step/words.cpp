#include "viz/data/step/words.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace lockstep::viz {
namespace {

struct Unit {
  double size;
  const char* name;
};
constexpr Unit time_units[] = {{1e12, "s"}, {1e9, "ms"}, {1e6, "µs"}, {1e3, "ns"}, {1, "ps"}};
constexpr Unit byte_units[] = {{1e12, "TB"}, {1e9, "GB"}, {1e6, "MB"}, {1e3, "kB"}, {1, "B"}};

/// The smallest number that rounds to a number with one more digit before its point: 999.5 with
/// three digits.
constexpr double rounds_to(double power) {
  return power - power / 2000;
}

/// Returns the largest unit in which the number reads as 1 or more.
template <std::size_t n>
const Unit& unit_for(const Unit (&units)[n], double number) {
  for (const Unit& unit : units)
    if (std::abs(number) >= rounds_to(unit.size)) return unit;
  return units[n - 1];
}

/// Returns how many decimal places a number needs for three significant digits.
int decimals_for(double number) {
  const double size = std::abs(number);
  return size >= rounds_to(100) ? 0 : size >= rounds_to(10) ? 1 : 2;
}

const char* action_words(Category category) {
  switch (category) {
    case Category::forward:
      return "forward";
    case Category::backward:
      return "backward";
    case Category::backward_input:
      return "input gradient";
    case Category::backward_weight:
      return "weight gradient";
    case Category::recompute:
      return "recomputation";
    default:
      return nullptr;
  }
}

/// Returns "to", "from" or, if the direction of a message is not known, "with".
const char* direction_words(const TimelineSpan& span) {
  return span.sends() ? "to" : span.receives() ? "from" : "with";
}

}  // namespace

Scale Scale::durations(double largest) {
  const Unit& unit = unit_for(time_units, largest);
  return {unit.size, unit.name, unit.size == 1 ? 0 : decimals_for(largest / unit.size)};
}

Scale Scale::bytes(double largest) {
  const Unit& unit = unit_for(byte_units, largest);
  return {unit.size, unit.name, unit.size == 1 ? 0 : decimals_for(largest / unit.size)};
}

std::string Scale::operator()(double number) const {
  if (number == 0) return fmt::format("0 {}", unit_);
  const double least = std::pow(10, -places_);
  if (std::abs(number / size_) < least / 2)
    return fmt::format("<{:.{}f} {}", least, places_, unit_);
  return fmt::format("{:.{}f} {}", number / size_, places_, unit_);
}

std::string duration_words(double picoseconds) {
  return picoseconds == 0 ? "0 s" : Scale::durations(picoseconds)(picoseconds);
}

std::string bytes_words(double bytes) {
  return Scale::bytes(bytes)(bytes);
}

std::string ratio_words(double ratio) {
  if (std::abs(ratio) >= 999.5) return fmt::format("{:.0f}", ratio);
  if (ratio == std::round(ratio)) return fmt::format("{:.0f}", ratio);
  if (std::abs(ratio) >= rounds_to(1)) return fmt::format("{:.{}f}", ratio, decimals_for(ratio));
  return fmt::format("{:.3g}", ratio);
}

double round_spacing(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

std::string axis_words(double picoseconds, double spacing) {
  const double largest = std::max(std::abs(picoseconds), spacing);
  const Unit& unit = *std::ranges::find_if(
      time_units, [&](const Unit& each) { return largest >= each.size || each.size == 1; });
  const double digits = -std::floor(std::log10(spacing / unit.size) + 1e-9);
  return fmt::format("{:.{}f} {}", picoseconds / unit.size,
                     static_cast<int>(std::clamp(digits, 0.0, 9.0)), unit.name);
}

std::string percent_words(double share) {
  const double percent = 100 * share;
  return fmt::format("{:.{}f} %", percent, std::abs(percent) >= 99.95 ? 0 : 1);
}

std::string list_words(const std::vector<std::string>& words) {
  std::string list;
  for (std::size_t i = 0; i < words.size(); ++i)
    list += (i == 0 ? "" : i + 1 == words.size() ? " and " : ", ") + words[i];
  return list;
}

std::vector<std::string> wrapped(const std::string& text, std::size_t columns) {
  std::vector<std::string> lines{""};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    if (!lines.back().empty() && lines.back().size() + 1 + word.size() > columns)
      lines.emplace_back();
    lines.back() += (lines.back().empty() ? "" : " ") + word;
    begin = end + 1;
  }
  return lines;
}

std::string step_words(const Timeline& timeline, int step) {
  const std::string& phase = timeline.prediction(step).phase;
  return fmt::format("step {}{}{}", step, phase.empty() ? "" : ", ", phase);
}

std::string chain_words(const DataChain& chain) {
  const std::size_t before = chain.before.size(), after = chain.after.size();
  const std::string needs = before == 0 ? "It needs no result of an earlier action"
                            : before == 1
                                ? "It needs the result of 1 earlier action"
                                : fmt::format("It needs the results of {} earlier actions", before);
  const std::string used = after == 0   ? "no later action depends on it"
                           : after == 1 ? "1 later action depends on it"
                                        : fmt::format("{} later actions depend on it", after);
  return needs + "; " + used + ".";
}

std::string exposed_words(const Exposed& sum, double ranks) {
  const Scale scale = Scale::durations(static_cast<double>(sum.sum()) / ranks);
  std::string words;
  const auto part = [&](const char* name, Picoseconds time) {
    if (time == 0) return;
    if (!words.empty()) words += ", ";
    words += name + (" " + scale(static_cast<double>(time) / ranks));
  };
  part(name_of(StepPart::transfer), sum.transfer);
  part(name_of(StepPart::latency), sum.latency);
  part(name_of(StepPart::late_peer), sum.late_peer);
  return words;
}

std::string span_words(const Timeline& timeline, const TimelineSpan& span) {
  const std::string& name = timeline.name(span.name);
  std::string words;
  if (const char* action = action_words(span.category)) {
    words = action;
    if (span.microbatch >= 0) words += fmt::format(" of microbatch {}", span.microbatch);
    if (span.stage >= 0) words += fmt::format(" on stage {}", span.stage);
    if (span.layer >= 0) words += fmt::format(", layer {}", span.layer);
    return words;
  }
  const std::string number =
      span.group_size > 1 && span.sequence >= 0 ? fmt::format(" {}", span.sequence) : std::string{};
  if (span.category == Category::wait) {
    words = name.empty() || name == "wait" ? "idle, waiting" : "idle, waiting for " + name + number;
    if (span.microbatch >= 0) words += fmt::format(" of microbatch {}", span.microbatch);
    // With blocking sends, a rank also waits until its message has left.
    if (span.peer >= 0)
      words += fmt::format(" {} rank {}", span.sends() ? "to" : "from", span.peer);
    return words;
  }
  if (span.category == Category::communication) {
    words = name + number;
    if (span.peer >= 0) words += fmt::format(" {} rank {}", direction_words(span), span.peer);
    if (span.microbatch >= 0) words += fmt::format(", microbatch {}", span.microbatch);
    if (span.group_size > 1 && span.peer < 0) words += fmt::format(" of {} ranks", span.group_size);
    return words;
  }
  if (span.category == Category::optimizer && name.empty()) return "optimizer";
  if (span.category == Category::step) return fmt::format("step {}", span.step);
  return name.empty() ? name_of(span.category) : name;
}

}  // namespace lockstep::viz
