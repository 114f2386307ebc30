#include "web/head.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <map>
#include <optional>

#include "web/ascii.h"
#include "web/request.h"

namespace tandem::web {
namespace {

// Those that the library knows and a client may send.
constexpr std::array<std::string_view, 7> kMethods = {"GET",   "HEAD",   "POST",   "PUT",
                                                      "PATCH", "DELETE", "OPTIONS"};
// What goes on to the library. Content-Length does not: the body is read before.
constexpr std::array<std::string_view, 7> kPassed = {
    "authorization", "content-type", "forwarded", "host", "last-event-id", "via", "x-forwarded-for",
};
constexpr std::array<std::string_view, 4> kFraming = {"connection", "content-length", "expect",
                                                      "transfer-encoding"};

Reply bad(std::string message) {
  return error_reply({.status = 400,
                      .code = to_string(Code::kInvalidArgument),
                      .message = std::move(message),
                      .hint = "send a request as HTTP/1.1 (RFC 9112) describes it"});
}

bool is_token(std::string_view text) {
  constexpr std::string_view kSigns = "!#$%&'*+-.^_`|~";
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](char c) {
    return std::isalnum(static_cast<unsigned char>(c)) || kSigns.find(c) != std::string_view::npos;
  });
}

bool is_value(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return c == '\t' || (static_cast<unsigned char>(c) >= 0x20 && c != 0x7F);
  });
}

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return "";
  return text.substr(first, text.find_last_not_of(" \t") - first + 1);
}

// The line before the next CRLF, which it takes off `rest` too.
std::string_view next_line(std::string_view& rest) {
  const std::size_t end = std::min(rest.find("\r\n"), rest.size());
  const std::string_view line = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 2, rest.size()));
  return line;
}

std::optional<Reply> check_request_line(std::string_view line, std::string_view& version) {
  const std::size_t first = line.find(' ');
  const std::size_t last = line.rfind(' ');
  if (first == std::string_view::npos || first == last)
    return bad("the first line is not `METHOD /path HTTP/1.1`");
  const std::string_view target = line.substr(first + 1, last - first - 1);
  version = line.substr(last + 1);
  if (version != "HTTP/1.1" && version != "HTTP/1.0")
    return bad("the version is neither HTTP/1.1 nor HTTP/1.0");
  if (target.size() > kMostTargetBytes) {
    return error_reply(
        {.status = 414,
         .code = "uri_too_long",
         .message = fmt::format("the path and its parameters take {} bytes", target.size()),
         .hint = fmt::format("{} are allowed", kMostTargetBytes)});
  }
  const bool printable = std::all_of(target.begin(), target.end(),
                                     [](char c) { return c > 0x20 && c < 0x7F && c != '#'; });
  if (!is_token(line.substr(0, first)) || !target.starts_with('/') || !printable)
    return bad("the first line is not `METHOD /path HTTP/1.1`");
  const std::string_view method = line.substr(0, first);
  if (std::find(kMethods.begin(), kMethods.end(), method) == kMethods.end()) {
    return error_reply({.status = 501,
                        .code = "unknown_method",
                        .message = fmt::format("{} is no method that is known here", method),
                        .hint = "use GET or POST"});
  }
  return std::nullopt;
}

using Fields = std::map<std::string, std::string>;

// Those that matter, by their names in lower case.
std::optional<Reply> read_fields(std::string_view lines, Fields& fields) {
  while (!lines.empty()) {
    const std::string_view line = next_line(lines);
    if (line.empty()) break;
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos || !is_token(line.substr(0, colon)))
      return bad("a header is not `Name: value`");
    const std::string_view value = trimmed(line.substr(colon + 1));
    if (!is_value(value)) return bad("a header holds control characters");
    std::string name = ascii_lower(line.substr(0, colon));
    const bool passed = std::find(kPassed.begin(), kPassed.end(), name) != kPassed.end();
    const bool framing = std::find(kFraming.begin(), kFraming.end(), name) != kFraming.end();
    if (!passed && !framing) continue;
    if (!fields.emplace(name, value).second)
      return bad(fmt::format("the header {} is given twice", name));
  }
  return std::nullopt;
}

std::optional<Reply> read_framing(const Fields& fields, Head& head) {
  if (fields.contains("transfer-encoding")) {
    return error_reply({.status = 411,
                        .code = "length_required",
                        .message = "the body comes in chunks",
                        .hint = "send it whole, with a Content-Length header"});
  }
  const auto length = fields.find("content-length");
  if (length != fields.end()) {
    const std::string& text = length->second;
    const bool digits = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    if (!digits) return bad("Content-Length is not a number");
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), head.body_bytes);
    if (error != std::errc() || head.body_bytes > kMostBodyBytes) {
      return error_reply({.status = 413,
                          .code = "body_too_large",
                          .message = fmt::format("the body takes {} bytes", text.substr(0, 40)),
                          .hint = "at most 1 MiB is taken; name data by path instead"});
    }
  }
  const auto expect = fields.find("expect");
  if (expect != fields.end() && ascii_lower(expect->second) == "100-continue")
    head.expectation = Expectation::kContinue;
  return std::nullopt;
}

}  // namespace

std::variant<Head, Reply> check_head(std::string_view raw) {
  const std::string_view line = next_line(raw);
  std::string_view version;
  if (std::optional<Reply> refusal = check_request_line(line, version)) return *std::move(refusal);
  Fields fields;
  if (std::optional<Reply> refusal = read_fields(raw, fields)) return *std::move(refusal);
  Head head;
  if (std::optional<Reply> refusal = read_framing(fields, head)) return *std::move(refusal);

  head.text = fmt::format("{}\r\n", line);
  for (const std::string_view name : kPassed) {
    const auto found = fields.find(std::string(name));
    if (found == fields.end() || found->second.empty()) continue;
    head.text += fmt::format("{}: ", name);
    // The library decodes values as if they were part of a URL.
    for (const char c : found->second)
      head.text += c == '%' ? std::string("%25") : std::string(1, c);
    head.text += "\r\n";
  }
  const auto connection = fields.find("connection");
  const bool close = connection != fields.end() && ascii_lower(connection->second) == "close";
  if (close || version == "HTTP/1.0") head.text += "Connection: close\r\n";
  head.text += "\r\n";
  return head;
}

Reply head_too_large() {
  return error_reply({.status = 431,
                      .code = "headers_too_large",
                      .message = fmt::format("the headers take more than {} bytes", kMostHeadBytes),
                      .hint = "send fewer headers, or shorter ones"});
}

}  // namespace tandem::web
