// The HTTP API without HTTP: a request as plain values in, a reply as plain values out. Finds the
// route, asks access.h, checks the inputs, calls the Backend. docs/http-api.md lists the routes,
// docs/openapi.yaml describes them for programs.
//
// Api borrows the Backend. handle() may be called from any thread, several at a time.
#pragma once

#include <utility>

#include "web/access.h"
#include "web/backend.h"
#include "web/reply.h"
#include "web/request.h"

namespace tandem::web {

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
