#pragma once

#include <string>

namespace lockstep {

/// The default corpus, lessons/corpus.txt: the text of the lessons' pages, kept as a separate file
/// so that losses stay the same when a page is edited. Throws UsageError if it cannot be read.
std::string default_corpus();

/// Returns the file that --data names: `name`, or if there is no such file here, the one of this
/// name in the source tree, such as lessons/09_1f1b/demo.txt.
std::string file_of_data(const std::string& name);

}  // namespace lockstep
