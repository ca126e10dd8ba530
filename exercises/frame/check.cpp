#include "exercises/frame/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "exercises/frame/ranks.h"
#include "exercises/frame/report.h"
#include "exercises/frame/staging.h"

namespace lockstep::exercises {

const char* const why_early =
    "An operation is over when wait() of its Work has returned. Before that, what it receives or "
    "computes is not there: a rank that uses it early gets old numbers, or some of the old and "
    "some of the new.";

std::string diagnose_collectives(const Failure& failure) {
  if (failure.waits_for_finished)
    return "A rank has gone on before a collective was done, or has run fewer of them than another "
           "rank. A collective is done when its Work's wait() returns.";
  return "All ranks must call the same collectives, with the same sizes, in the same order.";
}

std::vector<float> Check::numbers(std::size_t count) {
  std::vector<float> all(count);
  for (float& each : all) each = number();
  return all;
}

std::vector<float> Check::separable(std::size_t count) {
  std::vector<float> all(count);
  int least = 1;
  for (float& each : all) {
    const int chosen = number_from(least, 2 * least);
    each = static_cast<float>(chosen);
    least = least + chosen + 1;
  }
  return all;
}

void Check::count_case(const std::string& what) {
  ++cases_;
  current_case_ = what;
  reporter_.try_case(what);
}

Outcome Check::run(const std::string& what, const Mesh& mesh, const Body& body,
                   const Diagnosis& diagnosis) {
  count_case(what);
  used_early_.clear();
  Outcome all;
  Picoseconds end = 0;
  for (RankOutcome& each : ranks_.run(what, mesh, body, diagnosis)) {
    const int rank = static_cast<int>(all.results.size());
    const std::string name = fmt::format("rank {}", rank);
    for (const float number : each.result)
      if (used_early_.empty()) used_early_ = operation_that_marked(number).value_or("");
    all.results.push_back(std::move(each.result));
    all.messages_sent.push_back(std::ssize(each.sent.blocks));
    all.started.push_back(std::move(each.started));
    all.bytes_sent.push_back(each.bytes_sent);
    all.peak_bytes.push_back(each.peak_bytes);
    all.peak_sizes.push_back(std::move(each.peak_sizes));
    all.own_bytes.push_back(each.own_bytes);
    all.uncounted.push_back(each.uncounted);
    end = std::max(end, each.end);
    if (!each.computed.blocks.empty())
      all.rows.push_back({name, std::move(each.computed.blocks), rank});
    if (!each.sent.blocks.empty())
      all.rows.push_back({name + " to", std::move(each.sent.blocks), rank, /*sends=*/true});
  }
  all.microseconds = static_cast<double>(end) * 1e-6;
  return all;
}

void expect_arrived(const std::string& user, std::span<const float> numbers) {
  for (const float number : numbers)
    if (const std::optional<std::string> operation = operation_that_marked(number))
      throw Wrong{
          fmt::format("{} is given numbers that {} has not yet left there", user, *operation),
          why_early};
}

void expect_free(World& world, const std::string& user, std::span<const float> numbers) {
  const InFlight& in_flight = Frame::state(world).in_flight;
  if (const InFlight::Operation* operation = in_flight.using_some_of(numbers))
    throw Wrong{
        fmt::format("rank {}: {} writes where {} is still at work", world.rank(), user,
                    operation->asked.text()),
        "An operation is over when wait() of its Work has returned. Until then, its numbers "
        "belong to it: what is written there meanwhile is lost, or is mixed with what "
        "arrives. Does the operation start too early, or the wait come too late?"};
}

bool is_in_buffer(World& world, std::span<const float> numbers) {
  return Frame::state(world).is_in_buffer(numbers);
}

void expect_counted(const std::string& what, const Outcome& outcome) {
  for (std::size_t r = 0; r < outcome.uncounted.size(); ++r)
    if (outcome.uncounted[r] > 0)
      throw Wrong{
          fmt::format("{}: on rank {}, a collective works on {} in memory that is not counted",
                      what, r, count_of(static_cast<std::int64_t>(outcome.uncounted[r]), "number")),
          "What is whole must be in memory from world.allocate(), so that it is known how "
          "much of it there is at a time."};
}

void expect_nothing_empty(const std::string& what, const Outcome& outcome) {
  for (std::size_t r = 0; r < outcome.started.size(); ++r)
    for (const Started& each : outcome.started[r])
      if (each.numbers == 0)
        throw Wrong{fmt::format("{}: rank {}'s {} has no numbers", what, r, each.where),
                    "The results are right, but a message costs a latency even if it is empty, and "
                    "so does each message of a collective. Where there is nothing to send, "
                    "send nothing."};
}

bool is_in_flight(World& world) {
  return Frame::state(world).in_flight.oldest() != nullptr;
}

std::string buffers_at_peak(const Outcome& outcome, int rank) {
  std::vector<std::size_t> sizes = outcome.peak_sizes[at(rank)];
  std::ranges::sort(sizes, std::greater{});
  if (sizes.empty()) return "no numbers";
  const std::string last = count_of(static_cast<std::int64_t>(sizes.back()), "number");
  sizes.pop_back();
  return sizes.empty() ? last : fmt::format("{} and {}", fmt::join(sizes, ", "), last);
}

void check_ring(const std::string& what, const Outcome& outcome) {
  const int N = static_cast<int>(outcome.results.size());
  for (const Row& row : outcome.rows) {
    if (!row.sends) continue;
    for (const Block& block : row.blocks)
      if (const int distance = (std::stoi(block.label) - row.rank + N) % N;
          distance != 1 && distance != N - 1)
        throw Wrong{fmt::format("{}: rank {} sends to rank {}, which is not its neighbour", what,
                                row.rank, block.label),
                    "The results are right, but this is no ring: with direct messages, every rank "
                    "needs a link to every other one. In a ring, a rank sends to one neighbour "
                    "only, and passes on what it receives from the other one."};
  }
}

void check_one_direction(const std::string& what, const Outcome& outcome) {
  for (const Row& row : outcome.rows)
    for (const Block& block : row.blocks)
      if (row.sends && block.label != row.blocks.front().label)
        throw Wrong{fmt::format("{}: rank {} sends to rank {} and to rank {}", what, row.rank,
                                row.blocks.front().label, block.label),
                    "The results are right, but in a ring a rank sends to one neighbour only, and "
                    "receives from the other one."};
}

std::string list(std::span<const float> numbers) {
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, numbers.size()); ++i)
    text += fmt::format("{}{:g}", i == 0 ? "" : ", ", numbers[i]);
  return numbers.size() > most ? text + ", ..." : text;
}

void no_such_chunk(int i, int N) {
  throw Wrong{
      fmt::format("there is no chunk({}, {}): chunks are numbered 0 to {}", i, N, N - 1),
      i < 0
          ? "In C++, the remainder of a negative number is negative: -1 % 4 is -1, not 3. Add the "
            "number of chunks before you take the remainder."
          : "After the last chunk, the ring begins again with chunk 0: take the remainder of the "
            "division by the number of chunks."};
}

void not_written() {
  throw NotWritten{};
}

}  // namespace lockstep::exercises
