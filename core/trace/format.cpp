#include "core/trace/format.h"

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstring>
#include <string_view>

namespace lockstep {

namespace {

/// Appends a line to a string. Reserves space only once per line, because a single thread formats
/// up to a million spans per second while the ranks compute.
class EventLine {
 public:
  /// `most` is an upper bound on the bytes to append.
  EventLine(std::string& text, std::size_t most) : text_(text), used_(text.size()) {
    text_.resize(used_ + most);
    at_ = text_.data() + used_;
  }
  ~EventLine() { text_.resize(static_cast<std::size_t>(at_ - text_.data())); }
  EventLine(const EventLine&) = delete;
  EventLine& operator=(const EventLine&) = delete;

  void put(std::string_view words) {
    std::memcpy(at_, words.data(), words.size());
    at_ += words.size();
  }
  void put(char c) { *at_++ = c; }
  void put(std::int64_t number) { at_ = std::to_chars(at_, at_ + 20, number).ptr; }
  void put(std::uint64_t number) { at_ = std::to_chars(at_, at_ + 20, number).ptr; }
  void put(int number) { put(static_cast<std::int64_t>(number)); }

  void put_digits(std::int64_t number, int digits) {
    for (int i = digits - 1; i >= 0; --i, number /= 10)
      at_[i] = static_cast<char>('0' + number % 10);
    at_ += digits;
  }
  void put_microseconds(Picoseconds time) {
    if (time < 0) put('-');
    const Picoseconds size = time < 0 ? -time : time;
    put(size / 1'000'000);
    put('.');
    const Picoseconds part = size % 1'000'000;
    put_digits(part / 1000, 3);
    if (part % 1000 != 0) put_digits(part % 1000, 3);
  }
  void put_name(const Span& span) {
    if (span.category > Category::backward_weight || span.stage < 0) return put(span.name);
    put("PP:");
    put(span.stage);
    put(letter_of(span.category));
    put(span.microbatch);
  }

  /// Appends `"key":` for an object's next member.
  void key(std::string_view quoted) {
    if (at_[-1] != '{') put(',');
    put(quoted);
  }
  void number(std::string_view quoted, std::int64_t value) {
    if (value < 0) return;  // the value does not apply
    key(quoted);
    put(value);
  }
  void word(std::string_view quoted, const char* value) {
    if (value == nullptr) return;
    key(quoted);
    put('"');
    put(std::string_view{value});
    put('"');
  }

 private:
  std::string& text_;
  std::size_t used_;
  char* at_ = nullptr;
};

/// Upper bound on a line's length, excluding names.
constexpr std::size_t most_without_names = 512;

std::size_t room_for(const Span& span) {
  const auto length = [](const char* text) { return text != nullptr ? std::strlen(text) : 0; };
  return most_without_names + length(span.name) + length(span.group) + length(span.algorithm);
}

void put_place(EventLine& line, Category category, int rank, int lane) {
  line.put(R"(,"cat":")");
  line.put(std::string_view{name_of(category)});
  line.put(R"(","pid":)");
  line.put(rank);
  line.put(R"(,"tid":)");
  line.put(lane);
  line.put(R"(,"ts":)");
}

void put_arguments(EventLine& line, const TraceEvent& event) {
  const Span& span = event.span;
  // The message that a wait waits for. A span that sends or receives one binds it (put_message).
  if (span.role != MessageRole::none && span.category == Category::wait)
    line.number(span.role == MessageRole::sends ? R"("sends":)" : R"("receives":)",
                static_cast<std::int64_t>(span.message));
  line.number(R"("step":)", event.step);
  line.number(R"("stage":)", span.stage);
  line.number(R"("microbatch":)", span.microbatch);
  line.number(R"("layer":)", span.layer);
  line.number(R"("bytes":)", span.bytes);
  line.number(R"("peer":)", span.peer);
  line.word(R"("group":)", span.group);
  line.number(R"("group_size":)", span.group_size);
  line.word(R"("algorithm":)", span.algorithm);
  line.number(R"("seq":)", span.sequence);
  if (span.flops >= 0) line.number(R"("flops":)", std::llround(span.flops));
  if (span.payload != Payload::other && span.category != Category::wait)
    line.word(R"("carries":)", span.payload == Payload::activations ? "activations" : "gradients");
  line.put("}},\n");
}

/// Draws an arrow in Perfetto, from the span that sends a message to the one that receives it.
void put_message(EventLine& line, const Span& span) {
  if (span.role == MessageRole::none || span.category == Category::wait) return;
  line.put(R"(,"bind_id":)");
  line.put(span.message);
  line.put(span.role == MessageRole::sends ? R"(,"flow_out":true)" : R"(,"flow_in":true)");
}

void append_span(std::string& text, int rank, const TraceEvent& event) {
  EventLine line{text, room_for(event.span)};
  line.put(R"({"ph":"X","name":")");
  line.put_name(event.span);
  line.put('"');
  put_place(line, event.span.category, rank, event.lane);
  line.put_microseconds(event.start);
  line.put(R"(,"dur":)");
  line.put_microseconds(event.end - event.start);
  put_message(line, event.span);
  line.put(R"(,"args":{)");
  put_arguments(line, event);
}

/// Appends an event about a span that is not itself in the trace: `name` is "open" or "withdrawn".
void append_word(std::string& text, int rank, const TraceEvent& event, const char* name) {
  EventLine line{text, room_for(event.span)};
  line.put(R"({"ph":"i","s":"t","name":")");
  line.put(name);
  line.put('"');
  put_place(line, event.span.category, rank, event.lane);
  line.put_microseconds(event.end);
  line.put(R"(,"args":{"name":")");
  line.put_name(event.span);
  line.put(R"(","start":)");
  line.put_microseconds(event.start);
  put_arguments(line, event);
}

// The remaining kinds of events are rare, so their speed does not matter.

template <class... Args>
void put(std::string& text, fmt::format_string<Args...> format, Args&&... args) {
  fmt::format_to(std::back_inserter(text), format, std::forward<Args>(args)...);
}

void append_memory(std::string& text, int rank, const TraceEvent& event) {
  put(text, R"({{"ph":"C","name":"memory","pid":{},"tid":0,"ts":)", rank);
  append_microseconds(text, event.start);
  // Outside args, whose numbers other viewers draw.
  if (event.state >= 0) put(text, R"(,"state":{})", event.state);
  text += ",\"args\":{";
  for (int i = 0; i < memory_category_count; ++i)
    put(text, "{}\"{}\":{}", i == 0 ? "" : ",", name_of(static_cast<MemoryCategory>(i)),
        event.bytes[static_cast<std::size_t>(i)]);
  text += "}},\n";
}

void append_loss(std::string& text, int rank, const TraceEvent& event) {
  put(text, R"({{"ph":"C","name":"loss","pid":{},"tid":0,"ts":)", rank);
  append_microseconds(text, event.start);
  // JSON has no NaN or infinity.
  put(text, ",\"args\":{{\"loss\":{}}}}},\n",
      std::isfinite(event.value) ? fmt::format("{:.9g}", event.value) : "null");
}

// The id distinguishes the layers: Perfetto draws a track for each name, id and series.
void append_counter(std::string& text, int rank, const TraceEvent& event) {
  put(text, R"({{"ph":"C","name":"{}",)", event.span.name);
  if (event.span.layer >= 0) put(text, R"("id":"layer {}",)", event.span.layer);
  put(text, R"("pid":{},"tid":0,"ts":)", rank);
  append_microseconds(text, event.start);
  put(text, R"(,"args":{{"step":{})", event.step);
  if (event.span.layer >= 0) put(text, R"(,"layer":{})", event.span.layer);
  text += *event.text;
  text += "}},\n";
}

}  // namespace

void append_microseconds(std::string& text, Picoseconds time) {
  EventLine{text, 32}.put_microseconds(time);
}

void append_name(std::string& text, const Span& span) {
  EventLine{text, room_for(span)}.put_name(span);
}

void append_line(std::string& text, int rank, const TraceEvent& event) {
  switch (event.kind) {
    case TraceEvent::Kind::span:
      return append_span(text, rank, event);
    case TraceEvent::Kind::open:
      return append_word(text, rank, event, "open");
    case TraceEvent::Kind::withdrawn:
      return append_word(text, rank, event, "withdrawn");
    case TraceEvent::Kind::memory:
      return append_memory(text, rank, event);
    case TraceEvent::Kind::loss:
      return append_loss(text, rank, event);
    case TraceEvent::Kind::counter:
      return append_counter(text, rank, event);
    case TraceEvent::Kind::metadata:
      put(text, R"({{"ph":"M","name":"{}","pid":{},"tid":0,"args":{}}},)", event.span.name, rank,
          *event.text);
      text += '\n';
      return;
  }
}

}  // namespace lockstep
