#include "core/run/corpus.h"

#include <fstream>
#include <sstream>

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

}  // namespace lockstep
