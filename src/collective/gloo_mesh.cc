#include "collective/gloo_mesh.h"

#include <fmt/format.h>
#include <gloo/transport/context.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <future>
#include <string_view>
#include <vector>

namespace tandem::collective {
namespace {

using std::chrono::milliseconds;

// Gloo reads unset memory when it cannot resolve a name, so it gets only addresses.
Result<std::string> numeric_address(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  char text[NI_MAXHOST];
  int failure = ::getaddrinfo(host.c_str(), nullptr, &hints, &found);
  if (failure == 0) {
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> addresses(found, ::freeaddrinfo);
    failure = ::getnameinfo(found->ai_addr, found->ai_addrlen, text, sizeof text, nullptr, 0,
                            NI_NUMERICHOST);
  }
  if (failure == 0) return std::string(text);
  return Error(
      Code::kNotFound,
      fmt::format("cannot listen on `{}`: {}; give a name or an IP address of this machine", host,
                  ::gai_strerror(failure)));
}

Error connect_error(const GlooOptions& options, int peer, std::string_view what) {
  if (peer < 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("cannot listen on `{}`: {}", options.bind_address, what));
  }
  const std::string name = options.membership.name(peer);
  if (what.find("imeout") != std::string_view::npos) {
    return Error(
        Code::kTimeout,
        fmt::format("{} gave its address but does not connect; it is late, not known to be "
                    "dead (stopped? firewall?)",
                    name));
  }
  return Error(Code::kPeerLost, fmt::format("{} went away while connecting: {}", name, what));
}

using Device = std::shared_ptr<::gloo::transport::Device>;
using Address = std::vector<char>;

// One connection to every other rank, on its way.
class Connecting : public ::gloo::Context {
 public:
  Connecting(const GlooOptions& options, const Device& device)
      : ::gloo::Context(options.membership.rank, options.membership.size()) {
    const auto left = std::chrono::duration_cast<milliseconds>(options.deadline -
                                                               std::chrono::steady_clock::now());
    // Gloo waits five times as long for a connection, and zero would be for ever.
    setTimeout(std::max(left / 5, milliseconds(1)));
    device_ = device;
    transportContext_ = device->createContext(rank, size);
    transportContext_->setTimeout(getTimeout());
    for (int peer = 0; peer < size; ++peer) {
      if (peer != rank) transportContext_->createPair(peer);
    }
  }

  // Where each peer finds this rank, one after the other, all of the same length.
  Address addresses() {
    Address all;
    for (int peer = 0; peer < size; ++peer) {
      // Nobody asks a rank for the way to itself.
      const Address one = getPair(peer == rank ? (rank + 1) % size : peer)->address().bytes();
      all.insert(all.end(), one.begin(), one.end());
    }
    return all;
  }

  // Waits until all are connected, those at the addresses. Gloo waits for one without asking
  // anybody, so another thread does that here.
  Status connect(const std::vector<Address>& peers, const GlooOptions& options) {
    std::atomic<bool> given_up = false;
    std::atomic<int> current = -1;
    std::future<void> all = std::async(std::launch::async, [&] {
      for (int peer = 0; peer < size && !given_up; ++peer) {
        if (peer == rank) continue;
        current = peer;
        getPair(peer)->connect(peers[static_cast<std::size_t>(peer)]);
      }
    });
    while (options.abandoned && all.wait_for(kAskAbandoned) != std::future_status::ready) {
      given_up = given_up || options.abandoned();
      // Ends the wait. Not those that are connected: to close them so would look like an error to
      // Gloo at the other end, which ends the process there.
      if (given_up && current >= 0) getPair(current)->close();
    }
    try {
      all.get();
    } catch (const std::exception& failure) {
      if (!given_up) return connect_error(options, current, failure.what());
    }
    return given_up ? Status(group_given_up()) : Status();
  }
};

sa_family_t family_of(const Address& address) {
  sockaddr start{};
  std::memcpy(&start, address.data(), std::min(sizeof start, address.size()));
  return start.sa_family;
}

Result<std::vector<Address>> exchange_addresses(const GlooOptions& options, const Address& mine,
                                                std::string_view purpose) {
  const auto size = static_cast<std::size_t>(options.membership.size());
  const auto rank = static_cast<std::size_t>(options.membership.rank);
  const auto key = [&](std::size_t peer) {
    return fmt::format("{}/{}/{}", options.prefix, purpose, peer);
  };
  TANDEM_TRY(options.store->set(key(rank), std::as_bytes(std::span(mine)), options.deadline));
  std::vector<Address> addresses(size);
  for (std::size_t peer = 0; peer < size; ++peer) {
    if (peer == rank) continue;
    const std::string name = options.membership.name(static_cast<int>(peer));
    auto its = options.store->get(key(peer), options.deadline, options.abandoned);
    if (!its.ok()) return std::move(its).error().within(fmt::format("{} has not joined", name));
    if (its->size() != mine.size()) {
      return Error(Code::kVersionMismatch,
                   fmt::format("{} has addresses of another kind; let all ranks run the same "
                               "version of Tandem and Gloo",
                               name));
    }
    const std::size_t length = mine.size() / size;
    const auto* begin = reinterpret_cast<const char*>(its->data()) + rank * length;
    addresses[peer].assign(begin, begin + length);
    if (family_of(addresses[peer]) != family_of(mine)) {
      return Error(Code::kInvalidArgument,
                   fmt::format("{} listens on IPv{}, and this rank on IPv{}; give all an address "
                               "of the same kind",
                               name, family_of(addresses[peer]) == AF_INET6 ? 6 : 4,
                               family_of(mine) == AF_INET6 ? 6 : 4));
    }
  }
  return addresses;
}

Result<std::shared_ptr<::gloo::Context>> connect(const GlooOptions& options, const Device& device,
                                                 std::string_view purpose) {
  std::shared_ptr<Connecting> context;
  try {
    context = std::make_shared<Connecting>(options, device);
  } catch (const std::exception& failure) {
    return connect_error(options, -1, failure.what());
  }
  TANDEM_ASSIGN(const std::vector<Address> peers,
                exchange_addresses(options, context->addresses(), purpose));
  TANDEM_TRY(context->connect(peers, options));
  return std::shared_ptr<::gloo::Context>(context);
}

}  // namespace

Result<GlooMesh> connect_gloo_mesh(const GlooOptions& options) {
  std::string bind_address = options.bind_address;
  if (bind_address.empty()) {
    TANDEM_ASSIGN(bind_address, options.store->local_address());
  }
  TANDEM_ASSIGN(bind_address, numeric_address(bind_address));
  Device device;
  try {
    ::gloo::transport::tcp::attr attributes(bind_address.c_str());
    device = ::gloo::transport::tcp::CreateDevice(attributes);
  } catch (const std::exception& failure) {
    return connect_error(options, -1, failure.what());
  }
  GlooMesh mesh;
  TANDEM_ASSIGN(mesh.data, connect(options, device, "data"));
  TANDEM_ASSIGN(mesh.control, connect(options, device, "control"));
  return mesh;
}

}  // namespace tandem::collective
