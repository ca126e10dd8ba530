#include "core/comm/transport/route.h"

#include <fmt/format.h>

#include <cstring>
#include <filesystem>

namespace lockstep {

namespace {

bool is_collective(const Route& route) {
  return std::strcmp(route.operation, "send") != 0 && std::strcmp(route.operation, "recv") != 0;
}

/// Compares only the part of the names that MPI transmits with a message.
bool same_name(const char* a, const char* b) {
  constexpr std::size_t travels = 23;
  return std::strncmp(a != nullptr ? a : "", b != nullptr ? b : "", travels) == 0;
}

/// Returns, for example, "all_reduce of 40 bytes in dp (train.cpp:12)" or "8 bytes (train.cpp:13)".
/// Includes the algorithm, root and number only if `other` differs in them.
std::string describe(const MessageEnd& end, const MessageEnd& other) {
  const Route& route = end.route;
  const std::string group = route.group != nullptr ? fmt::format(" in {}", route.group) : "";
  if (!is_collective(route))
    return fmt::format("{} bytes{} ({})", end.bytes,
                       same_name(route.group, other.route.group) ? "" : group, end.place);
  std::string text = route.operation;
  if (is_collective(other.route)) {
    if (!same_name(route.algorithm, other.route.algorithm))
      text += fmt::format(" by {}", route.algorithm != nullptr ? route.algorithm : "?");
    if (route.root != other.route.root && route.root >= 0)
      text += fmt::format(" with member {} as root", route.root);
    if (route.number != other.route.number)
      text += fmt::format(" as collective number {}", route.number + 1);
  }
  return fmt::format("{} of {} bytes{} ({})", text, route.whole >= 0 ? route.whole : end.bytes,
                     group, end.place);
}

}  // namespace

std::string place(const std::source_location& where) {
  return fmt::format("{}:{}", std::filesystem::path(where.file_name()).filename().string(),
                     where.line());
}

bool same_call(const Route& one, const Route& other) {
  if (is_collective(one) != is_collective(other) || !same_name(one.group, other.group))
    return false;
  return !is_collective(one) ||
         (same_name(one.operation, other.operation) && same_name(one.algorithm, other.algorithm) &&
          one.whole == other.whole && one.number == other.number && one.root == other.root);
}

bool fit_together(const Route& sent, std::int64_t sent_bytes, const Route& received,
                  std::int64_t received_bytes) {
  return sent_bytes == received_bytes && same_call(sent, received);
}

std::string waits_for(const Route& route, bool is_send, std::int64_t bytes) {
  std::string part;
  if (is_collective(route)) part = fmt::format(" in {}", route.operation);
  if (is_collective(route) && route.group != nullptr) part += fmt::format(" of {}", route.group);
  return fmt::format("for rank {} to {} {} bytes{} ({})", route.peer, is_send ? "receive" : "send",
                     bytes, part, place(route.where));
}

std::string dropped(int rank, const Route& route) {
  return fmt::format(
      "rank {}: the {}{} ({}) was dropped before it was done, so no collective can follow it", rank,
      route.operation, route.group != nullptr ? fmt::format(" of {}", route.group) : "",
      place(route.where));
}

std::string mismatch(const MessageEnd& sender, const MessageEnd& receiver) {
  const bool calls = is_collective(sender.route) && is_collective(receiver.route);
  return fmt::format("ranks disagree: rank {} {} {} but rank {} {} {}", sender.rank,
                     calls ? "calls" : "sends", describe(sender, receiver), receiver.rank,
                     calls ? "calls" : "receives", describe(receiver, sender));
}

}  // namespace lockstep
