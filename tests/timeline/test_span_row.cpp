#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <random>
#include <tuple>
#include <vector>

#include "viz/read/timeline/span_row.h"

using namespace lockstep;

namespace {

/// Spans of which most differ in one field from an earlier one.
class RandomSpans {
 public:
  explicit RandomSpans(unsigned seed) : random_(seed) {}

  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  /// Returns a span that starts at `from` or a little later.
  TimelineSpan next(Picoseconds from) {
    TimelineSpan& span = spans_[static_cast<std::size_t>(number(0, 3))];
    change(span, number(0, 16));
    span.step = number(-1, largest);
    span.sequence = number(-1, largest);
    span.start = from + number(0, 5);
    span.end = span.start + number(0, 9);
    return span;
  }
  /// Returns the id of a message.
  std::uint64_t id() {
    return static_cast<std::uint64_t>(number(0, 2) == 0 ? random_() : 7) << 32 | random_();
  }

 private:
  static constexpr int largest = std::numeric_limits<int>::max();

  void change(TimelineSpan& span, int field) {
    const int any = number(-1, number(0, 1) == 0 ? 1 : largest);
    const auto name = static_cast<NameId>(any + 1);
    if (field == 0) span.bytes = std::int64_t{any} << 28;
    if (field == 1) span.name = name;
    if (field == 2) span.stage = any;
    if (field == 3) span.microbatch = any;
    if (field == 4) span.peer = any;
    if (field == 5) span.group = name;
    if (field == 6) span.group_size = any;
    if (field == 7) span.layer = static_cast<std::int16_t>(any & 0x7fff);
    if (field == 8) span.algorithm = static_cast<std::uint16_t>(any);
    if (field == 9) span.category = static_cast<Category>(number(0, category_count - 1));
    if (field == 10) span.role = static_cast<MessageRole>(number(0, 2));
    if (field == 11) span.payload = static_cast<Payload>(number(0, 2));
    if (field == 12) span.message = id();
  }

  std::mt19937 random_;
  std::array<TimelineSpan, 4> spans_{};
};

auto fields(const TimelineSpan& span) {
  return std::tuple{span.start,      span.end,        span.bytes,     span.name,     span.step,
                    span.stage,      span.microbatch, span.peer,      span.sequence, span.group,
                    span.group_size, span.layer,      span.algorithm, span.category, span.role,
                    span.payload,    span.message};
}

bool same(const TimelineSpan& a, const TimelineSpan& b) {
  return fields(a) == fields(b);
}

/// Whether all ways to read a row give the spans of `expected`.
bool holds(const SpanRow& row, const std::vector<TimelineSpan>& expected) {
  bool all = row.size() == expected.size() &&
             std::equal(row.begin(), row.end(), expected.begin(), same) &&
             std::equal(row.rbegin(), row.rend(), expected.rbegin(), same);
  for (std::size_t i = 0; all && i < expected.size(); ++i) {
    const TimelineSpan& span = expected[i];
    const auto at = row.begin() + static_cast<std::ptrdiff_t>(i);
    all = same(row[i], span) && same(row.begin()[static_cast<std::ptrdiff_t>(i)], span) &&
          same(*std::prev(at + 1), span) && at->message == span.message &&
          row.start(i) == span.start && row.end(i) == span.end && row.category(i) == span.category;
  }
  return all;
}

}  // namespace

static_assert(std::random_access_iterator<SpanRow::iterator>);

TEST_CASE("a row gives back the spans put in, also after they name messages and change names") {
  RandomSpans random{7};
  const auto descriptions = std::make_shared<SpanDescriptions>();
  std::vector<SpanRow> rows;
  std::vector<std::vector<TimelineSpan>> expected(3);
  for (int i = 0; i < 3; ++i) rows.emplace_back(descriptions);
  for (int round = 0; round < 300; ++round) {
    const auto which = static_cast<std::size_t>(random.number(0, 2));
    SpanRow& row = rows[which];
    std::vector<TimelineSpan>& spans = expected[which];
    for (int i = random.number(0, 40); i > 0; --i) {
      spans.push_back(random.next(spans.empty() ? 0 : spans.back().end));
      row.push_back(spans.back());
    }
    for (int i = random.number(0, 5); i > 0 && !spans.empty(); --i) {
      const auto at =
          static_cast<std::size_t>(random.number(0, static_cast<int>(spans.size()) - 1));
      spans[at].message = random.id();
      spans[at].role = MessageRole::receives;
      row.name_message(at, spans[at].message, spans[at].role);
    }
    if (random.number(0, 9) == 0) {
      const auto rename = [](TimelineSpan& span) { span.name = span.name ^ 1; };
      descriptions->change_all(rename);
      for (auto& each : expected) std::ranges::for_each(each, rename);
    }
    const auto kept =
        spans.begin() + random.number(0, 20) * static_cast<std::ptrdiff_t>(spans.size()) / 20;
    if (random.number(0, 3) == 0) {
      row.erase_from(row.begin() + (kept - spans.begin()));
      spans.erase(kept, spans.end());
    }
    for (std::size_t i = 0; i < rows.size(); ++i) REQUIRE(holds(rows[i], expected[i]));
  }
  const SpanRow own{expected[0][0], expected[0][1]};
  CHECK(holds(own, {expected[0][0], expected[0][1]}));
}

TEST_CASE("a row is searched like a sorted array of spans") {
  RandomSpans random{11};
  SpanRow row;
  std::vector<TimelineSpan> spans;
  for (int i = 0; i < 500; ++i) {
    spans.push_back(random.next(spans.empty() ? 0 : spans.back().end));
    row.push_back(spans.back());
  }
  const auto start = [](const TimelineSpan& span) { return span.start; };
  for (int i = 0; i < 200; ++i) {
    const Picoseconds time = random.number(-1, static_cast<int>(spans.back().end) + 1);
    const auto ends_before = [&](const TimelineSpan& span) { return span.end < time; };
    REQUIRE(std::ranges::lower_bound(row, time, {}, start) - row.begin() ==
            std::ranges::lower_bound(spans, time, {}, start) - spans.begin());
    REQUIRE(std::partition_point(row.begin(), row.end(), ends_before) - row.begin() ==
            std::partition_point(spans.begin(), spans.end(), ends_before) - spans.begin());
  }
}

TEST_CASE("spans that repeat share a description") {
  SpanDescriptions descriptions;
  TimelineSpan span{.bytes = 8, .name = 3};
  const SpanDescriptions::Id first = descriptions.find(span);
  span.start = 5, span.end = 7, span.step = 2, span.sequence = 9, span.message = 0xffffffff;
  CHECK(descriptions.find(span) == first);
  span.message = 0x100000000;
  CHECK(descriptions.find(span) != first);
  CHECK(descriptions.size() == 2);
  // Two names become one: later spans share one of the two descriptions.
  span.name = 4;
  descriptions.find(span);
  descriptions.change_all([](TimelineSpan& each) { each.name = 5; });
  span.name = 5;
  descriptions.find(span);
  CHECK(descriptions.size() == 3);
  span.message = 0;
  CHECK(descriptions.find(span) == first);
}

TEST_CASE("a row's blocks have the sums of its spans, also after spans were removed") {
  RandomSpans random{3};
  SpanRow row;
  for (int round = 0; round < 200; ++round) {
    Picoseconds at = row.empty() ? 0 : row.back().end;
    for (int i = random.number(0, 60); i > 0; --i) {
      row.push_back(random.next(at));
      at = row.back().end;
    }
    row.erase_from(row.end() -
                   std::min<std::ptrdiff_t>(random.number(0, 40), row.end() - row.begin()));

    REQUIRE(row.blocks().size() == row.size() / SpanRow::block_size);
    std::array<Picoseconds, category_count> until{};
    for (std::size_t i = 0; i < row.size(); ++i) {
      until[static_cast<std::size_t>(row[i].category)] += row[i].duration();
      if ((i + 1) % SpanRow::block_size != 0) continue;
      const SpanRow::Block& block = row.blocks()[i / SpanRow::block_size];
      REQUIRE(block.end == row[i].end);
      REQUIRE(block.until == until);
    }
  }
  CHECK(row.size() > 500);
}
