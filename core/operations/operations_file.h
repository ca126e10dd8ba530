#pragma once

#include <string>

#include "core/operations/run_operations.h"

namespace lockstep {

/// Returns the text of a file of operations, as JSON:
///
///   {"lockstep_operations":1,"run":"20260131-120000-09","lesson":"09 1F1B",
///    "cluster":{...},"time":{"forward":1000000},"slow":{"3":2},"choices":[],
///    "operations":[
///   {"begin":"action","category":"forward","stage":0,"microbatch":2},
///   {"kernel":"linear","in":"forward","stage":0,"layer":1,"flops":4096,"bytes":1024,
///    "product":[16,16,8]},
///   {"end":"forward"},
///   {"send":4096,"to":1,"stream":2,"channel":5,"axis":"pp","stage":0,"microbatch":2},
///   {"collective":"all_reduce","algorithm":"ring","group":1,"elements":64,"dtype":"f32"},
///   {"wait":1},{"together":true}],
///    "lists":[[0,1,2]],"groups":[{"name":"dp","channel":3,"ranks":[0,1]}],
///    "ranks":[{"groups":[0],"sections":[[-1,0],[0,1]]}]}
///
/// "time" and "slow" are ModelledTime's, in picoseconds and by rank; "to" and "from" are ranks
/// relative to the rank of the operation; a section is [step, list].
std::string text_of(const RunOperations& run);

/// Parses such a text, even if Lockstep did not write it. Time and memory are linear in its length.
/// Throws UsageError if it is invalid; the one-line message begins with `where`. In valid
/// operations, all indices, ranks and groups exist, and each wait refers to an earlier operation.
RunOperations parse_operations(const std::string& text, const std::string& where);

/// Reads operations.json in a run's folder, or the file itself. Throws UsageError if the file is
/// invalid or missing; if it is missing, the message explains why a run may not have written one.
RunOperations read_operations(const std::string& folder_or_file);

/// Whether the file begins like Lockstep's operations files, or is empty.
bool is_operations_file(const std::string& path);

}  // namespace lockstep
