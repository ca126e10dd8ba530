#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "core/comm/transport/control.h"
#include "core/device/host_copy.h"
#include "core/run/rank/rank.h"
#include "core/text/console.h"
#include "lessons/01_collectives/ring_all_reduce.h"

namespace lockstep {

/// Shows each rank's chunks after every step, read from the buffers themselves. Rank r contributes
/// 2^r in every element, so that a sum shows whose contributions it contains: 13 = 8 + 4 + 1
/// contains those of ranks 3, 2 and 0. (A float is exact up to 2^24, and the grid is drawn for at
/// most 16 ranks.)
class Grid {
 public:
  static constexpr int most_ranks = 16;

  static float contribution(int rank) { return static_cast<float>(1U << rank); }

  Grid(Device device, const Group& ring, View data) : device_(device), ring_(ring), data_(data) {}

  bool fits() const { return ring_.size() <= most_ranks; }
  std::string too_many() const {
    return fmt::format("\nthe grid of contributions is drawn for at most {} ranks\n", most_ranks);
  }

  /// Records the contributions in this rank's chunks.
  void note(const RingStep& step) {
    steps_.push_back(step);
    for (int i = 0; i < ring_.size(); ++i) held_.push_back(held_in(ring_.chunk(data_, i)));
  }

  /// Returns the drawing on rank 0. Returns "" on the other ranks, or if note() was never called.
  /// All ranks must call this.
  std::string draw(Transport& transport, const Console& console) const {
    if (steps_.empty()) return {};
    const std::string mine{reinterpret_cast<const char*>(held_.data()),
                           held_.size() * sizeof(std::uint32_t)};
    return draw(gather_to_root(transport, mine), console);
  }

 private:
  static constexpr std::uint32_t empty = 0;    ///< the chunk has no elements
  static constexpr std::uint32_t mixed = ~0U;  ///< its elements hold different sums
  static constexpr const char* plain = "\033[0m";
  static constexpr const char* whole = "\033[48;5;29;97m";    ///< complete
  static constexpr const char* partial = "\033[48;5;25;97m";  ///< more than the rank's own
  static constexpr const char* own = "\033[2m";

  std::uint32_t held_in(View chunk) const {
    if (chunk.elements() == 0) return empty;
    const std::vector<float> values = to_host(device_, chunk);
    for (const float value : values)
      if (value != values.front()) return mixed;
    return static_cast<std::uint32_t>(values.front());
  }

  std::string draw(const std::vector<std::string>& ranks, const Console& console) const {
    if (ranks.empty()) return {};
    const auto N = ranks.size();
    const bool names = N <= 4;  // whether to list the ranks in a sum; otherwise shows only how many
    const std::size_t cell = names ? N + 1 : 1;
    const std::size_t block = std::max<std::size_t>(N * cell + 2, 22);
    const std::size_t a_row =
        std::max<std::size_t>((static_cast<std::size_t>(console.width) - 8) / block, 1);

    std::string text = names
                           ? "\nwhose contributions each rank's chunks hold, chunk 0 at the left:\n"
                           : "\nhow many ranks' contributions each rank's chunks hold, chunk 0 at "
                             "the left; #: all:\n";
    for (std::size_t first = 0; first < steps_.size(); first += a_row) {
      const std::size_t last = std::min(first + a_row, steps_.size());
      text += fmt::format("{:8}", "");
      for (std::size_t s = first; s < last; ++s) text += fmt::format("{:<{}}", title(s), block);
      trim(text);
      for (std::size_t r = 0; r < N; ++r) {
        text += fmt::format("rank {:<3}", r);
        for (std::size_t s = first; s < last; ++s) {
          for (std::size_t i = 0; i < N; ++i) {
            std::uint32_t held = 0;
            std::memcpy(&held, ranks[r].data() + sizeof held * (s * N + i), sizeof held);
            text += shown(held, static_cast<int>(r), static_cast<int>(N), cell, console.colour);
          }
          text.append(block - N * cell, ' ');
        }
        trim(text);
      }
    }
    return text + (names ? "" : legend);
  }

  static constexpr const char* legend =
      "  k: the sum of k ranks' contributions, the rank's own and those of the k - 1 ranks to its "
      "left; "
      "?: another sum\n";

  std::string title(std::size_t s) const {
    const RingStep& step = steps_[s];
    if (step.done == 0) return step.steps == 0 ? "one rank" : "at the start";
    return fmt::format("{} {}/{}", step.half, step.done, step.steps);
  }

  static void trim(std::string& text) {
    text.erase(text.find_last_not_of(' ') + 1);
    text += '\n';
  }

  /// Draws a cell. Lists the ranks in the order in which their contributions were added, the
  /// chunk's holder last.
  static std::string shown(std::uint32_t held, int rank, int N, std::size_t width, bool colour) {
    const std::uint32_t all = (1U << N) - 1;
    const int count = std::popcount(held);
    std::string text;
    const char* ink = held == all ? whole : count > 1 ? partial : own;
    if (held == empty) {
      text = "-";
    } else if ((held & ~all) != 0) {
      text = "?";
    } else if (N <= 4) {
      for (int i = 1; i <= N; ++i)
        if (const int who = (rank + i) % N; (held >> who & 1U) != 0) text += fmt::format("{}", who);
    } else {
      // A chunk in transit contains the contributions of the ranks it has passed.
      std::uint32_t expected = 0;
      for (int i = 0; i < count; ++i) expected |= 1U << ((rank + N - i) % N);
      constexpr const char* digits = "0123456789abcdefg";
      text = held == all ? "#" : std::string(1, held == expected ? digits[count] : '?');
    }
    const std::string space(width > text.size() ? width - text.size() : 0, ' ');
    return colour ? ink + text + plain + space : text + space;
  }

  Device device_;
  const Group& ring_;
  View data_;
  std::vector<RingStep> steps_;
  std::vector<std::uint32_t> held_;  ///< [step][chunk]: a bit for each rank in the sum
};

}  // namespace lockstep
