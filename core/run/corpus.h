#pragma once

#include <string>

namespace lockstep {

/// The default corpus, lessons/corpus.txt: the text of the lessons' pages, kept as a separate file
/// so that losses stay the same when a page is edited. Throws UsageError if it cannot be read.
std::string default_corpus();

}  // namespace lockstep
