// What the API answers, before it is HTTP: status, headers, body. Every error has one form,
// {"error": {"code", "message", "hint"}}, and this is the one place where a Code becomes an HTTP
// status and a status becomes a Code again. Plain values and pure functions.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"

namespace tandem::web {

// Where a stream of events begins: behind this one, or with the next when there is none.
struct EventsAfter {
  std::optional<std::uint64_t> id;
};

struct Reply {
  int status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers;
  std::optional<EventsAfter> events;  // Instead of the body.
};

int http_status(Code code);

// The Code that an error of the API stands for: by its name, or by the status where HTTP's errors
// go further than ours.
Code code_of(std::string_view name, int status);

Reply json_reply(int status, const nlohmann::json& value);

struct Complaint {
  int status = 400;
  std::string_view code;  // For programs.
  std::string message;    // What is wrong.
  std::string hint;       // What to do.
};
Reply error_reply(const Complaint& complaint);
Reply error_reply(const Error& error, std::string hint);

}  // namespace tandem::web
