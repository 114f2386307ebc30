#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <fstream>
#include <limits>
#include <new>
#include <nlohmann/json.hpp>
#include <numeric>
#include <vector>

#include "base/memory.h"
#include "base/rng.h"
#include "base/text.h"
#include "bench_ps.h"
#include "counted.h"
#include "ps/sparse_table.h"

namespace tandem::cli {
namespace {

using Clock = std::chrono::steady_clock;
using Json = nlohmann::ordered_json;

constexpr int kRounds = 5;
// Keys pushed at once while the table is filled: as many as a worker's batch may have.
constexpr std::int64_t kFillBatch = 4096;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The process's memory now; 0 where the kernel does not tell.
std::size_t resident_bytes() {
  std::ifstream file("/proc/self/statm");
  std::size_t all = 0, resident = 0;
  file >> all >> resident;
  return resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
}

// Key number `row`; different for different rows, and without any order.
std::uint64_t key_of(std::uint64_t row) {
  return mix64(row + 1);
}

struct Memory {
  std::size_t table_bytes = 0;     // By the table's own count.
  std::size_t resident_bytes = 0;  // What the process grew by.
};

// The most that was held at any time: nothing that the table holds is given back before its end.
Result<Memory> fill(ps::SparseTable& table, std::int64_t rows) {
  const auto width = static_cast<std::size_t>(table.config().width);
  std::vector<std::uint64_t> keys;
  const std::vector<float> gradients(static_cast<std::size_t>(kFillBatch) * width, 1.0F);
  Memory most;
  const std::size_t before = resident_bytes();
  for (std::int64_t begin = 0; begin < rows; begin += kFillBatch) {
    keys.clear();
    for (std::int64_t row = begin; row < std::min(begin + kFillBatch, rows); ++row) {
      keys.push_back(key_of(static_cast<std::uint64_t>(row)));
    }
    if (auto pushed = table.push(keys, std::span(gradients).first(keys.size() * width));
        !pushed.ok()) {
      return std::move(pushed).error();
    }
    most.table_bytes = std::max(most.table_bytes, table.bytes());
    const std::size_t now = resident_bytes();
    most.resident_bytes = std::max(most.resident_bytes, now - std::min(now, before));
  }
  return most;
}

// Keys that are timed together. A slice takes about as long as a process may run before others
// interrupt it; its best time of all rounds is what it takes undisturbed.
constexpr std::size_t kSlice = 1 << 14;

// The best times of an operation's slices.
class SliceTimes {
 public:
  template <typename Operation>
  Status time(std::size_t count, Operation&& operation) {
    best_.resize((count + kSlice - 1) / kSlice, std::numeric_limits<double>::infinity());
    for (std::size_t i = 0; i < best_.size(); ++i) {
      const std::size_t begin = i * kSlice;
      const Clock::time_point start = Clock::now();
      TANDEM_TRY(operation(begin, std::min(kSlice, count - begin)));
      best_[i] = std::min(best_[i], seconds_since(start));
    }
    return {};
  }
  double total() const { return std::accumulate(best_.begin(), best_.end(), 0.0); }

 private:
  std::vector<double> best_;
};

struct Times {
  SliceTimes copy, push, pull;
};

// Everything in turn, so that all see the same moods of the machine.
Result<Times> measure(ps::SparseTable& table, const BenchPsOptions& options) {
  const auto all = static_cast<std::size_t>(options.sparse_keys);
  const auto width = static_cast<std::size_t>(options.width);
  const auto rows = static_cast<std::uint64_t>(options.rows);
  std::vector<std::uint64_t> keys(all), copied_keys(all);
  std::vector<float> gradients(all * width), copied(all * width), weights(all * width);
  Rng rng({1});
  for (std::uint64_t& key : keys) key = key_of(rng.below(rows));
  for (float& gradient : gradients) gradient = rng.uniform() - 0.5F;
  Times best;
  for (int round = 0; round < kRounds; ++round) {
    TANDEM_TRY(best.copy.time(all, [&](std::size_t begin, std::size_t count) -> Status {
      std::memcpy(&copied_keys[begin], &keys[begin], count * sizeof keys[0]);
      std::memcpy(&copied[begin * width], &gradients[begin * width], count * width * sizeof(float));
      return {};
    }));
    TANDEM_TRY(table.begin_step(table.step() + 1, 0.01));
    TANDEM_TRY(best.push.time(all, [&](std::size_t begin, std::size_t count) -> Status {
      TANDEM_ASSIGN(const ps::Pushed pushed,
                    table.push(std::span(copied_keys).subspan(begin, count),
                               std::span(copied).subspan(begin * width, count * width)));
      if (static_cast<std::size_t>(pushed.applied) == count && pushed.created == 0) return {};
      return Error(Code::kInternal, "a push did not reach the rows that the table holds");
    }));
    TANDEM_TRY(best.pull.time(all, [&](std::size_t begin, std::size_t count) {
      return table.pull(std::span(copied_keys).subspan(begin, count),
                        std::span(weights).subspan(begin * width, count * width));
    }));
  }
  return best;
}

Result<Json> measure_table(const BenchPsOptions& options) {
  ps::SparseTableConfig config;
  config.width = options.width;
  config.init_scale = 0.01;
  TANDEM_ASSIGN(ps::SparseTable table, ps::SparseTable::create(config));
  const Clock::time_point begin = Clock::now();
  TANDEM_ASSIGN(const Memory memory, fill(table, options.rows));
  const double fill_s = seconds_since(begin);
  TANDEM_ASSIGN(const Times best, measure(table, options));
  const double copy_s = best.copy.total(), push_s = best.push.total(), pull_s = best.pull.total();
  const auto payload =
      static_cast<double>(options.rows) * static_cast<double>(table.row_words() * sizeof(float));
  const std::int64_t pair_bytes = 8 + 4 * options.width;
  return Json{{"sparse_keys", options.sparse_keys},
              {"rows", options.rows},
              {"width", options.width},
              {"rounds", kRounds},
              {"bytes", options.sparse_keys * pair_bytes},
              {"memcpy_ms", copy_s * 1e3},
              {"push_ms", push_s * 1e3},
              {"pull_ms", pull_s * 1e3},
              {"push_ratio", push_s / copy_s},
              {"pull_ratio", pull_s / copy_s},
              {"fill_ms", fill_s * 1e3},
              {"payload_bytes", options.rows * static_cast<std::int64_t>(table.row_words() * 4)},
              {"table_bytes", memory.table_bytes},
              {"resident_bytes", memory.resident_bytes},
              {"table_ratio", static_cast<double>(memory.table_bytes) / payload},
              {"resident_ratio", static_cast<double>(memory.resident_bytes) / payload}};
}

// The table at its largest, and what is pushed and pulled at once.
double bytes_needed(const BenchPsOptions& options) {
  const double width = static_cast<double>(options.width);
  // A slot of ps/row_map.h with its share of the bucket; how full the table is when it has just
  // grown.
  const double slot = 12 + 4 * width + (options.width > 2 ? 16.0 / 15 : 2.3);
  const double filled = (options.width > 5 ? 0.93 : options.width > 2 ? 0.70 : 0.50) * 0.9;
  return static_cast<double>(options.rows) * slot / filled +
         static_cast<double>(options.sparse_keys) * (2 * 8 + 3 * 4 * width);
}

// A kernel that promises more memory than there is would kill the process, or another one.
Status check_room(const BenchPsOptions& options) {
  const auto available = available_memory();
  const double needed = bytes_needed(options);
  if (!available || needed <= static_cast<double>(*available)) return {};
  return Error(
      Code::kOutOfSpace,
      fmt::format("{} rows of {} and {} at once need about {} of memory, and {} are free; "
                  "give less with --rows, --width or --sparse-keys",
                  with_commas(options.rows), counted(options.width, "float"),
                  counted(options.sparse_keys, "key"),
                  human_bytes(static_cast<std::uint64_t>(needed)), human_bytes(*available)));
}

}  // namespace

Result<Json> measure_sparse(const BenchPsOptions& options) {
  TANDEM_TRY(check_room(options));
  try {
    return measure_table(options);
  } catch (const std::bad_alloc&) {
    return Error(Code::kOutOfSpace,
                 "the keys and floats do not fit into memory; give less with "
                 "--sparse-keys, --rows or --width");
  }
}

std::string sparse_text(const Json& result) {
  const auto number = [&](const char* name) { return result.value(name, 0.0); };
  const auto time = [&](const char* name, double ms) {
    return fmt::format("{:<22} {:>9.1f} ms {:>9.1f} ns a key {:>8.2f}\n", name, ms,
                       ms * 1e6 / number("sparse_keys"), ms / number("memcpy_ms"));
  };
  const auto memory = [&](const char* name, double bytes) {
    return fmt::format("{:<22} {:>9.1f} MB {:>9.1f} B a row  {:>8.2f}\n", name, bytes / 1e6,
                       bytes / number("rows"), bytes / number("payload_bytes"));
  };
  return fmt::format(
             "{} keys, {} rows of {}, best of {}; the last column is the ratio to the "
             "first line\n",
             result.value("sparse_keys", 0L), result.value("rows", 0L), result.value("width", 0L),
             kRounds) +
         time("memcpy", number("memcpy_ms")) + time("push", number("push_ms")) +
         time("pull", number("pull_ms")) + memory("floats of the rows", number("payload_bytes")) +
         memory("the table's count", number("table_bytes")) +
         memory("resident memory", number("resident_bytes"));
}

}  // namespace tandem::cli
