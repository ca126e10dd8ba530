#include "core/operations/collective.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/base/error.h"

namespace lockstep {

const char* name_of(Algorithm algorithm) {
  constexpr const char* names[] = {
      "ring",         "naive",       "tree",  "recursive_doubling", "rabenseifner",
      "hierarchical", "double_tree", "rings", "in_switch"};
  return names[static_cast<std::size_t>(algorithm)];
}

const char* name_of(Collective::Choice choice) {
  constexpr const char* names[] = {"given", "by cost", "by cost or switch"};
  return names[static_cast<std::size_t>(choice)];
}

Algorithm algorithm_of(const std::string& name) {
  std::string wanted = name;
  std::replace(wanted.begin(), wanted.end(), '-', '_');
  std::string known;
  for (const Algorithm algorithm : all_algorithms) {
    if (wanted == name_of(algorithm)) return algorithm;
    known += fmt::format("{}{}", known.empty() ? "" : ", ", name_of(algorithm));
  }
  throw UsageError(fmt::format("--algorithm {}: unknown; choose one of {}", name, known));
}

}  // namespace lockstep
