#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace lockstep {

/// A side of a message.
enum class Direction : std::uint8_t { send, receive };

/// A message's peer and channel, and the operation it belongs to.
struct Route {
  int peer = 0;                    ///< the other rank, as numbered in the whole run
  int channel = 0;                 ///< messages on one channel between two ranks arrive in order
  const char* operation = "send";  ///< the name that the bytes are counted under; static lifetime
  std::source_location where = std::source_location::current();
  const char* group = nullptr;  ///< the group's name; lives as long as the run
  /// For a collective's messages: properties on which all members must agree; -1 and null mean
  /// unspecified.
  std::int64_t whole = -1;          ///< bytes of the whole collective
  std::int64_t number = -1;         ///< among the collectives of its group, from 0
  int root = -1;                    ///< a member of the group
  const char* algorithm = nullptr;  ///< lives as long as the run
};

/// The source line that issued a message, as file:line.
std::string place(const std::source_location& where);
/// Describes what a message waits for: "for rank 1 to send 20 bytes in all_reduce of dp
/// (train.cpp:12)".
std::string waits_for(const Route& route, bool is_send, std::int64_t bytes);

/// One end of a message, for error messages.
struct MessageEnd {
  int rank;
  Route route;
  std::int64_t bytes;
  std::string place;
};
/// Describes two message ends that do not match.
std::string mismatch(const MessageEnd& sender, const MessageEnd& receiver);
/// Explains why `rank` can run no other collective of that group: "rank 1: the all_reduce of dp
/// (train.cpp:12) was dropped before it was done".
std::string dropped(int rank, const Route& route);
/// Whether two messages belong to the same call: the same collective of the same group with the
/// same properties, or no collective at all. Names are compared up to their 23rd character.
bool same_call(const Route& one, const Route& other);
/// Whether they belong to the same call and have the same size.
bool fit_together(const Route& sent, std::int64_t sent_bytes, const Route& received,
                  std::int64_t received_bytes);

}  // namespace lockstep
