// The main function of every exercise's check: exit code 0 if the answer is right, 1 if it is
// wrong, 3 if it has not been written.

#include <fmt/format.h>

#include <cstdlib>
#include <random>
#include <string_view>

#include "exercises/frame/check.h"

using namespace lockstep::exercises;

int main(int argc, char** argv) {
  std::uint64_t seed = std::random_device{}();
  if (argc == 3 && std::string_view{argv[1]} == "--seed")
    seed = std::strtoull(argv[2], nullptr, 10);
  Check trial{seed};
  try {
    check(trial);
  } catch (const NotWritten&) {
    fmt::print("not written yet\n");
    return 3;
  } catch (const Wrong& wrong) {
    fmt::print("{}\n\n{}\n\n(the same numbers again: --seed {})\n", wrong.what(), wrong.why, seed);
    return 4;
  }
  fmt::print("{} cases are right. {}\n", trial.cases(), learned);
  return 0;
}
