// Many nodes in one process that offer a slot each and do nothing but beat, for bench/nodes.py:
// tandem-bench-nodes PORT SECRET_FILE COUNT. Ends with SIGTERM.
#include <fmt/format.h>

#include <charconv>
#include <cstdio>
#include <string>
#include <vector>

#include "base/result.h"
#include "cluster/remote.h"
#include "net/link.h"

namespace tandem {
namespace {

std::string greeting(int number, const std::string& version) {
  wire::NodeMessage message;
  message.mutable_hello()->set_name(fmt::format("light-{}", number));
  message.mutable_hello()->set_slots(1);
  message.mutable_hello()->set_version(version);
  return message.SerializeAsString();
}

Result<int> number_of(const std::string& text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    return Error(Code::kInvalidArgument, text + " is no number");
  return value;
}

Status run(const std::vector<std::string>& arguments) {
  if (arguments.size() != 3)
    return Error(Code::kInvalidArgument, "usage: tandem-bench-nodes PORT SECRET_FILE COUNT");
  TANDEM_ASSIGN(const int port, number_of(arguments[0]));
  net::Security security;
  TANDEM_ASSIGN(security.secret, net::load_secret(arguments[1]));
  TANDEM_ASSIGN(const int count, number_of(arguments[2]));
  TANDEM_ASSIGN(const auto loop, net::Loop::create());
  std::vector<std::unique_ptr<net::Link>> links;
  for (int number = 0; number < count; ++number) {
    net::Link::Handler handler;
    handler.on_up = [number](net::Channel& channel) {
      const Status sent = channel.send(cluster::kFromNode, greeting(number, TANDEM_VERSION));
      if (!sent.ok()) fmt::print(stderr, "{}\n", sent.error().message());
    };
    handler.on_message = [](std::uint16_t, const std::string&) {};
    handler.on_down = [](const Error&) {};  // It tries again: the master takes some at a time.
    TANDEM_ASSIGN(auto link,
                  net::Link::create(*loop, {"127.0.0.1", static_cast<std::uint16_t>(port)},
                                    security, {}, std::move(handler)));
    links.push_back(std::move(link));
  }
  loop->run();
  return {};
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  const tandem::Status status = tandem::run({argv + 1, argv + argc});
  if (status.ok()) return 0;
  fmt::print(stderr, "error: {}\n", status.error().message());
  return tandem::exit_code(status.error().code());
}
