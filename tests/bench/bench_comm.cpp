// Compares the time that messages between ranks in threads take with the time for copying the same
// bytes.

#include <fmt/format.h>

#include <cstring>

#include "tests/bench/side_by_side.h"
#include "tests/support/ranks.h"

using namespace lockstep;
using namespace lockstep::bench;

namespace {

constexpr std::int64_t megabyte = 1 << 20;

Options two_ranks() {
  Options options;
  options.plan.set_mesh(Mesh::along(Axis::dp, 2));
  options.output.trace = "none";
  return options;
}

/// Compares the time of a message between two ranks, measured as half of a round trip, with the
/// time of a memcpy between the same two buffers. Rank 0's thread runs the memcpy while rank 1
/// waits.
void send_against_memcpy(benchmark::State& state, std::int64_t bytes, double at_least) {
  const int rounds = 41;
  const int trips = 4;
  View buffers[2];
  std::string wrong = testing::on_threads(two_ranks(), [&](Rank& rank) {
    Tensor data{rank.memory, {bytes / 4}, MemoryCategory::communication};
    rank.device.compute.kernels().fill({}, data, 1.0F);
    buffers[rank.id] = data;
    rank.world.barrier().wait();
    if (rank.id == 1) {
      for (int i = 0; i < (rounds + 1) * trips; ++i) {
        rank.world.receive(data, 0).wait();
        rank.world.send(data, 0).wait();
      }
    } else {
      const auto message = [&] {
        return seconds_of([&] {
          for (int i = 0; i < trips; ++i) {
            rank.world.send(data, 1).wait();
            rank.world.receive(data, 1).wait();
          }
        });
      };
      const auto copy = [&] {
        return seconds_of([&] {
          for (int i = 0; i < trips; ++i) {
            std::memcpy(buffers[1].data, buffers[0].data, static_cast<std::size_t>(bytes));
            benchmark::ClobberMemory();
            std::memcpy(buffers[0].data, buffers[1].data, static_cast<std::size_t>(bytes));
            benchmark::ClobberMemory();
          }
        });
      };
      report(state, take_turns(rounds, message, copy), at_least,
             "rate of a message over memcpy's, same buffers");
    }
    rank.world.barrier().wait();
  });
  if (!wrong.empty()) state.SkipWithError(wrong.c_str());
}

[[maybe_unused]] const bool registered = [] {
  for (const std::int64_t megabytes : {1, 16})
    add(fmt::format("threads_send_{}MB", megabytes), [=](benchmark::State& state) {
      send_against_memcpy(state, megabytes * megabyte, megabytes == 16 ? 0.85 : 0);
    });
  return true;
}();

}  // namespace
