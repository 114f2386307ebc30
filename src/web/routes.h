// The routes of the API and what each does once a request was let in. docs/http-api.md lists them
// for people, docs/openapi.yaml for programs; a test compares. Pure, but for the Backend.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "web/backend.h"
#include "web/reply.h"
#include "web/request.h"

namespace tandem::web {

// What a handler gets: the request, and the job that its path names, or "".
struct Call {
  const Request& request;
  Backend& backend;
  const std::string id;
};

using Handler = Result<Reply> (*)(const Call&);

// A path has {id} where a job is named.
struct Route {
  std::string_view method;
  std::string_view path;
  Handler handler = nullptr;
};
std::span<const Route> routes();

}  // namespace tandem::web
