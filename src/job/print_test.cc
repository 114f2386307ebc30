#include "job/print.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/rng.h"
#include "job/field.h"
#include "job/parse.h"
#include "job/schema.h"

namespace tandem::job {
namespace {

TEST(Print, ShowsEveryKeyThatApplies) {
  const Result<Job> job =
      parse("[model]\nkind = \"gpt\"\n[data]\nsource = \"text\"\npath = \"a \\\"b\\\".txt\"\n",
            "x.toml", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(print(*job), R"(name = "x"

[model]
kind = "gpt"
dropout = 0
width = 128
heads = 4
blocks = 4
init = "default"

[data]
source = "text"
path = "a \"b\".txt"
context = 64
stride = 0
validation = 0.1
test = 0.2
prefetch = 1

[train]
epochs = 10
steps = 0
batch = 64
seed = 1
threads = 1
loss = { kind = "cross_entropy", label_smoothing = 0 }
optimizer = { kind = "sgd", lr = 0.05, momentum = 0, nesterov = false, weight_decay = 0, l1 = 0 }
schedule = { kind = "constant", warmup_steps = 0 }
clip = { norm = 0, value = 0 }
early_stop = { patience = 0, metric = "loss", min_delta = 0, target = 0, change = 0 }
eval_every_epochs = 1
report_every_s = 1

[cluster]
workers = 1
min_workers = 1
max_workers = 0
max_restarts = 8
lanes = 1
strategy = "allreduce"
servers = 1
replicas = 1
engine = "auto"
timeout_s = 60
bucket_bytes = 0

[ps]
consistency = "bsp"
staleness = 3
quorum = 1
aggregate = "weighted"
stale_lr = "same"
compensation = 0
transport = "auto"
pull = "full"
tables = "dense"
admit_after = 0
evict_after = 0

[checkpoint]
every_steps = 0
every_seconds = 60
keep = 3
best = "none"
)");
}

// Makes records with random values of the keys that apply, as the schema allows them.
class Maker {
 public:
  explicit Maker(std::uint64_t seed) : rng_({seed}) {}

  void fill(const Schema& schema, void* record) {
    for (std::string_view path : schema.paths()) {
      const Key* key = schema.row_for(path, record);
      if (key == nullptr) continue;
      const bool wanted =
          key->presence == Presence::kRequired || !key->fallback.empty() || rng_.below(2) == 0;
      if (wanted) std::visit([&](const auto& field) { set(*key, field, record); }, key->field);
    }
  }

 private:
  void set(const Key& key, const Access<std::string>& field, void* record) {
    field.of(record) =
        key.is_word() ? std::string(key.words[rng_.below(key.words.size())].name) : string();
  }
  void set(const Key& key, const EnumAccess& field, void* record) {
    field.set(record, rng_.below(key.words.size()));
  }
  void set(const Key&, const Access<bool>& field, void* record) {
    field.of(record) = rng_.below(2) == 0;
  }
  void set(const Key& key, const Access<std::vector<arch::Layer>>& field, void* record) {
    (void)key;
    field.of(record).assign(1 + rng_.below(4), {});
    for (arch::Layer& layer : field.of(record)) fill(layer_schema(), &layer);
  }
  template <typename T>
  void set(const Key& key, const Access<std::vector<T>>& field, void* record) {
    field.of(record).clear();
    for (std::uint64_t i = 1 + rng_.below(3); i > 0; --i) {
      if constexpr (std::is_same_v<T, std::string>) {
        field.of(record).push_back(string());
      } else {
        field.of(record).push_back(number<T>(key.range));
      }
    }
  }
  template <typename T>
  void set(const Key& key, const Access<T>& field, void* record) {
    field.of(record) = number<T>(key.range);
  }

  // Strings that a directory may have as a name, since a job's name is one.
  std::string string() {
    constexpr std::string_view kPieces[] = {"a", "é", "\"", "'", "日", "#", "=", "[", "0", "{"};
    std::string text = "s";
    for (std::uint64_t i = rng_.below(6); i > 0; --i)
      text += kPieces[rng_.below(std::size(kPieces))];
    return text;
  }

  template <typename T>
  T number(const Range& range) {
    const double low = range.least;
    const double high =
        std::min(range.most, low + std::pow(10.0, static_cast<double>(rng_.below(13))));
    if constexpr (std::is_integral_v<T>) {
      return static_cast<T>(low) +
             static_cast<T>(rng_.below(static_cast<std::uint64_t>(high - low) + 1));
    } else {
      return static_cast<T>(low +
                            (high - low) * (0.001 + 0.998 * static_cast<double>(rng_.uniform())));
    }
  }

  Rng rng_;
};

void expect_equal(const Schema& schema, void* a, void* b) {
  for (const Key& key : schema.keys())
    EXPECT_EQ(field_text(key, a), field_text(key, b)) << key.path;
}

TEST(Print, WhatIsPrintedParsesToTheSameJob) {
  int valid = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    Job job;
    Maker(seed).fill(job_schema(), &job);
    if (job.name.empty()) job.name = "n";
    job.cluster.workers = job.cluster.min_workers = 1;
    job.cluster.max_workers = 0;
    job.cluster.lanes = std::clamp<std::int64_t>(job.cluster.lanes, 1, job.train.batch);
    // Few choices of servers go together.
    job.cluster.replicas = 1;
    if (job.ps.consistency != "bsp" || job.ps.aggregate != "weighted") job.ps.quorum = 1;
    if (!job.has_servers()) job.ps.aggregate = "weighted";
    if (job.is_async()) job.ps.pull = "full";
    const std::string text = print(job);
    Result<Job> again = parse(text, "a.toml", {});
    if (!again.ok()) {
      // The maker follows the schema but not the rules between keys; no other mistake may be found.
      EXPECT_EQ(again.error().message().find("unknown"), std::string::npos)
          << again.error().message() << text;
      EXPECT_EQ(again.error().message().find("cannot be"), std::string::npos)
          << again.error().message() << text;
      EXPECT_EQ(again.error().message().find("syntax"), std::string::npos)
          << again.error().message() << text;
      EXPECT_EQ(again.error().message().find("does not go"), std::string::npos)
          << again.error().message() << text;
      continue;
    }
    ++valid;
    expect_equal(job_schema(), &job, &*again);
    EXPECT_EQ(print(*again), text);
    if (HasFailure()) FAIL() << "seed " << seed << "\n" << text;
  }
  EXPECT_GT(valid, 150);
}

}  // namespace
}  // namespace tandem::job
