#pragma once

#include <string>
#include <vector>

#include "core/base/error.h"

namespace lockstep::testing {

/// The message of the Error that `work` throws; "(nothing thrown)" if it throws none.
template <class Error, class Work>
std::string complaint_of(Work&& work) {
  try {
    work();
  } catch (const Error& error) {
    return error.what();
  }
  return "(nothing thrown)";
}

/// What is wrong with a complaint that is to be one line with all of these words in it, or "".
inline std::string unlike(const std::string& complaint, const std::vector<std::string>& words) {
  if (complaint == "(nothing thrown)" || complaint.empty()) return "no complaint";
  if (complaint.find('\n') != std::string::npos) return "not one line: " + complaint;
  for (const std::string& word : words)
    if (complaint.find(word) == std::string::npos) return "no '" + word + "' in: " + complaint;
  return "";
}

}  // namespace lockstep::testing
