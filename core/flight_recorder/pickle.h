#pragma once

#include <string>

#include "core/flight_recorder/values.h"

namespace lockstep::flight {

/// Returns whether a file's first bytes are those of a pickle of protocol 2 to 5.
bool is_pickle(std::string_view beginning);

/// A pickle's values, and which of them is the outermost.
struct Pickle {
  Values values;
  ValueId root = 0;
};

/// Reads a pickle of protocol 2 to 5 that consists of dictionaries, lists, tuples, texts, bytes,
/// numbers, booleans and None, as torch's flight recorder and Python's pickle.dump write it.
///
/// A pickle is a program for a small machine, and some of its opcodes import and call functions.
/// This reader executes nothing: any opcode that does not describe plain data is refused, with its
/// name and offset. Time is linear in the file's size, memory at most Values::most_memory, and
/// nested lists need no stack. Throws DumpError.
Pickle read_pickle(std::string content);

}  // namespace lockstep::flight
