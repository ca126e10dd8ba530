#include "viz/data/window/comparison_words.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr std::size_t longest_name = 60;  // bytes; a longer text is not a name
constexpr double named_share = 0.9;       // the share of the changes that changed_parts() names

using Values = std::vector<std::pair<std::string, double>>;

double in_seconds(double picoseconds) {
  return picoseconds * 1e-12;
}

/// Compares B with A: "12.0 % less memory than" or "2.4 times the memory of"; if the percentage
/// would read as 0, "3 B more memory than". Adds the number to the values.
template <class Words>
std::string compared(double a, double b, const char* quantity, Words words, Values& values,
                     double unit = 1, const char* fewer = "less") {
  const char* direction = b > a ? "more" : fewer;
  if (b >= 2 * a) {
    values.emplace_back("ratio", b / a);
    return fmt::format("{} times the {} of", ratio_words(b / a), quantity);
  }
  const std::string share = percent_words(std::abs(b - a) / a);
  if (share == percent_words(0)) {
    values.emplace_back("difference", (b - a) * unit);
    return fmt::format("{} {} {} than", words(std::abs(b - a)), direction, quantity);
  }
  values.emplace_back("relative", (b - a) / a);
  return fmt::format("{} {} {} than", share, direction, quantity);
}

std::string time_words(double picoseconds) {
  return duration_words(picoseconds);
}
std::string size_words(double bytes) {
  return bytes_words(bytes);
}

Sentence step_times(const StepMetrics& a, const StepMetrics& b, const ComparedNames& names) {
  const auto before = static_cast<double>(a.time()), after = static_cast<double>(b.time());
  Sentence sentence{Claim::step_times, {}, {}};
  sentence.values = {{"a", in_seconds(before)}, {"b", in_seconds(after)}};
  const Scale scale = Scale::durations(std::max(before, after));
  const std::string words_a = scale(before), words_b = scale(after);
  if (words_a == words_b) {
    // Without names, there is no reason to expect a difference.
    sentence.text = names.a == "A" ? fmt::format("Both steps take {}.", words_b)
                                   : fmt::format("{} is no faster than {}: both steps take {}.",
                                                 names.b, names.a, words_b);
  } else if (before <= 0) {
    sentence.text = fmt::format("Only {} takes time: {}.", names.b, words_b);
  } else {
    sentence.text = fmt::format("A step of {} takes {} one of {}: {} instead of {}.", names.b,
                                compared(before, after, "time", time_words, sentence.values, 1e-12),
                                names.a, words_b, words_a);
  }
  return sentence;
}

/// Says how much of both peaks is activations, if they account for at least half of the difference,
/// and, if the numbers can be compared, how many microbatches the ranks with these peaks hold.
void add_activations(const StepMetrics& a, const StepMetrics& b, Sentence& sentence) {
  const RankMetrics &most_a = *a.most_memory(), &most_b = *b.most_memory();
  const auto part_a = static_cast<double>(most_a.activations.value_or(0));
  const auto part_b = static_cast<double>(most_b.activations.value_or(0));
  const auto by = static_cast<double>(*most_b.memory) - static_cast<double>(*most_a.memory);
  if ((part_b - part_a) / by < 0.5) return;
  const Scale scale = Scale::bytes(std::max(part_a, part_b));
  sentence.text +=
      fmt::format(" At the peak, activations take {} instead of {}.", scale(part_b), scale(part_a));
  sentence.values.emplace_back("activations_a", part_a);
  sentence.values.emplace_back("activations_b", part_b);
  const int flight_a = most_a.in_flight, flight_b = most_b.in_flight;
  if (a.chunks != 1 || b.chunks != 1 || flight_a == flight_b || (flight_b > flight_a) != (by > 0))
    return;
  sentence.text +=
      fmt::format(" The rank with the peak has at most {} microbatch{} in flight instead of {}.",
                  flight_b, flight_b == 1 ? "" : "es", flight_a);
  sentence.values.emplace_back("in_flight_a", flight_a);
  sentence.values.emplace_back("in_flight_b", flight_b);
}

std::string name_in_sentence(const ComparedPart& part) {
  switch (part.kind) {
    case MeanPart::Kind::exposed:
      return part.name == "communication" ? "exposed communication"
                                          : part.name + "'s exposed communication";
    case MeanPart::Kind::optimizer:
      return "the optimizer";
    case MeanPart::Kind::bubble:
      return "the bubble";
    case MeanPart::Kind::other:
      return "other time";
    case MeanPart::Kind::ended:
      return "the time after a rank's own step";
    case MeanPart::Kind::compute:
      break;
  }
  return part.name;
}

/// The largest changes, which together account for most of the total change. Empty if the printed
/// times show no change.
std::vector<ComparedPart> largest_changes(std::vector<ComparedPart> parts) {
  if (std::ranges::all_of(
          parts, [](const ComparedPart& part) { return time_words(part.a) == time_words(part.b); }))
    return {};
  const auto size = [](const ComparedPart& part) { return std::abs(part.b - part.a); };
  double all = 0, named = 0;
  for (const ComparedPart& part : parts) all += size(part);
  std::ranges::stable_sort(parts, std::ranges::greater{}, size);
  std::size_t count = 0;
  while (count < parts.size() && named < named_share * all) named += size(parts[count++]);
  parts.resize(count);
  return parts;
}

/// Divides the difference of the step times into parts. On each side the means of the parts add up
/// to the length of the step, so the differences of the parts add up to the difference of the
/// lengths.
std::optional<Sentence> changed_parts(const StepMetrics& a, const StepMetrics& b) {
  const auto by = static_cast<double>(b.time()) - static_cast<double>(a.time());
  const std::vector<ComparedPart> all = compare_parts(a, b), changes = largest_changes(all);
  Sentence sentence{Claim::changed_parts, {}, {}};
  const auto key = [](const ComparedPart& part) {
    return part.kind == MeanPart::Kind::exposed ? part.name + " exposed" : part.name;
  };
  const bool differ =
      time_words(static_cast<double>(a.time())) != time_words(static_cast<double>(b.time()));
  if (differ) sentence.values.emplace_back("difference", in_seconds(by));
  std::vector<std::string> words;
  if (changes.empty()) {
    if (differ) return {};
    double longest = 0;
    for (const ComparedPart& part : all) longest = std::max(longest, part.b);
    const Scale scale = Scale::durations(longest);
    for (const ComparedPart& part : all) {
      words.push_back(fmt::format(
          "{} {}", part.kind == MeanPart::Kind::exposed ? "exposed " + part.name : part.name,
          scale(part.b)));
      sentence.values.emplace_back(key(part), in_seconds(part.b));
    }
    if (words.empty()) return {};
    sentence.text = fmt::format("All parts are equal as well: {} per rank.", list_words(words));
    return sentence;
  }
  double largest = differ ? std::abs(by) : 0;
  for (const ComparedPart& part : changes) {
    sentence.values.emplace_back(key(part), in_seconds(part.b - part.a));
    largest = std::max(largest, std::abs(part.b - part.a));
  }
  const Scale scale = Scale::durations(largest);
  const bool one_way = std::ranges::all_of(
      changes, [&](const ComparedPart& part) { return (part.b > part.a) == (by > 0); });
  for (const ComparedPart& part : changes) {
    const std::string time = scale(std::abs(part.b - part.a));
    const char* verb = words.empty() ? (differ && one_way ? " accounts for" : " takes") : "";
    words.push_back(fmt::format("{}{} {}{}", name_in_sentence(part), verb, time,
                                differ && one_way ? ""
                                : part.b > part.a ? " more"
                                                  : " less"));
  }
  const char* direction = by > 0 ? "more" : "less";
  if (differ && one_way)
    sentence.text = fmt::format("Of the {} {}, {} (means over ranks).", scale(std::abs(by)),
                                by > 0 ? "added" : "saved", list_words(words));
  else if (differ)
    sentence.text = fmt::format("Per rank, {}; all parts together {} {}.", list_words(words),
                                scale(std::abs(by)), direction);
  else
    sentence.text = fmt::format("Per rank, {}.", list_words(words));
  return sentence;
}

/// Names the rank whose compute changes more than that of the others.
std::optional<Sentence> changed_rank(const StepMetrics& a, const StepMetrics& b,
                                     const ComparedNames& names) {
  const auto changed = most_changed_rank(a, b);
  if (!changed) return {};
  const auto before = static_cast<double>(changed->a), after = static_cast<double>(changed->b);
  const Scale scale = Scale::durations(std::max(before, after));
  return Sentence{
      Claim::changed_rank,
      fmt::format(
          "In {}, rank {} computes {} times as long as in {}: {} instead of {}. The compute "
          "of no other rank changes as much.",
          names.b, changed->rank, ratio_words(after / before), names.a, scale(after),
          scale(before)),
      {{"rank", changed->rank}, {"a", in_seconds(before)}, {"b", in_seconds(after)}}};
}

/// If only one of the steps has separate weight gradients, says how long these run at the end, and
/// gives both bubbles.
std::optional<Sentence> weight_gradients(const StepMetrics& a, const StepMetrics& b,
                                         const ComparedNames& names) {
  if (a.separate_weights == b.separate_weights || !a.bubble || !b.bubble) return {};
  const bool in_b = b.separate_weights;
  const StepMetrics &with = in_b ? b : a, &without = in_b ? a : b;
  const double time = mean_of(with.weights_at_end, with.account);
  const double bubble = mean_of(with.account.sum().bubble(), with.account);
  const double other = mean_of(without.account.sum().bubble(), without.account);
  Sentence sentence{Claim::weight_gradients, {}, {}};
  const double whole = mean_of(with.weights, with.account);
  sentence.values = {{"weights", in_seconds(whole)},
                     {"weights_at_end", in_seconds(time)},
                     {in_b ? "bubble_b" : "bubble_a", in_seconds(bubble)},
                     {in_b ? "bubble_a" : "bubble_b", in_seconds(other)}};
  const Scale scale = Scale::durations(std::max({whole, bubble, other}));
  std::string bubbles;
  if (time_words(bubble) == time_words(other)) {
    bubbles = fmt::format("both bubbles take {} per rank", scale(bubble));
  } else {
    sentence.values.emplace_back("difference", in_seconds(bubble - other));
    bubbles = fmt::format("the bubble of {} is {} {}: {} per rank instead of {}",
                          in_b ? names.b : names.a, scale(std::abs(bubble - other)),
                          bubble < other ? "shorter" : "longer", scale(bubble), scale(other));
  }
  sentence.text = fmt::format(
      "{} splits its backward passes, and {} does not. Weight gradients take {} per rank, of "
      "which {} come after the rank's last input gradient; {}.",
      in_b ? names.b : names.a, in_b ? names.a : names.b, scale(whole), scale(time), bubbles);
  return sentence;
}

std::optional<Sentence> peak_memory(const StepMetrics& a, const StepMetrics& b,
                                    const ComparedNames& names) {
  const RankMetrics *most_a = a.most_memory(), *most_b = b.most_memory();
  if (!most_a || !most_b) return {};
  const auto before = static_cast<double>(*most_a->memory);
  const auto after = static_cast<double>(*most_b->memory);
  Sentence sentence{Claim::peak_memory, {}, {}};
  sentence.values = {{"a", before}, {"b", after}};
  const Scale scale = Scale::bytes(std::max(before, after));
  if (scale(before) == scale(after)) {
    sentence.text = fmt::format("Peak memory is the same, {}.", size_words(after));
    return sentence;
  }
  if (before <= 0) {
    sentence.text = fmt::format("Only {} reports memory: {}.", names.b, size_words(after));
    return sentence;
  }
  sentence.text =
      fmt::format("{} needs {} {}: the highest peak of a rank is {} instead of {}.", names.b,
                  compared(before, after, "memory", size_words, sentence.values), names.a,
                  scale(after), scale(before));
  add_activations(a, b, sentence);
  if (most_a->rank != most_b->rank) {
    sentence.text +=
        fmt::format(" The peak is on rank {} instead of rank {}.", most_b->rank, most_a->rank);
    sentence.values.emplace_back("rank_a", most_a->rank);
    sentence.values.emplace_back("rank_b", most_b->rank);
  }
  return sentence;
}

Sentence bytes_sent(const StepMetrics& a, const StepMetrics& b, const ComparedNames& names) {
  const auto before = static_cast<double>(a.sent()), after = static_cast<double>(b.sent());
  Sentence sentence{Claim::bytes_sent, {}, {}};
  sentence.values = {{"a", before}, {"b", after}};
  const Scale scale = Scale::bytes(std::max(before, after));
  if (before == 0 && after == 0)
    sentence.text = "Neither trace shows messages in this step.";
  else if (before == after)
    sentence.text = fmt::format("Both send the same number of bytes, {}.", size_words(after));
  else if (scale(before) == scale(after))
    sentence.text = fmt::format("Both send {}.", size_words(after));
  else if (before <= 0)
    sentence.text = fmt::format("Only {} sends messages: {}.", names.b, size_words(after));
  else
    sentence.text =
        fmt::format("{} sends {} {}: {} instead of {}.", names.b,
                    compared(before, after, "bytes", size_words, sentence.values, 1, "fewer"),
                    names.a, scale(after), scale(before));
  return sentence;
}

}  // namespace

ComparedNames compared_names(const Timeline& a, int step_a, const Timeline& b, int step_b) {
  const auto candidates = [](const Timeline& timeline, int step) {
    const Prediction& predicted = timeline.prediction(step);
    return std::array{predicted.schedule, timeline.run().lesson, predicted.phase};
  };
  const auto is_name = [](const std::string& text) {
    return !text.empty() && text.size() <= longest_name;
  };
  const auto left = candidates(a, step_a), right = candidates(b, step_b);
  for (std::size_t i = 0; i < left.size(); ++i)
    if (left[i] != right[i] && is_name(left[i]) && is_name(right[i]))
      return {fmt::format("A ({})", left[i]), fmt::format("B ({})", right[i])};
  return {};
}

std::string clock_warning(const Timeline& a, const Timeline& b) {
  const auto words = [](const RunInfo& run) {
    return run.clock == "modelled" ? "modelled"
           : run.clock == "wall"   ? "measured"
                                   : "from an unknown clock";
  };
  if (a.run().clock == b.run().clock) return {};
  return fmt::format("Times cannot be compared: A's are {}, B's are {}.", words(a.run()),
                     words(b.run()));
}

std::vector<Sentence> comparison_sentences(const StepMetrics& a, const StepMetrics& b,
                                           const ComparedNames& names, bool clocks_differ) {
  std::vector<Sentence> sentences;
  if (a.step < 0 || b.step < 0) return sentences;
  const auto add = [&](std::optional<Sentence> sentence) {
    if (sentence) sentences.push_back(*std::move(sentence));
  };
  if (!clocks_differ) {
    add(step_times(a, b, names));
    add(changed_parts(a, b));
    add(changed_rank(a, b, names));
    add(weight_gradients(a, b, names));
  }
  add(peak_memory(a, b, names));
  add(bytes_sent(a, b, names));
  return sentences;
}

std::string sentences_json(const std::vector<Sentence>& sentences) {
  nlohmann::json list = nlohmann::json::array();
  for (const Sentence& sentence : sentences) {
    nlohmann::json values = nlohmann::json::object();
    for (const auto& [name, value] : sentence.values) values[name] = value;
    list.push_back(
        {{"claim", name_of(sentence.claim)}, {"text", sentence.text}, {"values", values}});
  }
  // A hostile trace may contain names that are not UTF-8.
  return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace lockstep::viz
