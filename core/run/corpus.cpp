#include "core/run/corpus.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/base/error.h"

namespace lockstep {

namespace fs = std::filesystem;

std::string text_of_the_lessons() {
  const fs::path lessons = fs::path{LOCKSTEP_SOURCE_DIR} / "lessons";
  std::vector<fs::path> texts;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(lessons, error))
    if (fs::exists(entry.path() / "README.md")) texts.push_back(entry.path() / "README.md");
  if (texts.empty())
    throw UsageError(
        "the lessons' texts are not where they were when this was built; name a text "
        "with --data FILE");
  std::sort(texts.begin(), texts.end());
  std::ostringstream all;
  for (const fs::path& path : texts) all << std::ifstream{path, std::ios::binary}.rdbuf();
  return all.str();
}

}  // namespace lockstep
