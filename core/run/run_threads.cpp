#include <fmt/format.h>

#include <exception>
#include <thread>

#include "core/base/error.h"
#include "core/comm/threads_transport.h"
#include "core/run/launch.h"
#include "core/run/running.h"

namespace lockstep {

// Ranks as threads of this process.
int Lesson::run_threads(const std::function<void(Rank&)>& body) {
  const int count = options_->ranks;
  ThreadFabric fabric{count};
  running_ = std::make_unique<Running>(*options_, RunFolder::create(options_->trace, info_.name),
                                       Console::detect());
  running_->folder.begin();
  SignalWatch watch{[&](int) {
    // What has been written so far stays; the ranks are not asked.
    running_->keep_traces();
    running_->folder.merge(options_->ranks);
    fmt::print(stderr, "\ninterrupted{}\n", running_->folder.where_the_trace_is());
    std::_Exit(130);
  }};
  introduce();
  options_->clock.set_start_nanoseconds(steady_nanoseconds());

  std::vector<std::unique_ptr<Rank>> ranks;
  for (int id = 0; id < count; ++id)
    ranks.push_back(std::make_unique<Rank>(*options_, fabric.endpoint(id)));
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  std::vector<std::thread> threads;
  for (int id = 0; id < count; ++id) {
    threads.emplace_back([&, id] {
      try {
        train(*ranks[static_cast<std::size_t>(id)], body);
        fabric.finish(id);
      } catch (const UsageError& error) {
        errors[static_cast<std::size_t>(id)] = std::current_exception();
        fabric.fail(error.what());
      } catch (const RunError& error) {
        fabric.fail(error.what());  // its own, or what it heard from another
      } catch (const std::exception& error) {
        fabric.fail(fmt::format("rank {}: {}", id, error.what()));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  running_->progress.end();
  if (const std::string failure = fabric.failure(); !failure.empty()) {
    running_->keep_traces(TraceWriter::patient);
    running_->folder.merge(count);
    for (const std::exception_ptr& error : errors)
      if (error) std::rethrow_exception(error);
    throw RunError(
        fmt::format("the run failed: {}{}", failure, running_->folder.where_the_trace_is()));
  }
  if (running_->writer) running_->writer->finish();
  for (const Running::Live& live : running_->live) running_->records.push_back(live.record);
  return tell();
}

}  // namespace lockstep
