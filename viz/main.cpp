#include <cstdio>
#include <exception>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "viz/app/app.h"
#include "viz/app/export.h"

int main(int argc, char** argv) {
  try {
    const auto parsed = lockstep::viz::parse_options(argc, argv);
    if (parsed.exit_code) return *parsed.exit_code;
    if (!parsed.options.exports.empty()) {
      lockstep::viz::export_files(parsed.options);
      return 0;
    }
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
