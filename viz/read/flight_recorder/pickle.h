#pragma once

#include <string>

#include "viz/read/flight_recorder/values.h"

namespace lockstep::flight {

/// Returns whether a file's first bytes are those of a pickle of protocol 2 to 5.
bool is_pickle(std::string_view beginning);

/// Reads a pickle of protocol 2 to 5 that consists of dictionaries, lists, tuples, texts, bytes,
/// numbers, booleans and None, as torch's flight recorder and Python's pickle.dump write it.
///
/// A pickle is a program for a small machine, and some of its opcodes import and call functions.
/// This reader executes nothing: it refuses any opcode that does not describe plain data, and names
/// the opcode and its offset. Time is linear in the file's size, memory is at most
/// Values::most_memory(), and nested lists need no recursion. Throws DumpError.
Document read_pickle(std::string_view content);

}  // namespace lockstep::flight
