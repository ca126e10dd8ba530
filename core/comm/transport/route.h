#pragma once

#include <cstdint>
#include <source_location>
#include <string>

namespace lockstep {

/// One of the two sides of a message: the sender's or the receiver's.
enum class Direction : std::uint8_t { send, receive };

/// A message's peer and channel, and the operation that it belongs to.
struct Route {
  int peer = 0;                    ///< the other rank, as numbered in the whole run
  int channel = 0;                 ///< messages on one channel between two ranks arrive in order
  const char* operation = "send";  ///< a string literal; traffic is counted under this name
  std::source_location where = std::source_location::current();
  const char* group = nullptr;  ///< the group's name; lives as long as the run
  // Properties of a collective, on which all members must agree; -1 or null if unspecified.
  std::int64_t whole = -1;          ///< bytes of the whole collective
  std::int64_t number = -1;         ///< index of the collective in its group, from 0
  int root = -1;                    ///< a member of the group
  const char* algorithm = nullptr;  ///< its name; lives as long as the run
};

/// Formats a source location as file:line.
std::string place(const std::source_location& where);
/// Describes what a message waits for: "for rank 1 to send 20 bytes in all_reduce of dp
/// (train.cpp:12)".
std::string waits_for(const Route& route, bool is_send, std::int64_t bytes);

/// One side of a message, for error messages.
struct MessageEnd {
  int rank;
  Route route;
  std::int64_t bytes;
  std::string place;
};
/// Describes a send and a receive that do not match.
std::string mismatch(const MessageEnd& sender, const MessageEnd& receiver);
/// Explains why `rank` can run no more collectives of the route's group: "rank 1: the all_reduce of
/// dp (train.cpp:12) was dropped before it was done ...".
std::string dropped(int rank, const Route& route);
/// Whether two messages belong to the same collective of the same group with the same properties,
/// or neither belongs to a collective. Compares the first 23 characters of each name.
bool same_call(const Route& one, const Route& other);
/// Whether a send and a receive match: they belong to the same call and have the same size.
bool fit_together(const Route& sent, std::int64_t sent_bytes, const Route& received,
                  std::int64_t received_bytes);

}  // namespace lockstep
