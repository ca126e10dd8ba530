#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace lockstep {

/// Where a message goes, and what it is part of.
struct Route {
  int peer = 0;                    ///< the other rank, as numbered in the whole run
  int channel = 0;                 ///< messages of one channel between two ranks arrive in order
  const char* operation = "send";  ///< what the bytes are counted under; static lifetime
  std::source_location where = std::source_location::current();
  const char* group = nullptr;  ///< whose message it is; lives as long as the run
  /// Of a collective's messages: what all its members must agree on; -1 and null where nothing is
  /// said.
  std::int64_t whole = -1;          ///< bytes of the whole collective
  std::int64_t number = -1;         ///< among the collectives of its group, from 0
  int root = -1;                    ///< a member of the group
  const char* algorithm = nullptr;  ///< lives as long as the run
};

/// Where in the program a message was asked for: file:line.
std::string place(const std::source_location& where);
/// for rank 1 to send 20 bytes in all_reduce of dp (train.cpp:12): what a message waits for.
std::string waits_for(const Route& route, bool is_send, std::int64_t bytes);

/// One end of a message, for the telling.
struct MessageEnd {
  int rank;
  Route route;
  std::int64_t bytes;
  std::string place;
};
/// Both ends of a message as a person would put it, where they do not fit together.
std::string mismatch(const MessageEnd& sender, const MessageEnd& receiver);
/// rank 1: the all_reduce of dp (train.cpp:12) was dropped before it was done: why `rank` can do no
/// other collective of that group.
std::string dropped(int rank, const Route& route);
/// Whether two messages are of one call: of one collective of one group, which both see alike, or
/// both of none. Names count up to the 23rd letter.
bool same_call(const Route& one, const Route& other);
/// The same, and as many bytes.
bool fit_together(const Route& sent, std::int64_t sent_bytes, const Route& received,
                  std::int64_t received_bytes);

}  // namespace lockstep
