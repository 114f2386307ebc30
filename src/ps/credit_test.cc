#include "ps/credit.h"

#include <gtest/gtest.h>
#include <poll.h>

#include <array>
#include <optional>
#include <vector>

#include "ps/connect.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::seconds;

const std::vector<Piece> kPieces = {{0, 100, 0}, {100, 110, 1}};

TEST(Credit, IsWhatAStepTakes) {
  const Credit credit(kPieces, 3, Credit::kNoLimit);
  EXPECT_EQ(credit.bytes(), 3 * (64 + 400) + 3 * (64 + 40));
}

TEST(Credit, IsNeverLessThanAPieceTakes) {
  EXPECT_EQ(Credit(kPieces, 2, 1).bytes(), 2 * (64 + 400));
  EXPECT_EQ(Credit(kPieces, 1, 500).bytes(), 500U);
}

TEST(Credit, IsThereAgainAfterTheAnswer) {
  Credit credit(100);
  EXPECT_TRUE(credit.allows(100));
  credit.take(60);
  EXPECT_FALSE(credit.allows(41));
  EXPECT_TRUE(credit.allows(40));
  credit.give_back(60);
  EXPECT_TRUE(credit.allows(100));
  credit.give_back(60);
  EXPECT_EQ(credit.unanswered(), 0U);
}

// A worker that pushes whatever its credit is.
class Pusher final : public Receiver {
 public:
  explicit Pusher(const TestServers& servers)
      : connection_(connect_to(servers.endpoints()[0], servers.token(), nullptr,
                               deadline_after(seconds(20)))
                        .value(),
                    "server") {
    Plan plan;
    plan.generation = 1;
    plan.parameters = plan.floats = 20;
    plan.buckets = {{10, 20}, {0, 10}, {20, 20}};
    plan.trainable = {{0, 20}};
    plan.lanes = 2;
    plan.ends = {1, 2};  // The other never comes, so nothing is answered.
    wire::PsBegin begin;
    *begin.mutable_plan() = to_wire(plan, {}, 1);
    begin.set_name("worker 0");
    connection_.send_text({.kind = Kind::kBegin}, begin.SerializeAsString());
    EXPECT_EQ(await(), Kind::kBegun);
    EXPECT_TRUE(begun_.ParseFromArray(text_.data(), static_cast<int>(text_.size())));
    const std::array<float, 20> state{};
    connection_.send({.kind = Kind::kLoad}, bytes_of(state));
    connection_.send({.kind = Kind::kUse});
    EXPECT_EQ(await(), Kind::kUsing);
  }

  std::uint64_t credit() const { return begun_.credit_bytes(); }
  void push(std::uint64_t piece) {
    connection_.send({.kind = Kind::kPush, .place = piece, .number = 0.1}, bytes_of(floats_));
  }
  // The kind of the next message.
  std::optional<Kind> await() {
    came_.reset();
    while (!came_) {
      const bool is_open = connection_.turn(*this).ok();
      if (came_) break;  // Its last words may come with its end.
      pollfd entry{connection_.fd(), POLLIN, 0};
      if (!is_open || ::poll(&entry, 1, 20'000) != 1) return std::nullopt;
    }
    return came_;
  }
  std::string text() const { return {reinterpret_cast<const char*>(text_.data()), text_.size()}; }

 private:
  Result<std::span<std::byte>> place(const Header& header) override {
    text_.resize(header.bytes);
    return std::span(text_);
  }
  Status message(const Header& header, std::span<const std::byte>) override {
    came_ = header.kind;
    return {};
  }

  Connection connection_;
  const std::array<float, 10> floats_{};
  std::vector<std::byte> text_;
  std::optional<Kind> came_;
  wire::PsBegun begun_;
};

TEST(Credit, WhoTakesMoreIsRefusedAndTold) {
  TestServers servers(1, "token", nullptr, 1);
  Pusher pusher(servers);
  EXPECT_EQ(pusher.credit(), cost_of(10 * sizeof(float)));
  pusher.push(0);
  pusher.push(1);
  ASSERT_EQ(pusher.await(), Kind::kFailed);
  EXPECT_NE(pusher.text().find("its credit is 104"), std::string::npos) << pusher.text();
}

}  // namespace
}  // namespace tandem::ps
