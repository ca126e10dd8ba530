#include <cstdio>
#include <exception>

#include "core/base/error.h"
#include "viz/app/app.h"

int main(int argc, char** argv) {
  try {
    const auto parsed = lockstep::viz::parse_options(argc, argv);
    if (parsed.exit_code) return *parsed.exit_code;
    lockstep::viz::App app{parsed.options};
    return app.run();
  } catch (const lockstep::UsageError& error) {
    std::fprintf(stderr, "lockstep_view: %s\n", error.what());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "lockstep_view: %s\n", error.what());
    return 1;
  }
}
