// The nodes that are connected to a master: greets them, checks that they speak the same version,
// and carries messages. Belongs to the thread of its Loop.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/coordinator.h"
#include "net/listener.h"
#include "wire/cluster.pb.h"

namespace tandem::cluster {

class Peers {
 public:
  struct Handler {
    std::function<void(NodeId node, const wire::NodeHello& hello)> on_node;
    std::function<void(NodeId node, const wire::NodeMessage& message)> on_message;
    // Of one that on_node was told of; comes once, and last.
    std::function<void(NodeId node, const std::string& name, const Error& why)> on_lost;
    std::function<void(std::string_view)> log;
  };

  static Result<std::unique_ptr<Peers>> create(net::Loop& loop, const net::Endpoint& listen,
                                               const net::Security& security,
                                               const net::Limits& limits,
                                               const std::string& version, Handler handler);
  ~Peers();

  std::uint16_t port() const;
  // Where parameter servers of the nodes shall listen. Where only this host can connect, no other
  // needs to reach them; "": a node cannot tell by which of its addresses others do.
  std::string serve_at() const;
  // Dropped when the node is gone. One that does not read what it is sent is lost.
  void send(NodeId node, const wire::MasterMessage& message);
  // It sent what it must not: it is lost.
  void refuse(NodeId node, const Error& why);
  void for_each(const std::function<void(NodeId node, const wire::NodeHello& hello,
                                         const std::string& address)>& visit) const;
  // The host of a node, as the master sees it; "": that of the master itself.
  std::string host_of(NodeId node) const;
  // Connections that did not prove themselves.
  std::uint64_t refused() const;

 private:
  class State;
  explicit Peers(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace tandem::cluster
