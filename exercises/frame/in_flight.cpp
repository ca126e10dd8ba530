#include "exercises/frame/in_flight.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <functional>
#include <string_view>

#include "exercises/frame/check.h"
#include "exercises/frame/report.h"

namespace lockstep::exercises {

namespace {

// A mark is a quiet NaN. Arithmetic preserves 22 of its bits: 3 for the operation (counted from 1,
// so that no NaN that arithmetic itself produces is a mark), 4 for the rank, and 15 for the line.
static_assert(most_ranks <= 16);
constexpr std::uint32_t quiet_nan = 0x7fc00000;
constexpr std::array operations{"send",       "receive",   "all_reduce", "reduce_scatter",
                                "all_gather", "broadcast", "all_to_all"};

float mark_of(const Asked& asked, int rank) {
  const auto kind = static_cast<std::uint32_t>(
      std::ranges::find(operations, std::string_view{asked.operation}) - operations.begin() + 1);
  return std::bit_cast<float>(quiet_nan | (kind & 7U) << 19U |
                              (static_cast<std::uint32_t>(rank) & 15U) << 15U |
                              std::min<std::uint32_t>(asked.where.line(), 0x7fff));
}

bool overlap(std::span<const float> one, std::span<const float> other) {
  const std::less<const float*> before;
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

bool contains(std::span<const float> all, std::span<const float> part) {
  const std::less_equal<const float*> not_after;
  return not_after(all.data(), part.data()) &&
         not_after(part.data() + part.size(), all.data() + all.size());
}

std::size_t bytes_of(std::span<const float> numbers) {
  return numbers.size() * sizeof(float);
}

}  // namespace

std::string Asked::text() const {
  return fmt::format("{}() at line {}", operation, where.line());
}

std::optional<std::string> operation_that_marked(float number) {
  const auto bits = std::bit_cast<std::uint32_t>(number) & 0x7fffffffU;
  const std::uint32_t kind = bits >> 19U & 7U;
  if ((bits & quiet_nan) != quiet_nan || kind == 0) return std::nullopt;
  return fmt::format("{}() at line {} of rank {}", operations[kind - 1], bits & 0x7fffU,
                     bits >> 15U & 15U);
}

HostNumbers InFlight::Operation::copies() const {
  HostNumbers copies{.read = {}, .written = {}};
  if (!numbers.read.empty()) copies.read = {copy.get(), numbers.read.size()};
  if (!numbers.written.empty())
    copies.written = {copy.get() + (is_in_place() ? 0 : numbers.read.size()),
                      numbers.written.size()};
  return copies;
}

InFlight::Handle InFlight::start(const Asked& asked, const HostNumbers& numbers) {
  Operation started{asked, numbers, nullptr};
  const bool in_place = started.is_in_place();
  const Operation* before = nullptr;  // whose copy this operation continues with
  for (Operation& each : operations_) {
    const std::span<const float> written = each.numbers.written;
    const bool reads = overlap(written, numbers.read), writes = overlap(written, numbers.written);
    if (reads || writes) {
      const bool in_order = asked.in_order_of != nullptr && in_place && each.is_in_place() &&
                            asked.in_order_of == each.asked.in_order_of &&
                            contains(written, numbers.written);
      if (!in_order)
        throw Wrong{
            fmt::format("rank {}: {} {} numbers that {} has not yet left there", rank_,
                        asked.text(), reads ? "reads" : "writes", each.asked.text()),
            asked.in_order_of != nullptr && asked.in_order_of == each.asked.in_order_of
                ? "Both collectives contain some of the same numbers. If that is meant, wait for "
                  "the first one before you start the second: it is over when wait() of its Work "
                  "has "
                  "returned."
                : "An operation is over when wait() of its Work has returned. Until then, what it "
                  "receives is not there, and its numbers belong to it: wait for it first."};
      each.taken_over.push_back(numbers.written);
      before = &each;
    } else if (overlap(each.numbers.read, numbers.written)) {
      throw Wrong{fmt::format("rank {}: {} writes numbers that {} still reads", rank_, asked.text(),
                              each.asked.text()),
                  "An operation is over when wait() of its Work has returned. Until then, what it "
                  "sends must stay as it is: wait for it first, or receive into another buffer."};
    }
  }
  if (before != nullptr) {
    const auto offset = numbers.written.data() - before->numbers.written.data();
    started.copy = {before->copy, before->copy.get() + offset};
  } else {
    // One block holds the numbers that the operation reads, followed by those that it writes
    // unless it works in place.
    const std::size_t size = numbers.read.size() + (in_place ? 0 : numbers.written.size());
    started.copy = std::shared_ptr<float[]>{new float[size + 1]};
    // By memcpy(), which the address sanitizer checks: a loop of this file, which is compiled
    // without it, would read past the end of the answer's numbers.
    if (!numbers.read.empty())
      std::memcpy(started.copy.get(), numbers.read.data(), bytes_of(numbers.read));
    if (!in_place) std::ranges::copy(numbers.written, started.copy.get() + numbers.read.size());
  }
  std::ranges::fill(numbers.written, mark_of(asked, rank_));
  operations_.push_back(std::move(started));
  return std::prev(operations_.end());
}

bool InFlight::Operation::is_taken_over(const float& number) const {
  return std::ranges::any_of(taken_over, [&](std::span<const float> part) {
    return contains(part, {&number, 1});
  });
}

bool InFlight::is_marked(const Operation& operation) const {
  const auto mark = std::bit_cast<std::uint32_t>(mark_of(operation.asked, rank_));
  for (const float& each : operation.numbers.written) {
    if (!operation.is_taken_over(each) && std::bit_cast<std::uint32_t>(each) != mark) return false;
  }
  return true;
}

void InFlight::finish(Handle operation) {
  const Operation ended = std::move(*operation);
  operations_.erase(operation);
  if (ended.was_freed) return;
  const std::span<const float> read = ended.numbers.read;
  const std::span<float> written = ended.numbers.written;
  const auto misused = [&](const char* does, const char* why) {
    return Wrong{fmt::format("rank {} {} {} before its wait()", rank_, does, ended.asked.text()),
                 why};
  };
  if (!written.empty() && !is_marked(ended))
    throw misused("writes numbers into the buffer of",
                  "An operation is over when wait() of its Work has returned. Until then, its "
                  "buffer belongs to it: what a rank writes there is lost, or is mixed with what "
                  "arrives.");
  const bool in_place = ended.is_in_place();
  if (!in_place && !read.empty() && std::memcmp(read.data(), ended.copy.get(), bytes_of(read)) != 0)
    throw misused(
        "changes the numbers of",
        "A send is over when wait() of its Work has returned. Until then the numbers must "
        "stay as they are: the receiver may get the old ones or the new ones.");
  const std::span<const float> arrived = ended.copies().written;
  for (std::size_t i = 0; i < written.size(); ++i) {
    if (!ended.is_taken_over(written[i])) written[i] = arrived[i];
  }
}

void InFlight::free(std::span<const float> memory) {
  for (Operation& each : operations_) {
    if (!overlap(memory, each.numbers.read) && !overlap(memory, each.numbers.written)) continue;
    each.was_freed = true;
    if (!misuse)
      misuse = std::make_unique<Wrong>(
          fmt::format("rank {} frees a Buffer that {} still uses", rank_, each.asked.text()),
          "An operation is over when wait() of its Work has returned. Until then, its Buffer must "
          "stay: wait first, and then give it back.");
  }
}

const InFlight::Operation* InFlight::using_some_of(std::span<const float> numbers) const {
  for (const Operation& each : operations_)
    if (overlap(numbers, each.numbers.read) || overlap(numbers, each.numbers.written)) return &each;
  return nullptr;
}

const InFlight::Operation* InFlight::writing_some_of(std::span<const float> numbers) const {
  for (const Operation& each : operations_)
    if (overlap(numbers, each.numbers.written)) return &each;
  return nullptr;
}

}  // namespace lockstep::exercises
