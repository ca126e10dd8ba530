#include <cxxabi.h>
#include <fmt/format.h>

#include <atomic>
#include <mutex>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/run/thread_ranks.h"
#include "exercises/frame/ranks.h"

namespace lockstep::exercises {

namespace {

class Threads final : public Ranks {
 public:
  explicit Threads(std::string device) : device_(std::move(device)) {}

  std::vector<RankOutcome> run(const std::string& what, const Mesh& mesh, const Check::Body& body,
                               const Check::Diagnosis& diagnosis) override {
    const Options options = options_for(mesh.ranks(), device_);
    ThreadFabric fabric{mesh.ranks(), options.platform.patience_seconds};
    const ThreadRanks all{options, fabric, plan_threads(options)};
    std::atomic<bool> not_written{false};
    std::mutex mutex;
    std::optional<Wrong> wrong;
    std::vector<RankOutcome> outcomes(static_cast<std::size_t>(mesh.ranks()));
    std::vector<std::thread> threads;
    for (const auto& rank : all.all())
      threads.emplace_back([&, each = rank.get()] {
        try {
          outcomes[static_cast<std::size_t>(each->id)] = run_body(
              *each, mesh, each->transport->open_channels(RankState::channels_taken), 0, body);
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
        } catch (const abi::__forced_unwind&) {
          fabric.fail(fmt::format("rank {}: the answer calls pthread_exit()", each->id));
          throw;
        }
      });
    for (std::thread& thread : threads) thread.join();
    if (not_written) throw NotWritten{};
    if (wrong) throw Wrong{fmt::format("{}: {}", what, wrong->what()), wrong->why};
    if (const std::string failure = fabric.failure(); !failure.empty())
      throw Wrong{fmt::format("{}: {}", what, failure), diagnosis(failure_of(failure))};
    return outcomes;
  }

 private:
  const std::string device_;
};

}  // namespace

std::unique_ptr<Ranks> thread_ranks(const std::string& device) {
  return std::make_unique<Threads>(device);
}

}  // namespace lockstep::exercises
