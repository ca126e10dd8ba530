#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "core/base/child_process.h"
#include "core/base/program.h"
#include "core/base/token.h"
#include "viz/app/app.h"
#include "viz/app/export.h"
#include "viz/app/summary.h"

namespace {

/// Without a display, takes a picture on a virtual one: replaces this process with this program
/// under xvfb-run, if xvfb-run is installed.
void use_virtual_display(const lockstep::viz::ViewerOptions& options, int argc, char** argv) {
  if (!options.screenshot || std::getenv("DISPLAY") != nullptr ||
      std::getenv("WAYLAND_DISPLAY") != nullptr)
    return;
  std::vector<std::string> words{"xvfb-run", "-a", "-s", "-screen 0 1600x1000x24",
                                 std::filesystem::read_symlink("/proc/self/exe")};
  for (std::string& word : lockstep::arguments_without({"--token", "--token-file"}, argc, argv))
    words.push_back(std::move(word));
  if (!options.token.empty()) ::setenv(lockstep::token_variable, options.token.c_str(), 1);
  const std::vector<char*> arguments = lockstep::pointers_to(words);
  ::execvp(arguments.front(), arguments.data());
}

int view(int argc, char** argv) {
  const auto options = lockstep::viz::parse_options(argc, argv);
  if (!options) return 0;
  if (!options->exports.empty()) {
    lockstep::viz::export_files(*options);
    return 0;
  }
  if (options->summary) {
    std::fputs(lockstep::viz::summary_of(*options).c_str(), stdout);
    return 0;
  }
  use_virtual_display(*options, argc, argv);
  auto app = std::make_unique<lockstep::viz::App>(*options);
  for (;;) {
    const int code = app->run();
    const auto chosen = app->take_chosen();
    if (!chosen) return code;
    try {
      app = std::make_unique<lockstep::viz::App>(*chosen, app.get());
    } catch (const std::exception& error) {
      app->report(error.what());
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  return lockstep::run_program([&] { return view(argc, argv); }, "lockstep_view: ");
}
