#include "job/schema.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "arch/kinds.h"
#include "job/document.h"
#include "job/field.h"
#include "job/job.h"

namespace tandem::job {
namespace {

std::vector<std::string_view> names(const Key& key) {
  std::vector<std::string_view> words;
  for (const Word& word : key.words) words.push_back(word.name);
  return words;
}

TEST(Schema, KnowsTheLayersAndKindsThatArchKnows) {
  EXPECT_EQ(names(*layer_schema().first_row("kind")), arch::layer_names());
  EXPECT_EQ(names(*job_schema().first_row("model.kind")), arch::kind_names());
}

TEST(Schema, WordsStandInTheOrderOfTheirEnumerators) {
  Job job;
  job.model.config.init = arch::Init::kZeros;
  job.train.loss.kind = arch::LossKind::kBce;
  job.train.optimizer.kind = optim::OptimizerKind::kAdagrad;
  job.train.schedule.kind = optim::ScheduleKind::kPlateau;
  const auto word = [&](std::string_view path) {
    return word_of(*job_schema().first_row(path), &job);
  };
  EXPECT_EQ(word("model.init"), "zeros");
  EXPECT_EQ(word("train.loss.kind"), "bce");
  EXPECT_EQ(word("train.optimizer.kind"), "adagrad");
  EXPECT_EQ(word("train.schedule.kind"), "plateau");
}

void expect_sound(const Schema& schema, void* record) {
  std::set<std::string_view> seen;
  for (const Key& key : schema.keys()) {
    EXPECT_FALSE(key.meaning.empty()) << key.path;
    EXPECT_TRUE(key.meaning.ends_with('.')) << key.path;
    if (!key.when.selector.empty()) {
      ASSERT_TRUE(seen.contains(key.when.selector))
          << key.path << ": its selector must stand before it";
      const std::vector<std::string_view> words = names(*schema.first_row(key.when.selector));
      for (std::string_view word : key.when.words)
        EXPECT_EQ(std::count(words.begin(), words.end(), word), 1) << word;
    }
    // A default must be allowed itself.
    const bool has_text = !is_unset(key, record) || !key.fallback.empty();
    if (key.presence == Presence::kOptional && has_text) {
      Mistakes mistakes;
      const std::string text =
          key.fallback.empty() ? field_text(key, record) : std::string(key.fallback);
      const std::optional<Value> value = parse_value(text, Place::kNowhere, 1, mistakes);
      ASSERT_TRUE(value.has_value()) << key.path;
      const std::optional<Refusal> refusal = read_field(key, *value, record);
      EXPECT_FALSE(refusal.has_value()) << key.path << " " << refusal->message;
    }
    seen.insert(key.path);
  }
}

TEST(Schema, IsSound) {
  Job job;
  job.model.config.kind = "mlp";
  expect_sound(job_schema(), &job);
  arch::Layer layer;
  expect_sound(layer_schema(), &layer);
}

TEST(Schema, KeysOfATableStandTogether) {
  std::set<std::string_view> finished;
  std::string_view current;
  for (std::string_view path : job_schema().paths()) {
    const std::string_view table =
        path.substr(0, std::max<std::size_t>(path.rfind('.') + 1, 1) - 1);
    if (table.find('.') == std::string_view::npos || table == current) continue;
    EXPECT_TRUE(finished.insert(table).second) << table;
    current = table;
  }
}

}  // namespace
}  // namespace tandem::job
