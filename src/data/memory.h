// The two kinds of Dataset, both in memory: samples with features of their own, and windows on a
// text. Immutable; many threads may gather at once. Parts of one set share their features, targets
// and text.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "data/dataset.h"
#include "data/features.h"
#include "data/targets.h"

namespace tandem::data {

class SampleSet final : public Dataset {
 public:
  // Sample i is row rows[i] of the features and targets. Null targets: batches have inputs only.
  // REQUIRES: the sizes agree with each other and with `spec`.
  SampleSet(Spec spec, std::shared_ptr<const Features> features,
            std::shared_ptr<const Targets> targets, Normalisation normalisation,
            std::vector<std::uint32_t> rows);

  const Spec& spec() const override { return spec_; }
  std::int64_t size() const override { return static_cast<std::int64_t>(rows_.size()); }
  void gather(std::span<const std::uint32_t> indices, Batch& batch) const override;

 private:
  const Spec spec_;
  const std::shared_ptr<const Features> features_;
  const std::shared_ptr<const Targets> targets_;
  const Normalisation normalisation_;
  const std::vector<std::uint32_t> rows_;
};

// A piece of a text, [first, last) in tokens.
struct TextRange {
  std::int64_t first = 0;
  std::int64_t last = 0;
};

class WindowSet final : public Dataset {
 public:
  // Sample i is the window of spec.shape[0] tokens that starts at range.first + i * stride; its
  // targets are the tokens one further on, so that every target lies in the range as well.
  // REQUIRES: the range lies in the tokens; stride is at least 1.
  WindowSet(Spec spec, std::shared_ptr<const std::vector<std::uint16_t>> tokens, TextRange range,
            std::int64_t stride);

  const Spec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }
  void gather(std::span<const std::uint32_t> indices, Batch& batch) const override;

  // How many windows fit a range.
  static std::int64_t count(TextRange range, std::int64_t context, std::int64_t stride);

 private:
  const Spec spec_;
  const std::shared_ptr<const std::vector<std::uint16_t>> tokens_;
  const std::int64_t first_;
  const std::int64_t stride_;
  const std::int64_t size_;
};

}  // namespace tandem::data
