#include <cxxabi.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <optional>

#include "core/base/error.h"
#include "core/run/rank/thread_ranks.h"
#include "exercises/frame/ranks.h"
#include "exercises/frame/statics.h"

namespace lockstep::exercises {

namespace {

class Threads final : public Ranks {
 public:
  explicit Threads(std::string device) : device_(std::move(device)) {}

  std::vector<RankOutcome> run(const std::string& what, const Mesh& mesh, const Check::Body& body,
                               const Check::Diagnosis& diagnosis) override {
    Options options = options_for(mesh.ranks(), device_);
    // A deadlock of threads is detected at once, and the supervisor ends a rank that never returns.
    // A slow rank, or one that waits for its turn, has not stalled.
    options.platform.patience_seconds = 1000;
    ThreadFabric fabric{mesh.ranks(), options.platform.patience_seconds};
    ThreadRanks all{options, fabric, plan_threads(options)};
    std::atomic<bool> not_written{false};
    std::mutex mutex;
    std::optional<Wrong> wrong;
    std::vector<RankOutcome> outcomes(static_cast<std::size_t>(mesh.ranks()));
    Turn turn;
    StaticData::of_answer().remember();
    all.run([&](Rank& rank) {
      try {
        outcomes[static_cast<std::size_t>(rank.id)] = run_body(
            rank, mesh, rank.transport->open_channels(RankState::channels_taken), 0, body, &turn);
      } catch (const NotWritten&) {
        not_written = true;
        throw;
      } catch (const Wrong& found) {
        const std::lock_guard lock{mutex};
        if (!wrong) wrong = found;
        throw;
      } catch (const std::exception& error) {
        throw RunError{fmt::format("rank {}: {}", rank.id, error.what())};
      } catch (const abi::__forced_unwind&) {
        fabric.fail(fmt::format("rank {}: the answer calls pthread_exit()", rank.id));
        throw;
      }
    });
    if (not_written) throw NotWritten{};
    check_statics(fmt::format("{}: a rank", what));
    if (wrong) throw Wrong{fmt::format("{}: {}", what, wrong->what()), wrong->why};
    if (const std::string failure = fabric.failure(); !failure.empty())
      throw Wrong{fmt::format("{}: {}", what, failure), diagnosis(failure_of(fabric.deadlock()))};
    return outcomes;
  }

 private:
  static Failure failure_of(const std::optional<Deadlock>& deadlock) {
    if (!deadlock) return {};
    return {.deadlock = !deadlock->for_finished,
            .sends = deadlock->sending,
            .receives = deadlock->receiving,
            .waits_for_finished = deadlock->for_finished};
  }

  const std::string device_;
};

}  // namespace

std::unique_ptr<Ranks> thread_ranks(const std::string& device) {
  return std::make_unique<Threads>(device);
}

}  // namespace lockstep::exercises
