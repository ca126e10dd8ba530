#include "core/run/life/mpi_launcher.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/comm/mpi/mpi_transport.h"
#include "core/comm/transport/control.h"
#include "core/operations/operations_file.h"
#include "core/run/active/active_run.h"
#include "core/run/files/gather_traces.h"
#include "core/run/files/rank_message.h"
#include "core/run/launch/clock_offset.h"
#include "core/run/launch/launch.h"
#include "core/run/rank/last_resort.h"

namespace lockstep {

namespace {

/// Ranks on hosts with different numbers of cores may choose different clocks. In that case, all
/// ranks use the modelled clock.
void agree_on_clock(Transport& transport, Options& options) {
  const std::string mine =
      fmt::format("{}\n{}", options.clock().name(), options.platform.why_this_clock);
  std::string found;
  for (const std::string& each : gather_to_all(transport, mine))
    if (found.empty() || (found.starts_with("wall") && each.starts_with("modelled"))) found = each;
  if (found.starts_with(options.clock().name())) return;
  options.plan.modelled = {Cluster::load(options.platform.cluster)};
  check_shared_links(options);
  options.platform.why_this_clock = found.substr(found.find('\n') + 1) + " on one of the hosts";
}

/// Throws RunError if another run has replaced the checkpoint to load after some ranks had checked
/// it.
void agree_on_checkpoint(Transport& transport, const RunConfig& run) {
  if (run.load.empty() || broadcast_from_root(transport, run.loaded_state) == run.loaded_state)
    return;
  throw RunError(fmt::format(
      "--load {}: another run replaced this checkpoint while it was being loaded; try again",
      run.load));
}

/// "on 2 hosts: a (ranks 0, 1), b (ranks 2, 3); their clocks are aligned to within 12.3 µs", or ""
/// if all ranks share a host and a clock.
std::string hosts_summary(const std::vector<HostClock>& clocks) {
  std::map<std::string, std::vector<int>> ranks;
  std::int64_t largest = 0;
  for (int rank = 0; rank < static_cast<int>(clocks.size()); ++rank) {
    const HostClock& each = clocks[static_cast<std::size_t>(rank)];
    ranks[each.host].push_back(rank);
    largest = std::max(largest, each.offset.uncertainty_ns);
  }
  if (ranks.size() == 1 && largest == 0) return "";
  std::vector<std::string> hosts;
  for (const auto& [host, its] : ranks)
    hosts.push_back(
        fmt::format("{} ({} {})", host, its.size() == 1 ? "rank" : "ranks", fmt::join(its, ", ")));
  return fmt::format("on {} hosts: {}; their clocks are aligned to within {:.1f} µs", ranks.size(),
                     fmt::join(hosts, ", "), static_cast<double>(largest) / 1000);
}

MpiSession open_session(const Options& options) {
  // If a peer on another host is killed, MPI's writes to its socket must fail, not end this process
  // with SIGPIPE before it has reported its last operations.
  std::signal(SIGPIPE, SIG_IGN);
  return MpiSession{/*native=*/options.plan.collectives == Collectives::native};
}

/// Waits briefly, because mpirun may end before it has forwarded the last output of a rank on
/// another host, and because it kills the remaining ranks as soon as one has ended.
void let_output_through() {
  std::this_thread::sleep_for(std::chrono::milliseconds{150});
}

/// Ends this rank, and with it the run. When a rank exits with an error, mpirun gives the other
/// ranks a second to end; after MPI_Abort it gives them a millisecond. Launchers other than mpirun
/// may not end them at all.
[[noreturn]] void end_the_run(const MpiSession& session, int code) {
  let_output_through();
  if (!under_mpirun()) session.abort(code);
  std::_Exit(code);
}

class MpiLauncher final : public Launcher {
 public:
  explicit MpiLauncher(const Options& options);

  bool has_rank_0() const override { return session_.rank() == 0; }
  GpuPlan settle(ActiveRun& run) override;
  RunFolder agree_on_folder(RunFolder mine) override;
  void create_ranks(ActiveRun& run, const GpuPlan& gpus) override;
  SignalWatch::Handler on_signal(ActiveRun& run, SignalWatch& watch) override;
  std::string hosts() const override;
  void train(ActiveRun& run, const RankBody& body) override;
  bool interrupted(ActiveRun& run) override;
  void gather_results(ActiveRun& run) override;
  void gather_traces(ActiveRun& run) override;
  void gather_operations(ActiveRun& run) override;
  int report_interruption(const std::string& line) override;
  int agree_on_code(int code) override;
  /// Does not return.
  int fail(ActiveRun& run) override;

 private:
  void report(RankMessage::Kind kind, const std::string& text) const;
  void report_operations(const ActiveRun& run);
  /// Reports that this rank has failed, keeps its trace, and ends the run.
  [[noreturn]] void fail_with(ActiveRun& run, const std::string& cause);

  MpiSession session_;
  std::unique_ptr<Transport> transport_;  ///< until the rank takes it
  std::vector<HostClock> clocks_;         ///< by rank
  std::unique_ptr<Rank> rank_;  ///< outlives an exception in its body, so that its operations can
                                ///< be reported
  std::atomic<bool> reported_operations_{false};
};

MpiLauncher::MpiLauncher(const Options& options) : session_(open_session(options)) {
  report(RankMessage::Kind::location, "");
}

void MpiLauncher::report(RankMessage::Kind kind, const std::string& text) const {
  write_message({kind, session_.rank(), host_name(), text});
}

void MpiLauncher::report_operations(const ActiveRun& run) {
  if (!reported_operations_.exchange(true) && run.recording.is_open())
    report(RankMessage::Kind::last_operations, run.ranks.last_operations(session_.rank()));
}

GpuPlan MpiLauncher::settle(ActiveRun& run) {
  Options& options = run.options;
  transport_ = session_.endpoint(
      options.platform.patience_seconds,
      [this, &run](const std::string& line) {
        report(RankMessage::Kind::busy, run.console.start_of_line() + line);
      },
      [this, &run](const std::string& why) { fail_with(run, why); });
  GpuPlan gpus = plan_processes(*transport_, options);
  settle_on_gpus(gpus, options);
  agree_on_clock(*transport_, options);
  agree_on_checkpoint(*transport_, options.run);
  clocks_ = measure_clocks(*transport_, host_name(), this_clock(), steady_nanoseconds);
  return gpus;
}

RunFolder MpiLauncher::agree_on_folder(RunFolder mine) {
  const std::string place = broadcast_from_root(*transport_, mine.to_bytes());
  return has_rank_0() ? mine : RunFolder::from_bytes(place);
}

void MpiLauncher::create_ranks(ActiveRun& run, const GpuPlan& gpus) {
  const std::string start =
      broadcast_from_root(*transport_, has_rank_0() ? std::to_string(steady_nanoseconds()) : "");
  const ClockOffset mine = clocks_[static_cast<std::size_t>(session_.rank())].offset;
  run.options.platform.start_nanoseconds = std::stoll(start) + mine.offset_ns;
  run.recording.clock_uncertainty_ns = mine.uncertainty_ns;
  rank_ = std::make_unique<Rank>(run.options, std::move(transport_), gpus,
                                 run.recording.operations.get());
}

SignalWatch::Handler MpiLauncher::on_signal(ActiveRun& run, SignalWatch& watch) {
  return [this, &run, &watch](int signal, bool from_parent) {
    if (signal == SIGCONT) {
      if (watch.has_seen(end_traces_signal)) std::_Exit(interrupted_code);
      return;  // the run continues
    }
    // mpirun sends SIGTERM when another rank has failed; users and Slurm, when the run should end.
    const bool run_failed = signal == SIGTERM && from_parent && under_mpirun();
    if (!run_failed && signal != end_traces_signal && run.stop.request()) return;
    if (signal == save_signal) return;
    // After an interruption, no rank reports its operations.
    if (signal == end_traces_signal || signal == SIGINT)
      reported_operations_ = true;
    else
      report_operations(run);
    run.recording.keep();
    if (signal != end_traces_signal) {
      if (run_failed) let_output_through();
      std::_Exit(run_failed ? 1 : interrupted_code);
    }
    if (messages_are_collected()) report(RankMessage::Kind::trace_ended, "");
  };
}

std::string MpiLauncher::hosts() const {
  return hosts_summary(clocks_);
}

void MpiLauncher::train(ActiveRun& run, const RankBody& body) {
  report(RankMessage::Kind::ready, "");
  run.train(*rank_, body);
}

bool MpiLauncher::interrupted(ActiveRun& run) {
  return run.stop.any_requested(*rank_);
}

void MpiLauncher::gather_results(ActiveRun& run) {
  const std::string mine = run.ranks.meter(*rank_).results().to_bytes();
  for (const std::string& bytes : gather_to_root(*rank_->transport, mine))
    run.collected.results.push_back(RankResults::from_bytes(bytes));
}

void MpiLauncher::gather_traces(ActiveRun& run) {
  constexpr int piece_bytes = 4 << 20;
  lockstep::gather_traces(*rank_->transport, run.recording.folder, piece_bytes,
                          [&](const std::string& why) { run.recording.warn(why); });
}

void MpiLauncher::gather_operations(ActiveRun& run) {
  OperationBook* book = run.recording.operations.get();
  if (book == nullptr) return;
  const std::string mine = has_rank_0() ? "" : text_of(book->take());
  for (const std::string& text : gather_to_root(*rank_->transport, mine))
    if (!text.empty()) book->add(parse_operations(text, "the operations of a rank"));
}

int MpiLauncher::report_interruption(const std::string& line) {
  if (has_rank_0()) report(RankMessage::Kind::interrupted, line);
  // The process that started mpirun returns the exit code; mpirun would report a code other than 0
  // as an error.
  return messages_are_collected() ? 0 : interrupted_code;
}

int MpiLauncher::agree_on_code(int code) {
  if (code != 0) report(RankMessage::Kind::already_reported, "");
  return std::stoi(broadcast_from_root(*rank_->transport, std::to_string(code)));
}

int MpiLauncher::fail(ActiveRun& run) {
  try {
    throw;
  } catch (const UsageError& error) {
    report(RankMessage::Kind::usage_error, error.what());
    run.recording.keep();
    end_the_run(session_, 2);
  } catch (const std::exception& error) {
    fail_with(run, rank_ ? rank_->cause(error) : words_of(error));
  }
}

void MpiLauncher::fail_with(ActiveRun& run, const std::string& cause) {
  report(RankMessage::Kind::failure,
         cause + (!messages_are_collected() ? run.recording.folder.where_the_trace_is() : ""));
  report_operations(run);
  run.recording.keep();
  end_the_run(session_, 1);
}

}  // namespace

GpuPlan plan_processes(Transport& transport, const Options& options) {
  std::vector<RankPlace> places;
  for (const std::string& each :
       gather_to_all(transport, this_place(options, mpi_local_rank_from_environment()).to_bytes()))
    places.push_back(RankPlace::from_bytes(each));
  return GpuPlan{std::move(places)};
}

std::unique_ptr<Launcher> mpi_launcher(const Options& options) {
  return std::make_unique<MpiLauncher>(options);
}

}  // namespace lockstep
