// A tiny key-value rendezvous over TCP: workers leave their addresses in it and wait for those of
// the others. Meant for a few small values while a group forms, not for data.
//
// StoreServer owns one thread; its methods may be called from any thread. A StoreClient is one
// connection and belongs to one thread at a time. The bytes between them: store_protocol.h.
#pragma once

#include <sys/socket.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "collective/membership.h"

namespace tandem::collective {

class StoreServer {
 public:
  // Listens on `address` (a name or an IP; empty: every address) and `port` (0: any free one). Only
  // clients with the same token are served. The server ends with the object and loses its keys.
  static Result<std::unique_ptr<StoreServer>> start(const std::string& address, std::uint16_t port,
                                                    std::string_view token);
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  std::uint16_t port() const { return port_; }

 private:
  class Loop;

  StoreServer(std::unique_ptr<Loop> loop, std::uint16_t port);

  const std::uint16_t port_;
  const std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

// Whether whoever waits for others shall no longer do so.
using Abandoned = std::function<bool()>;
constexpr std::chrono::milliseconds kAskAbandoned{50};  // How often it is asked.

Error group_given_up();

class StoreClient {
 public:
  // Tries again until the deadline while nobody listens: the server may start later. kDenied when
  // the server has another token, kVersionMismatch when it speaks another version, kPeerLost when
  // `abandoned`, if there is one, says true meanwhile.
  static Result<std::unique_ptr<StoreClient>> connect(const std::string& host, std::uint16_t port,
                                                      std::string_view token, Deadline deadline,
                                                      const Abandoned& abandoned = {});

  // Replaces a value that is there. After kTimeout or kPeerLost it is unknown whether it was set.
  Status set(std::string_view key, std::span<const std::byte> value, Deadline deadline);

  // Sets a key that does not exist; else returns the value that it has.
  Result<std::optional<std::vector<std::byte>>> claim(std::string_view key,
                                                      std::span<const std::byte> value,
                                                      Deadline deadline);

  // Waits until the key exists. kTimeout names the key; the client may be used again.
  Result<std::vector<std::byte>> get(std::string_view key, Deadline deadline);
  // kPeerLost when `abandoned`, if there is one, says true meanwhile.
  Result<std::vector<std::byte>> get(std::string_view key, Deadline deadline,
                                     const Abandoned& abandoned);

  // The IP addresses that the connection uses, as text: this machine's and the store's.
  Result<std::string> local_address() const;
  Result<std::string> remote_address() const;

 private:
  StoreClient(Descriptor socket, std::string where);

  // By getsockname() or getpeername().
  Result<std::string> address(int (*name)(int, sockaddr*, socklen_t*)) const;
  Status greet(std::string_view token, Deadline deadline);
  Status send(std::span<const std::byte> bytes, std::string_view doing, Deadline deadline);
  // Reads until `input_` holds so many bytes.
  Status fill(std::size_t bytes, std::string_view doing, Deadline deadline);
  // Sends a request and takes the reply to it; older replies, to calls that timed out, are skipped.
  struct Answer {
    bool taken = false;
    std::vector<std::byte> value;
  };
  Result<Answer> call(std::uint8_t operation, std::string_view key,
                      std::span<const std::byte> value, std::string_view doing, Deadline deadline);

  Descriptor socket_;
  const std::string where_;  // "the store at node-a:29500".
  std::uint32_t sequence_ = 0;
  std::vector<std::byte> input_;
};

}  // namespace tandem::collective
