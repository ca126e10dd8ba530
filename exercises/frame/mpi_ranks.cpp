#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/comm/mpi/mpi_transport.h"
#include "core/comm/transport/control.h"
#include "core/run/launch/gpus.h"
#include "exercises/frame/ranks.h"
#include "exercises/frame/report.h"
#include "exercises/frame/statics.h"

namespace lockstep::exercises {

namespace {

/// After several ranks have failed together, the first one's report should be the only one: when it
/// ends, mpirun ends the others.
constexpr std::chrono::milliseconds between_reports{1500};
/// How long a rank that has waited too long waits for another rank to report a better reason.
constexpr std::chrono::seconds for_better_reason{10};

class Processes final : public Ranks {
 public:
  Processes(const std::string& device, Reporter& reporter)
      : reporter_(reporter),
        options_(options_for(session_.size(), device)),
        rank_(options_, session_.endpoint(options_.platform.patience_seconds), own_gpu()) {}

  std::vector<RankOutcome> run(const std::string& what, const Mesh& mesh, const Check::Body& body,
                               const Check::Diagnosis& diagnosis) override {
    if (mesh.ranks() > rank_.count)
      throw UsageError(
          fmt::format("this exercise needs {} processes, and has {}", mesh.ranks(), rank_.count));
    const Picoseconds start = common_start();
    const int channels = rank_.transport->open_channels(RankState::channels_taken);
    std::string mine;
    if (rank_.id < mesh.ranks()) {
      try {
        StaticData::of_answer().remember();
        mine = run_body(rank_, mesh, channels, start, body, nullptr).to_bytes();
      } catch (const NotWritten&) {
        throw;
      } catch (const Wrong& wrong) {
        throw Wrong{fmt::format("{}: {}", what, wrong.what()), wrong.why};
      } catch (const std::exception& error) {
        const std::string text = fmt::format("rank {}: {}", rank_.id, rank_.cause(error));
        // A process knows only which rank it waits for itself.
        const bool stuck = dynamic_cast<const WaitedTooLong*>(&error) != nullptr;
        if (stuck) reporter_.wait_until_all_are_stuck(mesh.ranks(), for_better_reason);
        std::this_thread::sleep_for(rank_.id * between_reports);
        throw Wrong{fmt::format("{}: {}", what, text),
                    stuck ? "Without --launch mpi, the check sees all ranks, and names every rank "
                            "that waits for another one."
                          : diagnosis({})};
      }
    }
    // All processes continue with the same outcomes.
    std::vector<RankOutcome> outcomes;
    for (const std::string& each : gather_to_all(*rank_.transport, mine))
      if (static_cast<int>(outcomes.size()) < mesh.ranks())
        outcomes.push_back(RankOutcome::from_bytes(each));
    return outcomes;
  }

 private:
  /// On the modelled clock, a rank only needs to know about its own GPU.
  GpuPlan own_gpu() const {
    std::vector<RankPlace> places(static_cast<std::size_t>(session_.size()));
    for (RankPlace& place : places) place = this_place(options_, mpi_local_rank_from_environment());
    return GpuPlan{places};
  }

  /// Advances all ranks' modelled clocks to the latest of them, and drops the recorded events.
  Picoseconds common_start() {
    Picoseconds latest = 0;
    for (const std::string& each :
         gather_to_all(*rank_.transport, std::to_string(rank_.compute.now())))
      latest = std::max<Picoseconds>(latest, std::stoll(each));
    rank_.compute.wait(Event{latest, nullptr}, {.name = "start", .category = Category::wait});
    rank_.trace.drain();
    return latest;
  }

  Reporter& reporter_;
  MpiSession session_{/*native=*/false};
  const Options options_;
  Rank rank_;
};

}  // namespace

std::unique_ptr<Ranks> mpi_ranks(const std::string& device, Reporter& reporter) {
  return std::make_unique<Processes>(device, reporter);
}

}  // namespace lockstep::exercises
