#include <gtest/gtest.h>

#include <string>

#include "library/net_testing.h"
#include "library/testing.h"
#include "tandem/data_parallel.h"

namespace tandem::library {
namespace {

using testing::failure_of;
using testing::inputs;
using testing::loss_of;
using testing::make_net;
using testing::Net;
using testing::run_ranks;

TEST(DataParallel, NamesTheRankWhoseModuleDiffers) {
  run_ranks(3, [](const Group& group) {
    const Net net = make_net(0, group.rank() == 2 ? 9 : 8);
    const Failure failure = failure_of([&] { DataParallel ddp(net, group); });
    EXPECT_EQ(failure.code(), Failure::Code::kInvalidArgument);
    EXPECT_EQ(
        std::string(failure.what()),
        "ranks have different modules: rank 2 has `parameter first.weight [9, 6] Float` where "
        "rank 0 has `parameter first.weight [8, 6] Float`");
  });
}

TEST(DataParallel, RefusesWhatItCannotAverage) {
  Net net = make_net(0);
  net->to(torch::kDouble);
  EXPECT_EQ(failure_of([&] { DataParallel ddp(net, Group()); }).code(),
            Failure::Code::kInvalidArgument);
}

TEST(DataParallel, ThrowsFromBackwardWhenAnotherRankIsLate) {
  run_ranks(2,
            [](Group group) {
              DataParallel ddp(make_net(0), group);
              if (group.rank() == 1) return;
              const auto step = [&] { loss_of(ddp.forward(inputs())).backward(); };
              const Failure failure = failure_of(step);
              EXPECT_EQ(failure.code(), Failure::Code::kTimeout) << failure.what();
              EXPECT_NE(std::string(failure.what()).find("worker 1"), std::string::npos)
                  << failure.what();
              EXPECT_EQ(failure_of(step).code(), Failure::Code::kCancelled);
            },
            {.timeout = std::chrono::milliseconds(300)});
}

TEST(DataParallel, RefusesToGoOnAfterABackwardThatThrew) {
  DataParallel ddp(make_net(0), Group());
  torch::Tensor x = inputs().requires_grad_();
  x.register_hook([](const torch::Tensor&) { throw std::runtime_error("a mistake"); });
  EXPECT_THROW(loss_of(ddp.forward(x)).backward(), std::runtime_error);
  EXPECT_EQ(failure_of([&] { loss_of(ddp.forward(inputs())).backward(); }).code(),
            Failure::Code::kCancelled);
}

TEST(DataParallel, RefusesCallsOfTheGroupDuringBackward) {
  Group group;
  DataParallel ddp(make_net(0), group);
  torch::Tensor x = inputs().requires_grad_();
  x.register_hook([&](const torch::Tensor&) { group.barrier(); });
  EXPECT_EQ(failure_of([&] { loss_of(ddp.forward(x)).backward(); }).code(),
            Failure::Code::kInvalidArgument);
}

}  // namespace
}  // namespace tandem::library
