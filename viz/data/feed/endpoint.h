#pragma once

#include <sys/socket.h>
#include <sys/types.h>

#include <cstdint>
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

/// The owners of this machine's TCP sockets. The kernel answers a question about one socket in
/// microseconds (sock_diag(7)). If it has not answered any, its tables are read instead
/// (proc_net(5)), which list all sockets of this machine, so one pass over them looks for many. All
/// files stay open, so that a look-up needs no new descriptor.
class SocketOwners {
 public:
  /// Without `may_ask`, only reads the tables.
  explicit SocketOwners(bool may_ask = true);
  ~SocketOwners();
  SocketOwners(const SocketOwners&) = delete;
  SocketOwners& operator=(const SocketOwners&) = delete;

  /// Returns, for each of these connections within this machine, the user who owns the other end;
  /// or nothing if that end is already closed or the kernel does not say.
  std::vector<std::optional<uid_t>> users_of_peers(std::span<const int> sockets);
  /// Returns the number of passes over the tables so far.
  int table_passes() const { return table_passes_; }

 private:
  std::optional<uid_t> ask(const sockaddr_storage& local, const sockaddr_storage& remote);

  int kernel_ = -1;          ///< a netlink socket; -1 if there is none
  std::uint32_t asked_ = 0;  ///< questions so far
  bool answers_ = false;     ///< whether the kernel has described a socket
  int table_passes_ = 0;
  std::ifstream tcp_{"/proc/net/tcp"}, tcp6_{"/proc/net/tcp6"};
};

}  // namespace lockstep::viz
