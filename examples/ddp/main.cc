// Trains a module of one's own on several processes. Each rank takes its rows of every batch; all
// end with the same weights. One process for each rank:
//
//   RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./ddp &
//   RANK=1 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 ./ddp
//
// or `mpirun -n 2 ./ddp`. The engine can be chosen: ./ddp gloo
#include <cstdio>
#include <exception>
#include <string>
#include <vector>

#include "tandem/data_parallel.h"

struct NetImpl : torch::nn::Module {
  NetImpl() {
    conv = register_module("conv", torch::nn::Conv2d(torch::nn::Conv2dOptions(1, 8, 3).padding(1)));
    norm = register_module("norm", torch::nn::BatchNorm2d(8));
    out = register_module("out", torch::nn::Linear(8 * 4 * 4, 10));
  }
  torch::Tensor forward(torch::Tensor x) {
    x = torch::max_pool2d(torch::relu(norm(conv(x))), 2);
    return out(x.flatten(1));
  }
  torch::nn::Conv2d conv{nullptr};
  torch::nn::BatchNorm2d norm{nullptr};
  torch::nn::Linear out{nullptr};
};
TORCH_MODULE(Net);

// Ten patterns of 8 x 8 points under noise: the same at every rank, for the same step.
struct Batch {
  explicit Batch(int step) {
    torch::manual_seed(7);
    const torch::Tensor patterns = torch::randn({10, 1, 8, 8});
    torch::manual_seed(1000 + static_cast<std::uint64_t>(step));
    labels = torch::randint(10, {64}, torch::kLong);
    images = patterns.index_select(0, labels) + 0.7 * torch::randn({64, 1, 8, 8});
  }
  torch::Tensor images, labels;
};

std::uint64_t hash(const torch::nn::Module& module) {
  std::uint64_t value = 14695981039346656037U;  // FNV-1a.
  const auto add = [&](const torch::Tensor& tensor) {
    const torch::Tensor flat = tensor.detach().contiguous();
    const auto* bytes = static_cast<const unsigned char*>(flat.data_ptr());
    for (std::size_t i = 0; i < flat.nbytes(); ++i) value = (value ^ bytes[i]) * 1099511628211U;
  };
  for (const torch::Tensor& tensor : module.parameters()) add(tensor);
  for (const torch::Tensor& tensor : module.buffers()) add(tensor);
  return value;
}

int main(int argc, char** argv) try {
  tandem::Group group = tandem::Group::from_environment({.engine = argc > 1 ? argv[1] : "auto"});
  torch::manual_seed(1);
  Net net;
  tandem::DataParallel ddp(net, group);
  torch::optim::SGD optimizer(net->parameters(), torch::optim::SGDOptions(0.05).momentum(0.9));
  for (int step = 0; step < 60; ++step) {
    const Batch batch(step);
    const auto mine = [&](const torch::Tensor& all) {
      return all.chunk(group.size())[group.rank()];
    };
    optimizer.zero_grad();
    const torch::Tensor loss =
        torch::nn::functional::cross_entropy(ddp.forward(mine(batch.images)), mine(batch.labels));
    loss.backward();  // The gradients are now the mean over all ranks.
    optimizer.step();

    std::vector<float> mean = {loss.item<float>() / static_cast<float>(group.size())};
    group.all_reduce(mean);
    if (group.rank() == 0 && step % 10 == 9) std::printf("step %d loss %.4f\n", step + 1, mean[0]);
  }
  std::printf("rank %d of %d engine %s weights %016llx\n", group.rank(), group.size(),
              std::string(group.engine()).c_str(), static_cast<unsigned long long>(hash(*net)));
} catch (const std::exception& e) {
  std::fprintf(stderr, "%s\n", e.what());
  return 1;
}
