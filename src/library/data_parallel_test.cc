#include "tandem/data_parallel.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <vector>

#include "library/net_testing.h"
#include "library/testing.h"

namespace tandem::library {
namespace {

using testing::failure_of;
using testing::inputs;
using testing::loss_of;
using testing::make_net;
using testing::Net;
using testing::rows_of;
using testing::run_ranks;

std::vector<torch::Tensor> gradients(torch::nn::Module& module) {
  std::vector<torch::Tensor> all;
  for (const torch::Tensor& p : module.parameters())
    all.push_back(p.grad().defined() ? p.grad().clone() : torch::zeros_like(p));
  return all;
}

void expect_close(const std::vector<torch::Tensor>& a, const std::vector<torch::Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_EQ(a[i].sizes(), b[i].sizes());
    EXPECT_LE((a[i] - b[i]).abs().max().item<float>(), 1e-6F) << "tensor " << i;
  }
}

void remove_gradients(torch::nn::Module& module) {
  for (torch::Tensor& p : module.parameters()) p.mutable_grad().reset();
}

// What one process gets from the whole batch.
std::vector<torch::Tensor> whole_batch() {
  Net net = make_net(0);
  loss_of(net->forward(inputs())).backward();
  return gradients(*net);
}

TEST(DataParallel, GivesTheGradientOfTheWholeBatch) {
  for (const int size : {1, 2, 3, 4}) {
    run_ranks(size, [](const Group& group) {
      DataParallel ddp(make_net(group.rank()), group);
      for (int step = 0; step < 3; ++step) {
        ddp->zero_grad();
        loss_of(ddp.forward(rows_of(inputs(), group))).backward();
        expect_close(gradients(*ddp.module()), whole_batch());
      }
    });
  }
}

TEST(DataParallel, GivesEveryRankTheSameBits) {
  std::mutex mutex;
  std::vector<std::vector<torch::Tensor>> results;
  for (int run = 0; run < 2; ++run) {
    run_ranks(3, [&](const Group& group) {
      DataParallel ddp(make_net(group.rank()), group);
      torch::optim::SGD optimizer(ddp->parameters(), torch::optim::SGDOptions(0.1).momentum(0.9));
      for (int step = 0; step < 5; ++step) {
        optimizer.zero_grad();
        loss_of(ddp.forward(rows_of(inputs(), group))).backward();
        optimizer.step();
      }
      std::vector<torch::Tensor> weights;
      for (const torch::Tensor& p : ddp->parameters()) weights.push_back(p.detach().clone());
      const std::scoped_lock lock(mutex);
      results.push_back(weights);
    });
  }
  for (const auto& weights : results) {
    for (std::size_t i = 0; i < weights.size(); ++i)
      EXPECT_TRUE(torch::equal(weights[i], results[0][i]));
  }
}

TEST(DataParallel, HandsBucketsOverWhileBackwardRuns) {
  run_ranks(2, [](const Group& group) {
    DataParallel ddp(make_net(0), group, {.first_bucket_bytes = 64, .bucket_bytes = 64});
    EXPECT_EQ(ddp.bucket_count(), 6U);
    loss_of(ddp->spare(torch::ones({4, 2}))).backward();
    // The spare layer comes first in the plan; the others have no gradient and wait for the end.
    EXPECT_EQ(ddp.buckets_during_backward(), 2U);
    ddp->zero_grad();
    loss_of(ddp.forward(rows_of(inputs(), group))).backward();
    EXPECT_EQ(ddp.buckets_during_backward(), 0U);  // The spare layer holds up the rest.
    expect_close(gradients(*ddp.module()), whole_batch());
    loss_of(ddp.forward(rows_of(inputs(), group)) + ddp->spare(torch::ones({1, 2})).sum())
        .backward();
    EXPECT_EQ(ddp.buckets_during_backward(), 6U);
  });
}

TEST(DataParallel, AddsUpWithoutSync) {
  run_ranks(2, [](const Group& group) {
    DataParallel ddp(make_net(group.rank()), group);
    const std::vector<torch::Tensor> parts = rows_of(inputs(), group).chunk(2);
    {
      const auto guard = ddp.no_sync();
      (loss_of(ddp.forward(parts[0])) / 2).backward();
    }
    Net alone = make_net(0);
    (loss_of(alone->forward(parts[0])) / 2).backward();
    expect_close(gradients(*ddp.module()), gradients(*alone));  // Ours only.
    (loss_of(ddp.forward(parts[1])) / 2).backward();
    expect_close(gradients(*ddp.module()), whole_batch());
  });
}

TEST(DataParallel, AveragesAccumulatedGradientsOfUnusedParameters) {
  run_ranks(2, [](const Group& group) {
    DataParallel ddp(make_net(0), group);
    {
      const auto guard = ddp.no_sync();
      (ddp->spare->bias.sum() * (group.rank() + 1)).backward();
    }
    loss_of(ddp.forward(rows_of(inputs(), group))).backward();
    EXPECT_EQ(ddp->spare->bias.grad()[0].item<float>(), 1.5F);
  });
}

TEST(DataParallel, CountsAParameterThatOneRankDoesNotUseAsZero) {
  run_ranks(2, [](const Group& group) {
    DataParallel ddp(make_net(0), group);
    for (int step = 0; step < 3; ++step) {
      remove_gradients(*ddp.module());
      torch::Tensor loss = loss_of(ddp.forward(rows_of(inputs(), group)));
      if (group.rank() == 1) loss = loss + ddp->spare->bias.sum();
      loss.backward();
      EXPECT_EQ(ddp->spare->bias.grad()[0].item<float>(), 0.5F);
      EXPECT_EQ(ddp->spare->weight.grad().abs().max().item<float>(), 0);
    }
  });
}

TEST(DataParallel, KeepsGradientsInItsMemoryThroughZeroGrad) {
  run_ranks(2, [](const Group& group) {
    DataParallel ddp(make_net(0), group);
    loss_of(ddp.forward(rows_of(inputs(), group))).backward();
    const void* place = ddp->first->weight.grad().data_ptr();
    remove_gradients(*ddp.module());
    loss_of(ddp.forward(rows_of(inputs(), group))).backward();
    EXPECT_EQ(ddp->first->weight.grad().data_ptr(), place);
    expect_close(gradients(*ddp.module()), whole_batch());
    ddp->zero_grad();
    loss_of(ddp.forward(rows_of(inputs(), group))).backward();
    EXPECT_EQ(ddp->first->weight.grad().data_ptr(), place);
    expect_close(gradients(*ddp.module()), whole_batch());
  });
}

TEST(DataParallel, LeavesGradientsThatOutliveIt) {
  run_ranks(2, [](Group group) {
    Net net = make_net(0);
    torch::Tensor kept;
    {
      DataParallel ddp(net, group);
      EXPECT_EQ(failure_of([&] { DataParallel second(net, group); }).code(),
                Failure::Code::kInvalidArgument);
      loss_of(ddp.forward(rows_of(inputs(), group))).backward();
      kept = net->first->weight.grad();
    }
    expect_close(gradients(*net), whole_batch());
    kept.reset();
    DataParallel second(net, std::exchange(group, Group()));
    kept = second->first->weight.grad();
  });
}

TEST(DataParallel, AveragesBuffersAndKeepsConstants) {
  for (const Buffers buffers : {Buffers::kAverage, Buffers::kLocal}) {
    run_ranks(3, [&](const Group& group) {
      torch::nn::BatchNorm1d norm(6);
      torch::nn::Sequential net(norm);
      const torch::Tensor mask = net->register_buffer(
          "mask", torch::tensor({0.1F, -std::numeric_limits<float>::infinity()}));
      const torch::Tensor constant = mask.clone();
      DataParallel ddp(net, group, {.buffers = buffers});
      for (int step = 0; step < 4; ++step)
        loss_of(ddp.forward(rows_of(inputs(), group))).backward();
      std::vector<float> means(3);
      std::vector<float> mine = {norm->running_mean[0].item<float>()};
      Group(group).all_gather(mine, means);
      EXPECT_EQ(means[0] == means[1] && means[1] == means[2], buffers == Buffers::kAverage);
      if (buffers == Buffers::kAverage) {
        const torch::Tensor whole = inputs().mean(0) * (1 - std::pow(0.9, 4));
        EXPECT_LE((norm->running_mean - whole).abs().max().item<float>(), 1e-6F);
      }
      EXPECT_EQ(norm->num_batches_tracked.item<std::int64_t>(), 4);
      EXPECT_TRUE(torch::equal(mask, constant));
    });
  }
}

}  // namespace
}  // namespace tandem::library
