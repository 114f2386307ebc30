// A parameter server: listens for workers, lets in those that know the secret, inside TLS if it has
// certificates, and serves them (ps/services.h) on one thread. Others cost little: at most
// kMostStrangers of them are connected at a time, each for kGreetingTime; one more takes the place
// of the oldest that has said nothing, so that they keep no worker out.
//
// Between messages it looks for a moment, gives its core away for a moment, and then sleeps.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "net/secret.h"
#include "ps/connection.h"
#include "ps/greeting.h"
#include "ps/services.h"

namespace tandem::ps {

struct ServerConfig {
  std::string address = "127.0.0.1";  // "": every address of the host.
  std::uint16_t port = 0;             // 0: a free one.
  std::string token;                  // What workers must know.
  // With what both sides prove themselves in TLS; null: none, and who wants it is not let in.
  std::shared_ptr<const net::Tls> tls = nullptr;
  Service::Log log = [](const std::string&) {};
  // Of its pushes a worker may have so much unanswered on a connection, but always one piece; what
  // a step needs is granted if that is less (ps/credit.h).
  std::uint64_t credit_bytes = Credit::kNoLimit;
};

class Server final : private Outbox {
 public:
  static constexpr std::size_t kMostStrangers = 64;
  static constexpr std::chrono::seconds kGreetingTime{5};

  // kInvalidArgument when the address is in use or not of this host.
  static Result<std::unique_ptr<Server>> create(const ServerConfig& config);
  ~Server() override;

  std::uint16_t port() const { return port_; }
  // Serves what there is; waits for it so long at most.
  void turn(std::chrono::milliseconds at_most);
  // Peers that were not let in, or were thrown out for what they sent.
  std::uint64_t refused() const { return refused_; }

 private:
  class Peer;

  Server(const ServerConfig& config, Descriptor listener, std::uint16_t port);

  void send(PeerId to, const Header& header, std::span<const std::byte> payload) override;
  void send_ahead(PeerId to, const Header& result, std::span<const std::byte> payload) override;
  void lend(PeerId to, const Header& header, std::span<const std::byte> payload,
            std::shared_ptr<const void> owner) override;
  void send_text(PeerId to, const Header& header, std::string payload) override;
  void share(PeerId with, const SharedMemory& memory) override;
  std::uint64_t unsent_results(PeerId to) const override;
  void close(PeerId peer) override;

  bool serve_all();
  void sleep(std::chrono::milliseconds at_most);
  void accept_all();
  bool make_room();
  void end(PeerId peer, const Error& why);
  void remove_ended();

  const ServerConfig config_;
  const net::Secret secret_;
  const Descriptor listener_;
  const std::uint16_t port_;
  Services services_;
  std::map<PeerId, std::unique_ptr<Peer>> peers_;
  PeerId next_ = 1;
  std::uint64_t refused_ = 0;
  std::vector<pollfd> entries_;
  std::chrono::steady_clock::time_point busy_until_{}, accepts_at_{};
};

}  // namespace tandem::ps
