#include <fmt/format.h>
#include <iomanip>
#include <iostream>
#include <regex>
#include <sstream>

#include "exercises/02_token_ring/task.h"

// Prints in every possible way, which changes variables of libraries.

namespace lockstep::exercises {

float pass_token(World& world, float token, float mine) {
  static const std::regex digits{"[0-9]+"};
  std::ostringstream text;
  text << std::setprecision(9) << std::hex << world.rank();
  std::cout << std::boolalpha << std::regex_search(text.str(), digits) << '\n';
  std::cerr << fmt::format("{:.1f}", token) << std::endl;
  const int N = world.size();
  if (N == 1) return token + mine;
  if (world.rank() == 0) world.send(std::span{&token, 1}, 1).wait();
  world.receive(std::span{&token, 1}, (world.rank() + N - 1) % N).wait();
  std::cout << std::fixed << std::setw(12) << token << '\n';
  token += mine;
  if (world.rank() != 0) world.send(std::span{&token, 1}, (world.rank() + 1) % N).wait();
  return token;
}

}  // namespace lockstep::exercises
