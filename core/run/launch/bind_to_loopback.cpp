#include <dlfcn.h>
#include <netinet/in.h>
#include <sys/socket.h>

// This file forms a separate library, which is preloaded into mpirun if all ranks are on one host
// (see preload_loopback()). OpenMPI's mpirun always listens on all interfaces, and no setting
// prevents this. With this bind() in place of the C library's, mpirun listens on the loopback
// interface only.

extern "C" int bind(int socket, const sockaddr* address, socklen_t size) noexcept {
  static const auto next = reinterpret_cast<decltype(&::bind)>(::dlsym(RTLD_NEXT, "bind"));
  if (address->sa_family == AF_INET && size >= sizeof(sockaddr_in)) {
    sockaddr_in local = *reinterpret_cast<const sockaddr_in*>(address);
    local.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return next(socket, reinterpret_cast<const sockaddr*>(&local), sizeof local);
  }
  if (address->sa_family == AF_INET6 && size >= sizeof(sockaddr_in6)) {
    sockaddr_in6 local = *reinterpret_cast<const sockaddr_in6*>(address);
    local.sin6_addr = in6addr_loopback;
    return next(socket, reinterpret_cast<const sockaddr*>(&local), sizeof local);
  }
  return next(socket, address, size);
}
