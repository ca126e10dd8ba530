#pragma once

#include <string>

namespace lockstep {

/// The default corpus: the README of every lesson, in order, as one text. Throws UsageError where
/// the texts are not found.
std::string text_of_the_lessons();

}  // namespace lockstep
