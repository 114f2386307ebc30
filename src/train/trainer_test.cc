#include "train/trainer.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "checkpoint/model_file.h"
#include "checkpoint/store.h"
#include "data/source.h"
#include "job/parse.h"
#include "train/evaluate.h"
#include "train/saved_model.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

class Collector final : public Reporter {
 public:
  // Asks to stop when the first event of that kind comes; "" : never.
  Collector(std::atomic<bool>& stop, std::string stop_at) : stop_(stop), stop_at_(stop_at) {}

  void report(const wire::WorkerMessage& message) override {
    messages.push_back(message);
    if (message.event().kind() == stop_at_ && !stop_at_.empty()) stop_ = true;
  }
  std::vector<wire::WorkerMessage> messages;

 private:
  std::atomic<bool>& stop_;
  const std::string stop_at_;
};

// A place that is to be left for one that never comes: the worker is asked to end instead.
class OneMorePromised final : public Places {
 public:
  Result<Place> next(Parting parting, const std::function<void()>&) override {
    if (parting == Parting::kNone) return Place{{}};
    return Error(Code::kCancelled, "asked to stop while it waited for its place");
  }
  bool has_next() override { return true; }
  bool may_follow() const override { return true; }
  std::uint64_t generation() const override { return 1; }
};

// Two places one after the other: the state of the first is of no use in the second.
class SentBack final : public Places {
 public:
  explicit SentBack(fs::path checkpoint) : checkpoint_(std::move(checkpoint)) {}

  Result<Place> next(Parting parting, const std::function<void()>&) override {
    ++generation_;
    if (parting == Parting::kNone) return Place{{}};
    Place place{{}};
    place.resume = checkpoint_;
    place.anew = true;
    return place;
  }
  bool has_next() override { return generation_ == 1; }
  bool may_follow() const override { return true; }
  std::uint64_t generation() const override { return generation_; }

 private:
  const fs::path checkpoint_;
  std::uint64_t generation_ = 0;
};

class TrainerTest : public ::testing::Test {
 protected:
  TrainerTest()
      : root_(fs::temp_directory_path() / fmt::format("tandem-trainer-test-{}", ::getpid())) {
    fs::create_directories(root_);
  }
  ~TrainerTest() override {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }

  // Trains and returns Finished, or what went wrong.
  Result<wire::Finished> run(const std::string& name, const std::string& toml) {
    OnePlace place{{}};
    return run(name, toml, place);
  }
  Result<wire::Finished> run(const std::string& name, const std::string& toml, Places& places) {
    const fs::path directory = root_ / name;
    fs::create_directories(directory / "checkpoints");
    TrainRequest request;
    TANDEM_ASSIGN(request.job, job::parse(toml, name + ".toml", {}));
    request.base_directory = root_;
    request.run_directory = directory;
    request.store = directory / "checkpoints";
    Collector collector(stop_, stop_at_);
    key_.clear();
    OwnJudge judge(request.job.train, collector);
    Status status = train(request, places, judge, collector, stop_, key_);
    messages_ = collector.messages;
    TANDEM_TRY(status);
    return messages_.back().finished();
  }

  Result<std::string> hash(const std::string& name, const std::string& more) {
    TANDEM_ASSIGN(const wire::Finished finished, run(name, kSmall + more));
    return finished.weights_hash();
  }

  const std::string kSmall =
      "[model]\nkind = \"mlp\"\nhidden = [16]\ndropout = 0.2\n"
      "[train]\nsteps = 30\nbatch = 50\noptimizer = { kind = \"sgd\", lr = 0.1, momentum = 0.9 }\n";
  const fs::path root_;
  std::atomic<bool> stop_ = false;
  std::string stop_at_;
  std::vector<wire::WorkerMessage> messages_;
  std::string key_;
};

TEST_F(TrainerTest, GivesTheSameBitsTwiceAndOthersForAnotherSeed) {
  const std::string first = hash("a", "").value();
  EXPECT_EQ(hash("b", "").value(), first);
  EXPECT_NE(hash("c", "seed = 2\n").value(), first);
}

TEST_F(TrainerTest, GivesTheSameBitsForAnyNumberOfPrefetchThreads) {
  const std::string lanes = "[cluster]\nlanes = 4\n[data]\nprefetch = ";
  const std::string none = hash("a", lanes + "0\n").value();
  EXPECT_EQ(hash("b", lanes + "4\n").value(), none);
}

TEST_F(TrainerTest, CountsEverySampleOncePerEpoch) {
  const auto finished = run("a", kSmall + "epochs = 2\n[cluster]\nlanes = 3\n");
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  const wire::Started& started = messages_.front().started();
  EXPECT_EQ(started.steps_per_epoch(), (started.train_samples() + 49) / 50);
  // 26 steps make an epoch of 1,294 samples, the last of them short; four of the next follow.
  EXPECT_EQ(finished->samples(), started.train_samples() + 4 * 50);
}

TEST_F(TrainerTest, EndsEarlyWhenTheMetricStopsImproving) {
  const auto finished =
      run("a",
          "[model]\nkind = \"softmax\"\n[train]\nepochs = 100\n"
          "optimizer = { kind = \"sgd\", lr = 1e-9 }\n"
          "early_stop = { patience = 2, metric = \"accuracy\", min_delta = 0.01 }\n");
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  EXPECT_EQ(finished->status(), "converged");
  EXPECT_EQ(finished->epochs(), 3);
}

TEST_F(TrainerTest, NamesStepAndTensorWhenTrainingDiverges) {
  const auto finished = run("a",
                            "[model]\nkind = \"mlp\"\nhidden = [16]\n[train]\nepochs = 5\n"
                            "optimizer = { kind = \"sgd\", lr = 1e30 }\n");
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().code(), Code::kDiverged);
  EXPECT_NE(finished.error().message().find("at step"), std::string::npos)
      << finished.error().message();
  EXPECT_NE(finished.error().message().find("`fc"), std::string::npos)
      << finished.error().message();
  EXPECT_FALSE(fs::exists(root_ / "a" / "model.safetensors"));
}

TEST_F(TrainerTest, TellsHowFarItCameBeforeItDiverged) {
  const auto finished = run("a",
                            "[model]\nkind = \"softmax\"\n[train]\nepochs = 5\n"
                            "loss = { kind = \"mse\" }\n"
                            "optimizer = { kind = \"sgd\", lr = 30 }\n");
  ASSERT_FALSE(finished.ok());
  ASSERT_EQ(finished.error().code(), Code::kDiverged) << finished.error().message();
  const std::int64_t done = messages_.back().progress().step();
  EXPECT_GT(done, 1);
  EXPECT_NE(finished.error().message().find(fmt::format("at step {}:", done + 1)),
            std::string::npos)
      << finished.error().message();
}

TEST_F(TrainerTest, StopsWhenAskedAndKeepsTheModel) {
  stop_ = true;
  const auto finished = run("a", kSmall);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  EXPECT_EQ(finished->status(), "cancelled");
  EXPECT_EQ(finished->steps(), 0);
  EXPECT_TRUE(checkpoint::verify_model(root_ / "a").ok());
}

TEST_F(TrainerTest, SavesWhatItHasWhenItShallEndBetweenTwoGroups) {
  OneMorePromised places;
  const auto finished = run("a", "[model]\nkind = \"softmax\"\n[train]\nsteps = 1000000\n", places);
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().code(), Code::kCancelled);
  const auto left = std::find_if(messages_.begin(), messages_.end(),
                                 [](const auto& message) { return message.has_left(); });
  ASSERT_NE(left, messages_.end());
  const auto stored = checkpoint::list_checkpoints(root_ / "a" / "checkpoints");
  ASSERT_EQ(stored.value().size(), 1U);
  EXPECT_EQ(stored->front().step, left->left().step());
}

TEST_F(TrainerTest, ForgetsWhatItHasWhenAllGoBackToACheckpoint) {
  const std::string model = "[model]\nkind = \"softmax\"\n[train]\n";
  ASSERT_TRUE(run("short", model + "steps = 3\n").ok());
  const auto stored = checkpoint::list_checkpoints(root_ / "short" / "checkpoints");
  ASSERT_EQ(stored.value().size(), 1U);
  const auto undisturbed = run("undisturbed", model + "steps = 2000\n");
  SentBack places(stored->front().path);
  const auto finished = run("a", model + "steps = 2000\n", places);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  std::vector<std::int64_t> placed;
  for (const wire::WorkerMessage& message : messages_) {
    if (message.has_placed()) placed.push_back(message.placed().step());
  }
  EXPECT_EQ(placed, (std::vector<std::int64_t>{0, 3}));
  EXPECT_EQ(finished->weights_hash(), undisturbed->weights_hash());
}

TEST_F(TrainerTest, IsNotUndoneByWhoeverAsksToStopAfterTheEnd) {
  stop_at_ = "saved";
  const auto finished = run("a", kSmall);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  EXPECT_EQ(finished->status(), "finished");
  EXPECT_EQ(finished->steps(), 30);
  EXPECT_FALSE(finished->has_eval());
  EXPECT_NE(finished->reason().find("before the last evaluation"), std::string::npos)
      << finished->reason();
}

TEST_F(TrainerTest, StartsFromAnotherModelAndLeavesFrozenTensorsAsTheyWere) {
  ASSERT_TRUE(run("first", kSmall).ok());
  const auto finished =
      run("second",
          "[model]\nkind = \"mlp\"\nhidden = [16, 16]\ninit_from = \"first\"\nfreeze = [\"fc1*\"]\n"
          "[train]\nsteps = 20\n");
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  const auto& notes = messages_.front().started().notes();
  ASSERT_GE(notes.size(), 2);
  EXPECT_NE(notes[0].find("2 of 6 tensors taken from"), std::string::npos) << notes[0];
  EXPECT_NE(notes[0].find(": fc1.weight, fc1.bias"), std::string::npos) << notes[0];
  // 64 inputs and a bias for each of 16; then 16 and one for 16; then for 10.
  EXPECT_EQ(*notes.rbegin(), "frozen: 1,040 of 1,482 parameters");
  const auto first = checkpoint::load_model(root_ / "first").value();
  const auto second = checkpoint::load_model(root_ / "second").value();
  EXPECT_EQ(first.find("fc1.weight")->values, second.find("fc1.weight")->values);
  EXPECT_EQ(first.find("fc1.bias")->values, second.find("fc1.bias")->values);
}

TEST_F(TrainerTest, RefusesAModelThatSharesNothing) {
  ASSERT_TRUE(run("first", kSmall).ok());
  const auto finished = run("second", "[model]\nkind = \"softmax\"\ninit_from = \"first\"\n");
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(finished.error().code(), Code::kInvalidArgument);
  const auto other = run("third",
                         "[model]\nkind = \"layers\"\ninit_from = \"first\"\n"
                         "layers = [\"flatten\", { kind = \"linear\", name = \"fc1\" }]\n");
  ASSERT_FALSE(other.ok());
  EXPECT_NE(other.error().message().find("fc1.weight ([16, 64] there, [10, 64] here)"),
            std::string::npos)
      << other.error().message();
}

TEST_F(TrainerTest, RefusesBatchNormOfLanesWithOneSample) {
  const std::string vectors =
      "[model]\nkind = \"layers\"\nlayers = [\"flatten\", \"batchnorm\", \"linear\"]\n";
  EXPECT_FALSE(run("a", vectors + "[train]\nbatch = 1\nsteps = 2\n").ok());
  EXPECT_EQ(key_, "train.batch");
  EXPECT_FALSE(run("b", vectors + "[train]\nbatch = 7\nsteps = 2\n[cluster]\nlanes = 4\n").ok());
  EXPECT_EQ(key_, "cluster.lanes");
  EXPECT_TRUE(run("c", vectors + "[train]\nbatch = 8\nsteps = 2\n[cluster]\nlanes = 4\n").ok());
  const std::string images =
      "[model]\nkind = \"layers\"\nlayers = [\"batchnorm\", \"flatten\", \"linear\"]\n";
  EXPECT_TRUE(run("d", images + "[train]\nbatch = 1\nsteps = 2\n").ok());
}

TEST_F(TrainerTest, PointsAtTheLayerThatDoesNotFit) {
  const auto finished =
      run("a", "[model]\nkind = \"layers\"\nlayers = [\n  { kind = \"linear\", out = 3 },\n]\n");
  ASSERT_FALSE(finished.ok());
  EXPECT_EQ(key_, "model.layers[0]");
  EXPECT_NE(finished.error().message().find("flatten"), std::string::npos)
      << finished.error().message();
}

TEST_F(TrainerTest, RefusesWhatCannotHappenWithinTheRun) {
  const std::string model = "[model]\nkind = \"softmax\"\n[train]\nsteps = 3\n";
  EXPECT_FALSE(run("a", model + "schedule = { kind = \"cosine\", warmup_steps = 3 }\n").ok());
  EXPECT_EQ(key_, "train.schedule.warmup_steps");
  EXPECT_FALSE(run("b", model + "early_stop = { patience = 2 }\n").ok());
  EXPECT_EQ(key_, "train.early_stop");
  EXPECT_FALSE(run("c",
                   "[model]\nkind = \"softmax\"\n[data]\nvalidation = 0\ntest = 0\n"
                   "[train]\nschedule = { kind = \"plateau\" }\n")
                   .ok());
  EXPECT_EQ(key_, "train.schedule");
}

TEST_F(TrainerTest, RefusesTensorsThatAreNotNumbers) {
  ASSERT_TRUE(run("first", kSmall).ok());
  checkpoint::ModelFile file = checkpoint::load_model(root_ / "first").value();
  file.tensors[0].values[3] = std::nanf("");
  fs::create_directories(root_ / "bad");
  const checkpoint::ModelContent content{checkpoint::views(file.tensors), {}, file.metadata};
  ASSERT_TRUE(checkpoint::save_model(root_ / "bad" / "model.safetensors", content).ok());
  const auto started =
      run("second", "[model]\nkind = \"mlp\"\nhidden = [16]\ninit_from = \"bad\"\n");
  ASSERT_FALSE(started.ok());
  EXPECT_NE(started.error().message().find("`fc1.weight` holds nan"), std::string::npos)
      << started.error().message();
  EXPECT_EQ(load_trained(root_ / "bad", {}).error().code(), Code::kCorrupt);
}

TEST_F(TrainerTest, EvaluatesTheTestPartOnceAtTheEnd) {
  ASSERT_TRUE(
      run("a", "[model]\nkind = \"softmax\"\n[data]\nvalidation = 0\n[train]\nepochs = 2\n").ok());
  EXPECT_EQ(std::count_if(messages_.begin(), messages_.end(),
                          [](const auto& m) { return m.has_evaluated(); }),
            2);
}

TEST_F(TrainerTest, SavedModelsEvaluateAsTheyDidInTheRun) {
  const auto finished = run("a", kSmall);
  ASSERT_TRUE(finished.ok()) << finished.error().message();
  const auto trained = load_trained(root_ / "a", {});
  ASSERT_TRUE(trained.ok()) << trained.error().message();
  const auto parts = data::load(trained->job.data, root_);
  collective::Group alone;
  const auto evaluation = evaluate(*trained->model, *parts->test, 0, alone, {}, {});
  EXPECT_EQ((*evaluation)->loss, finished->loss());
  EXPECT_EQ((*evaluation)->accuracy, finished->accuracy());
}

}  // namespace
}  // namespace tandem::train
