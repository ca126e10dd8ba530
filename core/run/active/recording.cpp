#include "core/run/active/recording.h"

#include "core/comm/mpi/environment.h"
#include "core/run/files/rank_message.h"

namespace lockstep {

void Recording::open(RunFolder folder_, const Options& options, bool replays) {
  const Output& output = options.output;
  folder = std::move(folder_);
  if (output.traced())
    writer = std::make_unique<TraceWriter>(folder.path, output.view, output.view_token,
                                           [this](const std::string& why) { warn(why); });
  if (output.trace != "none" && options.plan.modelled && replays)
    operations = std::make_unique<OperationBook>(options.plan.mesh.ranks());
  open_ = true;
}

void Recording::warn(const std::string& why) {
  if (warned_.exchange(true)) return;
  write_message({RankMessage::Kind::trace_warning, under_mpi() ? mpi_rank_from_environment() : 0,
                 host_name(), console_.start_of_line() + why});
}

void Recording::keep() noexcept {
  try {
    if (writer) writer->finish(TraceWriter::in_a_hurry);
  } catch (const std::exception&) {
  }
}

}  // namespace lockstep
