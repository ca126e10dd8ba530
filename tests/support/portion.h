#pragma once

#include <algorithm>
#include <cstdlib>
#include <vector>

namespace lockstep::testing {

/// Returns whether tests go through all of their cases, as `./lockstep test --all` asks by setting
/// LOCKSTEP_TEST_ALL. Otherwise the longest tests go through a portion of them.
inline bool all_cases() {
  return std::getenv("LOCKSTEP_TEST_ALL") != nullptr;
}

/// Returns the first `quick` cases, or every case with all_cases(). List the cases that are most
/// likely to fail first.
template <class Case>
std::vector<Case> portion(std::vector<Case> cases, std::size_t quick) {
  if (!all_cases()) cases.resize(std::min(quick, cases.size()));
  return cases;
}

/// Returns `quick`, or `all` with all_cases(): for example the number of random trials.
template <class Number>
Number portion_of(Number all, Number quick) {
  return all_cases() ? all : quick;
}

}  // namespace lockstep::testing
