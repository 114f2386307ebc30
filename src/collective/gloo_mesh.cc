#include "collective/gloo_mesh.h"

#include <fmt/format.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/store.h>
#include <gloo/transport/tcp/device.h>
#include <netdb.h>
#include <sys/socket.h>

#include <algorithm>
#include <charconv>
#include <string_view>

namespace tandem::collective {
namespace {

// Carries an Error through Gloo's frames.
struct StoreFailure : std::exception {
  explicit StoreFailure(Error given) : error(std::move(given)) {}
  const char* what() const noexcept override { return error.message().c_str(); }
  Error error;
};

// The rank in a key of Gloo's, "rank_2" or "2"; -1 when there is none.
int rank_in(std::string_view key) {
  int rank = -1;
  const std::size_t before = key.find_last_not_of("0123456789");
  if (before != std::string_view::npos) key.remove_prefix(before + 1);
  std::from_chars(key.data(), key.data() + key.size(), rank);
  return rank;
}

// Gives Gloo our store.
class StoreAdaptor : public ::gloo::rendezvous::Store {
 public:
  StoreAdaptor(const GlooOptions& options, std::string_view purpose)
      : options_(options), prefix_(fmt::format("{}/{}/", options.prefix, purpose)) {}

  void set(const std::string& key, const std::vector<char>& data) override {
    const Status set =
        options_.store->set(full(key), std::as_bytes(std::span(data)), options_.deadline);
    if (!set.ok()) throw StoreFailure(set.error());
  }

  std::vector<char> get(const std::string& key) override {
    peer_ = rank_in(key);
    auto value = options_.store->get(full(key), options_.deadline);
    if (!value.ok()) throw StoreFailure(std::move(value).error());
    const auto* begin = reinterpret_cast<const char*>(value->data());
    return {begin, begin + value->size()};
  }

  // get() waits.
  void wait(const std::vector<std::string>&) override {}
  void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) override {}

  // Whose address was asked for last: the rank that is being connected to.
  int peer() const { return peer_ < options_.membership.size() ? peer_ : -1; }

 private:
  std::string full(const std::string& key) const { return prefix_ + key; }

  const GlooOptions& options_;
  const std::string prefix_;
  int peer_ = -1;
};

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

Result<std::shared_ptr<::gloo::Context>> connect(const GlooOptions& options, Device& device,
                                                 std::string_view purpose) {
  const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(
      options.deadline - std::chrono::steady_clock::now());
  StoreAdaptor store(options, purpose);
  try {
    auto context = std::make_shared<::gloo::rendezvous::Context>(options.membership.rank,
                                                                 options.membership.size());
    // Gloo waits five times as long for a connection, and zero would be for ever.
    context->setTimeout(std::max(left / 5, std::chrono::milliseconds(1)));
    context->connectFullMesh(store, device);
    return std::shared_ptr<::gloo::Context>(std::move(context));
  } catch (const StoreFailure& failure) {
    if (store.peer() < 0) return Error(failure.error);
    return Error(failure.error)
        .within(fmt::format("{} has not joined", options.membership.name(store.peer())));
  } catch (const std::exception& failure) {
    return connect_error(options, store.peer(), failure.what());
  }
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
