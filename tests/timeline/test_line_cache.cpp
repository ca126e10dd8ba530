#include <doctest/doctest.h>

#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/trace/format.h"
#include "core/trace/writer.h"
#include "viz/read/timeline/line_cache.h"
#include "viz/read/timeline/reader.h"

using namespace lockstep;

namespace {

/// The lines of a random trace, most of which repeat earlier ones except for their numbers.
class RandomLines {
 public:
  explicit RandomLines(unsigned seed) : random_(seed) {
    for (int i = 0; i < 12; ++i) spans_.push_back(any_span());
    spans_.push_back({.name = "send", .category = Category::communication, .stage = 0});
  }

  int number(int from, int to) { return std::uniform_int_distribution<int>(from, to)(random_); }
  template <class List>
  auto one_of(const List& list) {
    return list[static_cast<std::size_t>(number(0, static_cast<int>(std::size(list)) - 1))];
  }

  std::string next() {
    Span span = one_of(spans_);
    if (span.sequence >= 0) span.sequence = number(0, 3000);
    span.message = static_cast<std::uint64_t>(number(0, 9)) << 32 | random_();
    const Picoseconds length = one_of(std::vector<Picoseconds>{0, 7, 1000, 2'500'000});
    now_ += one_of(std::vector<Picoseconds>{0, 1, 1000, 123'000, 1'000'000, 77'000'123});
    std::string text;
    append_line(text, 3,
                {.kind = number(0, 20) == 0 ? TraceEvent::Kind::open : TraceEvent::Kind::span,
                 .lane = number(0, 1),
                 .step = number(0, 9) == 0 ? -1 : number(0, 40),
                 .span = span,
                 .start = now_,
                 .end = now_ + length});
    text.pop_back();  // the newline
    return text;
  }

  /// Damages a line, or changes its form.
  void damage(std::string& line) {
    // clang-format off
    static constexpr std::string_view members[] = {
        "\"step\":5,", "\"seq\":5,", "\"sends\":5,", "\"receives\":6,", "\"stage\":1,",
        "\"name\":\"x\",", "\"group\":\"a\\\"b\",", "\"start\":5,", "\"new\":5,", "\"ts\":5,",
        "\"dur\":5,", "\"pid\":1,", "\"args\":{\"step\":1},", "\"bind_id\":5,", " ", "\"\",", ","};
    // clang-format on
    static constexpr std::string_view letters = "0123456789.,:{}[]\"\\-eE \t\x01\xff";
    const auto any = [&] {
      return static_cast<std::size_t>(number(0, static_cast<int>(line.size())));
    };
    const int how = number(0, 3);
    if (how == 0) {
      line.insert(any(), 1, one_of(letters));
    } else if (how == 1) {
      line.erase(any(), static_cast<std::size_t>(number(1, 3)));
    } else if (how == 2) {
      line.replace(any(), 1, 1, one_of(letters));
    } else {  // before a key
      const std::size_t at = line.find('"', any());
      if (at != std::string::npos) line.insert(at, one_of(members));
    }
  }

  /// Replaces a number of a line.
  void change_number(std::string& line) {
    // clang-format off
    static constexpr std::string_view numbers[] = {
        "0", "7", "00", "07", "-1", "-0", "1.5", "1.", ".5", "1e3", "5E0", "0.1234567", "0.000001",
        "999999999999", "999999999999.999999", "1000000000000", "4000000000000", "4000000000001",
        "1700000000000000.5", "999999999", "2147483647", "2147483648", "999999999999999999",
        "1000000000000000000", "18446744073709551615", "18446744073709551616", "\"5\"", "null",
        "true", "[1]", "{\"step\":1}", "1 ", " 1", ""};
    // clang-format on
    const auto from = static_cast<std::size_t>(number(0, static_cast<int>(line.size())));
    const std::size_t at = line.find_first_of("0123456789", from);
    if (at == std::string::npos) return;
    line.replace(at, line.find_first_not_of("0123456789.", at) - at, one_of(numbers));
  }

 private:
  Span any_span() {
    static constexpr const char* names[] = {"matmul",       "all_reduce",   "lockstep", "predicted",
                                            "schal\\u0074", "sch\xc3\xa4n", ""};
    Span span{.name = one_of(names)};
    span.category = static_cast<Category>(number(0, static_cast<int>(Category::kernel)));
    span.stage = number(-1, 1);
    span.microbatch = number(-1, 2);
    span.layer = number(-1, 2);
    span.bytes = number(0, 1) == 0 ? 4096 : -1;
    span.sequence = number(-1, 0);
    span.group = number(0, 1) == 0 ? "dp" : nullptr;
    span.group_size = span.group ? 4 : -1;
    span.algorithm = span.group ? "ring" : nullptr;
    span.role = static_cast<MessageRole>(number(0, 2));
    span.payload = static_cast<Payload>(number(0, 2));
    span.flops = number(0, 1) == 0 ? 1e9 : -1;
    return span;
  }

  std::mt19937 random_;
  std::vector<Span> spans_;
  Picoseconds now_ = 0;
};

/// What a reader reads from a trace: all numbers of the timeline.
std::vector<std::int64_t> read(const std::string& text, bool guess = false) {
  Timeline timeline;
  TraceReader reader{timeline, guess ? TraceReader::Form::guess : TraceReader::Form::lines};
  reader.feed(text);
  reader.finish();
  timeline.settle();
  std::vector<std::int64_t> all{
      reader.lines(), reader.malformed(),    timeline.span_count(),     timeline.start(),
      timeline.end(), timeline.name_count(), timeline.longest_message()};
  const auto add = [&](const TimelineSpan& span) {
    for (const std::int64_t field :
         {span.start, span.end, span.bytes, std::int64_t{span.name}, std::int64_t{span.step},
          std::int64_t{span.stage}, std::int64_t{span.microbatch}, std::int64_t{span.peer},
          std::int64_t{span.sequence}, std::int64_t{span.group}, std::int64_t{span.group_size},
          std::int64_t{span.layer}, std::int64_t{span.algorithm},
          static_cast<std::int64_t>(span.category), static_cast<std::int64_t>(span.role),
          static_cast<std::int64_t>(span.payload), static_cast<std::int64_t>(span.message)})
      all.push_back(field);
  };
  for (const auto& rank : timeline.ranks())
    for (const auto& lane : rank->lanes) {
      all.insert(all.end(), {rank->rank, rank->spans, lane->tid()});
      for (const Band band : {Band::step, Band::action, Band::kernel})
        for (const SpanRow& row : lane->rows(band)) {
          all.push_back(static_cast<std::int64_t>(row.size()));
          for (const TimelineSpan& span : row) add(span);
        }
      for (const AnnouncedSpan& open : lane->open()) add(open.span);
    }
  for (const TimelineMessage& message : timeline.messages())
    all.insert(all.end(), {static_cast<std::int64_t>(message.id), message.from_lane,
                           message.to_lane, message.sent, message.received});
  for (const StepWindow& step : timeline.steps())
    all.insert(all.end(), {step.step, step.start, step.end, step.ranks_done});
  return all;
}

const std::string lane_name =
    R"({"ph":"M","name":"thread_name","pid":3,"tid":0,"args":{"name":"send activations"}},)";
const std::string hello =
    "[\n" + hello_line({.run = "a run", .lesson = "99", .rank = 3, .ranks = 1});

}  // namespace

TEST_CASE("a line that repeats another, except for its numbers, is read as the parser reads it") {
  std::int64_t spans = 0;
  for (unsigned seed = 0; seed < 300; ++seed) {
    CAPTURE(seed);
    RandomLines lines{seed};
    // The cache refuses lines with a space after the first brace.
    std::string text = hello;
    // The payload of a message in an older trace depends on what its lane is called at the time.
    if (seed % 4 == 0) text.replace(text.find("\"format\":2"), 10, "\"format\":1");
    std::string spaced = text;
    const bool damages = seed % 3 > 0;
    std::vector<std::string> odd{lines.next()};
    for (int i = 0; i < 300; ++i) {
      std::string line = i == 150 ? lane_name : lines.next();
      if (damages && lines.number(0, 1) == 0) {
        if (lines.number(0, 1) == 0) line = lines.one_of(odd);
        if (lines.number(0, 4) == 0) lines.damage(line);
        if (lines.number(0, 1) == 0) lines.change_number(line);
        odd.push_back(line);
      }
      text += line + "\n";
      if (line.starts_with('{')) line.insert(1, " ");
      spaced += line + "\n";
    }
    const auto expected = read(spaced);
    REQUIRE(read(text) == expected);
    REQUIRE(read(text, true) == expected);
    spans += expected[2];
  }
  CHECK(spans > 50'000);
}

TEST_CASE("only lines of spans, exactly as Lockstep writes them, need no parser") {
  const std::string line =
      R"({"ph":"X","name":"send","cat":"communication","pid":3,"tid":1,"ts":1.500,"dur":2.000,)"
      R"("bind_id":77,"flow_out":true,"args":{"step":4,"stage":0,"peer":1,"group":"pp","seq":9}})";
  LineCache cache;
  CHECK_FALSE(cache.find(line));
  LineCache::Known known{.pid = 3, .tid = 1, .span = {.name = 5, .peer = 1}};
  cache.remember(line, known);
  const auto replaced = [&](std::string_view from, std::string_view to) {
    std::string text = line;
    text.replace(text.find(from), from.size(), to);
    return text;
  };
  for (const bool after_another : {false, true}) {  // the next line may be guessed, or not
    if (after_another) cache.remember(replaced("send", "other"), known);
    const LineCache::Known* found = cache.find(replaced("1.500", "123456789012.000001"));
    REQUIRE(found);
    CHECK(found->pid == 3);
    CHECK(found->tid == 1);
    CHECK(found->span.start == 123'456'789'012'000'001);
    CHECK(found->span.duration() == 2'000'000);
    CHECK(found->span.message == 77);
    CHECK(found->span.step == 4);
    CHECK(found->span.sequence == 9);
    CHECK(found->span.name == 5);
    CHECK(cache.find(replaced("77", "123456789012345678"))->span.message == 123456789012345678);
    CHECK(cache.find(replaced("\"step\":4", "\"step\":999999999"))->span.step == 999999999);
    CHECK(cache.find(replaced(":9}", ":0}"))->span.sequence == 0);
    using Changes = std::vector<std::pair<std::string_view, std::string_view>>;
    for (const auto& [from, to] : Changes{{"send", "sent"},
                                          {"\"pid\":3", "\"pid\":4"},
                                          {"\"peer\":1", "\"peer\":2"},
                                          {"flow_out", "flow_in"}})
      CHECK_FALSE(cache.find(replaced(from, to)));
    for (const auto& [from, to] : Changes{{"1.500", "1234567890123"},
                                          {"1.500", "1.0000001"},
                                          {"1.500", "01.5"},
                                          {"1.500", "-1.5"},
                                          {"1.500", "1."},
                                          {"1.500", "\"1.5\""},
                                          {"2.000", "2e3"},
                                          {"send", "lockstep"},
                                          {"send", "s\\u0065nd"},
                                          {"\"X\"", "\"i\""},
                                          {"}}", "}} "},
                                          {"}}", "}"},
                                          {"77", "1234567890123456789"},
                                          {"4,", "1000000000,"},
                                          {"\"seq\":9", "\"new\":9"},
                                          {"{\"ph\"", "{ \"ph\""}}) {
      const std::string other = replaced(from, to);
      CAPTURE(other);
      CHECK_FALSE(cache.find(other));
      cache.remember(other, known);
      CHECK_FALSE(cache.find(other));
    }
  }
}

TEST_CASE("what the cache remembers is limited") {
  LineCache cache;
  const auto line = [](const std::string& name) {
    return R"({"ph":"X","name":")" + name +
           R"(","cat":"wait","pid":0,"tid":0,"ts":1.000,"dur":1.000,"args":{}})";
  };
  int known = 0;
  for (int i = 0; i < 20'000; ++i) cache.remember(line(std::to_string(i)), {});
  for (int i = 0; i < 20'000; ++i) known += cache.find(line(std::to_string(i))) != nullptr;
  CHECK(known == 1 << 14);
  LineCache other;
  other.remember(line(std::string(1000, 'x')), {});
  CHECK_FALSE(other.find(line(std::string(1000, 'x'))));
}
