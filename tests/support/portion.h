#pragma once

#include <algorithm>
#include <cstdlib>
#include <utility>
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

/// Returns each element of `firsts` with each element of `seconds`. The first |firsts| cases all
/// have different firsts, and neighbours have different seconds, so a portion covers much of both.
template <class First, class Second>
std::vector<std::pair<First, Second>> combinations(const std::vector<First>& firsts,
                                                   const std::vector<Second>& seconds) {
  std::vector<std::pair<First, Second>> all;
  for (std::size_t shift = 0; shift < seconds.size(); ++shift)
    for (std::size_t i = 0; i < firsts.size(); ++i)
      all.emplace_back(firsts[i], seconds[(shift + i) % seconds.size()]);
  return all;
}

/// Returns `quick`, or `all` if all_cases() is true. Use it for the number of random trials, for
/// example.
template <class Number>
Number portion_of(Number all, Number quick) {
  return all_cases() ? all : quick;
}

/// Returns the number of steps that a test trains, which is `all` only if all_cases() is true.
/// Eight steps show a wrong gradient or update as well as twenty.
inline int training_steps(int all = 20) {
  return portion_of(all, std::min(all, 8));
}

/// Returns the upper bound on the final loss, relative to the initial loss, after training_steps().
/// After all steps, it is `left`.
inline double learned(double left = 0.8) {
  return portion_of(left, 1 - (1 - left) / 5);
}

}  // namespace lockstep::testing
