#include "train/checkpointer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <future>

namespace tandem::train {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class CheckpointerTest : public ::testing::Test {
 protected:
  CheckpointerTest() {
    arch::ModelConfig config;
    config.kind = "softmax";
    blueprint_ = arch::build(config, {.input_shape = {3}, .outputs = 2}, {}).value();
    model_ = model::Model::create(blueprint_, {}, 1).value();
    optimizer_ = optim::Optimizer::create({}, std::ssize(model_->parameters())).value();
    fs::create_directories(store_);
  }
  ~CheckpointerTest() override {
    std::error_code ignored;
    fs::remove_all(store_, ignored);
  }

  bool take(Checkpointer& checkpointer, std::int64_t step) {
    return checkpointer.take(step, *model_, *optimizer_, {}, std::nullopt);
  }

  const fs::path store_ =
      fs::temp_directory_path() / fmt::format("tandem-checkpointer-test-{}", ::getpid());
  arch::Blueprint blueprint_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<optim::Optimizer> optimizer_;
};

TEST_F(CheckpointerTest, IsNotDueAgainUntilTheLastOneIsWritten) {
  std::promise<void> go_on;
  const std::shared_future<void> disk = go_on.get_future().share();
  const auto slow_disk = [disk] {
    disk.wait_for(60s);
    return Status();
  };
  job::Checkpoint every_step;
  every_step.every_steps = 1;
  Checkpointer checkpointer(store_, slow_disk, every_step, 0, blueprint_, {}, {});
  EXPECT_TRUE(checkpointer.is_due(1));
  EXPECT_TRUE(take(checkpointer, 1));
  EXPECT_FALSE(checkpointer.is_due(2)) << "whatever is fetched for it would be fetched in vain";
  EXPECT_FALSE(take(checkpointer, 2));
  go_on.set_value();
  ASSERT_TRUE(checkpointer.wait(60s));
  EXPECT_TRUE(checkpointer.is_due(3));
  const auto outcome = checkpointer.outcome();
  ASSERT_TRUE(outcome.has_value());
  EXPECT_EQ(outcome->step, 1);
  EXPECT_TRUE(outcome->status.ok()) << outcome->status.error().message();
}

}  // namespace
}  // namespace tandem::train
