#include "viz/data/step/retiming.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <mutex>
#include <set>
#include <thread>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/operations/operations_file.h"
#include "viz/data/step/words.h"

namespace lockstep::viz {
namespace {

constexpr std::array factors{1.1, 1.25, 1.5, 1.75, 2.0,  2.5,  3.0,
                             4.0, 6.0,  8.0, 10.0, 20.0, 50.0, 100.0};
constexpr int notches = static_cast<int>(factors.size());
static_assert(notches + 1 == RetimeSlider::most_notches);

double factor_of(int notch) {
  return factors[static_cast<std::size_t>(std::abs(notch) - 1)];
}

RetimedStep last_step_of(const Replay& replay) {
  const int step = replay.last_step();
  return {replay.step_time(step), shares(critical_path(replay, step))};
}

/// Replays a step as it was recorded and as it is changed.
StepAnswer answer_of(const RunOperations& run, const StepQuestion& question) {
  StepAnswer answer{.question = question};
  try {
    const auto time_under = [&](const std::vector<std::string>& changes) {
      Scenario scenario{run.modelled};
      for (const std::string& each : changes) scenario.change(each, run);
      return Replay{run, scenario}.step_time(question.step);
    };
    const Picoseconds recorded = time_under({});
    answer.changed = time_under(question.changes);
    answer.recorded = recorded;
  } catch (const std::exception&) {
    answer.recorded = answer.changed = 0;
  }
  return answer;
}

}  // namespace

std::string RetimeSlider::change() const {
  if (notch == 0) return {};
  std::string text = what;
  if (!numbers.empty()) text += fmt::format(":{}", numbers[chosen]);
  if (exact > 0) return text + fmt::format("=faster:{}", exact);
  if (notch > notches) return text + "=free";
  return text + fmt::format("={}:{}", notch > 0 ? "faster" : "slower", factor_of(notch));
}

std::string RetimeSlider::pace() const {
  if (notch == 0 || (notch > notches && exact == 0)) return factor();
  return fmt::format("{} {}", factor(), notch > 0 ? "faster" : "slower");
}

std::string RetimeSlider::factor() const {
  if (notch == 0) return "1×";
  if (exact > 0) return ratio_words(exact) + "×";
  if (notch > notches) return "free";
  return fmt::format("{}×", factor_of(notch));
}

void RetimeSlider::set_notch(int to) {
  notch = std::clamp(to, slowest(), fastest());
  exact = 0;
}

void RetimeSlider::set_rank(int rank, double factor) {
  const auto found = std::ranges::find(numbers, rank);
  if (found == numbers.end() || !(factor > 1)) return;
  chosen = static_cast<std::size_t>(found - numbers.begin());
  const auto nearest = std::ranges::min_element(
      factors, {}, [&](double each) { return std::abs(std::log(each / factor)); });
  set_notch(static_cast<int>(nearest - factors.begin()) + 1);
  if (*nearest != factor) exact = factor;
}

std::vector<RetimeSlider> retime_sliders(const RunOperations& run) {
  std::set<int> stages;
  std::set<KernelKind> kinds;
  for (const RecordedOperation& each : run.operations) {
    if (each.kind == RecordedOperation::Kind::kernel) kinds.insert(each.cost.kind);
    if (each.stage >= 0) stages.insert(each.stage);
  }
  std::vector<RetimeSlider> sliders{{"within", "within nodes", true},
                                    {"between", "between nodes", true},
                                    {"latency", "latency", true}};
  for (const std::string& axis : axes_of(run)) sliders.push_back({axis, axis + " links", true});
  RetimeSlider ranks{"rank", "rank"};
  for (int rank = 0; rank < static_cast<int>(run.ranks.size()); ++rank)
    ranks.numbers.push_back(rank);
  sliders.push_back(std::move(ranks));
  if (stages.size() > 1)
    sliders.push_back({"stage", "stage", false, {stages.begin(), stages.end()}});
  // With fixed times of actions, the times of kernels do not matter.
  if (run.modelled.times.any()) return sliders;
  if (kinds.contains(KernelKind::product)) sliders.push_back({"products", "products"});
  if (kinds.contains(KernelKind::attention)) sliders.push_back({"attention", "attention"});
  if (kinds.contains(KernelKind::memory)) sliders.push_back({"memory", "memory"});
  return sliders;
}

std::vector<std::string> changes_of(const std::vector<RetimeSlider>& sliders) {
  std::vector<std::string> changes;
  for (const RetimeSlider& slider : sliders)
    if (slider.notch != 0) changes.push_back(slider.change());
  return changes;
}

std::vector<ComparedShare> compared_shares(const RetimedStep& recorded,
                                           const RetimedStep& changed) {
  std::vector<ComparedShare> all;
  for (const auto& [what, time] : recorded.shares) all.push_back({what, time, 0});
  for (const auto& [what, time] : changed.shares) {
    const auto found = std::ranges::find(all, what, &ComparedShare::what);
    if (found != all.end())
      found->changed = time;
    else
      all.push_back({what, 0, time});
  }
  return all;
}

struct Retiming::Job {
  std::string file;  ///< operations.json
  std::string run;
  bool started = false;  ///< used only by the thread of Retiming

  std::mutex mutex;
  std::condition_variable news;                    ///< for either thread
  std::optional<std::vector<std::string>> wanted;  ///< taken by the thread
  std::optional<StepQuestion> question;            ///< likewise
  Results results;
  bool stopped = false;
};

void Retiming::stop() {
  if (!job_) return;
  const std::lock_guard lock{job_->mutex};
  job_->stopped = true;
  job_->news.notify_all();
}

void Retiming::find(const std::vector<std::filesystem::path>& traces, const std::string& run) {
  stop();
  job_.reset();
  asked_.reset();
  question_.reset();
  shown_ = {};
  std::error_code ignored;
  for (const auto& path : traces) {
    const bool folder = std::filesystem::is_directory(path, ignored);
    const auto file = (folder ? path : path.parent_path()) / "operations.json";
    if (!std::filesystem::is_regular_file(file, ignored)) continue;
    job_ = std::make_shared<Job>();
    job_->file = file.string();
    job_->run = run;
    return;
  }
}

void Retiming::ask(const std::vector<std::string>& changes) {
  if (!job_ || asked_ == changes) return;
  asked_ = changes;
  {
    const std::lock_guard lock{job_->mutex};
    job_->wanted = changes;
    job_->news.notify_all();
  }
  start();
}

void Retiming::ask_step(const StepQuestion& question) {
  if (!job_ || question_ == question) return;
  question_ = question;
  {
    const std::lock_guard lock{job_->mutex};
    job_->question = question;
    job_->news.notify_all();
  }
  start();
}

const StepAnswer* Retiming::answer_to(const StepQuestion& question) const {
  return shown_.answer && shown_.answer->question == question ? &*shown_.answer : nullptr;
}

void Retiming::start() {
  if (!std::exchange(job_->started, true)) std::thread{[job = job_] { work(*job); }}.detach();
}

void Retiming::update() {
  if (!busy()) return;
  const std::lock_guard lock{job_->mutex};
  shown_ = job_->results;
}

void Retiming::wait() {
  if (!busy()) return;
  {
    std::unique_lock lock{job_->mutex};
    job_->news.wait(lock, [&] { return job_->results.answers(asked_, question_); });
  }
  update();
}

void Retiming::work(Job& job) {
  const auto publish = [&](const auto& set) {
    const std::lock_guard lock{job.mutex};
    set(job.results);
    job.news.notify_all();
  };
  try {
    const RunOperations run = read_operations(job.file);
    if (run.run != job.run)
      throw UsageError(fmt::format("{}: is of run {}, but the trace is of run {}", job.file,
                                   excerpt(run.run), excerpt(job.run)));
    const Scenario as_recorded{run.modelled};
    RetimedStep recorded;
    {
      const Replay replay{run, as_recorded};
      if (replay.last_step() < 0) throw UsageError(job.file + ": has no step");
      recorded = last_step_of(replay);
      publish([&](Results& results) {
        results.sliders = retime_sliders(run);
        results.ranks = run.ranks.size();
        results.step = replay.last_step();
        results.choices = run.choices;
        results.recorded = recorded;
      });
    }
    for (;;) {
      std::optional<std::vector<std::string>> wanted;
      std::optional<StepQuestion> question;
      {
        std::unique_lock lock{job.mutex};
        job.news.wait(lock, [&] { return job.stopped || job.wanted || job.question; });
        if (job.stopped) return;
        wanted = std::exchange(job.wanted, std::nullopt);
        if (!wanted) question = std::exchange(job.question, std::nullopt);
      }
      if (question) {
        const StepAnswer answer = answer_of(run, *question);
        publish([&](Results& results) { results.answer = answer; });
        continue;
      }
      const std::vector<std::string> changes = *wanted;
      RetimedStep changed = recorded;
      std::string trouble;
      if (!changes.empty()) try {
          Scenario scenario{run.modelled};
          for (const std::string& each : changes) scenario.change(each, run);
          changed = last_step_of(Replay{run, scenario});
        } catch (const std::exception& error) {
          trouble = excerpt(error.what(), 400);
        }
      publish([&](Results& results) {
        results.changes = changes;
        results.changed = changed;
        results.trouble = trouble;
        ++results.replays;
      });
    }
  } catch (const std::exception& error) {
    publish([&](Results& results) {
      results.trouble = excerpt(error.what(), 400);
      results.broken = true;
    });
  }
}

std::string nothing_to_retime(const RunInfo& run, bool live) {
  if (run.clock != "modelled")
    return fmt::format(
        "Nothing to retime: only runs on the modelled clock record their operations, "
        "and this trace is {}.",
        run.clock == "wall" ? "of the wall clock" : "of another tool");
  if (live) return "Nothing to retime yet: open the run's folder once the run has ended.";
  return "Nothing to retime: there is no operations.json beside this trace.";
}

}  // namespace lockstep::viz
