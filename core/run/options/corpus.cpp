#include "core/run/options/corpus.h"

#include <filesystem>
#include <fstream>
#include <sstream>
#include <system_error>

#include "core/base/error.h"

namespace lockstep {

std::string default_corpus() {
  std::ifstream file{LOCKSTEP_SOURCE_DIR "/lessons/corpus.txt", std::ios::binary};
  std::ostringstream text;
  if (!file || !(text << file.rdbuf()))
    throw UsageError("the default corpus, " LOCKSTEP_SOURCE_DIR
                     "/lessons/corpus.txt, cannot be read; "
                     "name a text with --data FILE");
  return text.str();
}

std::string file_of_data(const std::string& name) {
  const std::filesystem::path of_tree = std::filesystem::path{LOCKSTEP_SOURCE_DIR} / name;
  std::error_code unreadable;  // then reading the file says why
  if (std::filesystem::exists(name, unreadable) || unreadable) return name;
  return std::filesystem::exists(of_tree, unreadable) ? of_tree.string() : name;
}

}  // namespace lockstep
