#include "ps/dense_slice.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/hash.h"
#include "optim/clip.h"

namespace tandem::ps {

Result<std::unique_ptr<DenseSlice>> DenseSlice::create(SliceConfig config,
                                                       std::span<float> memory) {
  auto slice = std::unique_ptr<DenseSlice>(new DenseSlice(std::move(config), memory));
  for (State& state : slice->states_) {
    TANDEM_ASSIGN(state.optimizer,
                  optim::Optimizer::create(slice->config_.optimizer,
                                           static_cast<std::int64_t>(slice->parameters_)));
    state.arrays = state.optimizer->state();
  }
  return slice;
}

DenseSlice::DenseSlice(SliceConfig config, std::span<float> memory)
    : config_(std::move(config)),
      parameters_(std::clamp(config_.parameters, config_.slice.begin, config_.slice.end) -
                  config_.slice.begin) {
  TANDEM_CHECK(memory.size() == 2 * size());
  states_[0].values = memory.first(size());
  states_[1].values = memory.last(size());
  const auto begin = static_cast<std::int64_t>(config_.slice.begin);
  const auto most = static_cast<std::int64_t>(parameters_);
  for (const optim::Range& range : config_.trainable) {
    const std::int64_t from = std::clamp<std::int64_t>(range.begin - begin, 0, most);
    const std::int64_t to = std::clamp<std::int64_t>(range.end - begin, 0, most);
    if (from < to) trainable_.push_back({from, to});
  }
}

std::vector<std::int64_t> DenseSlice::steps() const {
  std::vector<std::int64_t> steps;
  if (loading_) return steps;
  for (const std::size_t which : {now_, 1 - now_}) {
    if (states_[which].step >= 0) steps.push_back(states_[which].step);
  }
  return steps;
}

DenseSlice::State* DenseSlice::find(std::int64_t step) {
  for (State& state : states_) {
    if (step >= 0 && state.step == step) return &state;
  }
  return nullptr;
}

Status DenseSlice::use(std::int64_t step) {
  State* const state = find(step);
  if (state == nullptr || (loading_ && *loading_ != step)) {
    return Error(Code::kNotFound, fmt::format("there is no state after step {} of floats {} to {}",
                                              step, config_.slice.begin, config_.slice.end));
  }
  loading_.reset();
  now_ = state == &states_[0] ? 0 : 1;
  State& other = states_[1 - now_];
  other.step = -1;
  // What no step changes is never copied again.
  std::copy_n(state->values.begin(), parameters_, other.values.begin());
  for (std::size_t i = 0; i < state->arrays.size(); ++i) {
    const std::span<const float> array = state->arrays[i].values;
    std::copy(array.begin(), array.end(), other.arrays[i].values.begin());
  }
  state->optimizer->set_steps(step);
  return {};
}

Result<std::span<float>> DenseSlice::part(State& state, std::size_t array, std::size_t begin,
                                          std::size_t count) const {
  if (array > state.arrays.size() || begin > parameters_ || count > parameters_ - begin) {
    return Error(Code::kInvalidArgument,
                 fmt::format("floats {} to {} of array {} are not among the {} of {} arrays", begin,
                             begin + count, array, parameters_, 1 + state.arrays.size()));
  }
  const std::span<float> all = array == 0 ? state.values : state.arrays[array - 1].values;
  return all.subspan(begin, count);
}

Result<std::span<const float>> DenseSlice::fetch(std::int64_t step, std::size_t array,
                                                 std::size_t begin, std::size_t count) {
  State* const state = loading_ ? nullptr : find(step);
  if (state == nullptr)
    return Error(Code::kNotFound, fmt::format("there is no state after step {}", step));
  TANDEM_ASSIGN(const std::span<float> floats, part(*state, array, begin, count));
  return std::span<const float>(floats);
}

Result<std::string> DenseSlice::checksum(std::int64_t step) {
  State* const state = loading_ ? nullptr : find(step);
  if (state == nullptr)
    return Error(Code::kNotFound, fmt::format("there is no state after step {}", step));
  Hasher hasher;
  hasher.add(std::as_bytes(state->values.first(parameters_)));
  for (const optim::StateTensor& array : state->arrays) {
    for (const optim::Range& range : trainable_) {
      hasher.add(
          std::as_bytes(array.values.subspan(static_cast<std::size_t>(range.begin),
                                             static_cast<std::size_t>(range.end - range.begin))));
    }
  }
  return hasher.hex();
}

Result<std::span<float>> DenseSlice::load(std::int64_t step, std::size_t array, std::size_t begin,
                                          std::size_t count) {
  if (step < 0)
    return Error(Code::kInvalidArgument, fmt::format("there is no state after step {}", step));
  TANDEM_ASSIGN(const std::span<float> floats, part(states_[0], array, begin, count));
  if (loading_ != step) {
    loading_ = step;
    for (State& state : states_) state.step = -1;
    states_[0].step = step;
  }
  return floats;
}

void DenseSlice::begin(double lr, double gradient_scale) {
  TANDEM_CHECK(states_[now_].step >= 0 && !loading_);
  State &from = states_[now_], &to = states_[1 - now_];
  to.step = -1;
  to.optimizer->set_steps(from.step);
  to.optimizer->begin(lr, gradient_scale);
}

optim::Updated DenseSlice::apply(const Bucket& at, std::span<float> sums) {
  if (const std::size_t trained = std::min(at.end, parameters_); at.begin < trained) {
    const optim::Range all{0, static_cast<std::int64_t>(trained - at.begin)};
    optim::clip_by_value(sums, config_.clip, std::span(&all, 1));
  }
  return update(at, sums);
}

optim::Updated DenseSlice::update(const Bucket& at, std::span<const float> sums) {
  const State& from = states_[now_];
  State& to = states_[1 - now_];
  optim::Updated result = optim::Updated::kFinite;
  for (const optim::Range& range : trainable_) {
    const auto begin = std::max<std::size_t>(at.begin, static_cast<std::size_t>(range.begin));
    const auto end = std::min<std::size_t>(at.end, static_cast<std::size_t>(range.end));
    if (begin >= end) continue;
    const std::size_t count = end - begin;
    for (std::size_t i = 0; i < to.arrays.size(); ++i) {
      const std::span<const float> old = from.arrays[i].values.subspan(begin, count);
      std::copy(old.begin(), old.end(),
                to.arrays[i].values.begin() + static_cast<std::ptrdiff_t>(begin));
    }
    const optim::Range part{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
    if (to.optimizer->update_from(from.values.first(parameters_), to.values.first(parameters_),
                                  sums.subspan(begin - at.begin, count),
                                  part) == optim::Updated::kNotFinite)
      result = optim::Updated::kNotFinite;
  }
  const std::size_t summed = std::max(at.begin, parameters_);
  if (summed < at.end) {
    const std::span<const float> only = sums.subspan(summed - at.begin);
    std::copy(only.begin(), only.end(), to.values.begin() + static_cast<std::ptrdiff_t>(summed));
  }
  return result;
}

void DenseSlice::begin_arrival(double lr, std::int64_t count) {
  State& state = states_[now_];
  TANDEM_CHECK(state.step >= 0 && !loading_);
  state.optimizer->set_steps(count);
  state.optimizer->begin(lr);
}

optim::Updated DenseSlice::apply_arrival(const Bucket& at, std::span<float> gradient) {
  State& state = states_[now_];
  optim::Updated result = optim::Updated::kFinite;
  for (const optim::Range& range : trainable_) {
    const auto begin = std::max<std::size_t>(at.begin, static_cast<std::size_t>(range.begin));
    const auto end = std::min<std::size_t>(at.end, static_cast<std::size_t>(range.end));
    if (begin >= end) continue;
    const std::span<float> slopes = gradient.subspan(begin - at.begin, end - begin);
    const optim::Range all{0, static_cast<std::int64_t>(slopes.size())};
    optim::clip_by_value(slopes, config_.clip, std::span(&all, 1));
    const optim::Range part{static_cast<std::int64_t>(begin), static_cast<std::int64_t>(end)};
    if (state.optimizer->update(state.values.first(parameters_), slopes, part) ==
        optim::Updated::kNotFinite)
      result = optim::Updated::kNotFinite;
  }
  return result;
}

void DenseSlice::keep(const Bucket& at) {
  const State& from = states_[now_];
  State& to = states_[1 - now_];
  const auto copy = [&](std::span<const float> old, std::span<float> values) {
    std::copy_n(old.begin() + static_cast<std::ptrdiff_t>(at.begin), at.end - at.begin,
                values.begin() + static_cast<std::ptrdiff_t>(at.begin));
  };
  copy(from.values, to.values);
  for (std::size_t i = 0; i < to.arrays.size(); ++i)
    copy(from.arrays[i].values, to.arrays[i].values);
}

void DenseSlice::commit() {
  now_ = 1 - now_;
  states_[now_].step = states_[1 - now_].step + 1;
}

std::span<const float> DenseSlice::result(const Bucket& at) const {
  return states_[1 - now_].values.subspan(at.begin, at.end - at.begin);
}

}  // namespace tandem::ps
