// A request to the API, as plain values: what is left of HTTP when it has been parsed.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "web/access.h"
#include "web/inputs.h"

namespace tandem::web {

// The largest body of a request.
constexpr std::size_t kMostBodyBytes = std::size_t{1} << 20;

struct Request {
  std::string method;
  std::string path;  // Decoded, without the query.
  Query query;
  std::map<std::string, std::string> headers;  // Names in lower case.
  std::string body;
  Peer peer = Peer::kRemote;
};

}  // namespace tandem::web
