#include "net/secure_socket.h"

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <chrono>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "net/certificates_testing.h"

namespace tandem::net {
namespace {

using Clock = std::chrono::steady_clock;

// Both ends of a connection, on one thread.
class SecureSocketTest : public testing::Test {
 protected:
  std::shared_ptr<Tls> tls(const std::string& who = "node", const std::string& authority = "ours") {
    auto loaded = load_tls(certificates_.files(who, authority));
    EXPECT_TRUE(loaded.ok()) << loaded.error().message();
    return std::move(loaded).value();
  }

  void connect(const std::shared_ptr<Tls>& of_connects, const std::shared_ptr<Tls>& of_listens) {
    std::array<int, 2> ends{};
    ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends.data()), 0);
    ends_.clear();
    for (std::size_t i = 0; i < 2; ++i) {
      auto made =
          SecureSocket::create(Descriptor(ends[i]), i == 0 ? Role::kConnects : Role::kListens,
                               i == 0 ? of_connects : of_listens);
      ASSERT_TRUE(made.ok());
      ends_.push_back(std::move(made).value());
    }
  }
  // Both the same, and ready for bytes. In the clear there is nothing to agree on.
  void connect_alike(const std::shared_ptr<Tls>& with) {
    connect(with, with);
    if (with == nullptr) return;
    for (const Status& status : agree()) ASSERT_TRUE(status.ok()) << status.error().message();
  }
  SecureSocket& connects() { return ends_[0]; }
  SecureSocket& listens() { return ends_[1]; }

  // The first error of each end, when both are given all turns that they need.
  std::array<Status, 2> agree() {
    std::array<Status, 2> ended;
    std::array<bool, 2> done{};
    for (const auto deadline = Clock::now() + std::chrono::seconds(10); Clock::now() < deadline;) {
      for (std::size_t i = 0; i < 2; ++i) {
        if (done[i]) continue;
        const auto agreed = ends_[i].agree();
        if (!agreed.ok()) ended[i] = agreed.error();
        done[i] = !agreed.ok() || *agreed;
      }
      if (done[0] && done[1]) return ended;
    }
    ADD_FAILURE() << "they neither agreed nor failed";
    return ended;
  }

  static Result<std::size_t> send(SecureSocket& by, std::string& bytes) {
    iovec part{bytes.data(), bytes.size()};
    return by.send({&part, 1});
  }

  // Sends all of it from one end to the other, in pieces of random sizes.
  void carry(SecureSocket& from, SecureSocket& to, std::string bytes, Rng& rng) {
    std::string came;
    std::size_t sent = 0;
    for (const auto deadline = Clock::now() + std::chrono::seconds(60);
         came.size() < bytes.size();) {
      ASSERT_LT(Clock::now(), deadline);
      std::vector<iovec> parts;
      for (std::size_t at = sent, i = rng.below(8); at < bytes.size() && i > 0; --i) {
        const std::size_t size = std::min<std::size_t>(rng.below(70'000), bytes.size() - at);
        parts.push_back({bytes.data() + at, size});
        at += size;
      }
      const auto taken = from.send(parts);
      ASSERT_TRUE(taken.ok()) << taken.error().message();
      sent += *taken;
      std::string first(rng.below(50'000), '\0'), second(rng.below(50'000), '\0');
      std::array<iovec, 2> into{iovec{first.data(), first.size()},
                                iovec{second.data(), second.size()}};
      const auto got = to.receive(into);
      ASSERT_TRUE(got.ok()) << got.error().message();
      came += (first + second).substr(0, *got);
    }
    EXPECT_TRUE(came == bytes);
    EXPECT_FALSE(from.has_unsent());
  }

  const TestCertificates certificates_;
  std::vector<SecureSocket> ends_;
};

std::string random_bytes(std::size_t size, Rng& rng) {
  std::string bytes(size, '\0');
  for (char& byte : bytes) byte = static_cast<char>(rng.next());
  return bytes;
}

TEST_F(SecureSocketTest, CarriesWhatItIsGivenWhateverTheSizes) {
  Rng rng({1});
  for (const auto& with : {std::shared_ptr<Tls>(), tls()}) {
    connect_alike(with);
    for (const std::size_t size : {1, 63, 64, 16'383, 16'384, 16'385, 65'600, 1'000'001}) {
      carry(connects(), listens(), random_bytes(size, rng), rng);
      carry(listens(), connects(), random_bytes(size, rng), rng);
    }
  }
}

TEST_F(SecureSocketTest, ChangesItsKeysWhileBytesAreUnderWay) {
  connect_alike(tls());
  Rng rng({2});
  const std::string bytes = random_bytes(std::size_t{1} << 20, rng);
  // Two changes of either direction.
  for (int i = 0; i < 130; ++i) {
    carry(connects(), listens(), bytes, rng);
    carry(listens(), connects(), bytes, rng);
  }
}

TEST_F(SecureSocketTest, SaysWhatWasReceivedButNotTaken) {
  connect_alike(tls());
  std::string bytes = "abcdef";
  ASSERT_EQ(*send(connects(), bytes), bytes.size());
  std::array<char, 4> some{};
  iovec part{some.data(), some.size()};
  ASSERT_EQ(*listens().receive({&part, 1}), 4U);
  // The socket is empty, what came is not.
  pollfd entry{listens().fd(), POLLIN, 0};
  EXPECT_EQ(::poll(&entry, 1, 0), 0);
  EXPECT_TRUE(listens().has_unread());
  ASSERT_EQ(*listens().receive({&part, 1}), 2U);
  EXPECT_EQ(std::string_view(some.data(), 2), "ef");
  EXPECT_FALSE(listens().has_unread());
}

TEST_F(SecureSocketTest, KeepsWhatAPeerDoesNotTakeYet) {
  connect_alike(tls());
  std::string bytes(100'000, 'x');
  std::size_t sent = 0;
  for (std::size_t taken = 1; taken > 0; sent += taken) taken = *send(connects(), bytes);
  EXPECT_TRUE(connects().has_unsent());
  std::size_t came = 0;
  for (const auto deadline = Clock::now() + std::chrono::seconds(10); came < sent;) {
    ASSERT_LT(Clock::now(), deadline);
    ASSERT_TRUE(connects().flush().ok());
    iovec part{bytes.data(), bytes.size()};
    came += *listens().receive({&part, 1});
  }
  EXPECT_EQ(came, sent);
  EXPECT_FALSE(connects().has_unsent());
}

TEST_F(SecureSocketTest, GivesWhatCameBeforeTheEnd) {
  for (const auto& with : {std::shared_ptr<Tls>(), tls()}) {
    connect_alike(with);
    std::string bytes = "last words";
    ASSERT_EQ(*send(connects(), bytes), bytes.size());
    // It still reads.
    ASSERT_EQ(::shutdown(connects().fd(), SHUT_WR), 0);
    std::array<char, 100> some{};
    iovec part{some.data(), some.size()};
    EXPECT_EQ(*listens().receive({&part, 1}), bytes.size());
    const auto end = listens().receive({&part, 1});
    ASSERT_FALSE(end.ok());
    EXPECT_EQ(end.error().code(), Code::kPeerLost);
    ASSERT_EQ(*send(listens(), bytes), bytes.size());
    EXPECT_EQ(*connects().receive({&part, 1}), bytes.size());
  }
}

TEST_F(SecureSocketTest, IsLostToAPeerThatIsGone) {
  for (const auto& with : {std::shared_ptr<Tls>(), tls()}) {
    connect_alike(with);
    ends_.pop_back();
    std::string bytes(1000, 'x');
    const auto sent = send(connects(), bytes);
    ASSERT_FALSE(sent.ok());
    EXPECT_EQ(sent.error().code(), Code::kPeerLost) << sent.error().message();
  }
}

TEST_F(SecureSocketTest, NoticesBytesThatSomebodyChanged) {
  connect_alike(tls());
  std::string bytes = "in confidence";
  std::array<char, 1000> some{};
  iovec part{some.data(), some.size()};
  ASSERT_EQ(*send(connects(), bytes), bytes.size());
  ASSERT_EQ(*listens().receive({&part, 1}), bytes.size());
  // A record that nobody can have made who lacks the key.
  std::string record("\x17\x03\x03\x00\x20", 5);
  record += std::string(32, 'x');
  ASSERT_EQ(::send(connects().fd(), record.data(), record.size(), 0), std::ssize(record));
  const auto got = listens().receive({&part, 1});
  ASSERT_FALSE(got.ok());
  EXPECT_EQ(got.error().code(), Code::kPeerLost) << got.error().message();
}

TEST_F(SecureSocketTest, RefusesACertificateOfAnotherAuthority) {
  // One whom the other side does not know, and one who does not know the other side.
  for (const auto& [who, authority] : {std::pair("stranger", "ours"), {"node", "theirs"}}) {
    connect(tls(who, authority), tls());
    std::array<Status, 2> ended = agree();
    // Who connects is told only when it next listens.
    std::array<char, 100> some{};
    iovec part{some.data(), some.size()};
    if (ended[0].ok()) ended[0] = connects().receive({&part, 1}).error();
    for (const Status& status : ended) {
      ASSERT_FALSE(status.ok());
      EXPECT_EQ(status.error().code(), Code::kDenied) << status.error().message();
    }
  }
}

TEST_F(SecureSocketTest, TellsWhySendingFailedWhenThePeerHasSaidIt) {
  connect(tls("stranger", "ours"), tls());
  const std::array<Status, 2> ended = agree();
  ASSERT_FALSE(ended[1].ok());
  ASSERT_TRUE(ended[0].ok());
  ends_.pop_back();
  std::string bytes = "hello";
  const auto sent = send(connects(), bytes);
  ASSERT_FALSE(sent.ok());
  EXPECT_EQ(sent.error().code(), Code::kDenied) << sent.error().message();
}

TEST_F(SecureSocketTest, WhoAloneUsesTlsIsTold) {
  connect(tls(), nullptr);
  for (const Status& status : agree()) {
    ASSERT_FALSE(status.ok());
    EXPECT_EQ(status.error().code(), Code::kDenied) << status.error().message();
  }
}

TEST_F(SecureSocketTest, WhoAloneUsesNoTlsIsToldInTheClear) {
  connect(nullptr, tls());
  const HelloBytes hello = encode(Hello{1, Role::kConnects, {}});
  std::string bytes(hello.data(), hello.size());
  ASSERT_EQ(*send(connects(), bytes), bytes.size());
  const std::array<Status, 2> ended = agree();
  EXPECT_TRUE(ended[0].ok());
  ASSERT_FALSE(ended[1].ok());
  EXPECT_EQ(ended[1].error().code(), Code::kDenied) << ended[1].error().message();
  std::array<char, 100> some{};
  iovec part{some.data(), some.size()};
  ASSERT_EQ(*connects().receive({&part, 1}), kHelloBytes);
  const auto answer = parse_answer({some.data(), kHelloBytes});
  ASSERT_TRUE(answer.ok());
  EXPECT_EQ(answer->reason, Reason::kOnlyTls);
}

TEST_F(SecureSocketTest, EndsWhateverIsNoHandshake) {
  Rng rng({3});
  for (int i = 0; i < 200; ++i) {
    connect(nullptr, tls());
    std::string bytes = random_bytes(1 + rng.below(600), rng);
    if (i % 2 == 0) bytes.replace(0, 3, "\x16\x03\x01");
    ASSERT_EQ(*send(connects(), bytes), bytes.size());
    ASSERT_EQ(::shutdown(connects().fd(), SHUT_WR), 0);
    for (const auto deadline = Clock::now() + std::chrono::seconds(10);;) {
      ASSERT_LT(Clock::now(), deadline);
      const auto agreed = listens().agree();
      if (!agreed.ok()) break;
      ASSERT_FALSE(*agreed);
    }
  }
}

}  // namespace
}  // namespace tandem::net
