// Writes a large trace, to measure how the viewer opens it: large_trace DIR [SPANS [RANKS]].
// Each rank runs steps like those of 1F1B: forward and backward actions that contain waits, send
// and receive spans of messages, and an optimizer span. A span's line takes about 130 bytes.
#include <fmt/format.h>

#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>

#include "core/trace/format.h"
#include "core/trace/writer.h"

using namespace lockstep;

namespace {

constexpr int microbatches = 8;
constexpr Picoseconds microsecond = 1'000'000;
constexpr Picoseconds longest_step = 3000 * microsecond;  // all ranks begin a step together

class RankFile {
 public:
  RankFile(const std::filesystem::path& folder, int rank, int ranks)
      : rank_(rank),
        file_(std::fopen((folder / fmt::format("rank{}.json", rank)).c_str(), "w")),
        text_("[\n" + hello_line({.run = "large",
                                  .lesson = "09 1F1B",
                                  .rank = rank,
                                  .ranks = ranks,
                                  .mesh = fmt::format("{{\"pp\":{}}}", ranks)})) {}
  ~RankFile() {
    fmt::format_to(std::back_inserter(text_),
                   "{{\"ph\":\"i\",\"name\":\"end\",\"s\":\"p\",\"pid\":{},\"tid\":0,\"ts\":{},"
                   "\"args\":{{\"spans\":{}}}}},\n",
                   rank_, now_ / microsecond, spans_);
    flush();
    std::fclose(file_);
  }
  RankFile(const RankFile&) = delete;
  RankFile& operator=(const RankFile&) = delete;

  std::int64_t spans() const { return spans_; }

  void step(int number) {
    const Picoseconds begin = now_ = number * longest_step;
    for (int m = 0; m < microbatches; ++m) {
      action(number, m, Category::forward, "activations", rank_ * 37 % 11 + 90);
      action(number, m, Category::backward, "gradients", rank_ * 17 % 13 + 190);
    }
    put(0, {.name = "AdamW", .category = Category::optimizer, .step = number}, now_,
        now_ + 50 * microsecond);
    now_ += 51 * microsecond;
    put(0, {.name = "step", .category = Category::step, .step = number}, begin, now_);
  }

 private:
  void action(int step, int m, Category category, const char* what, int microseconds) {
    const Picoseconds start = now_ + 3 * microsecond + 123'000;
    const Picoseconds end = start + microseconds * microsecond;
    Span span{.category = category, .step = step, .stage = rank_, .microbatch = m};
    span.name = what;
    Span wait = span;
    wait.category = Category::wait;
    wait.peer = rank_ + 1;
    put(0, wait, now_, start);
    put(0, span, start, end);
    Span send{.name = "send", .category = Category::communication, .step = step};
    send.peer = rank_ + 1;
    send.bytes = 65536;
    put(category == Category::forward ? 1 : 2, send, end, end + 2 * microsecond);
    now_ = end;
  }
  void put(int lane, const Span& span, Picoseconds start, Picoseconds end) {
    append_line(text_, rank_,
                {.lane = lane, .step = span.step, .span = span, .start = start, .end = end});
    ++spans_;
    if (text_.size() > (1 << 20)) flush();
  }
  void flush() {
    std::fwrite(text_.data(), 1, text_.size(), file_);
    text_.clear();
  }

  int rank_;
  std::FILE* file_;
  std::string text_;
  Picoseconds now_ = 0;
  std::int64_t spans_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path folder = argc > 1 ? argv[1] : ".";
  const std::int64_t spans = argc > 2 ? std::stoll(argv[2]) : 10'000'000;
  const int ranks = argc > 3 ? std::stoi(argv[3]) : 8;
  std::filesystem::create_directories(folder);
  for (int rank = 0; rank < ranks; ++rank) {
    RankFile file{folder, rank, ranks};
    for (int step = 0; file.spans() < spans / ranks; ++step) file.step(step);
  }
}
