#include "data/memory.h"

#include <algorithm>

#include "base/check.h"

namespace tandem::data {
namespace {

// Samples whose memory is asked for ahead of their use: about the latency of memory over the time
// for one image.
constexpr std::size_t kAhead = 2;

}  // namespace

SampleSet::SampleSet(Spec spec, std::shared_ptr<const Features> features,
                     std::shared_ptr<const Targets> targets, Normalisation normalisation,
                     std::vector<std::uint32_t> rows)
    : spec_(std::move(spec)),
      features_(std::move(features)),
      targets_(std::move(targets)),
      normalisation_(std::move(normalisation)),
      rows_(std::move(rows)) {
  TANDEM_CHECK(features_->width == spec_.sample_size());
  TANDEM_CHECK(!normalisation_.mean.empty());
  TANDEM_CHECK(normalisation_.mean.size() == normalisation_.inverse_deviation.size());
  TANDEM_CHECK(spec_.sample_size() % static_cast<std::int64_t>(normalisation_.mean.size()) == 0);
}

void SampleSet::gather(std::span<const std::uint32_t> indices, Batch& batch) const {
  const auto count = indices.size();
  const auto width = static_cast<std::size_t>(features_->width);
  const auto values =
      static_cast<std::size_t>(targets_ && spec_.target == Target::kValue ? spec_.target_width : 0);
  const bool classes = targets_ && spec_.target == Target::kClass;
  batch.size = static_cast<std::int64_t>(count);
  batch.inputs.resize(count * width);
  batch.tokens.clear();
  batch.classes.resize(classes ? count : 0);
  batch.values.resize(count * values);
  for (std::uint32_t index : indices) TANDEM_CHECK(index < rows_.size());
  for (std::size_t i = 0; i < count; ++i) {
    // Shuffled samples lie far apart, where the processor does not look ahead by itself.
    if (i + kAhead < count) prefetch_sample(*features_, rows_[indices[i + kAhead]]);
    const std::size_t row = rows_[indices[i]];
    write_sample(*features_, normalisation_, static_cast<std::int64_t>(row),
                 batch.inputs.data() + i * width);
    if (classes) batch.classes[i] = targets_->classes[row];
    if (values > 0)
      std::copy_n(targets_->values.data() + row * values, values, batch.values.data() + i * values);
  }
}

WindowSet::WindowSet(Spec spec, std::shared_ptr<const std::vector<std::uint16_t>> tokens,
                     TextRange range, std::int64_t stride)
    : spec_(std::move(spec)),
      tokens_(std::move(tokens)),
      first_(range.first),
      stride_(stride),
      size_(count(range, spec_.shape[0], stride)) {
  TANDEM_CHECK(range.first >= 0 && std::cmp_less_equal(range.last, tokens_->size()));
}

std::int64_t WindowSet::count(TextRange range, std::int64_t context, std::int64_t stride) {
  TANDEM_CHECK(context >= 1 && stride >= 1);
  const std::int64_t starts =
      range.last - range.first - context;  // The last target needs a token, too.
  return starts <= 0 ? 0 : (starts - 1) / stride + 1;
}

void WindowSet::gather(std::span<const std::uint32_t> indices, Batch& batch) const {
  const auto context = static_cast<std::size_t>(spec_.shape[0]);
  batch.size = static_cast<std::int64_t>(indices.size());
  batch.inputs.clear();
  batch.values.clear();
  batch.tokens.resize(indices.size() * context);
  batch.classes.resize(indices.size() * context);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    TANDEM_CHECK(indices[i] < size_);
    const std::uint16_t* const window = tokens_->data() + first_ + indices[i] * stride_;
    std::copy_n(window, context, batch.tokens.data() + i * context);
    std::copy_n(window + 1, context, batch.classes.data() + i * context);
  }
}

}  // namespace tandem::data
