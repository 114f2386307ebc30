#include "optim/optimizer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <limits>
#include <sstream>
#include <string>

#include "base/rng.h"
#include "optim/clip.h"

namespace tandem::optim {
namespace {

std::unique_ptr<Optimizer> make(const OptimizerConfig& config, std::size_t size) {
  auto optimizer = Optimizer::create(config, static_cast<std::int64_t>(size));
  EXPECT_TRUE(optimizer.ok());
  return std::move(optimizer).value();
}

std::vector<float> random_floats(std::size_t size, std::uint64_t stream) {
  Rng rng({7, stream});
  std::vector<float> values(size);
  for (float& value : values) value = rng.normal();
  return values;
}

std::vector<OptimizerConfig> all_kinds() {
  return {
      {.kind = OptimizerKind::kSgd, .l1 = 1e-3},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9},
      {.kind = OptimizerKind::kSgd, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdam, .lr = 0.01, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdamW, .lr = 0.01, .weight_decay = 0.01},
      {.kind = OptimizerKind::kAdagrad, .lr = 0.01},
  };
}

// One optimizer and clipping with the numbers that PyTorch had for them: tests/golden/optim.txt.
struct GoldenCase {
  std::string title;
  OptimizerConfig config;
  ClipConfig clip;
  std::vector<float> start;
  std::vector<std::vector<float>> gradients;
  std::vector<std::vector<float>> after;
};

void set_option(GoldenCase& golden, const std::string& key, double value) {
  if (key == "lr")
    golden.config.lr = value;
  else if (key == "momentum")
    golden.config.momentum = value;
  else if (key == "nesterov")
    golden.config.nesterov = value != 0;
  else if (key == "beta1")
    golden.config.beta1 = value;
  else if (key == "beta2")
    golden.config.beta2 = value;
  else if (key == "epsilon")
    golden.config.epsilon = value;
  else if (key == "weight_decay")
    golden.config.weight_decay = value;
  else if (key == "l1")
    golden.config.l1 = value;
  else if (key == "clip_norm")
    golden.clip.norm = value;
  else if (key == "clip_value")
    golden.clip.value = value;
  else
    FAIL() << "unknown option " << key;
}

GoldenCase parse_case(const std::string& title, std::istringstream& words) {
  GoldenCase golden;
  golden.title = title;
  std::string kind, option;
  words >> kind;
  if (kind == "adam") golden.config.kind = OptimizerKind::kAdam;
  if (kind == "adamw") golden.config.kind = OptimizerKind::kAdamW;
  if (kind == "adagrad") golden.config.kind = OptimizerKind::kAdagrad;
  while (words >> option) {
    const std::size_t equals = option.find('=');
    set_option(golden, option.substr(0, equals), std::strtod(option.c_str() + equals + 1, nullptr));
  }
  return golden;
}

std::vector<float> parse_floats(std::istringstream& words) {
  std::vector<float> values;
  for (std::string word; words >> word;) values.push_back(std::strtof(word.c_str(), nullptr));
  return values;
}

std::vector<GoldenCase> read_golden() {
  std::ifstream file("tests/golden/optim.txt");
  std::vector<GoldenCase> cases;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string word;
    words >> word;
    if (word == "case") cases.push_back(parse_case(line, words));
    if (word == "start") cases.back().start = parse_floats(words);
    if (word == "gradient") cases.back().gradients.push_back(parse_floats(words));
    if (word == "after") cases.back().after.push_back(parse_floats(words));
  }
  return cases;
}

TEST(Optimizer, HasTheBitsOfPyTorch) {
  const std::vector<GoldenCase> cases = read_golden();
  ASSERT_EQ(cases.size(), 14U) << "run the test from the repository's root";
  for (const GoldenCase& golden : cases) {
    SCOPED_TRACE(golden.title);
    std::vector<float> parameters = golden.start;
    const auto optimizer = make(golden.config, parameters.size());
    ASSERT_EQ(golden.gradients.size(), 6U);
    ASSERT_EQ(golden.after.size(), 6U);
    for (std::size_t step = 0; step < golden.gradients.size(); ++step) {
      std::vector<float> gradients = golden.gradients[step];
      clip(gradients, golden.clip);
      optimizer->step(parameters, gradients, golden.config.lr);
      for (std::size_t i = 0; i < parameters.size(); ++i) {
        // The norm is a sum, whose order is not PyTorch's; everything else is exact.
        const float slack = golden.clip.norm > 0 ? 1e-6F : 0;
        ASSERT_NEAR(parameters[i], golden.after[step][i], slack)
            << "step " << step << " place " << i;
      }
    }
  }
}

TEST(Optimizer, ContinuesWithTheSameBitsAfterARestore) {
  for (const OptimizerConfig& config : all_kinds()) {
    std::vector<float> undisturbed = random_floats(101, 1);
    const auto first = make(config, undisturbed.size());
    for (std::uint64_t step = 0; step < 5; ++step) {
      first->step(undisturbed, random_floats(101, 10 + step), config.lr);
    }
    std::vector<float> restored = undisturbed;
    const auto second = make(config, restored.size());
    const auto from = first->state();
    const auto to = second->state();
    ASSERT_EQ(from.size(), to.size());
    for (std::size_t i = 0; i < from.size(); ++i) {
      EXPECT_EQ(from[i].name, to[i].name);
      std::copy(from[i].values.begin(), from[i].values.end(), to[i].values.begin());
    }
    second->set_steps(first->steps());
    for (std::uint64_t step = 5; step < 10; ++step) {
      first->step(undisturbed, random_floats(101, 10 + step), config.lr);
      second->step(restored, random_floats(101, 10 + step), config.lr);
    }
    EXPECT_EQ(first->steps(), 10);
    EXPECT_EQ(undisturbed, restored);
  }
}

TEST(Optimizer, GivesTheSameBitsInSlices) {
  for (const OptimizerConfig& config : all_kinds()) {
    std::vector<float> whole = random_floats(101, 1);
    std::vector<float> sliced = whole;
    const auto all = make(config, 101);
    const auto low = make(config, 37);
    const auto high = make(config, 64);
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::vector<float> gradients = random_floats(101, 10 + step);
      all->step(whole, gradients, config.lr);
      const std::span<float> parameters = sliced;
      low->step(parameters.first(37), std::span(gradients).first(37), config.lr);
      high->step(parameters.subspan(37), std::span(gradients).subspan(37), config.lr);
    }
    EXPECT_EQ(whole, sliced);
  }
}

TEST(Optimizer, GivesTheSameBitsInParts) {
  for (const OptimizerConfig& config : all_kinds()) {
    std::vector<float> whole = random_floats(101, 1);
    std::vector<float> parts = whole;
    const auto at_once = make(config, 101);
    const auto in_parts = make(config, 101);
    for (std::uint64_t step = 0; step < 4; ++step) {
      const std::vector<float> gradients = random_floats(101, 10 + step);
      at_once->step(whole, gradients, config.lr, 0.5);
      in_parts->begin(config.lr, 0.5);
      for (const Range& part : {Range{64, 101}, Range{0, 1}, Range{1, 64}}) {
        const auto begin = static_cast<std::size_t>(part.begin);
        const auto count = static_cast<std::size_t>(part.end - part.begin);
        EXPECT_EQ(in_parts->update(parts, std::span(gradients).subspan(begin, count), part),
                  Updated::kFinite);
      }
    }
    EXPECT_EQ(whole, parts);
    EXPECT_EQ(in_parts->steps(), 4);
  }
}

TEST(Optimizer, GivesTheSameBitsFromOneVectorToAnother) {
  constexpr std::size_t kSize = 5000;
  for (const OptimizerConfig& config : all_kinds()) {
    const auto in_place = make(config, kSize), across = make(config, kSize);
    std::vector<float> expected = random_floats(kSize, 1), old = expected, parameters(kSize);
    for (std::uint64_t step = 0; step < 3; ++step) {
      const std::vector<float> gradients = random_floats(kSize, 10 + step);
      in_place->step(expected, gradients, config.lr);
      across->begin(config.lr);
      for (const Range part : {Range{0, 7}, Range{7, 4999}, Range{4999, 5000}}) {
        const auto count = static_cast<std::size_t>(part.end - part.begin);
        EXPECT_EQ(
            across->update_from(
                old, parameters,
                std::span(gradients).subspan(static_cast<std::size_t>(part.begin), count), part),
            Updated::kFinite);
      }
      EXPECT_EQ(parameters, expected);
      std::swap(old, parameters);
    }
  }
}

TEST(Optimizer, GivesTheSameBitsWhenItAddsTheGradientsItself) {
  constexpr std::size_t kSize = 4001;
  for (const OptimizerConfig& config : all_kinds()) {
    for (std::size_t terms = 1; terms <= Optimizer::kMostTerms; ++terms) {
      auto given = make(config, kSize), adding = make(config, kSize);
      std::vector<float> expected = random_floats(kSize, 0), found = expected;
      for (std::uint64_t step = 0; step < 3; ++step) {
        std::vector<std::vector<float>> gradients;
        for (std::size_t i = 0; i < terms; ++i)
          gradients.push_back(random_floats(kSize, 4 * step + i + 1));
        std::vector<float> sum = gradients[0];
        for (std::size_t i = 0; i < kSize; ++i) {
          if (terms > 1) sum[i] += gradients[1][i];
          if (terms == 3) sum[i] += gradients[2][i];
          if (terms == 4) sum[i] += gradients[2][i] + gradients[3][i];
        }
        given->begin(config.lr);
        adding->begin(config.lr);
        for (const Range part : {Range{0, 17}, Range{17, 4001}}) {
          std::vector<const float*> places;
          for (const std::vector<float>& each : gradients)
            places.push_back(&each[static_cast<std::size_t>(part.begin)]);
          const auto of_sum =
              std::span(sum).subspan(static_cast<std::size_t>(part.begin),
                                     static_cast<std::size_t>(part.end - part.begin));
          EXPECT_EQ(given->update(expected, of_sum, part), Updated::kFinite);
          EXPECT_EQ(adding->update(found, places, part), Updated::kFinite);
        }
      }
      EXPECT_EQ(found, expected) << terms;
    }
  }
}

TEST(Optimizer, TouchesOnlyTheTrainableRanges) {
  const std::vector<Range> trainable = {{3, 20}, {20, 20}, {50, 91}};
  for (const OptimizerConfig& config : all_kinds()) {
    const std::vector<float> start = random_floats(101, 1);
    std::vector<float> all = start;
    std::vector<float> some = start;
    const auto trains_all = make(config, 101);
    const auto trains_some = make(config, 101);
    for (std::uint64_t step = 0; step < 3; ++step) {
      trains_all->step(all, random_floats(101, 10 + step), config.lr);
      trains_some->step(some, random_floats(101, 10 + step), config.lr, trainable);
    }
    for (std::int64_t i = 0; i < 101; ++i) {
      const bool trained = std::any_of(trainable.begin(), trainable.end(), [i](const Range& range) {
        return range.begin <= i && i < range.end;
      });
      const auto at = static_cast<std::size_t>(i);
      EXPECT_EQ(some[at], trained ? all[at] : start[at]) << i;
      for (const StateTensor& tensor : trains_some->state()) {
        EXPECT_EQ(tensor.values[at] != 0, trained) << tensor.name << ' ' << i;
      }
    }
  }
}

TEST(Optimizer, TrainsNothingWithoutRanges) {
  std::vector<float> parameters = random_floats(9, 1);
  const std::vector<float> before = parameters;
  make({}, 9)->step(parameters, random_floats(9, 2), 0.1, std::span<const Range>{});
  EXPECT_EQ(parameters, before);
}

TEST(Optimizer, ScalesGradientsAsAScaledCopyWould) {
  for (const OptimizerConfig& config : all_kinds()) {
    std::vector<float> fused = random_floats(33, 1);
    std::vector<float> separate = fused;
    std::vector<float> gradients = random_floats(33, 2);
    make(config, 33)->step(fused, gradients, config.lr, 0.3);
    for (float& gradient : gradients) gradient *= 0.3F;
    make(config, 33)->step(separate, gradients, config.lr);
    EXPECT_EQ(fused, separate);
  }
}

TEST(Optimizer, NamesItsState) {
  const auto names = [](const OptimizerConfig& config) {
    std::vector<std::string> result;
    for (const StateTensor& tensor : make(config, 5)->state()) {
      EXPECT_EQ(tensor.values.size(), 5U);
      result.emplace_back(tensor.name);
    }
    return result;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names({.kind = OptimizerKind::kSgd}), Names{});
  EXPECT_EQ(names({.kind = OptimizerKind::kSgd, .momentum = 0.9}), Names{"momentum"});
  EXPECT_EQ(names({.kind = OptimizerKind::kAdam}), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(names({.kind = OptimizerKind::kAdamW}), (Names{"exp_avg", "exp_avg_sq"}));
  EXPECT_EQ(names({.kind = OptimizerKind::kAdagrad}), Names{"sum"});
}

TEST(Optimizer, RefusesImpossibleConfigurations) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  const std::pair<OptimizerConfig, std::string> wrong[] = {
      {{.lr = -1}, "lr"},
      {{.lr = nan}, "lr"},
      {{.momentum = 1}, "momentum"},
      {{.nesterov = true}, "nesterov"},
      {{.kind = OptimizerKind::kAdam, .beta1 = 1}, "beta1"},
      {{.kind = OptimizerKind::kAdam, .beta2 = -0.1}, "beta2"},
      {{.kind = OptimizerKind::kAdagrad, .epsilon = nan}, "epsilon"},
      {{.weight_decay = -1e-3}, "weight_decay"},
      {{.l1 = nan}, "l1"},
  };
  for (const auto& [config, key] : wrong) {
    const auto optimizer = Optimizer::create(config, 1);
    ASSERT_FALSE(optimizer.ok()) << key;
    EXPECT_EQ(optimizer.error().code(), Code::kInvalidArgument);
    EXPECT_NE(optimizer.error().message().find("optimizer." + key), std::string::npos);
  }
}

TEST(Optimizer, WorksOnNothing) {
  for (const OptimizerConfig& config : all_kinds()) make(config, 0)->step({}, {}, config.lr);
}

TEST(Optimizer, SaysWhenAParameterIsNoLongerANumber) {
  for (const OptimizerKind kind : {OptimizerKind::kSgd, OptimizerKind::kAdam, OptimizerKind::kAdamW,
                                   OptimizerKind::kAdagrad}) {
    auto optimizer = Optimizer::create({.kind = kind}, 37).value();
    std::vector<float> parameters(37, 1.0F), gradients(37, 0.5F);
    EXPECT_EQ(optimizer->step(parameters, gradients, 0.1), Updated::kFinite);
    gradients[36] = std::numeric_limits<float>::infinity();
    EXPECT_EQ(optimizer->step(parameters, gradients, 0.1), Updated::kNotFinite);
  }
}

}  // namespace
}  // namespace tandem::optim
