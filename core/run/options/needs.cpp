#include "core/run/options/needs.h"

#include <fmt/format.h>

#include "core/trace/viewer_address.h"

namespace lockstep {

std::string needs_of(const Options& options) {
  const auto& [plan, run, platform, output] = options;
  std::string needs =
      fmt::format("ranks {}\nmicrobatches {}\n", plan.mesh.ranks(), plan.batch.microbatches);
  if (!output.view.empty()) {
    const std::string address = ViewerAddress{output.view}.on_this_machine();
    needs += fmt::format("viewer {}\n", address.empty() ? "elsewhere" : address);
  }
  if (platform.on_gpus())
    needs += fmt::format("gpu {}\n", platform.hosts.any() ? "elsewhere" : "here");
  return needs;
}

}  // namespace lockstep
