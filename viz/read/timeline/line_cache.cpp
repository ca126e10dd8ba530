#include "viz/read/timeline/line_cache.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <utility>

namespace lockstep {
namespace {

// Numbers of so many digits fit in their fields, and neither times nor their sum are too late.
constexpr int most_whole_digits = 12, most_step_digits = 9, most_message_digits = 18;

/// Removes up to `most` digits from the front of `text`. Returns their number.
int take_digits(std::string_view& text, int most, std::int64_t& number) {
  int count = 0;
  number = 0;
  for (; count < most && !text.empty() && text[0] >= '0' && text[0] <= '9'; ++count) {
    number = 10 * number + (text[0] - '0');
    text.remove_prefix(1);
  }
  return count;
}

/// Removes a number as Lockstep writes it from the front of `text`: no sign and no leading zeros.
bool take_integer(std::string_view& text, int most_digits, std::int64_t& number) {
  const bool zero = text.starts_with('0');
  const int digits = take_digits(text, most_digits, number);
  return digits == 1 || (digits > 1 && !zero);
}

/// Removes microseconds with up to six decimals, and converts them to picoseconds.
bool take_time(std::string_view& text, Picoseconds& time) {
  if (!take_integer(text, most_whole_digits, time)) return false;
  std::int64_t fraction = 0;
  int decimals = 0;
  if (text.starts_with('.')) {
    text.remove_prefix(1);
    decimals = take_digits(text, 6, fraction);
    if (decimals == 0) return false;
  }
  constexpr std::int64_t picoseconds[] = {1'000'000, 100'000, 10'000, 1000, 100, 10, 1};
  time = time * 1'000'000 + fraction * picoseconds[decimals];
  return true;
}

bool take(std::string_view& text, std::string_view words) {
  if (!text.starts_with(words)) return false;
  text.remove_prefix(words.size());
  return true;
}

/// Removes the rest of a string without escapes, and its closing quote.
bool take_string(std::string_view& text) {
  const std::size_t end = text.find('"');
  if (end == std::string_view::npos || text.substr(0, end).find('\\') != std::string_view::npos)
    return false;
  text.remove_prefix(end + 1);
  return true;
}

}  // namespace

/// Divides a line into its text and the numbers to cut out of it. Returns whether it is a span as
/// Lockstep writes it, with its keys in the same order.
bool LineCache::cut(std::string_view line) {
  text_.clear();
  cut_count_ = 0;
  // From spans of these names, the parser reads other args.
  if (line.size() > longest_line || line.starts_with(R"({"ph":"X","name":"lockstep")") ||
      line.starts_with(R"({"ph":"X","name":"predicted")"))
    return false;
  std::string_view left = line;
  const char* kept = line.data();  // the text before this is in text_
  const auto varies = [&](Number which) {
    text_.append(kept, left.data());
    cuts_[cut_count_++] = {text_.size(), which};
    const bool is_time = which == Number::start || which == Number::duration;
    const int most = which == Number::message ? most_message_digits : most_step_digits;
    std::int64_t number = 0;
    const bool taken = is_time ? take_time(left, number) : take_integer(left, most, number);
    kept = left.data();
    return taken;
  };
  const auto fixed = [&] {
    std::int64_t number = 0;
    return take_integer(left, most_message_digits, number);
  };
  // Each of the args, if it is there.
  const auto ends = [&] { return take(left, ",") || left.starts_with('}'); };
  const auto varying = [&](std::string_view key, Number which) {
    return !take(left, key) || (varies(which) && ends());
  };
  const auto number = [&](std::string_view key) { return !take(left, key) || (fixed() && ends()); };
  const auto word = [&](std::string_view key) {
    return !take(left, key) || (take_string(left) && ends());
  };
  if (!take(left, R"({"ph":"X","name":")") || !take_string(left) || !take(left, R"(,"cat":")") ||
      !take_string(left) || !take(left, R"(,"pid":)") || !fixed() || !take(left, R"(,"tid":)") ||
      !fixed() || !take(left, R"(,"ts":)") || !varies(Number::start) || !take(left, R"(,"dur":)") ||
      !varies(Number::duration))
    return false;
  if (take(left, R"(,"bind_id":)") &&
      (!varies(Number::message) ||
       (!take(left, R"(,"flow_out":true)") && !take(left, R"(,"flow_in":true)"))))
    return false;
  const bool has_form =
      take(left, R"(,"args":{)") && varying(R"("sends":)", Number::message) &&
      varying(R"("receives":)", Number::message) && varying(R"("step":)", Number::step) &&
      number(R"("stage":)") && number(R"("microbatch":)") && number(R"("layer":)") &&
      number(R"("bytes":)") && number(R"("peer":)") && word(R"("group":")") &&
      number(R"("group_size":)") && word(R"("algorithm":")") &&
      varying(R"("seq":)", Number::sequence) && number(R"("flops":)") && word(R"("carries":")");
  text_.append(kept, line.data() + line.size());
  return has_form && left == "}}";
}

/// Reads the numbers of a line with the same text into its span. Returns false if the text differs.
bool LineCache::fill(Line& line, std::string_view from) {
  TimelineSpan& span = line.known.span;
  Picoseconds duration = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < line.cut_count; ++i) {
    const Cut& cut = line.cuts[i];
    if (!take(from, line.text.substr(at, cut.at - at))) return false;
    at = cut.at;
    std::int64_t number = 0;
    bool taken = false;
    switch (cut.number) {
      case Number::start:
        taken = take_time(from, span.start);
        break;
      case Number::duration:
        taken = take_time(from, duration);
        break;
      case Number::message:
        taken = take_integer(from, most_message_digits, number);
        span.message = static_cast<std::uint64_t>(number);
        break;
      case Number::step:
        taken = take_integer(from, most_step_digits, number);
        span.step = static_cast<int>(number);
        break;
      case Number::sequence:
        taken = take_integer(from, most_step_digits, number);
        span.sequence = static_cast<int>(number);
        break;
    }
    if (!taken) return false;
  }
  span.end = span.start + duration;
  return from == line.text.substr(at);
}

/// Makes a line the last one.
const LineCache::Known* LineCache::follow(Line& line) {
  before_last_->second_next = last_->next = &line;
  before_last_ = std::exchange(last_, &line);
  return &line.known;
}

const LineCache::Known* LineCache::find(std::string_view line) {
  for (Line* likely : {last_->next, before_last_->second_next})
    if (likely && fill(*likely, line)) return follow(*likely);
  if (lines_.empty() || !cut(line)) return nullptr;
  const auto found = lines_.find(std::string_view{text_});
  return found != lines_.end() && fill(found->second, line) ? follow(found->second) : nullptr;
}

void LineCache::remember(std::string_view line, const Known& known) {
  if (lines_.size() >= most_lines || !cut(line)) return;
  const auto [at, fresh] = lines_.try_emplace(text_);
  Line& added = at->second;
  added.text = at->first;
  added.cuts = cuts_;
  added.cut_count = cut_count_;
  added.known = known;
  follow(added);
}

}  // namespace lockstep
