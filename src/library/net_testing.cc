#include "library/net_testing.h"

#include <mutex>

namespace tandem::library::testing {

Net make_net(int seed, int hidden) {
  // Random numbers are shared by the threads that are ranks here.
  static std::mutex mutex;
  const std::scoped_lock lock(mutex);
  torch::manual_seed(static_cast<std::uint64_t>(seed));
  return Net(hidden);
}

torch::Tensor inputs(int rows) {
  return torch::sin(torch::arange(rows * 6, torch::kFloat)).view({rows, 6});
}

torch::Tensor loss_of(const torch::Tensor& output) {
  return (output - 0.5).square().mean();
}

torch::Tensor rows_of(const torch::Tensor& all, const Group& group) {
  return all.chunk(group.size())[static_cast<std::size_t>(group.rank())];
}

}  // namespace tandem::library::testing
