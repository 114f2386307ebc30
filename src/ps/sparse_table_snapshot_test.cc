#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/rng.h"
#include "ps/sparse_table.h"

namespace tandem::ps {
namespace {

using optim::OptimizerKind;

const SparseTableConfig kConfig = {.width = 3,
                                   .optimizer = {.kind = OptimizerKind::kAdam, .lr = 0.01},
                                   .seed = 5,
                                   .init_scale = 0.1,
                                   .admit_after = 1,
                                   .evict_after = 30};

std::string save(const SparseTable& table) {
  std::string bytes;
  const Status saved = table.save([&](std::span<const std::byte> piece) -> Status {
    bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    return {};
  });
  EXPECT_TRUE(saved.ok());
  return bytes;
}

Result<SparseTable> restore(const SparseTableConfig& config, const std::string& bytes) {
  std::size_t at = 0;
  return SparseTable::restore(config, [&](std::span<std::byte> piece) -> Status {
    if (bytes.size() - at < piece.size()) return Error(Code::kCorrupt, "the file ends early");
    std::memcpy(piece.data(), bytes.data() + at, piece.size());
    at += piece.size();
    return {};
  });
}

void train(SparseTable& table, std::int64_t from, std::int64_t to, std::uint64_t keys = 2'000) {
  for (std::int64_t step = from; step < to; ++step) {
    ASSERT_TRUE(table.begin_step(step, 0.01).ok());
    Rng rng({static_cast<std::uint64_t>(step)});
    std::vector<std::uint64_t> batch(300);
    for (auto& key : batch) key = mix64(rng.below(keys));
    std::vector<float> gradients(batch.size() * 3);
    for (float& gradient : gradients) gradient = rng.uniform() - 0.5F;
    ASSERT_TRUE(table.push(batch, gradients).ok());
  }
}

std::vector<float> pull_all(const SparseTable& table) {
  std::vector<std::uint64_t> keys;
  for (std::uint64_t i = 0; i < 2'000; ++i) keys.push_back(mix64(i));
  std::vector<float> weights(keys.size() * 3);
  EXPECT_TRUE(table.pull(keys, weights).ok());
  return weights;
}

SparseTable trained() {
  SparseTable table = SparseTable::create(kConfig).value();
  train(table, 1, 60);
  EXPECT_GT(table.rows(), 1'000);
  EXPECT_GT(table.candidates(), 10);
  return table;
}

TEST(Snapshot, ContinuesWithTheSameBits) {
  SparseTable table = trained();
  auto restored = restore(kConfig, save(table));
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->step(), table.step());
  EXPECT_EQ(pull_all(*restored), pull_all(table));
  table.sweep(3'000);
  train(table, 60, 120);
  train(*restored, 60, 120);
  EXPECT_EQ(pull_all(*restored), pull_all(table));
  EXPECT_EQ(save(*restored), save(table));
}

TEST(Snapshot, HasBytesThatDoNotDependOnHistory) {
  SparseTable plain = trained();
  // Another that was once much larger, and was swept.
  SparseTable other = SparseTable::create(kConfig).value();
  std::vector<std::uint64_t> keys(50'000);
  for (std::uint64_t i = 0; i < keys.size(); ++i) keys[i] = i + 1'000'000'000;
  const std::vector<float> gradients(keys.size() * 3, 1.0F);
  for (int i = 0; i < 2; ++i) ASSERT_TRUE(other.push(keys, gradients).ok());
  train(other, 1, 60);
  other.sweep(20'000);
  EXPECT_NE(other.rows(), plain.rows()) << "some are too old and not yet swept";
  EXPECT_EQ(save(other), save(plain));
}

TEST(Snapshot, OfAnEmptyTable) {
  const auto restored = restore(kConfig, save(SparseTable::create(kConfig).value()));
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->rows(), 0);
}

TEST(Snapshot, IsRefusedWhenAnyByteIsDamaged) {
  SparseTable table = SparseTable::create(kConfig).value();
  train(table, 1, 3, 100);
  const std::string whole = save(table);
  ASSERT_TRUE(restore(kConfig, whole).ok());
  for (std::size_t i = 0; i < whole.size(); i += i < 128 ? 1 : 7) {
    std::string damaged = whole;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_FALSE(restore(kConfig, damaged).ok()) << "byte " << i;
    EXPECT_FALSE(restore(kConfig, whole.substr(0, i)).ok()) << "cut at " << i;
  }
}

TEST(Snapshot, IsRefusedByATableOfAnotherKind) {
  const std::string bytes = save(trained());
  const auto refusal = [&](auto change) {
    SparseTableConfig config = kConfig;
    change(config);
    const auto restored = restore(config, bytes);
    EXPECT_FALSE(restored.ok());
    EXPECT_EQ(restored.error().code(), Code::kInvalidArgument);
    return restored.error().message();
  };
  EXPECT_EQ(refusal([](SparseTableConfig& c) { c.width = 4; }),
            "the snapshot of a sparse table has width 3, but the table 4");
  EXPECT_EQ(refusal([](SparseTableConfig& c) { c.seed = 6; }),
            "the snapshot of a sparse table has seed 5, but the table 6");
  EXPECT_EQ(refusal([](SparseTableConfig& c) { c.init_scale = 1; }),
            "the snapshot of a sparse table has init_scale 0.1, but the table 1");
  EXPECT_EQ(refusal([](SparseTableConfig& c) { c.optimizer.kind = OptimizerKind::kSgd; }),
            "the snapshot of a sparse table has an optimizer of kind 1, but the table 0");
}

TEST(Snapshot, MayChangeAdmission) {
  SparseTableConfig open = kConfig;
  open.admit_after = 0;
  SparseTable table = trained();
  table.sweep(1 << 20);
  auto restored = restore(open, save(table));
  ASSERT_TRUE(restored.ok());
  EXPECT_EQ(restored->rows(), table.rows());
  EXPECT_EQ(restored->candidates(), 0);
  train(*restored, 60, 62);
  EXPECT_TRUE(restore(open, save(*restored)).ok());
}

TEST(Snapshot, EndsWithTheErrorOfItsSink) {
  const Status saved = trained().save(
      [](std::span<const std::byte>) -> Status { return Error(Code::kOutOfSpace, "disk full"); });
  ASSERT_FALSE(saved.ok());
  EXPECT_EQ(saved.error().code(), Code::kOutOfSpace);
}

}  // namespace
}  // namespace tandem::ps
