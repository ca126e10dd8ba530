#include "core/trace/viewer_address.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "core/base/error.h"

namespace lockstep {

namespace {

/// Returns nothing if the host can't be resolved.
std::vector<SocketAddress> resolve(const std::string& host, const std::string& port, int flags) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), port.c_str(), &hints, &found) != 0) return {};
  std::vector<SocketAddress> addresses;
  for (const addrinfo* each = found; each != nullptr; each = each->ai_next) {
    SocketAddress& address = addresses.emplace_back();
    address.size = std::min<socklen_t>(each->ai_addrlen, sizeof address.address);
    std::memcpy(&address.address, each->ai_addr, address.size);
  }
  ::freeaddrinfo(found);
  return addresses;
}

}  // namespace

ViewerAddress::ViewerAddress(const std::string& viewer) {
  const auto colon = viewer.rfind(':');
  host_ = colon == std::string::npos ? "" : viewer.substr(0, colon);
  port_ = colon == std::string::npos ? viewer : viewer.substr(colon + 1);
  if (host_.size() > 2 && host_.front() == '[' && host_.back() == ']')
    host_ = host_.substr(1, host_.size() - 2);
  if (host_.empty()) host_ = "127.0.0.1";
  const bool digits =
      !port_.empty() && port_.size() <= 5 &&
      std::all_of(port_.begin(), port_.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (!digits || std::atoi(port_.c_str()) < 1 || std::atoi(port_.c_str()) > 65535)
    throw UsageError(fmt::format("--view {}: give HOST:PORT, such as 127.0.0.1:7077", viewer));
}

std::string ViewerAddress::on_this_machine() const {
  in_addr address{};
  const bool is_loopback =
      host_ == "localhost" || host_ == "::1" ||
      (::inet_pton(AF_INET, host_.c_str(), &address) == 1 && ntohl(address.s_addr) >> 24 == 127);
  if (!is_loopback) return {};
  return fmt::format("{}:{}", host_ == "::1" ? "[::1]" : host_, std::atoi(port_.c_str()));
}

const std::vector<SocketAddress>* ViewerAddress::addresses() {
  if (lookup_ && !lookup_->done) return nullptr;
  if (lookup_) {
    addresses_ = std::move(lookup_->found);
    lookup_.reset();
    return &addresses_;
  }
  if (addresses_.empty()) addresses_ = resolve(host_, port_, AI_NUMERICHOST);
  if (!addresses_.empty()) return &addresses_;
  lookup_ = std::make_shared<Lookup>();
  std::thread{[lookup = lookup_, host = host_, port = port_] {
    lookup->found = resolve(host, port, 0);
    lookup->done = true;
  }}.detach();
  return nullptr;
}

}  // namespace lockstep
