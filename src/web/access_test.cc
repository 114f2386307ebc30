#include "web/access.h"

#include <gtest/gtest.h>

namespace tandem::web {
namespace {

const AccessRules kRules{.token = "secret", .host_names = {"Trainer", "trainer.example"}};

int status(const Claim& claim, const AccessRules& rules = kRules) {
  const std::optional<Reply> refusal = refuse(rules, claim);
  return refusal ? refusal->status : 200;
}

TEST(Access, ReadsFromThisMachineNeedNoToken) {
  EXPECT_EQ(status({.method = "GET", .host = "localhost", .peer = Peer::kLoopback}), 200);
  EXPECT_EQ(status({.method = "HEAD", .host = "localhost", .peer = Peer::kLoopback}), 200);
}

TEST(Access, EverythingElseNeedsTheToken) {
  EXPECT_EQ(status({.method = "POST", .host = "localhost", .peer = Peer::kLoopback}), 401);
  EXPECT_EQ(status({.method = "DELETE", .host = "localhost", .peer = Peer::kLoopback}), 401);
  EXPECT_EQ(status({.method = "GET", .host = "localhost", .peer = Peer::kRemote}), 401);
  EXPECT_EQ(status({.method = "POST", .authorization = "Bearer secret", .peer = Peer::kRemote}),
            200);
  EXPECT_EQ(status({.method = "GET", .authorization = "bearer secret", .peer = Peer::kRemote}),
            200);
}

TEST(Access, AWrongTokenIsRefusedEvenWhereNoneIsNeeded) {
  for (const std::string_view given :
       {"Bearer secre", "Bearer secrets", "Bearer ", "Bearer secretsecret", "Basic secret",
        "secret", "Bearer Secret", "Bearer  secret"}) {
    EXPECT_EQ(status({.method = "GET",
                      .authorization = given,
                      .host = "localhost",
                      .peer = Peer::kLoopback}),
              401)
        << given;
  }
}

TEST(Access, WithoutATokenNobodyChangesAnything) {
  const AccessRules none;
  EXPECT_EQ(status({.method = "POST", .peer = Peer::kLoopback}, none), 403);
  EXPECT_EQ(status({.method = "POST", .authorization = "Bearer ", .peer = Peer::kLoopback}, none),
            401);
  EXPECT_EQ(status({.method = "GET", .peer = Peer::kRemote}, none), 403);
  EXPECT_EQ(status({.method = "GET", .peer = Peer::kLoopback}, none), 200);
}

TEST(Access, AForeignNameThatPointsHereIsRefused) {
  for (const std::string_view host : {"evil.example", "evil.example:7070", "localhost.evil.example",
                                      "127.0.0.1.evil.example", "[evil]", "1", "[::1"}) {
    EXPECT_EQ(status({.method = "GET", .host = host, .peer = Peer::kLoopback}), 403) << host;
    EXPECT_EQ(status({.method = "GET",
                      .authorization = "Bearer secret",
                      .host = host,
                      .peer = Peer::kLoopback}),
              200)
        << host;
  }
}

TEST(Access, NamesOfThisMachineAndAddressesAreTaken) {
  for (const std::string_view host :
       {"localhost", "LOCALHOST:80", "127.0.0.1:7070", "192.0.2.7", "[::1]:7070", "::1",
        "trainer:7070", "TRAINER.example", "trainer.", ""}) {
    EXPECT_EQ(status({.method = "GET", .host = host, .peer = Peer::kLoopback}), 200) << host;
  }
}

TEST(Access, KnowsWhatOnlyThisMachineCanReach) {
  for (const std::string_view address :
       {"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.1", "localhost", "LocalHost"}) {
    EXPECT_TRUE(is_loopback(address)) << address;
  }
  for (const std::string_view address :
       {"", "0.0.0.0", "::", "128.0.0.1", "10.0.0.1", "::ffff:10.0.0.1", "host"}) {
    EXPECT_FALSE(is_loopback(address)) << address;
  }
}

TEST(Access, AnEmptyTokenIsNeverTheSame) {
  EXPECT_FALSE(same_token("", ""));
  EXPECT_FALSE(same_token("", "a"));
  EXPECT_FALSE(same_token("aa", "a"));
  EXPECT_TRUE(same_token("a", "a"));
}

}  // namespace
}  // namespace tandem::web
