#include "model/model.h"

#include <fmt/format.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "base/rng.h"
#include "base/rows.h"
#include "model/libraries.h"
#include "model/loss.h"
#include "model/plan.h"

namespace tandem::model {
namespace {

// PyTorch's momentum for batch-norm's running statistics.
constexpr float kStatisticsMomentum = 0.1F;

// Runs `body`; whatever a library throws becomes an Error.
template <typename T, typename Body>
Result<T> guarded(const char* doing, Body body) {
  try {
    return Result<T>(body());
  } catch (const std::bad_alloc&) {
    return Error(
        Code::kOutOfSpace,
        fmt::format(
            "{}: not enough memory; use a smaller train.batch, more lanes or a smaller model",
            doing));
  } catch (const std::exception& exception) {
    return Error(Code::kInternal, fmt::format("{}: {}", doing, exception.what()));
  }
}

class PlannedModel final : public Model {
 public:
  PlannedModel(arch::Blueprint blueprint, arch::Loss loss)
      : blueprint_(std::move(blueprint)),
        loss_(std::move(loss)),
        parameters_(memory_.take(static_cast<std::size_t>(blueprint_.parameters)),
                    static_cast<std::size_t>(blueprint_.parameters)),
        buffers_(memory_.take(static_cast<std::size_t>(blueprint_.buffers)),
                 static_cast<std::size_t>(blueprint_.buffers)) {}

  const arch::Blueprint& blueprint() const override { return blueprint_; }
  std::span<float> parameters() override { return parameters_; }
  std::span<float> buffers() override { return buffers_; }
  void parameters_changed() override { ++version_; }

  void initialise(std::uint64_t seed) override {
    for (const arch::Slot& slot : blueprint_.slots) {
      const std::span<float> all = slot.kind == arch::SlotKind::kParameter ? parameters_ : buffers_;
      fill(slot,
           all.subspan(static_cast<std::size_t>(slot.offset), static_cast<std::size_t>(slot.size)),
           seed);
    }
    parameters_changed();
  }

  Result<LossSums> forward_backward(const data::Batch& batch, float scale, LaneKey key,
                                    const LaneOutput& output) override {
    return guarded<LossSums>("forward and backward",
                             [&] { return run_lane(batch, scale, key, output); });
  }

  Result<LossSums> evaluate(const data::Batch& batch) override {
    return guarded<LossSums>("evaluate", [&] {
      Plan& plan = plan_for(batch.size, Mode::kEvaluate);
      plan.forward(pass_over(batch, Mode::kEvaluate));
      return loss_of(loss_, outputs_of(plan), batch, 1, nullptr);
    });
  }

  Result<std::span<const float>> predict(const data::Batch& batch) override {
    return guarded<std::span<const float>>("predict", [&] {
      Plan& plan = plan_for(batch.size, Mode::kEvaluate);
      plan.forward(pass_over(batch, Mode::kEvaluate));
      const Outputs outputs = outputs_of(plan);
      to_predictions(loss_, plan.output().value, outputs.rows, outputs.columns);
      return std::span<const float>(plan.output().value, plan.output().floats);
    });
  }

 private:
  Result<LossSums> run_lane(const data::Batch& batch, float scale, LaneKey key,
                            const LaneOutput& output) {
    TANDEM_CHECK(output.gradients.size() == parameters_.size() &&
                 output.statistics.size() == buffers_.size());
    Plan& plan = plan_for(batch.size, Mode::kTrain);
    Pass pass = pass_over(batch, Mode::kTrain);
    pass.gradients = output.gradients.data();
    pass.statistics = output.statistics.data();
    pass.statistics_weight = static_cast<float>(batch.size) * scale;
    pass.key = key;
    const auto tell = [this](const auto& who, std::size_t block) {
      if (!who) return;
      const auto [begin, end] = parameter_range(blueprint_.blocks[block]);
      if (begin < end) who(begin, end);
    };
    plan.forward(pass, [&](std::size_t block) { tell(output.needs, block); });
    const LossSums sums = loss_of(loss_, outputs_of(plan), batch, scale, plan.output().gradient);
    if (output.turns) TANDEM_TRY(output.turns());
    plan.backward(pass, [&](std::size_t block) { tell(output.ready, block); });
    return sums;
  }

  static void fill_rows(const arch::Slot& slot, std::span<float> values, std::uint64_t seed) {
    const auto width = static_cast<std::size_t>(slot.shape.back());
    const std::uint64_t of_table = table_seed(seed, slot.name);
    for (std::size_t row = 0; row * width < values.size(); ++row) {
      begin_row(of_table, row, static_cast<float>(slot.scale), values.subspan(row * width, width));
    }
  }

  static void fill(const arch::Slot& slot, std::span<float> values, std::uint64_t seed) {
    if (slot.fill == arch::Fill::kRows) return fill_rows(slot, values, seed);
    const std::string name_hash = hash_hex(std::as_bytes(std::span(slot.name)));
    Rng rng({seed, std::strtoull(name_hash.substr(0, 16).c_str(), nullptr, 16)});
    const auto scale = static_cast<float>(slot.scale);
    for (float& value : values) {
      switch (slot.fill) {
        case arch::Fill::kZeros:
          value = 0;
          break;
        case arch::Fill::kOnes:
          value = 1;
          break;
        case arch::Fill::kNormal:
          value = rng.normal() * scale;
          break;
        case arch::Fill::kUniform:
          value = (2 * rng.uniform() - 1) * scale;
          break;
        case arch::Fill::kRows:
          break;  // Done above.
      }
    }
  }

  Plan& plan_for(std::int64_t batch, Mode mode) {
    std::unique_ptr<Plan>& plan = plans_[{batch, mode}];
    if (plan == nullptr) plan = std::make_unique<Plan>(blueprint_, batch, mode);
    return *plan;
  }

  Pass pass_over(const data::Batch& batch, Mode mode) const {
    Pass pass;
    pass.mode = mode;
    pass.batch = &batch;
    pass.parameters = parameters_.data();
    pass.buffers = buffers_.data();
    pass.version = version_;
    return pass;
  }

  static Outputs outputs_of(const Plan& plan) {
    return {plan.output().value, plan.output().rows(), plan.output().columns()};
  }

  std::pair<std::int64_t, std::int64_t> parameter_range(const arch::Block& block) const {
    std::int64_t begin = blueprint_.parameters, end = 0;
    for (std::int64_t i = block.first_slot; i < block.last_slot; ++i) {
      const arch::Slot& slot = blueprint_.slots[static_cast<std::size_t>(i)];
      if (slot.kind != arch::SlotKind::kParameter) continue;
      begin = std::min(begin, slot.offset);
      end = std::max(end, slot.offset + slot.size);
    }
    return {begin, end};
  }

  const arch::Blueprint blueprint_;
  const arch::Loss loss_;
  Workspace memory_;
  const std::span<float> parameters_, buffers_;
  std::uint64_t version_ = 1;
  std::map<std::pair<std::int64_t, Mode>, std::unique_ptr<Plan>> plans_;
};

}  // namespace

Result<std::unique_ptr<Model>> Model::create(arch::Blueprint blueprint, arch::Loss loss,
                                             std::int64_t threads) {
  return guarded<std::unique_ptr<Model>>("build the model", [&] {
    set_kernel_threads(static_cast<int>(threads));
    return std::make_unique<PlannedModel>(std::move(blueprint), std::move(loss));
  });
}

void update_buffers(std::span<float> buffers, std::span<const float> statistics) {
  TANDEM_CHECK(buffers.size() == statistics.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    buffers[i] = (1 - kStatisticsMomentum) * buffers[i] + kStatisticsMomentum * statistics[i];
  }
}

}  // namespace tandem::model
