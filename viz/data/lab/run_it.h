#pragma once

#include <chrono>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "viz/data/lab/lab_settings.h"
#include "viz/data/lab/lesson_process.h"
#include "viz/data/lab/observed_step.h"

namespace lockstep::viz {

/// Returns the cluster file for a run whose messages have `bytes` bytes: on it, each message takes
/// exactly as long as a message in the lab, to the picosecond.
std::string cluster_for_run(const LabSettings& settings, std::int64_t bytes);
/// Returns the flags with which lesson 11 runs one step of this schedule at these settings, with a
/// model that is as small as the schedule allows. `folder` holds schedule.csv and cluster.json, and
/// receives the trace and report.json.
std::vector<std::string> flags_for_run(const LabResult& result,
                                       const std::filesystem::path& folder);
/// Returns a command line for the terminal.
std::string command_words(const std::string& lesson, const std::vector<std::string>& flags);
/// The bytes of a message across a stage boundary in such a run.
constexpr std::int64_t message_bytes_of_run = 4 * 16 * 32;  ///< f32, sequence 16, hidden 32

/// Runs one step of a schedule on real ranks, on the modelled clock, and compares it with the
/// simulation. Every call returns at once.
class RunIt {
 public:
  enum class State { idle, running, done, failed };

  /// The outcome of the run.
  struct Outcome {
    ObservedStep step;
    StepDifference difference;
    std::string parity;  ///< "bitwise identical to one device"
    bool equal = false;  ///< whether the run's parity check succeeded
  };

  RunIt() = default;
  ~RunIt();
  RunIt(const RunIt&) = delete;
  RunIt& operator=(const RunIt&) = delete;

  /// Starts a run, after ending the one that is running. `folder` is created, and deleted with this
  /// object. If the run can't be started, the state is `failed`.
  void start(const LabResult& result, const LabSettings& settings, std::filesystem::path folder);
  void stop();
  /// Checks whether the run has ended. Call it once per frame. Returns whether the state has
  /// changed.
  bool poll();
  /// Waits for the end of the run. For pictures and tests.
  void wait();

  State state() const { return state_; }
  /// The schedule and the settings of the last start.
  const LabResult& simulated() const { return simulated_; }
  const LabSettings& settings() const { return settings_; }
  const std::optional<Outcome>& outcome() const { return outcome_; }
  /// Describes the state in one line: "running on 4 ranks ...", the difference, or why it failed.
  std::string words() const;
  const std::vector<std::string>& flags() const { return flags_; }
  double seconds() const;

 private:
  static Outcome read(const LabResult& simulated, const std::filesystem::path& folder);
  void fail(std::string why);

  State state_ = State::idle;
  LabResult simulated_;
  LabSettings settings_;
  std::filesystem::path folder_;
  std::vector<std::string> flags_;
  std::unique_ptr<LessonProcess> process_;
  std::future<Outcome> reading_;  ///< on a thread of its own
  std::optional<Outcome> outcome_;
  std::string trouble_;
  std::chrono::steady_clock::time_point begun_;
  double seconds_ = 0;
};

}  // namespace lockstep::viz
