// How the peers' all-reduces are timed: as `tandem bench allreduce` times ours.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace tandem::bench {

inline double now_s() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Seconds of one call, the best of five rounds of about 50 ms. `slowest` gives every rank the
// largest of what each passes; it is a barrier too.
inline double best_time(const std::function<void()>& call,
                        const std::function<double(double)>& slowest) {
  const auto repeat = [&](int times) {
    slowest(0);
    const double begin = now_s();
    for (int i = 0; i < times; ++i) call();
    return slowest((now_s() - begin) / times);
  };
  repeat(2);
  double best = repeat(3);
  const int times = static_cast<int>(std::clamp(0.05 / best, 3.0, 20000.0));
  for (int round = 0; round < 5; ++round) best = std::min(best, repeat(times));
  return best;
}

inline void print_result(const char* engine, int ranks, long bytes, double seconds) {
  const double bus = 2.0 * (ranks - 1) / ranks * static_cast<double>(bytes) / seconds / 1e9;
  std::printf(
      "{\"engine\": \"%s\", \"order\": \"ring\", \"ranks\": %d, \"bytes\": %ld, "
      "\"microseconds\": %.3f, \"bus_gb_s\": %.4f}\n",
      engine, ranks, bytes, seconds * 1e6, bus);
  std::fflush(stdout);
}

// "1024,4096" as numbers.
inline std::vector<long> sizes_of(const std::string& text) {
  std::vector<long> sizes;
  for (std::size_t at = 0; at < text.size();) {
    sizes.push_back(std::strtol(text.c_str() + at, nullptr, 10));
    const std::size_t comma = text.find(',', at);
    at = comma == std::string::npos ? text.size() : comma + 1;
  }
  return sizes;
}

}  // namespace tandem::bench
