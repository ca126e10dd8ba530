#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdlib>

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  // `./lockstep test --slowest` reads the duration of each test case from the log.
  if (std::getenv("LOCKSTEP_TEST_DURATIONS") != nullptr) context.setOption("duration", true);
  return context.run();
}
