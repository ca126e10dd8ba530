#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/model/checkpoint/saved_tensors.h"
#include "core/run/lesson.h"
#include "lessons/02_data_parallel/replica_lesson.h"
#include "lessons/20_when_ranks_die/lighthouse.h"
#include "lessons/20_when_ranks_die/prediction.h"
#include "lessons/20_when_ranks_die/surviving_pipeline.h"
#include "lessons/20_when_ranks_die/surviving_replica.h"
#include "lessons/20_when_ranks_die/timetable.h"

namespace lockstep {

/// The lesson's defaults for the shared flags.
inline LessonInfo when_ranks_die() {
  LessonInfo info =
      replica_lesson("20 when ranks die", "How does training go on after a rank has died?");
  info.axes = {Axis::dp, Axis::pp};
  info.freezes = false;
  info.narrow = false;
  info.replays = false;
  return info;
}

/// The lesson's flags, and what follows from them once they are parsed.
class SurvivalFlags {
 public:
  explicit SurvivalFlags(Lesson& lesson)
      : lesson_(lesson),
        faults_text_(lesson.flag("--faults", std::string{"auto"},
                                 "which ranks die: RANK@STEP, or RANK@STEP-RETURN if it returns; "
                                 "several with commas; or none; auto: one of them")),
        how_(lesson.flag(
            "--how", std::string{"auto"}, {"auto", "thrown", "stalled", "killed", "planned"},
            "thrown: an exception ends the rank; stalled: it stops without a sign; killed: "
            "SIGKILL (mpi); planned: it leaves as announced; auto: thrown, or planned "
            "under mpi and on shared links")),
        where_(
            lesson.flag("--where", std::string{"backward"}, {"start", "backward", "sum", "update"},
                        "when in the step: before it, in backward with gradients in flight, with "
                        "the sum, or after the update")),
        flip_(lesson.flag("--flip", std::string{},
                          "flip a bit of a rank's parameters before a step: RANK@STEP")),
        interval_(lesson.flag("--interval", 5,
                              "steps from one checkpoint to the next: with --pp in a neighbour's "
                              "memory, and with --save on disk (not if ranks leave as planned)")),
        bucket_(bucket_flag(lesson)) {
    lesson.hooks.checks.emplace_back([this](const Options& options) { settle(options); });
    lesson.hooks.advise = [this] { return how_to_continue(); };
  }

  const Faults& faults() const { return faults_; }
  Coordinator& coordinator() const { return *coordinator_; }
  std::vector<Phase> phases() const {
    const Options& options = lesson_.options();
    std::vector<Phase> phases =
        faults_.phases(options.plan.mesh.ranks(), options.run.steps,
                       options.plan.batch.microbatches, is_pipeline() ? "stages" : "replicas");
    for (Phase& phase : phases)
      if (is_pipeline()) phase.replicas.clear();  // a pipeline always uses the whole batch
    return phases;
  }
  bool is_pipeline() const { return lesson_.options().plan.mesh.size(Axis::pp) > 1; }

  /// Returns a rank's part of the training, as it is when the rank has just started.
  std::unique_ptr<Survivor> start(Rank& rank, FaultInjection& injection) const {
    const Options& options = lesson_.options();
    const SurvivalSettings settings{.bucket_bytes = bucket_,
                                    .interval = interval_,
                                    .save = saves_folder(options) ? options.output.save : "",
                                    .trained_steps = options.run.trained_steps,
                                    .optimizer_steps = optimizer_steps_};
    if (is_pipeline())
      return std::make_unique<SurvivingPipeline>(rank, *coordinator_, injection, settings);
    return std::make_unique<SurvivingReplica>(rank, *coordinator_, injection, settings);
  }
  Predicted predict(const Rank& rank, const Phase& phase) const {
    return is_pipeline()
               ? predict_survivor_of_pipeline(rank.plan, rank.id, faults_, phase, interval_)
               : predict_replica(rank.plan, rank.id, faults_, phase, bucket_);
  }
  /// Returns what the ranks have survived, in order; nothing if everything went as planned.
  std::vector<Lighthouse::Event> events() const {
    return lighthouse_ != nullptr ? lighthouse_->events() : std::vector<Lighthouse::Event>{};
  }

 private:
  /// A third of the run after its start, one rank dies; a replica returns after another third.
  std::string usual_fault(const Options& options, bool pipeline, bool dies) const {
    const int ranks = options.plan.mesh.ranks(), steps = options.run.steps;
    if (ranks < 2 || steps < 3 || (pipeline && !dies)) return "";
    const std::string text = fmt::format("{}@{}", ranks / 2, steps / 3);
    const bool returns = !pipeline && 2 * steps / 3 >= steps / 3 + 2;
    return returns ? fmt::format("{}-{}", text, 2 * steps / 3) : text;
  }

  /// Whether --save names a folder: a single file has no room for the optimizer's state.
  static bool saves_folder(const Options& options) {
    const std::string& save = options.output.save;
    return !save.empty() && !save.ends_with(".safetensors");
  }
  /// Returns the manifest of the checkpoint in the folder, and a text that identifies it; nothing
  /// if there is none.
  static std::optional<std::pair<Manifest, std::string>> checkpoint_in(
      const std::string& folder) try {
    const SavedTensors saved{folder};
    if (!saved.manifest()) return {};
    return std::pair{*saved.manifest(), saved.state()};
  } catch (const UsageError&) {
    return {};
  }
  /// Names the checkpoint from which a run that has failed can go on, if it has written one.
  std::string how_to_continue() const {
    const Options& options = lesson_.options();
    const std::string& folder = options.output.save;
    if (!saves_folder(options)) return "";
    const auto saved = checkpoint_in(folder);
    if (!saved || saved->second == saved_before_) return "; it has saved no checkpoint yet";
    const std::int64_t left = options.run.trained_steps + options.run.steps - saved->first.step;
    return fmt::format(
        "; to go on after step {}, with as many ranks as are left: --load {} --steps "
        "{} --faults none",
        saved->first.step - 1 - options.run.trained_steps, folder, left);
  }

  void check_pipeline(const Options& options, Death death) const {
    const Mesh& mesh = options.plan.mesh;
    if (mesh.size(Axis::pp) == 1) return;
    const std::string flags = fmt::format("--pp {}", mesh.size(Axis::pp));
    if (mesh.size(Axis::dp) > 1)
      throw UsageError(
          fmt::format("{} with --dp {}: this lesson recovers along one axis at a time; "
                      "use --dp {} or --pp {}",
                      flags, mesh.size(Axis::dp), mesh.ranks(), mesh.ranks()));
    if (options.plan.model().tied)
      throw UsageError(flags +
                       " with --tied: the first and the last stage would have to exchange "
                       "gradients after the vote; leave --tied out");
    if (!flip_.empty())
      throw UsageError(
          fmt::format("--flip {} with {}: every stage's parameters exist once, so there "
                      "is nothing to compare them with; use --dp",
                      flip_, flags));
    for (const Fault& fault : faults_.all()) {
      if (fault.returns)
        throw UsageError(
            fmt::format("--faults {}@{}-{} with {}: a pipeline goes on with fewer ranks; "
                        "give only {}@{}",
                        fault.rank, fault.step, *fault.returns, flags, fault.rank, fault.step));
      if (fault.step == 0 && faults_.point() != DeathPoint::update)
        throw UsageError(
            fmt::format("--faults {}@0 with {}: the stages have exchanged no checkpoint before "
                        "step 1; give step "
                        "1 or a later one",
                        fault.rank, flags));
      if (death == Death::none)
        throw UsageError(
            fmt::format("--faults {}@{} with {}: a stage does not leave as planned; use "
                        "--how killed, --launch threads or --faults none",
                        fault.rank, fault.step, flags));
    }
  }

  void settle(const Options& options) {
    if (interval_ < 1)
      throw UsageError(
          fmt::format("--interval {}: take a checkpoint every step or less often; "
                      "give 1 or more",
                      interval_));
    if (!options.run.load.empty())
      optimizer_steps_ = SavedTensors{options.run.load}.optimizer_steps().value_or(0);
    if (saves_folder(options))
      if (const auto saved = checkpoint_in(options.output.save)) saved_before_ = saved->second;
    const bool pipeline = options.plan.mesh.size(Axis::pp) > 1;
    const int ranks = options.plan.mesh.ranks(), steps = options.run.steps;
    const bool threads = options.platform.launch == Launch::threads;
    // A time on shared links is known only once every rank waits, which those here may never do.
    const bool shared = options.plan.modelled && options.plan.modelled->cluster.shared;
    const Death death = how_ == "thrown"     ? Death::thrown
                        : how_ == "stalled"  ? Death::stalled
                        : how_ == "killed"   ? Death::killed
                        : how_ == "planned"  ? Death::none
                        : threads && !shared ? Death::thrown
                                             : Death::none;
    if ((death == Death::thrown || death == Death::stalled) && shared)
      throw UsageError(fmt::format(
          "--how {} with --cluster {}: its ranks share links, and a time on these is known only "
          "once every rank waits; use --how planned, or another cluster such as ethernet",
          how_, options.platform.cluster));
    if (death == Death::killed && threads)
      throw UsageError(
          "--how killed with --launch threads: a signal would kill all ranks, which are threads of "
          "one process; use --how thrown or stalled, or --launch mpi");
    if ((death == Death::thrown || death == Death::stalled) && !threads)
      throw UsageError(fmt::format(
          "--how {} with --launch mpi: this MPI ends all ranks when one of them ends; use --how "
          "killed to see how, or planned, or --launch threads",
          how_));
    if (!flip_.empty() && (death == Death::none || !threads))
      throw UsageError(fmt::format(
          "--flip {}: only ranks that are threads, and may die, vote with a checksum; use --launch "
          "threads and --how thrown",
          flip_));
    const DeathPoint point = where_ == "start"    ? DeathPoint::start
                             : where_ == "sum"    ? DeathPoint::sum
                             : where_ == "update" ? DeathPoint::update
                                                  : DeathPoint::backward;
    faults_ = Faults{faults_text_ == "none"   ? ""
                     : faults_text_ == "auto" ? usual_fault(options, pipeline, death != Death::none)
                                              : faults_text_,
                     death, point};
    faults_.flip(flip_);
    faults_.check(ranks, steps);
    check_pipeline(options, death);
    if (death == Death::none || death == Death::killed) {
      const Faults expected = death == Death::none ? faults_ : Faults{};
      coordinator_ = std::make_unique<Timetable>(ranks, expected, steps, threads && !shared);
      return;
    }
    auto lighthouse =
        std::make_unique<Lighthouse>(ranks, faults_, options.platform.patience_seconds);
    lighthouse_ = lighthouse.get();
    coordinator_ = std::move(lighthouse);
  }

  Lesson& lesson_;
  const std::string& faults_text_;
  const std::string& how_;
  const std::string& where_;
  const std::string& flip_;
  const int& interval_;
  const int& bucket_;
  std::int64_t optimizer_steps_ = 0;  ///< of the checkpoint that is loaded
  std::string saved_before_;  ///< identifies the checkpoint that the run found in the folder
  Faults faults_;
  std::unique_ptr<Coordinator> coordinator_;
  Lighthouse* lighthouse_ = nullptr;  ///< the coordinator, if ranks may die
};

}  // namespace lockstep
