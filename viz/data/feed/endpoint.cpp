#include "viz/data/feed/endpoint.h"

#include <fmt/format.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <unordered_map>

#include "core/base/error.h"
#include "core/base/number.h"

namespace lockstep::viz {
namespace {

std::string text_of(const Endpoint& endpoint) {
  return endpoint.host + ":" + std::to_string(endpoint.port);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

/// Returns null if the host can't be resolved, with the reason in `error`.
Addresses resolve(const Endpoint& endpoint, int& error) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  error =
      ::getaddrinfo(endpoint.host.c_str(), std::to_string(endpoint.port).c_str(), &hints, &found);
  return {error == 0 ? found : nullptr, &::freeaddrinfo};
}

bool is_loopback(const sockaddr* address) {
  if (address->sa_family == AF_INET6)
    return IN6_IS_ADDR_LOOPBACK(&reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr) != 0;
  return address->sa_family == AF_INET &&
         ntohl(reinterpret_cast<const sockaddr_in*>(address)->sin_addr.s_addr) >> 24 == 127;
}

[[noreturn]] void refuse(const Endpoint& endpoint, int error) {
  if (error == EADDRINUSE) {
    throw UsageError(
        fmt::format("port {0} is in use, perhaps by another viewer; close that program, or choose "
                    "another port: --listen {1} (and --view {1} for the run)",
                    endpoint.port, endpoint.port + 1));
  }
  throw UsageError("--listen " + text_of(endpoint) + ": " + std::strerror(error) +
                   "; try --listen 127.0.0.1:7077");
}

/// The 32-bit words of an address, and its port, as the kernel's tables print them.
struct TableAddress {
  std::array<std::uint32_t, 4> words{};  ///< an IPv4 address mapped to IPv6, or an IPv6 address
  unsigned port = 0;
  bool is_ipv4 = false;

  explicit TableAddress(const sockaddr_storage& address) {
    if (address.ss_family == AF_INET) {
      const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(address);
      words = {0, 0, htonl(0xffff), ipv4.sin_addr.s_addr};
      port = ntohs(ipv4.sin_port);
      is_ipv4 = true;
    } else {
      const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(address);
      std::memcpy(words.data(), &ipv6.sin6_addr, sizeof words);
      port = ntohs(ipv6.sin6_port);
    }
  }
  std::string in_tcp() const { return fmt::format("{:08X}:{:04X}", words[3], port); }
  std::string in_tcp6() const {
    return fmt::format("{:08X}{:08X}{:08X}{:08X}:{:04X}", words[0], words[1], words[2], words[3],
                       port);
  }
};

/// The pairs of addresses to look for, as a table prints them ("LOCAL REMOTE"), and the index of
/// each pair's result.
using Wanted = std::unordered_map<std::string, std::size_t>;

/// Finds the owners of sockets in a table.
void find_owners(std::ifstream& table, const Wanted& wanted,
                 std::vector<std::optional<uid_t>>& users) {
  if (wanted.empty()) return;
  table.clear();
  table.seekg(0);
  const std::size_t length = wanted.begin()->first.size();
  std::string addresses;
  for (std::string line; std::getline(table, line);) {
    const std::size_t begin = line.find(": ");
    if (begin == std::string::npos) continue;
    addresses.assign(line, begin + 2, length);
    const auto found = wanted.find(addresses);
    unsigned user = 0;
    unsigned long inode = 0;
    if (found != wanted.end() &&
        std::sscanf(line.c_str(), "%*d: %*s %*s %*s %*s %*s %*s %u %*d %lu", &user, &inode) == 2 &&
        inode != 0)
      users[found->second] = user;
  }
}

}  // namespace

Endpoint parse_endpoint(const std::string& text) {
  Endpoint endpoint;
  const auto colon = text.rfind(':');
  std::string host = colon == std::string::npos ? "" : text.substr(0, colon);
  const std::string port = colon == std::string::npos ? text : text.substr(colon + 1);
  if (host.size() > 2 && host.front() == '[' && host.back() == ']') {
    host = host.substr(1, host.size() - 2);
  }
  if (!host.empty()) endpoint.host = host;
  endpoint.port = number_from<int>(port).value_or(-1);
  if (endpoint.port < 0 || endpoint.port > 65535)
    throw UsageError("--listen " + text + ": give [HOST:]PORT, such as 7077 or 0.0.0.0:7077");
  return endpoint;
}

bool is_loopback(const Endpoint& endpoint) {
  int error = 0;
  const Addresses found = resolve(endpoint, error);
  return found && is_loopback(found->ai_addr);
}

Listener listen_at(const Endpoint& endpoint, bool has_token) {
  int error = 0;
  const Addresses found = resolve(endpoint, error);
  if (!found) {
    throw UsageError("--listen " + text_of(endpoint) + ": " + ::gai_strerror(error) +
                     "; give an address of this machine, such as 127.0.0.1:7077");
  }
  Listener listener{.loopback = is_loopback(found->ai_addr)};
  if (!listener.loopback && !has_token) {
    throw UsageError("--listen " + text_of(endpoint) +
                     " opens the viewer to other machines; add --token-file FILE and give the run "
                     "--view-token-file FILE, or listen on this machine only: --listen " +
                     std::to_string(endpoint.port));
  }
  listener.socket =
      ::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, found->ai_protocol);
  if (listener.socket < 0) refuse(endpoint, errno);
  const int on = 1;
  ::setsockopt(listener.socket, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::bind(listener.socket, found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener.socket, SOMAXCONN) != 0 ||
      ::getsockname(listener.socket, reinterpret_cast<sockaddr*>(&address), &size) != 0) {
    error = errno;
    ::close(listener.socket);
    refuse(endpoint, error);
  }
  listener.port = static_cast<int>(TableAddress{address}.port);
  return listener;
}

std::string address_of_peer(int socket) {
  char host[NI_MAXHOST] = "";
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0)
    ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host, sizeof host, nullptr, 0,
                  NI_NUMERICHOST);
  return host;
}

SocketOwners::SocketOwners(bool may_ask) {
  if (may_ask) kernel_ = ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG);
}

SocketOwners::~SocketOwners() {
  if (kernel_ >= 0) ::close(kernel_);
}

/// Asks the kernel for the owner of the socket with these addresses.
std::optional<uid_t> SocketOwners::ask(const sockaddr_storage& local,
                                       const sockaddr_storage& remote) {
  struct {
    nlmsghdr header{.nlmsg_len = sizeof(nlmsghdr) + sizeof(inet_diag_req_v2),
                    .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                    .nlmsg_flags = NLM_F_REQUEST,
                    .nlmsg_seq = 0};
    inet_diag_req_v2 body{};
  } question;
  question.header.nlmsg_seq = ++asked_;
  question.body.sdiag_family = static_cast<__u8>(local.ss_family);
  question.body.sdiag_protocol = IPPROTO_TCP;
  question.body.idiag_states = ~0U;
  inet_diag_sockid& id = question.body.id;
  const auto copy = [](const sockaddr_storage& from, __be16& port, __be32(&address)[4]) {
    if (from.ss_family == AF_INET) {
      const auto& ipv4 = reinterpret_cast<const sockaddr_in&>(from);
      port = ipv4.sin_port;
      address[0] = ipv4.sin_addr.s_addr;
    } else {
      const auto& ipv6 = reinterpret_cast<const sockaddr_in6&>(from);
      port = ipv6.sin6_port;
      std::memcpy(address, &ipv6.sin6_addr, sizeof address);
    }
  };
  copy(local, id.idiag_sport, id.idiag_src);
  copy(remote, id.idiag_dport, id.idiag_dst);
  id.idiag_cookie[0] = id.idiag_cookie[1] = INET_DIAG_NOCOOKIE;
  if (::send(kernel_, &question, sizeof question, 0) < 0) return {};
  alignas(nlmsghdr) char answer[4096];
  const ssize_t size = ::recv(kernel_, answer, sizeof answer, MSG_DONTWAIT);
  const auto& header = reinterpret_cast<const nlmsghdr&>(answer);
  if (size < static_cast<ssize_t>(sizeof header + sizeof(inet_diag_msg)) ||
      header.nlmsg_type != SOCK_DIAG_BY_FAMILY || header.nlmsg_seq != asked_)
    return {};
  answers_ = true;
  const auto& socket = reinterpret_cast<const inet_diag_msg&>(answer[sizeof header]);
  // After its process has closed a socket, the kernel keeps it for a while without an inode, as if
  // root owned it. The tables do so, too.
  if (socket.idiag_inode == 0) return {};
  return socket.idiag_uid;
}

std::vector<std::optional<uid_t>> SocketOwners::users_of_peers(std::span<const int> sockets) {
  std::vector<std::optional<uid_t>> users(sockets.size());
  Wanted in_tcp, in_tcp6;
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    sockaddr_storage ours{}, theirs{};
    socklen_t size = sizeof ours;
    if (::getsockname(sockets[i], reinterpret_cast<sockaddr*>(&ours), &size) != 0) continue;
    size = sizeof theirs;
    if (::getpeername(sockets[i], reinterpret_cast<sockaddr*>(&theirs), &size) != 0) continue;
    if (kernel_ >= 0) users[i] = ask(theirs, ours);
    // A kernel that can't describe sockets answers as if there were no such socket.
    if (answers_) continue;
    const TableAddress remote{ours}, local{theirs};
    if (local.is_ipv4) in_tcp.emplace(local.in_tcp() + " " + remote.in_tcp(), i);
    in_tcp6.emplace(local.in_tcp6() + " " + remote.in_tcp6(), i);
  }
  if (in_tcp6.empty()) return users;
  ++table_passes_;
  find_owners(tcp6_, in_tcp6, users);
  find_owners(tcp_, in_tcp, users);
  return users;
}

}  // namespace lockstep::viz
