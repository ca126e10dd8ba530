#pragma once

#include <sys/socket.h>

#include <atomic>
#include <memory>
#include <string>
#include <vector>

namespace lockstep {

/// One address of a host.
struct SocketAddress {
  sockaddr_storage address{};
  socklen_t size = 0;
};

/// The address of a viewer: HOST:PORT, [IPv6]:PORT, or a port of this machine. Resolves a host's
/// name on a separate thread, because a resolver may take many seconds to answer.
class ViewerAddress {
 public:
  /// Throws UsageError if `viewer` is malformed.
  explicit ViewerAddress(const std::string& viewer);

  /// Returns HOST:PORT if the host is this machine by a loopback address; otherwise "".
  std::string on_this_machine() const;
  /// Returns the host's addresses (possibly none), or null while the lookup is in progress; in that
  /// case, call this again later.
  const std::vector<SocketAddress>* addresses();
  std::size_t count() const { return addresses_.size(); }
  /// Returns whether addresses() has started a lookup and has not yet returned its result.
  bool is_looking_up() const { return lookup_ != nullptr; }

 private:
  struct Lookup {
    std::atomic<bool> done{false};
    std::vector<SocketAddress> found;
  };

  std::string host_, port_;
  std::vector<SocketAddress> addresses_;
  std::shared_ptr<Lookup> lookup_;  ///< shared with its thread, which may outlive this object
};

}  // namespace lockstep
