// The source `ratings`: what users would say of items, made up at any size. A user and an item are
// described by a few hidden numbers each; a rating is 3.5 plus their biases and the product of what
// describes them, plus noise. Every sample is a pure function of (seed, its number), made when it
// is gathered, so the set takes no memory.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/rng.h"
#include "data/limits.h"
#include "data/source_kinds.h"

namespace tandem::data {
namespace {

constexpr float kMeanRating = 3.5F;
// Half-width of the biases: a deviation of 0.3.
constexpr float kBiasScale = 0.52F;
// The deviation of the product of hidden numbers.
constexpr double kProductDeviation = 0.5;

// What the words of a random sequence are for.
enum class Stream : std::uint64_t { kSample = 1, kUser = 2, kItem = 3 };

Rng sequence(std::uint64_t seed, Stream stream, std::uint64_t number) {
  return Rng({seed, static_cast<std::uint64_t>(stream), number});
}

float uniform_in(Rng& rng, float scale) {
  return (2 * rng.uniform() - 1) * scale;
}

class RatingSet final : public Dataset {
 public:
  // Samples [first, first + size) of the endless sequence.
  RatingSet(Spec spec, const SourceConfig& config, std::int64_t first, std::int64_t size)
      : spec_(std::move(spec)),
        seed_(config.seed),
        users_(static_cast<std::uint64_t>(config.users)),
        items_(static_cast<std::uint64_t>(config.items)),
        rank_(config.rank),
        noise_(static_cast<float>(config.noise)),
        hidden_scale_(static_cast<float>(
            std::sqrt(3 * kProductDeviation / std::sqrt(static_cast<double>(config.rank))))),
        first_(first),
        size_(size) {}

  const Spec& spec() const override { return spec_; }
  std::int64_t size() const override { return size_; }

  void gather(std::span<const std::uint32_t> indices, Batch& batch) const override {
    batch.size = static_cast<std::int64_t>(indices.size());
    batch.inputs.resize(2 * indices.size());
    batch.values.resize(indices.size());
    batch.tokens.clear();
    batch.classes.clear();
    for (std::size_t i = 0; i < indices.size(); ++i) {
      TANDEM_CHECK(indices[i] < size_);
      Rng rng = sequence(seed_, Stream::kSample, static_cast<std::uint64_t>(first_) + indices[i]);
      const std::uint64_t user = rng.below(users_);
      // Few items are popular: the smaller of two draws is more often a small number.
      const std::uint64_t one = rng.below(items_), other = rng.below(items_);
      const std::uint64_t item = std::min(one, other);
      batch.inputs[2 * i] = static_cast<float>(user);
      batch.inputs[2 * i + 1] = static_cast<float>(item);
      batch.values[i] = expected(user, item) + noise_ * rng.normal();
    }
  }

 private:
  float expected(std::uint64_t user, std::uint64_t item) const {
    Rng of_user = sequence(seed_, Stream::kUser, user);
    Rng of_item = sequence(seed_, Stream::kItem, item);
    float sum = kMeanRating + uniform_in(of_user, kBiasScale) + uniform_in(of_item, kBiasScale);
    for (std::int64_t i = 0; i < rank_; ++i) {
      sum += uniform_in(of_user, hidden_scale_) * uniform_in(of_item, hidden_scale_);
    }
    return sum;
  }

  const Spec spec_;
  const std::uint64_t seed_, users_, items_;
  const std::int64_t rank_;
  const float noise_, hidden_scale_;
  const std::int64_t first_, size_;
};

Status check_sizes(const SourceConfig& config) {
  const auto fits = [](std::int64_t number, std::int64_t most) {
    return number >= 1 && number <= most;
  };
  if (fits(config.users, kMostRows) && fits(config.items, kMostRows) &&
      fits(config.samples, kMostSamples) && config.rank >= 1 && config.noise >= 0)
    return {};
  return Error(Code::kInvalidArgument,
               fmt::format("source = \"ratings\" needs 1 to {} users and items, 1 to {} samples, a "
                           "rank of 1 or more and no negative noise",
                           kMostRows, kMostSamples));
}

}  // namespace

Result<Parts> load_ratings(const SourceConfig& config) {
  TANDEM_TRY(check_sizes(config));
  TANDEM_ASSIGN(const Counts counts, count_parts(config.samples, {config.validation, config.test}));
  Parts parts;
  // As a table would have it, so that predict reads one.
  parts.encoding.columns.resize(2);
  parts.encoding.columns[0].name = "user";
  parts.encoding.columns[0].rows = config.users;
  parts.encoding.columns[1].name = "item";
  parts.encoding.columns[1].rows = config.items;
  parts.encoding.label_name = "rating";
  parts.encoding.label_column = 2;
  parts.encoding.normalisation = no_normalisation(2);
  parts.spec.shape = {2};
  parts.spec.target = Target::kValue;
  parts.spec.target_width = 1;
  parts.spec.ids = {{0, config.users}, {1, config.items}};
  const auto part = [&](std::int64_t first, std::int64_t size) {
    return std::make_shared<const RatingSet>(parts.spec, config, first, size);
  };
  parts.train = part(0, counts.train);
  parts.validation = part(counts.train, counts.validation);
  parts.test = part(counts.train + counts.validation, counts.test);
  return parts;
}

}  // namespace tandem::data
