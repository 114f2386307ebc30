// The HTTP API without HTTP: a request as plain values in, a reply as plain values out. Finds the
// route, asks access.h, checks the inputs, calls the Backend. docs/http-api.md lists the routes,
// docs/openapi.yaml describes them for programs.
//
// Api borrows the Backend. handle() may be called from any thread, several at a time.
#pragma once

#include <map>
#include <span>
#include <string>
#include <string_view>

#include "web/access.h"
#include "web/backend.h"
#include "web/inputs.h"
#include "web/reply.h"

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

// A path has {id} where a job is named.
struct RouteName {
  std::string_view method;
  std::string_view path;
};
std::span<const RouteName> routes();

class Api {
 public:
  Api(Backend& backend, AccessRules rules) : backend_(backend), rules_(std::move(rules)) {}

  // Never throws: what the Backend throws becomes a 500.
  Reply handle(const Request& request) const;

 private:
  // Constant after construction.
  Backend& backend_;
  const AccessRules rules_;
};

}  // namespace tandem::web
