#include "exercises/frame/check.h"

#include <fmt/format.h>

#include <algorithm>

#include "exercises/frame/ranks.h"
#include "exercises/frame/report.h"

namespace lockstep::exercises {

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

Outcome Check::run(const std::string& what, const Mesh& mesh, const Body& body,
                   const Diagnosis& diagnosis) {
  ++cases_;
  reporter_.try_case(what);
  Outcome all;
  Picoseconds end = 0;
  for (RankOutcome& each : ranks_.run(what, mesh, body, diagnosis)) {
    const int rank = static_cast<int>(all.results.size());
    const std::string name = fmt::format("rank {}", rank);
    all.results.push_back(std::move(each.result));
    all.bytes_sent.push_back(each.bytes_sent);
    all.peak_bytes.push_back(each.peak_bytes);
    end = std::max(end, each.end);
    if (!each.computed.blocks.empty())
      all.rows.push_back({name, std::move(each.computed.blocks), rank});
    if (!each.sent.blocks.empty())
      all.rows.push_back({name + " to", std::move(each.sent.blocks), rank, /*sends=*/true});
  }
  all.microseconds = static_cast<double>(end) * 1e-6;
  return all;
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
