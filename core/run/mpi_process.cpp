#include "core/run/mpi_process.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <thread>

#include "core/base/error.h"
#include "core/comm/mpi/environment.h"
#include "core/comm/mpi/mpi_transport.h"
#include "core/comm/transport/control.h"
#include "core/run/active_run.h"
#include "core/run/conclusion.h"
#include "core/run/files/gather_traces.h"
#include "core/run/files/rank_message.h"
#include "core/run/introduction.h"
#include "core/run/last_resort.h"
#include "core/run/launch/clock_offset.h"
#include "core/run/launch/launch.h"
#include "core/run/save.h"

namespace lockstep {

namespace {

/// Ranks on hosts with different numbers of cores may choose different clocks. In that case, all
/// ranks use the modelled clock.
void agree_on_clock(Transport& transport, Options& options) {
  const std::string mine =
      fmt::format("{}\n{}", options.platform.clock.name(), options.platform.why_this_clock);
  std::string found;
  for (const std::string& each : gather_to_root(transport, mine))
    if (found.empty() || (found.starts_with("wall") && each.starts_with("modelled"))) found = each;
  found = broadcast_from_root(transport, found);
  if (found.starts_with(options.platform.clock.name())) return;
  options.platform.clock = Clock::modelled(Cluster::load(options.platform.cluster));
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

/// Gathers all ranks' places and sends them to every rank.
GpuPlan agree_on_gpus(Transport& transport, const Options& options) {
  std::string all;
  for (const std::string& each :
       gather_to_root(transport, this_place(options, mpi_local_rank_from_environment()).to_bytes()))
    all += each + '\0';
  all = broadcast_from_root(transport, all);
  std::vector<RankPlace> places;
  for (std::size_t from = 0; from < all.size();) {
    const std::size_t to = all.find('\0', from);
    places.push_back(RankPlace::from_bytes(all.substr(from, to - from)));
    from = to + 1;
  }
  return GpuPlan{std::move(places)};
}

/// "on 2 hosts: a (ranks 0, 1), b (ranks 2, 3); their clocks agree to within 12.3 µs", or "" for a
/// single host.
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

}  // namespace

int run_mpi_process(ActiveRun& run, const std::function<void(Rank&)>& body, SignalWatch& watch) {
  Options& options = run.options;
  // If a peer on another host is killed, MPI's writes to its socket must fail, not end this process
  // with SIGPIPE before it has reported its last operations.
  std::signal(SIGPIPE, SIG_IGN);
  MpiSession session{/*native=*/options.platform.comm == Collectives::native};
  const int id = session.rank();
  const bool root = id == 0;
  const auto report = [id](RankMessage::Kind kind, const std::string& text) {
    write_message({kind, id, host_name(), text});
  };
  report(RankMessage::Kind::location, "");
  std::unique_ptr<Rank> rank;  // outlives an exception in its body, so that its operations can be
                               // reported
  std::atomic<bool> reported{false};
  const auto report_operations = [&] {
    if (!reported.exchange(true) && run.opened)
      report(RankMessage::Kind::last_operations, run.last_operations_of(id));
  };
  // For a run that is over: the state that the handler below uses is gone.
  const auto end_on_signals = [&watch] {
    watch.set_handler([](int signal, bool) {
      if (signal == SIGINT || signal == SIGTERM) std::_Exit(interrupted_code);
    });
  };
  try {
    auto transport =
        session.endpoint(options.platform.patience_seconds, [&](const std::string& line) {
          report(RankMessage::Kind::busy, run.console.start_of_line() + line);
        });
    const GpuPlan plan = agree_on_gpus(*transport, options);
    settle_on_gpus(plan, options);
    agree_on_clock(*transport, options);
    agree_on_checkpoint(*transport, options.run);
    const auto clocks = measure_clocks(*transport, host_name(), this_clock(), steady_nanoseconds);
    // All ranks use rank 0's folder and start time.
    RunFolder folder;
    if (root) {
      run.lock_save();
      folder = RunFolder::create(options.output.trace, run.info.name);
      folder.begin();
    }
    const std::string place = broadcast_from_root(*transport, folder.to_bytes());
    if (!root) folder = RunFolder::from_bytes(place);
    const std::string start =
        broadcast_from_root(*transport, root ? std::to_string(steady_nanoseconds()) : "");
    const ClockOffset mine = clocks[static_cast<std::size_t>(id)].offset;
    options.platform.clock.set_start_nanoseconds(std::stoll(start) + mine.offset_ns);
    run.open(std::move(folder));
    run.clock_uncertainty_ns = mine.uncertainty_ns;
    rank = std::make_unique<Rank>(options, std::move(transport), plan);
    watch.set_handler([&](int signal, bool from_parent) {
      if (signal == SIGCONT) {
        if (watch.has_seen(end_traces_signal)) std::_Exit(interrupted_code);
        return;  // the run continues
      }
      // mpirun sends SIGTERM when another rank has failed; users and Slurm, when the run should
      // end.
      const bool run_failed = signal == SIGTERM && from_parent && under_mpirun();
      if (!run_failed && signal != end_traces_signal && run.stop.request()) return;
      if (signal == save_signal) return;
      // After an interruption, no rank reports its operations.
      if (signal == end_traces_signal || signal == SIGINT)
        reported = true;
      else
        report_operations();
      run.keep_traces();
      if (signal != end_traces_signal) {
        if (run_failed) let_output_through();
        std::_Exit(run_failed ? 1 : interrupted_code);
      }
      if (messages_are_collected()) report(RankMessage::Kind::trace_ended, "");
    });
    report(RankMessage::Kind::ready, "");
    if (root) introduce(run.info, options, plan, hosts_summary(clocks));

    run.train(*rank, body);
    if (run.stop.any_requested(*rank)) {
      run.progress.end();
      if (run.writer) run.writer->finish();
      gather_traces(*rank->transport, run.folder, 4 << 20,
                    [&](const std::string& why) { run.warn_of_trace(why); });
      if (root) {
        run.folder.merge(options.run.ranks);
        report(RankMessage::Kind::interrupted, interruption(run) + run.folder.where_the_trace_is());
      }
      end_on_signals();
      // The process that started mpirun gives the code; mpirun would report one other than 0.
      return messages_are_collected() ? 0 : interrupted_code;
    }
    const std::string results = run.meter(*rank).results().to_bytes();
    for (const std::string& bytes : gather_to_root(*rank->transport, results))
      run.results.push_back(RankResults::from_bytes(bytes));
    run.progress.end();
    if (run.writer) run.writer->finish();
    gather_traces(*rank->transport, run.folder, 4 << 20,
                  [&](const std::string& why) { run.warn_of_trace(why); });
    int code = root ? conclude(run) : 0;
    if (code != 0) report(RankMessage::Kind::already_reported, "");
    code = std::stoi(broadcast_from_root(*rank->transport, std::to_string(code)));
    end_on_signals();
    return code;
  } catch (const UsageError& error) {
    report(RankMessage::Kind::usage_error, error.what());
    run.keep_traces();
    end_the_run(session, 2);
  } catch (const std::exception& error) {
    const std::string cause = rank ? rank->cause(error) : words_of(error);
    report(RankMessage::Kind::failure,
           cause + (!messages_are_collected() ? run.folder.where_the_trace_is() : std::string{}));
    report_operations();
    run.keep_traces();
    end_the_run(session, 1);
  }
}

}  // namespace lockstep
