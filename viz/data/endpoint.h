#pragma once

#include <sys/types.h>

#include <fstream>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace lockstep::viz {

/// The address that the viewer listens on.
struct Endpoint {
  std::string host = "127.0.0.1";
  int port = 7077;
};
/// Parses "7078", ":7078", "0.0.0.0:7077" or "[::1]:7077". Throws UsageError.
Endpoint parse_endpoint(const std::string& text);
/// Resolves the host and returns whether only this machine can reach the address. Returns false if
/// the name can't be resolved.
bool is_loopback(const Endpoint& endpoint);

/// A listening, non-blocking socket.
struct Listener {
  int socket = -1;
  int port = 0;           ///< the actual port if 0 was given
  bool loopback = false;  ///< whether only this machine can reach it
};
/// Throws UsageError, with a suggestion, if listening fails, or if other machines can reach the
/// address and the viewer has no token.
Listener listen_at(const Endpoint& endpoint, bool has_token);

/// Returns the address at the other end of a connection, without the port.
std::string address_of_peer(int socket);

/// The kernel's tables of TCP sockets (proc_net(5)). They stay open, so that reading them needs no
/// new descriptor. They list all connections of this machine, whoever made them, so
/// one pass over them looks for many sockets.
class SocketTable {
 public:
  /// Returns, for each of these connections within this machine, the user who owns the other end;
  /// or nothing if that end is already closed or the tables can't be read.
  std::vector<std::optional<uid_t>> users_of_peers(std::span<const int> sockets);

 private:
  std::ifstream tcp_{"/proc/net/tcp"}, tcp6_{"/proc/net/tcp6"};
};

}  // namespace lockstep::viz
