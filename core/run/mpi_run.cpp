#include <fmt/format.h>

#include "core/base/error.h"
#include "core/comm/mpi_transport.h"
#include "core/run/launch.h"
#include "core/run/running.h"

namespace lockstep {

// One rank as this process, under mpirun.
int Lesson::run_process(const std::function<void(Rank&)>& body) {
  MpiSession session;
  try {
    auto transport = session.endpoint();
    // One folder and one start for all: rank 0's.
    const bool root = session.rank() == 0;
    RunFolder folder;
    if (root) {
      folder = RunFolder::create(options_->trace, info_.name);
      folder.begin();
    }
    folder = RunFolder::from_bytes(broadcast_from_root(*transport, folder.to_bytes()));
    const std::string start =
        broadcast_from_root(*transport, root ? std::to_string(steady_nanoseconds()) : "");
    options_->clock.set_start_nanoseconds(std::stoll(start));
    running_ = std::make_unique<Running>(*options_, std::move(folder), Console::detect());
    SignalWatch watch{[&](int signal) {
                        running_->keep_traces();
                        if (signal != end_traces_signal) std::_Exit(130);
                      },
                      {SIGINT, SIGTERM, end_traces_signal}};
    if (root) introduce();

    Rank rank{*options_, std::move(transport)};
    train(rank, body);
    const std::string record = running_->of(rank).record.to_bytes();
    for (const std::string& bytes : gather_to_root(*rank.transport, record))
      running_->records.push_back(RankRecord::from_bytes(bytes));
    running_->progress.end();
    if (running_->writer) running_->writer->finish();
    gather_to_root(*rank.transport, "written");
    int code = root ? tell() : 0;
    code = std::stoi(broadcast_from_root(*rank.transport, std::to_string(code)));
    return code;
  } catch (const UsageError& error) {
    fmt::print(stderr, "{}\n", error.what());
    if (running_) running_->keep_traces();
    session.abort(2);
  } catch (const std::exception& error) {
    fmt::print(stderr, "the run failed: rank {}: {}{}\n", session.rank(), error.what(),
               running_ ? running_->folder.where_the_trace_is() : "");
    if (running_) running_->keep_traces();
    session.abort(1);
  }
}

}  // namespace lockstep
