// Workers as processes, one of which kills itself at a chosen moment of a step. The others must say
// so within a second: who, where, in which step and bucket.
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>

#include "collective/join.h"
#include "collective/store.h"
#include "data/loader.h"
#include "data/source.h"
#include "train/recipe.h"
#include "train/stepper.h"

namespace tandem::train {
namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

constexpr int kWorkers = 3, kVictim = 1, kSlow = 2;
constexpr std::int64_t kLastStep = 3;

enum class Moment { kForward, kBackward, kCollective };

// Shared with the children.
struct Notes {
  std::atomic<std::int64_t> killed_at;
  struct Survivor {
    std::atomic<std::int64_t> told_at;
    Code code;
    char message[512];
  } survivors[kWorkers];
};

[[noreturn]] void die(Notes& notes) {
  notes.killed_at = Clock::now().time_since_epoch().count();
  ::raise(SIGKILL);
  std::abort();
}

// A real model that ends its process on the way.
class Doomed final : public model::Model {
 public:
  Doomed(std::unique_ptr<model::Model> model, Notes& notes, Moment moment)
      : model_(std::move(model)), notes_(notes), moment_(moment) {}

  const arch::Blueprint& blueprint() const override { return model_->blueprint(); }
  std::span<float> parameters() override { return model_->parameters(); }
  std::span<float> buffers() override { return model_->buffers(); }
  void initialise(std::uint64_t seed) override { model_->initialise(seed); }
  void parameters_changed() override { model_->parameters_changed(); }
  Result<model::LossSums> evaluate(const data::Batch& batch) override {
    return model_->evaluate(batch);
  }
  Result<std::span<const float>> predict(const data::Batch& batch) override {
    return model_->predict(batch);
  }
  Result<model::LossSums> forward_backward(const data::Batch& batch, float scale,
                                           model::LaneKey key,
                                           const model::LaneOutput& output) override {
    if (key.step < kLastStep || moment_ == Moment::kCollective)
      return model_->forward_backward(batch, scale, key, output);
    if (moment_ == Moment::kForward) die(notes_);
    model::LaneOutput half = output;
    half.ready = [&](std::int64_t begin, std::int64_t end) {
      output.ready(begin, end);
      die(notes_);
    };
    return model_->forward_backward(batch, scale, key, half);
  }

 private:
  const std::unique_ptr<model::Model> model_;
  Notes& notes_;
  const Moment moment_;
};

// Steps until one fails, and what it says.
Error train_until_failure(int rank, Moment moment, Notes& notes, collective::Group& group) {
  job::Job job;
  job.model.config = {.kind = "mlp", .hidden = {64, 64}};
  job.cluster.workers = job.cluster.lanes = kWorkers;
  job.cluster.bucket_bytes = 4096;
  job.cluster.timeout_s = 10;
  job.train.batch = 24;
  const data::Parts parts = data::load(job.data, ".").value();
  auto model =
      model::Model::create(blueprint_of(job, parts.spec).value(), job.train.loss, 1).value();
  if (rank == kVictim) model = std::make_unique<Doomed>(std::move(model), notes, moment);
  model->initialise(1);
  auto stepper =
      Stepper::create(job, *model, {.parameters = {{0, model->blueprint().parameters}}}, group)
          .value();
  const collective::LaneRange lanes = stepper->lanes();
  const data::Sampler sampler(parts.train->size(), job.train.batch, kWorkers, 1);
  data::Loader loader(*parts.train, sampler, {0, 1000, lanes.begin, lanes.end}, 0);
  for (std::int64_t step = 0;; ++step) {
    const bool waits = moment == Moment::kCollective && step == kLastStep;
    // The others wait for this one in the middle of the sum.
    if (waits && rank == kSlow) std::this_thread::sleep_for(300ms);
    Status status = stepper->begin_step(step, 0.01);
    if (status.ok()) status = stepper->run_lane(loader.next()->batch, lanes.begin, job.train.batch);
    if (!status.ok()) return std::move(status).error().within("step " + std::to_string(step + 1));
    std::thread killer;
    if (waits && rank == kVictim) {
      killer = std::thread([&] {
        std::this_thread::sleep_for(100ms);
        die(notes);
      });
    }
    auto finished = stepper->finish_step();
    if (killer.joinable()) killer.join();
    if (!finished.ok()) return std::move(finished).error();
  }
}

[[noreturn]] void live(int rank, const std::string& engine, Moment moment, std::uint16_t port,
                       Notes& notes) {
  ::alarm(60);
  collective::JoinOptions options{.rank = rank, .size = kWorkers, .port = port, .served = true};
  options.engine = engine;
  auto group = collective::join(options);
  if (!group.ok()) ::_exit(3);
  const Error error = train_until_failure(rank, moment, notes, *group);
  Notes::Survivor& self = notes.survivors[rank];
  self.code = error.code();
  std::strncpy(self.message, error.message().c_str(), sizeof self.message - 1);
  self.told_at = Clock::now().time_since_epoch().count();
  ::_exit(0);
}

void check(const std::string& engine, Moment moment) {
  SCOPED_TRACE(engine + ", moment " + std::to_string(static_cast<int>(moment)));
  void* memory =
      ::mmap(nullptr, sizeof(Notes), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& notes = *new (memory) Notes();
  auto server = collective::StoreServer::start("127.0.0.1", 0, "");
  ASSERT_TRUE(server.ok()) << server.error().message();
  pid_t pids[kWorkers];
  for (int rank = 0; rank < kWorkers; ++rank) {
    pids[rank] = ::fork();
    ASSERT_GE(pids[rank], 0);
    if (pids[rank] == 0) live(rank, engine, moment, (*server)->port(), notes);
  }
  for (int rank = 0; rank < kWorkers; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(pids[rank], &status, 0), pids[rank]);
    if (rank == kVictim) {
      EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << status;
      continue;
    }
    ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << rank << " ended with " << status;
    const Notes::Survivor& survivor = notes.survivors[rank];
    const std::string message = survivor.message;
    EXPECT_EQ(survivor.code, Code::kPeerLost) << message;
    const std::string who = "worker 1 (pid " + std::to_string(pids[kVictim]) + " on ";
    for (const std::string& part : {who, std::string("step 4: "), std::string("bucket ")})
      EXPECT_NE(message.find(part), std::string::npos) << part << "is not in: " << message;
    // The slow one is still busy elsewhere when the victim dies in the sum.
    EXPECT_LT(std::chrono::nanoseconds(survivor.told_at - notes.killed_at), 1s) << message;
  }
  ::munmap(memory, sizeof(Notes));
}

TEST(KilledWorker, IsNamedWhenItDiesInForward) {
  check("shm", Moment::kForward);
  check("gloo", Moment::kForward);
}

TEST(KilledWorker, IsNamedWhenItDiesInBackward) {
  check("shm", Moment::kBackward);
  check("gloo", Moment::kBackward);
}

TEST(KilledWorker, IsNamedWhenItDiesInTheSum) {
  check("shm", Moment::kCollective);
  check("gloo", Moment::kCollective);
}

}  // namespace
}  // namespace tandem::train
