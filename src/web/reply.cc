#include "web/reply.h"

#include <array>
#include <nlohmann/json.hpp>

namespace tandem::web {
namespace {

constexpr std::array kCodes = {
    Code::kPeerLost,  Code::kTimeout,  Code::kCorrupt,         Code::kVersionMismatch,
    Code::kDenied,    Code::kNotFound, Code::kInvalidArgument, Code::kOutOfSpace,
    Code::kCancelled, Code::kDiverged, Code::kInternal,
};

}  // namespace

int http_status(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return 400;
    case Code::kDenied:
      return 403;
    case Code::kNotFound:
      return 404;
    case Code::kCancelled:
    case Code::kDiverged:
    case Code::kVersionMismatch:
      return 409;
    case Code::kCorrupt:
    case Code::kInternal:
      return 500;
    case Code::kPeerLost:
      return 502;
    case Code::kTimeout:
      return 504;
    case Code::kOutOfSpace:
      return 507;
  }
  return 500;
}

Code code_of(std::string_view name, int status) {
  for (const Code code : kCodes)
    if (to_string(code) == name) return code;
  switch (status) {
    case 401:
    case 403:
      return Code::kDenied;
    case 404:
      return Code::kNotFound;
    case 408:
    case 503:
    case 504:
      return Code::kTimeout;
    case 502:
      return Code::kPeerLost;
    case 507:
      return Code::kOutOfSpace;
    default:
      return status >= 400 && status < 500 ? Code::kInvalidArgument : Code::kInternal;
  }
}

Reply json_reply(int status, const nlohmann::json& value) {
  // Logs and paths hold any bytes; what is not UTF-8 is replaced, as JSON cannot carry it.
  return {.status = status,
          .content_type = "application/json",
          .body = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n"};
}

Reply error_reply(const Complaint& complaint) {
  return json_reply(
      complaint.status,
      {{"error",
        {{"code", complaint.code}, {"message", complaint.message}, {"hint", complaint.hint}}}});
}

Reply error_reply(const Error& error, std::string hint) {
  return error_reply({.status = http_status(error.code()),
                      .code = to_string(error.code()),
                      .message = error.message(),
                      .hint = std::move(hint)});
}

}  // namespace tandem::web
