#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/token.h"
#include "viz/app/app.h"
#include "viz/app/export.h"

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
  std::vector<char*> arguments;
  for (std::string& word : words) arguments.push_back(word.data());
  arguments.push_back(nullptr);
  ::execvp(arguments.front(), arguments.data());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const auto parsed = lockstep::viz::parse_options(argc, argv);
    if (parsed.exit_code) return *parsed.exit_code;
    if (!parsed.options.exports.empty()) {
      lockstep::viz::export_files(parsed.options);
      return 0;
    }
    use_virtual_display(parsed.options, argc, argv);
    lockstep::viz::ViewerOptions options = parsed.options;
    for (;;) {
      std::string next;
      {
        lockstep::viz::App app{options};
        const int code = app.run();
        next = app.chosen();
        if (next.empty()) return code;
      }
      options = parsed.options;  // the user chose a trace while waiting for a run
      options.paths = {next};
    }
  } catch (const lockstep::UsageError& error) {
    std::fprintf(stderr, "lockstep_view: %s\n", lockstep::printable(error.what()).c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep_view: %s\n", lockstep::printable(error.what()).c_str());
    return 1;
  }
}
