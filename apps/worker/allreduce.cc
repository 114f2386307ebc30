#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands.h"

namespace tandem::worker {
namespace {

using Clock = std::chrono::steady_clock;
using collective::Group;

collective::Deadline patience() {
  return collective::deadline_after(std::chrono::minutes(1));
}

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The slowest rank's time, at every rank.
Result<double> slowest(Group& group, double seconds) {
  TANDEM_TRY(group.all_reduce({&seconds, 1, collective::Type::kFloat64}, collective::Op::kMax,
                              collective::Order::kOrdered, patience()));
  return seconds;
}

class Measurement {
 public:
  Measurement(Group& group, std::span<float> buffer, collective::Order order)
      : group_(group),
        operand_{buffer.data(), buffer.size(), collective::Type::kFloat32},
        order_(order) {}

  // Of one call, the best of several rounds.
  Result<double> best() {
    constexpr double kRound_s = 0.05;
    constexpr int kRounds = 5;
    TANDEM_ASSIGN([[maybe_unused]] const double cold, repeat(2));
    TANDEM_ASSIGN(const double first, repeat(3));
    const int times = static_cast<int>(std::clamp(kRound_s / first, 3.0, 20000.0));
    double best = first;
    for (int round = 0; round < kRounds; ++round) {
      TANDEM_ASSIGN(const double now, repeat(times));
      best = std::min(best, now);
    }
    return best;
  }

 private:
  Result<double> repeat(int times) {
    TANDEM_TRY(group_.barrier(patience()));
    const Clock::time_point begin = Clock::now();
    for (int i = 0; i < times; ++i)
      TANDEM_TRY(group_.all_reduce(operand_, collective::Op::kSum, order_, patience()));
    return slowest(group_, seconds_since(begin) / times);
  }

  Group& group_;
  const collective::Operand operand_;
  const collective::Order order_;
};

}  // namespace

Status allreduce(const AllReduceOptions& options) {
  TANDEM_ASSIGN(Group group, join_group(options.group));
  if (group.size() == 1)
    return Error(Code::kInvalidArgument, "an all-reduce needs two ranks at least");
  const auto order =
      options.order == "ring" ? collective::Order::kRing : collective::Order::kOrdered;
  const std::int64_t most = *std::max_element(options.bytes.begin(), options.bytes.end());
  TANDEM_ASSIGN(const std::span<std::byte> memory,
                group.allocate(static_cast<std::size_t>(most), patience()));
  const double factor = 2.0 * (group.size() - 1) / group.size();
  for (const std::int64_t bytes : options.bytes) {
    const std::span<float> buffer(reinterpret_cast<float*>(memory.data()),
                                  static_cast<std::size_t>(bytes) / sizeof(float));
    TANDEM_ASSIGN(const double seconds, Measurement(group, buffer, order).best());
    if (group.rank() != 0) continue;
    const nlohmann::ordered_json line = {
        {"engine", std::string(group.engine())},
        {"order", options.order},
        {"ranks", group.size()},
        {"bytes", bytes},
        {"microseconds", seconds * 1e6},
        {"bus_gb_s", factor * static_cast<double>(bytes) / seconds / 1e9}};
    std::puts(line.dump().c_str());
    std::fflush(stdout);
  }
  return {};
}

}  // namespace tandem::worker
