// Times training steps of the five standard workloads on synthetic data: forward, backward, update,
// on batches that lie ready in memory, as the peer's do. Reads "run STEPS" lines and answers each
// with a JSON line, so that bench/step.py can alternate it with a peer.
//
//     tandem-bench-step WORKLOAD BATCH [THREADS [LANES [PART]]]
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iostream>
#include <string>

#include "base/rng.h"
#include "collective/join.h"
#include "data/loader.h"
#include "train/recipe.h"
#include "train/stepper.h"

namespace tandem {
namespace {

constexpr std::int64_t kVocabulary = 96, kContext = 64, kClasses = 10;

// Random numbers as samples: about as many as the peer has, or a part of them, in whole batches.
class SyntheticData final : public data::Dataset {
 public:
  SyntheticData(const std::string& workload, std::int64_t batch, std::int64_t part) {
    const std::int64_t samples = workload == "gpt" ? 512 : workload == "resnet18" ? 256 : 2048;
    size_ = std::max<std::int64_t>(1, samples / part / batch) * batch;
    if (workload == "gpt") {
      spec_ = {.input = data::Input::kTokens,
               .shape = {kContext},
               .classes = kVocabulary,
               .targets_per_sample = kContext};
    } else {
      spec_.shape = workload == "resnet18" ? std::vector<std::int64_t>{3, 32, 32}
                                           : std::vector<std::int64_t>{1, 28, 28};
      spec_.classes = kClasses;
    }
    Rng rng({1});
    const auto numbers = static_cast<std::size_t>(size_ * spec_.sample_size());
    if (spec_.input == data::Input::kTokens) {
      for (std::size_t i = 0; i < numbers; ++i)
        tokens_.push_back(static_cast<std::int32_t>(rng.below(kVocabulary)));
    } else {
      for (std::size_t i = 0; i < numbers; ++i) inputs_.push_back(rng.normal());
    }
    const auto targets = static_cast<std::size_t>(size_ * spec_.targets_per_sample);
    for (std::size_t i = 0; i < targets; ++i) {
      classes_.push_back(
          static_cast<std::int32_t>(rng.below(static_cast<std::uint64_t>(spec_.classes))));
    }
  }

  const data::Spec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }

  void gather(std::span<const std::uint32_t> indices, data::Batch& batch) const override {
    batch.size = std::ssize(indices);
    copy(inputs_, indices, spec_.sample_size(), batch.inputs);
    copy(tokens_, indices, spec_.sample_size(), batch.tokens);
    copy(classes_, indices, spec_.targets_per_sample, batch.classes);
  }

 private:
  template <typename T>
  static void copy(const std::vector<T>& from, std::span<const std::uint32_t> indices,
                   std::int64_t width, std::vector<T>& to) {
    if (from.empty()) return;
    to.resize(indices.size() * static_cast<std::size_t>(width));
    auto at = to.begin();
    for (std::uint32_t index : indices) {
      at = std::copy_n(from.begin() + static_cast<std::int64_t>(index) * width, width, at);
    }
  }

  data::Spec spec_;
  std::int64_t size_ = 0;
  std::vector<float> inputs_;
  std::vector<std::int32_t> tokens_, classes_;
};

// What these lanes train on in the first epochs, in order: as many samples as the data has.
std::vector<data::Batch> batches_of(const data::Dataset& data, const job::Job& job,
                                    collective::LaneRange lanes) {
  const std::int64_t steps = data.size() / job.train.batch * job.cluster.workers;
  const data::Sampler sampler(data.size(), job.train.batch, job.lanes(), 1);
  data::Loader loader(data, sampler, {0, steps, lanes.begin, lanes.end}, 0);
  std::vector<data::Batch> batches;
  while (const data::LoadedBatch* loaded = loader.next()) batches.push_back(loaded->batch);
  return batches;
}

Result<collective::Group> join_from_environment() {
  TANDEM_ASSIGN(const auto options, collective::join_options_from([](const std::string& name) {
                  const char* value = std::getenv(name.c_str());
                  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
                }));
  if (!options.has_value()) return collective::Group();
  return collective::join(*options);
}

int fail(const Error& error) {
  fmt::print(stderr, "error: {}\n", error.message());
  return exit_code(error.code());
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fmt::print(
        stderr,
        "usage: tandem-bench-step softmax|mlp|cnn|resnet18|gpt BATCH [THREADS [LANES [PART]]]\n"
        "BATCH and LANES are each worker's, who has one PART-th of the samples; RANK, WORLD_SIZE, "
        "MASTER_ADDR and MASTER_PORT make "
        "it one of several\n");
    return 2;
  }
  auto group = join_from_environment();
  if (!group.ok()) return fail(group.error());
  const int workers = group->size();
  job::Job job;
  job.model.config.kind = argv[1];
  job.train.batch = std::max(1LL, std::strtoll(argv[2], nullptr, 10)) * workers;
  job.cluster.workers = workers;
  job.train.threads = argc > 3 ? std::strtoll(argv[3], nullptr, 10) : 1;
  job.cluster.lanes = (argc > 4 ? std::strtoll(argv[4], nullptr, 10) : 1) * workers;
  job.train.optimizer.lr = 0.01;
  job.train.optimizer.momentum = 0.9;
  const std::int64_t part = argc > 5 ? std::max(1LL, std::strtoll(argv[5], nullptr, 10)) : 1;
  const SyntheticData data(argv[1], job.train.batch, part);
  auto blueprint = train::blueprint_of(job, data.spec());
  if (!blueprint.ok()) return fail(blueprint.error());
  const std::int64_t parameters = blueprint->parameters;
  auto model =
      model::Model::create(std::move(blueprint).value(), job.train.loss, job.train.threads);
  if (!model.ok()) return fail(model.error());
  (*model)->initialise(job.train.seed);
  auto stepper = train::Stepper::create(
      job, **model,
      {.parameters = {{0, parameters}}, .buffers = {{0, (*model)->blueprint().buffers}}}, *group);
  if (!stepper.ok()) return fail(stepper.error());
  const collective::LaneRange lanes = (*stepper)->lanes();
  const std::vector<data::Batch> batches = batches_of(data, job, lanes);
  std::int64_t step = 0;
  std::size_t at = 0;
  const auto run = [&](std::int64_t steps) -> double {
    const auto begin = std::chrono::steady_clock::now();
    for (std::int64_t i = 0; i < steps; ++i, ++step) {
      Status status = (*stepper)->begin_step(step, job.train.optimizer.lr);
      for (std::int64_t lane = lanes.begin; lane < lanes.end && status.ok(); ++lane) {
        status = (*stepper)->run_lane(batches[at], lane, job.train.batch);
        at = (at + 1) % batches.size();
      }
      if (!status.ok()) std::exit(fail(status.error()));
      const auto outcome = (*stepper)->finish_step();
      if (!outcome.ok()) std::exit(fail(outcome.error()));
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() /
           static_cast<double>(steps);
  };
  run(5);
  std::string word;
  for (std::int64_t steps = 0; std::cin >> word >> steps && word == "run" && steps > 0;) {
    const double seconds = run(steps);
    fmt::print("{{\"ms_per_step\": {}, \"samples_per_s\": {}, \"parameters\": {}}}\n",
               seconds * 1e3, static_cast<double>(job.train.batch) / seconds, parameters);
    std::fflush(stdout);
  }
  return 0;
}

}  // namespace
}  // namespace tandem

int main(int argc, char** argv) {
  return tandem::main(argc, argv);
}
