// A parameter server's slice of the vector that a job exchanges: parameters with their optimizer's
// state, and, behind the last parameter, numbers that are only summed (statistics, losses).
//
// Two states are kept, that after the last step and that after the one before, because servers and
// workers that lose somebody in the middle of a step must agree on one that all still have. A step
// is made in parts, each of which copies what it changes from one to the other: no more memory is
// moved than by an update in place.
//
// Pure arithmetic, with the bits of optim/optimizer.h. Belongs to one thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "optim/config.h"
#include "optim/optimizer.h"
#include "optim/range.h"
#include "ps/pieces.h"

namespace tandem::ps {

struct SliceConfig {
  Bucket slice;                         // Of the vector.
  std::size_t parameters = 0;           // The vector's first floats; the rest is only summed.
  std::vector<optim::Range> trainable;  // Of the vector; ascending.
  optim::OptimizerConfig optimizer;
  optim::ClipConfig clip;
};

class DenseSlice {
 public:
  // `memory` holds the results of both states: two times the slice's floats, and must outlive it.
  // kOutOfSpace when the optimizer's state does not fit.
  static Result<std::unique_ptr<DenseSlice>> create(SliceConfig config, std::span<float> memory);

  const SliceConfig& config() const { return config_; }
  std::size_t size() const { return config_.slice.end - config_.slice.begin; }
  // Floats of it that are parameters.
  std::size_t parameters() const { return parameters_; }

  // Steps after which there is a state; the newer first.
  std::vector<std::int64_t> steps() const;
  // Array 0 are the parameters, the others the optimizer's state.
  std::size_t arrays() const { return 1 + states_[0].optimizer->state().size(); }

  // Goes on from the state after `step`. kNotFound when there is none.
  Status use(std::int64_t step);
  // Parameters after the last step. REQUIRES: `at` are parameters of the slice.
  std::span<const float> parameters_at(const Bucket& at) const {
    return states_[now_].values.subspan(at.begin, at.end - at.begin);
  }
  // Floats of an array of the state after `step`, from parameter `begin` of the slice on.
  // kNotFound when there is no such state, kInvalidArgument when it has not so many.
  Result<std::span<const float>> fetch(std::int64_t step, std::size_t array, std::size_t begin,
                                       std::size_t count);
  // XXH3-128 of the parameters after `step` and of what the optimizer keeps for those that are
  // trained, as hex digits. kNotFound when there is no such state.
  Result<std::string> checksum(std::int64_t step);
  // Where load() of a new state puts floats; until use() says that it is whole. The first call with
  // another step than before forgets everything else.
  Result<std::span<float>> load(std::int64_t step, std::size_t array, std::size_t begin,
                                std::size_t count);

  bool is_loading() const { return loading_.has_value(); }

  // The step after the last one; then apply() once for each part of the slice that changes, then
  // commit().
  // REQUIRES: use() was called.
  void begin(double lr, double gradient_scale = 1);
  // `at` counts from the slice's begin; `sums` are those of the part and may be changed.
  optim::Updated apply(const Bucket& at, std::span<float> sums);
  // The same for sums that are not to be clipped by value. They are read once.
  optim::Updated update(const Bucket& at, std::span<const float> sums);
  // For parts that are not updated in the step: as they were after the last one. Only those that
  // the last step updated need it.
  void keep(const Bucket& at);
  void commit();
  // Where workers do not wait for each other: the state after the last step is updated in place, by
  // update number `count` of all. begin_arrival(), then apply_arrival() once for each part.
  // `gradient` may be changed.
  void begin_arrival(double lr, std::int64_t count);
  optim::Updated apply_arrival(const Bucket& at, std::span<float> gradient);
  // The state that was so updated is the one after `step`.
  void stand_after(std::int64_t step) { states_[now_].step = step; }
  // What the part is now.
  std::span<const float> now(const Bucket& at) const {
    return states_[now_].values.subspan(at.begin, at.end - at.begin);
  }

  // What the part became in the step under way; stays as it is until the step after the next.
  std::span<const float> result(const Bucket& at) const;
  // Steps done.
  std::int64_t step() const { return states_[now_].step; }

 private:
  struct State {
    std::int64_t step = -1;  // -1: none.
    std::span<float> values;
    std::unique_ptr<optim::Optimizer> optimizer;
    std::vector<optim::StateTensor> arrays;  // The optimizer's.
  };

  DenseSlice(SliceConfig config, std::span<float> memory);

  State* find(std::int64_t step);
  Result<std::span<float>> part(State& state, std::size_t array, std::size_t begin,
                                std::size_t count) const;

  const SliceConfig config_;
  const std::size_t parameters_;
  std::vector<optim::Range> trainable_;  // Of the slice.
  std::array<State, 2> states_;
  std::size_t now_ = 0;  // The state that steps go on from.
  std::optional<std::int64_t> loading_;
};

}  // namespace tandem::ps
