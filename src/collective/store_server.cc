#include <fmt/format.h>
#include <netdb.h>
#include <netinet/in.h>
#include <sys/eventfd.h>
#include <sys/socket.h>

#include <cerrno>
#include <system_error>

#include "collective/store.h"
#include "collective/store_loop.h"

namespace tandem::collective {

StoreServer::StoreServer(std::unique_ptr<Loop> loop, std::uint16_t port)
    : port_(port), loop_(std::move(loop)), thread_([this] { loop_->run(); }) {}

StoreServer::~StoreServer() {
  loop_->stop();
  thread_.join();
}

Result<std::unique_ptr<StoreServer>> StoreServer::start(const std::string& address,
                                                        std::uint16_t port,
                                                        std::string_view token) {
  const std::string doing = address.empty()
                                ? fmt::format("the store cannot listen on port {}", port)
                                : fmt::format("the store cannot listen on {}:{}", address, port);
  addrinfo hints{};
  hints.ai_family = address.empty() ? AF_INET : AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int failure = ::getaddrinfo(address.empty() ? nullptr : address.c_str(),
                                        std::to_string(port).c_str(), &hints, &found)) {
    return Error(Code::kNotFound,
                 fmt::format("{}: {}; give a name or an IP address of this machine", doing,
                             ::gai_strerror(failure)));
  }
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
  Descriptor listener(::socket(found->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  const int on = 1;
  sockaddr_storage bound{};
  socklen_t size = sizeof bound;
  if (!listener.is_open() ||
      ::setsockopt(listener.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) != 0 ||
      ::bind(listener.get(), found->ai_addr, found->ai_addrlen) != 0 ||
      ::listen(listener.get(), SOMAXCONN) != 0 ||
      ::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&bound), &size) != 0) {
    return system_error(doing, errno);
  }
  Descriptor stopper(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!stopper.is_open()) return system_error(doing, errno);
  // The port is at the same place in both families.
  const std::uint16_t bound_port = ntohs(reinterpret_cast<const sockaddr_in&>(bound).sin_port);
  auto loop = std::make_unique<Loop>(std::move(listener), std::move(stopper), token);
  try {
    return std::unique_ptr<StoreServer>(new StoreServer(std::move(loop), bound_port));
  } catch (const std::system_error& failure) {
    return Error(Code::kOutOfSpace, fmt::format("{}: no thread: {}", doing, failure.what()));
  }
}

}  // namespace tandem::collective
