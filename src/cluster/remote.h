// What a master and its nodes say to each other (wire/cluster.proto), to and from the types that
// the rest of the cluster uses. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "cluster/node.h"
#include "wire/cluster.pb.h"

namespace tandem::cluster {

// Kinds of messages on the channel.
inline constexpr std::uint16_t kFromNode = 1;
inline constexpr std::uint16_t kFromMaster = 2;

// What people can tell apart and read in a table: 1 to 64 printable characters of ASCII.
bool is_node_name(std::string_view name);

// kCorrupt when the bytes are no such message.
Result<wire::NodeMessage> parse_node_message(const std::string& bytes);
Result<wire::MasterMessage> parse_master_message(const std::string& bytes);
Result<wire::WorkerMessage> parse_worker_message(const std::string& bytes);

wire::WorkerEnded to_wire(std::int64_t job, int worker, const WorkerEnd& end);
// kCorrupt when a number is none of its enum.
Result<WorkerEnd> from_wire(const wire::WorkerEnded& ended);

}  // namespace tandem::cluster
