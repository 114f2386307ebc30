// Whole tables on their way between a worker and servers that keep them by key.
#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "ps/client.h"
#include "ps/testing.h"

namespace tandem::ps {
namespace {

using collective::deadline_after;
using std::chrono::milliseconds;

constexpr std::uint32_t kKeys = 200'000;
constexpr std::size_t kRecordBytes = 8 + 4 + 2 * 4;

// A window of 8 rows on one table, then 3 parameters and a sum.
std::unique_ptr<Client> connect(const TestServers& running, std::size_t servers,
                                std::uint64_t generation) {
  Plan plan;
  plan.generation = generation;
  plan.tables = {{0, 8, 2}};
  plan.sparse = {{kKeys, 3, 0.1}};
  plan.parameters = 19;
  plan.floats = 20;
  plan.buckets = {{0, 19}, {19, 20}};
  plan.trainable = {{0, 19}};
  plan.ends = {1};
  plan.pull = Pull::kPartial;
  const auto& all = running.endpoints();
  auto client =
      Client::connect({.servers = {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(servers)},
                       .token = running.token(),
                       .plan = plan,
                       .name = "worker 0"},
                      deadline_after(std::chrono::seconds(20)));
  EXPECT_TRUE(client.ok()) << client.error().message();
  return client.ok() ? std::move(client).value() : nullptr;
}

// Every key has a row: several messages for each server.
std::string all_rows() {
  std::string records;
  for (std::uint64_t key = 0; key < kKeys; ++key) {
    const std::uint32_t touched = 1;
    const float words[2] = {static_cast<float>(key), -1};
    records.append(reinterpret_cast<const char*>(&key), sizeof key);
    records.append(reinterpret_cast<const char*>(&touched), sizeof touched);
    records.append(reinterpret_cast<const char*>(words), sizeof words);
  }
  return records;
}

TEST(ClientTables, OnlySilenceEndsWhatTakesLong) {
  // Each half takes longer than the deadline leaves in all.
  constexpr milliseconds kSilence{400}, kBusy{450};
  TestServers running(2);
  const std::string rows = all_rows();
  std::vector<float> parameters(19);
  const RecordSource source = [&](const RecordSink& sink) -> Status {
    const auto bytes = std::as_bytes(std::span(rows));
    const std::size_t half = kKeys / 2 * kRecordBytes;
    TANDEM_TRY(sink({0, Records::kRows, kRecordBytes, bytes.first(half)}));
    std::this_thread::sleep_for(kBusy);
    return sink({0, Records::kRows, kRecordBytes, bytes.subspan(half)});
  };
  std::string read;
  const auto read_all = [&](Client& client) {
    read.clear();
    return client.read_tables(
        5,
        [&](const TableRecords& records) {
          if (read.empty()) std::this_thread::sleep_for(kBusy);
          read.append(reinterpret_cast<const char*>(records.bytes.data()), records.bytes.size());
          return Status();
        },
        deadline_after(kSilence));
  };
  {
    const auto alone = connect(running, 1, 1);
    ASSERT_TRUE(alone);
    const Status loaded = alone->load(5, {parameters}, deadline_after(kSilence), source);
    ASSERT_TRUE(loaded.ok()) << loaded.error().message();
    const Status done = read_all(*alone);
    ASSERT_TRUE(done.ok()) << done.error().message();
    EXPECT_EQ(read, rows);
  }
  // Half of them have another server now.
  const auto both = connect(running, 2, 2);
  ASSERT_TRUE(both && both->can_fetch(5) && !both->all_have(5));
  const Status moved = both->restore(5, {parameters}, deadline_after(kSilence));
  ASSERT_TRUE(moved.ok()) << moved.error().message();
  const Status done = read_all(*both);
  ASSERT_TRUE(done.ok()) << done.error().message();
  EXPECT_EQ(read, rows);
}

}  // namespace
}  // namespace tandem::ps
