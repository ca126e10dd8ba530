#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace lockstep::testing {

/// Returns whether tests run all of their cases; `./lockstep test --all` requests this by setting
/// LOCKSTEP_TEST_ALL. Otherwise, the longest tests run only a portion.
inline bool all_cases() {
  return std::getenv("LOCKSTEP_TEST_ALL") != nullptr;
}

/// Returns the first `quick` cases, or all cases if all_cases() is true. Put the cases that are
/// most likely to fail at the beginning of the list.
template <class Case>
std::vector<Case> portion(std::vector<Case> cases, std::size_t quick) {
  if (!all_cases()) cases.resize(std::min(quick, cases.size()));
  return cases;
}

/// Returns `quick`, or `all` if all_cases() is true. Use it for the number of random trials, for
/// example.
template <class Number>
Number portion_of(Number all, Number quick) {
  return all_cases() ? all : quick;
}

}  // namespace lockstep::testing
