#include "exercises/frame/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>

#include "core/base/error.h"
#include "core/run/thread_ranks.h"

namespace lockstep::exercises {

namespace {

/// Ranks as threads on the modelled clock, where results do not depend on the machine's load.
Options options_for(int ranks) {
  Options options;
  options.run.ranks = ranks;
  options.run.dp = ranks;
  options.platform.clock = Clock::modelled(Cluster{}, FixedTimes{});
  return options;
}

/// Reads the message of a failed run (core/comm/threads/wait_graph.cpp).
Failure failure_of(const std::string& text) {
  const auto count = [&](std::string_view words) {
    int found = 0;
    for (auto at = text.find(words); at != std::string::npos; at = text.find(words, at + 1))
      ++found;
    return found;
  };
  return {.text = text,
          .sends = count(" to receive "),
          .receives = count(" to send "),
          .deadlock = count("deadlock") > 0,
          .waits_for_finished = count("which has finished") > 0};
}

}  // namespace

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

Costs Check::run(const std::string& what, int ranks, const std::function<void(World&)>& body,
                 const std::function<std::string(const Failure&)>& diagnosis) {
  ++cases_;
  const Options options = options_for(ranks);
  // A deadlock is detected at once. The time-out is for a rank that never returns.
  ThreadFabric fabric{ranks, /*patience_seconds=*/2};
  const ThreadRanks all{options, fabric, GpuPlan{}};
  std::atomic<bool> not_written{false};
  std::mutex mutex;
  std::optional<Wrong> wrong;
  std::vector<std::thread> threads;
  for (const auto& rank : all.all())
    threads.emplace_back([&, each = rank.get()] {
      try {
        World world{each->world};
        body(world);
        fabric.finish(each->id);
      } catch (const NotWritten&) {
        not_written = true;
        fabric.fail("not written");
      } catch (const Wrong& found) {
        const std::lock_guard lock{mutex};
        if (!wrong) wrong = found;
        fabric.fail("wrong");
      } catch (const std::exception& error) {
        fabric.fail(each->cause(RunError{fmt::format("rank {}: {}", each->id, error.what())}));
      }
    });
  for (std::thread& thread : threads) thread.join();
  if (not_written) throw NotWritten{};
  if (wrong) throw Wrong{fmt::format("{}: {}", what, wrong->what()), wrong->why};
  if (const std::string failure = fabric.failure(); !failure.empty())
    throw Wrong{fmt::format("{}: {}", what, failure), diagnosis(failure_of(failure))};

  Costs costs;
  for (const auto& rank : all.all()) {
    std::int64_t sent = 0;
    const BytesSent bytes = rank->transport->bytes_sent();
    for (const Operation operation : all_operations) sent += bytes[operation];
    costs.bytes_sent.push_back(sent);
    costs.microseconds =
        std::max(costs.microseconds, static_cast<double>(rank->compute.now()) * 1e-6);
  }
  return costs;
}

std::string list(std::span<const float> numbers) {
  constexpr std::size_t most = 12;
  std::string text;
  for (std::size_t i = 0; i < std::min(most, numbers.size()); ++i)
    text += fmt::format("{}{:g}", i == 0 ? "" : ", ", numbers[i]);
  return numbers.size() > most ? text + ", ..." : text;
}

}  // namespace lockstep::exercises
