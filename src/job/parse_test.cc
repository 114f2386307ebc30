#include "job/parse.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

namespace tandem::job {
namespace {

struct Case {
  std::string name, toml, message;
  std::vector<std::string> overrides;
};

std::vector<Case> golden_cases() {
  std::ifstream file("src/job/testdata/mistakes.txt");
  std::vector<Case> cases;
  bool in_message = false;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with("## ")) {
      cases.push_back({line.substr(3), "", "", {}});
      in_message = false;
    } else if (cases.empty()) {
      continue;
    } else if (line == "=>") {
      in_message = true;
    } else if (in_message) {
      cases.back().message += line + "\n";
    } else if (line.starts_with("$ ")) {
      cases.back().overrides.push_back(line.substr(2));
    } else {
      cases.back().toml += line + "\n";
    }
  }
  for (Case& c : cases) c.message.erase(c.message.find_last_not_of('\n') + 1);
  return cases;
}

std::string error_of(std::string_view toml, const std::vector<std::string>& overrides = {}) {
  const Result<Job> result = parse(toml, "digits.toml", overrides);
  if (result.ok()) return "no error";
  EXPECT_EQ(result.error().code(), Code::kInvalidArgument);
  return result.error().message();
}

TEST(Parse, ExplainsEachKindOfMistake) {
  const std::vector<Case> cases = golden_cases();
  ASSERT_GE(cases.size(), 70U);
  for (const Case& c : cases) EXPECT_EQ(error_of(c.toml, c.overrides), c.message) << c.name;
}

TEST(Parse, FillsInDefaults) {
  const Result<Job> job = parse("[model]\nkind = \"mlp\"\n", "jobs/my digits.toml", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(job->name, "my-digits");
  EXPECT_EQ(job->model.config.hidden, (std::vector<std::int64_t>{512, 512}));
  EXPECT_EQ(job->data.source, "digits");
  EXPECT_EQ(job->train.epochs, 10);
  EXPECT_EQ(job->train.optimizer.kind, optim::OptimizerKind::kSgd);
  EXPECT_EQ(job->train.optimizer.lr, 0.05);
  EXPECT_EQ(job->cluster.lanes, 1);
}

TEST(Parse, DefaultsDependOnTheKind) {
  const auto rate = [](std::string_view optimizer) {
    const Result<Job> job = parse("[model]\nkind = \"mlp\"\n", "a.toml",
                                  std::vector{"train.optimizer=" + std::string(optimizer)});
    return job.ok() ? job->train.optimizer.lr : -1;
  };
  EXPECT_EQ(rate("sgd"), 0.05);
  EXPECT_EQ(rate("adam"), 0.001);
  EXPECT_EQ(rate("adamw"), 0.001);
  EXPECT_EQ(rate("adagrad"), 0.01);
}

TEST(Parse, ReadsEveryType) {
  const Result<Job> job = parse(R"(
name = "all"
[model]
kind = "layers"
layers = [
  { kind = "conv", out = 8, kernel = 5, stride = 2, padding = 1, bias = false, init = "kaiming", name = "first" },
  "relu",
  { kind = "max_pool" },
  { kind = "dropout", rate = 0.25 },
  "flatten",
  { kind = "linear" },
]
init = "xavier"
init_from = "runs/a"
freeze = ["first*", "b"]
[data]
source = "csv"
path = "a.csv"
label = -1
header = "no"
task = "classes"
normalise = false
[train]
seed = 9223372036854775807
loss = { class_weights = [1, 0.5], label_smoothing = 0.1 }
clip = { norm = 1, value = 0.5 }
early_stop = { patience = 3, metric = "accuracy", min_delta = 1e-3 }
[train.optimizer]
kind = "adamw"
beta2 = 0.98
[train.schedule]
kind = "plateau"
patience = 7
)",
                                "a.toml", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  const std::vector<arch::Layer>& layers = job->model.config.layers;
  ASSERT_EQ(layers.size(), 6U);
  EXPECT_EQ(layers[0].kind, arch::LayerKind::kConv);
  EXPECT_EQ(layers[0].out, 8);
  EXPECT_EQ(layers[0].stride, 2);
  EXPECT_FALSE(layers[0].bias);
  EXPECT_EQ(layers[0].init, arch::Init::kKaiming);
  EXPECT_EQ(layers[0].name, "first");
  EXPECT_EQ(layers[2].kernel, 2);
  EXPECT_EQ(layers[2].stride, 0);
  EXPECT_EQ(layers[3].rate, 0.25);
  EXPECT_EQ(layers[5].out, 0);
  EXPECT_EQ(job->model.config.init, arch::Init::kXavier);
  EXPECT_EQ(job->model.freeze, (std::vector<std::string>{"first*", "b"}));
  EXPECT_EQ(job->data.label, "-1");
  EXPECT_FALSE(job->data.normalise);
  EXPECT_EQ(job->train.seed, 9223372036854775807U);
  EXPECT_EQ(job->train.loss.class_weights, (std::vector<float>{1, 0.5}));
  EXPECT_EQ(job->train.clip.value, 0.5);
  EXPECT_EQ(job->train.early_stop_patience, 3);
  EXPECT_EQ(job->train.early_stop_metric, "accuracy");
  EXPECT_EQ(job->train.optimizer.beta2, 0.98);
  EXPECT_EQ(job->train.schedule.kind, optim::ScheduleKind::kPlateau);
  EXPECT_EQ(job->train.schedule.patience, 7);
}

TEST(Parse, TakesTheMseLossForValues) {
  const Result<Job> job =
      parse("[model]\nkind='mlp'\n[data]\nsource='csv'\npath='a'\ntask='values'", "a.toml", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(job->train.loss.kind, arch::LossKind::kMse);
}

TEST(Parse, ReportsAllMistakesAtOnce) {
  const std::string message =
      error_of("[model]\nkind = \"mlp\"\n[train]\nepochs = 0\nbatch = \"x\"\nfoo = 1\n");
  std::size_t errors = 1;
  for (std::size_t at = 0; (at = message.find("\n\nerror: ", at)) != std::string::npos; ++at)
    ++errors;
  EXPECT_EQ(errors, 3U) << message;
  EXPECT_LT(message.find("train.epochs"), message.find("train.batch"));
  EXPECT_LT(message.find("train.batch"), message.find("train.foo"));
}

TEST(Parse, AWrongKindCausesNoFurtherMessages) {
  const std::string message = error_of(
      "[model]\nkind = \"mpl\"\nhidden = [64]\n[train]\noptimizer = { kind = \"sdg\", nesterov = "
      "true }\n");
  EXPECT_EQ(message.find("hidden ="), std::string::npos) << message;
  EXPECT_EQ(message.find("needs momentum"), std::string::npos) << message;
}

TEST(Parse, RefusesWhatIsNotUtf8) {
  EXPECT_EQ(error_of("[model]\nkind = \"\xff\"\n"),
            "the text is not UTF-8\n"
            "  --> digits.toml:2:9\n"
            "   |\n"
            " 2 | kind = \"?\"\n"
            "   |         ^ save it as UTF-8");
}

TEST(Parse, RefusesAFileThatIsTooLarge) {
  EXPECT_EQ(error_of(std::string(kMostFileBytes + 1, '#')),
            "digits.toml is too large for a job file: 1048577 bytes, at most 1048576 are read");
}

TEST(Parse, SurvivesKeysAndValuesThatNestWithoutEnd) {
  std::string dotted = "a";
  for (int i = 0; i < 200000; ++i) dotted += ".a";
  EXPECT_NE(error_of(dotted + " = 1").find("too many parts"), std::string::npos);
  EXPECT_NE(error_of("[" + dotted + "]").find("too many parts"), std::string::npos);
  EXPECT_NE(error_of("x = { \"=\"." + dotted + " = 1 }").find("too many parts"), std::string::npos);
  EXPECT_NE(error_of("a = " + std::string(100000, '[')).find("nested too deeply"),
            std::string::npos);
  EXPECT_NE(error_of("", {"x=" + std::string(100000, '[')}).find("key=value"), std::string::npos);
}

TEST(Parse, RefusesCharactersOutsideOfQuotesThatTomlDoesNotKnow) {
  EXPECT_EQ(error_of("[model]\nkind = “mlp”\n"),
            "a character that may not stand here\n"
            "  --> digits.toml:2:8\n"
            "   |\n"
            " 2 | kind = “mlp”\n"
            "   |        ^ outside of quotes only letters, digits and ASCII signs may stand");
}

TEST(Parse, RefusesStringsOverSeveralLines) {
  EXPECT_EQ(error_of("name = \"\"\"\na\"\"\"\n"),
            "a string over several lines\n"
            "  --> digits.toml:1:8\n"
            "   |\n"
            " 1 | name = \"\"\"\n"
            "   |        ^^^ write it on one line");
}

TEST(Parse, AcceptsAByteOrderMarkAndForeignLineEnds) {
  const Result<Job> job = parse(
      "\xef\xbb\xbf[model]\r\nkind = \"cnn\" # größer\r\nfreeze = [\"ä\\\"\"]\r\n", "a.toml", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  EXPECT_EQ(job->model.freeze, std::vector<std::string>{"ä\""});
}

TEST(Parse, SurvivesHeadersThatStartWithNoKey) {
  for (const char* text :
       {"[=]", "[\x1bmodel]", "[[,]]", "[", "[]", "[.a]", "[a.]", "a.=1", ".=1", "{", "x = {=1}"}) {
    EXPECT_NE(error_of(text), "no error") << text;
  }
}

TEST(Parse, StopsLookingWhenThereAreManyMistakes) {
  std::string toml;
  for (int i = 0; i < 100000; ++i) toml += "k" + std::to_string(i) + "=1\n";
  EXPECT_NE(error_of(toml).find("there are more mistakes"), std::string::npos);
}

TEST(Parse, NamesARunAfterAnyFile) {
  for (const char* file : {"-", "", "..", "/dev/stdin", ".toml", "a b/\xff\n.toml"}) {
    const Result<Job> job = parse("[model]\nkind = \"cnn\"\n", file, {});
    EXPECT_TRUE(job.ok()) << file;
  }
}

TEST(PointAt, UnderlinesALayerOfTheFile) {
  const Result<ParsedJob> parsed = parse_located(
      "[model]\nkind = \"layers\"\nlayers = [\n  { kind = \"conv\", out = 8, kernel = 9 },\n  "
      "\"relu\",\n]\n",
      "a.toml", {});
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(
      point_at(*parsed, "model.layers[0]", "a 9x9 kernel does not fit", "use a smaller kernel"),
      "a 9x9 kernel does not fit\n"
      "  --> a.toml:4:3\n"
      "   |\n"
      " 4 |   { kind = \"conv\", out = 8, kernel = 9 },\n"
      "   |   ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^ use a smaller kernel");
  EXPECT_EQ(point_at(*parsed, "model.layers[0].kernel", "m", "").substr(0, 20),
            "m\n  --> a.toml:4:38\n");
  EXPECT_EQ(point_at(*parsed, "model.layers[1].out", "m", "").substr(0, 19),
            "m\n  --> a.toml:5:3\n");
}

TEST(PointAt, FallsBackToTheTableAndThenToTheFile) {
  const Result<ParsedJob> parsed = parse_located("[model]\nkind = \"cnn\"\n", "a.toml", {});
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(point_at(*parsed, "model.init_from", "m", ""),
            "m\n  --> a.toml:1:2\n   |\n 1 | [model]\n   |  ^^^^^");
  EXPECT_EQ(point_at(*parsed, "data.path", "m", "h"), "m\n  --> a.toml\n   |\n   = h");
}

}  // namespace
}  // namespace tandem::job
