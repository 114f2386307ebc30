#include "command_line.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace tandem::cli {
namespace {

Result<Options> parse(std::vector<std::string> arguments) {
  return parse_command_line(arguments, "1.2.3");
}

template <typename T>
T parsed(std::vector<std::string> arguments) {
  auto options = parse(std::move(arguments));
  EXPECT_TRUE(options.ok()) << options.error().message();
  if (!options.ok() || !std::holds_alternative<T>(*options)) {
    ADD_FAILURE() << "another command was understood";
    return {};
  }
  return std::get<T>(*options);
}

std::string complaint(std::vector<std::string> arguments) {
  const auto options = parse(std::move(arguments));
  EXPECT_FALSE(options.ok());
  if (options.ok()) return {};
  EXPECT_EQ(options.error().code(), Code::kInvalidArgument);
  return options.error().message();
}

TEST(CommandLine, UnderstandsTrain) {
  const auto options =
      parsed<TrainOptions>({"train", "digits.toml", "train.epochs=5", "--out", "runs/x", "--json",
                            "model.hidden=[64, 32]", "-v", "--timeout", "2.5"});
  EXPECT_EQ(options.job, "digits.toml");
  EXPECT_EQ(options.overrides,
            (std::vector<std::string>{"train.epochs=5", "model.hidden=[64, 32]"}));
  EXPECT_EQ(options.out, "runs/x");
  EXPECT_EQ(options.format, Format::kJson);
  EXPECT_EQ(options.detail, Detail::kVerbose);
  EXPECT_EQ(options.limits.silence, std::chrono::milliseconds(2500));
  EXPECT_EQ(options.limits.start, cluster::Limits().start);
}

TEST(CommandLine, UnderstandsBench) {
  const auto options = parsed<BenchAllReduceOptions>(
      {"bench", "allreduce", "--ranks", "4", "--bytes", "4096,64KiB", "--engines", "shm,gloo"});
  EXPECT_EQ(options.ranks, 4);
  EXPECT_EQ(options.bytes, (std::vector<std::int64_t>{4096, 65536}));
  EXPECT_EQ(options.engines, (std::vector<std::string>{"shm", "gloo"}));
  EXPECT_EQ(complaint({"bench", "allreduce", "--bytes", "1KiB,much"}),
            "--bytes: much is not a size; write it like 4096, 64KiB or 16MiB\n"
            "See `tandem bench allreduce --help`");
  const auto checkpoint =
      parsed<BenchCheckpointOptions>({"bench", "checkpoint", "--bytes", "64MiB", "--directory",
                                      "runs", "--rounds", "2", "--json"});
  EXPECT_EQ(checkpoint.bytes, 64 << 20);
  EXPECT_EQ(checkpoint.directory, "runs");
  EXPECT_EQ(checkpoint.rounds, 2);
  EXPECT_EQ(checkpoint.format, Format::kJson);
  EXPECT_EQ(complaint({"bench", "checkpoint", "--rounds", "0"}),
            "--rounds: 0 is not between 1 and 1000\nSee `tandem bench checkpoint --help`");
  const auto ps = parsed<BenchPsOptions>(
      {"bench", "ps", "--sparse-keys", "1000", "--rows", "2000", "--width", "16", "--json"});
  EXPECT_EQ(ps.sparse_keys, 1000);
  EXPECT_EQ(ps.rows, 2000);
  EXPECT_EQ(ps.width, 16);
  EXPECT_EQ(ps.format, Format::kJson);
  EXPECT_TRUE(ps.sparse && !ps.dense);
  const auto dense = parsed<BenchPsOptions>(
      {"bench", "ps", "--transport", "tcp", "--bytes", "1KiB,4MiB", "--workers", "2"});
  EXPECT_EQ(dense.transports, (std::vector<std::string>{"tcp"}));
  EXPECT_EQ(dense.bytes, (std::vector<std::int64_t>{1024, 4 << 20}));
  EXPECT_EQ(dense.workers, 2);
  EXPECT_EQ(dense.servers, 1);
  EXPECT_TRUE(dense.dense && !dense.sparse);
  const auto both = parsed<BenchPsOptions>({"bench", "ps"});
  EXPECT_TRUE(both.dense && both.sparse);
  EXPECT_EQ(complaint({"bench", "ps", "--bytes", "1KiB,much"}),
            "--bytes: much is not a size; write it like 4096, 64KiB or 16MiB\n"
            "See `tandem bench ps --help`");
  EXPECT_EQ(complaint({"bench", "ps", "--servers", "0"}),
            "--servers: 0 is not between 1 and 256\nSee `tandem bench ps --help`");
  EXPECT_EQ(complaint({"bench", "ps", "--width", "0"}),
            "--width: 0 is not between 1 and 65536\nSee `tandem bench ps --help`");
  EXPECT_EQ(complaint({"bench"}),
            "say what to do: allreduce, checkpoint, ps\nSee `tandem bench --help`");
}

TEST(CommandLine, ADashIsStandardInput) {
  EXPECT_EQ(parsed<TrainOptions>({"train", "-"}).job, "-");
}

TEST(CommandLine, UnderstandsEvalAndPredict) {
  const auto eval =
      parsed<EvalOptions>({"eval", "runs/x", "--part", "validation", "data.path=y.csv"});
  EXPECT_EQ(eval.part, "validation");
  EXPECT_EQ(eval.overrides, std::vector<std::string>{"data.path=y.csv"});
  const auto predict = parsed<PredictOptions>({"predict", "runs/x", "a.csv", "b.csv", "--top=3"});
  EXPECT_EQ(predict.inputs.size(), 2U);
  EXPECT_EQ(predict.top, 3);
  EXPECT_FALSE(predict.prompt.has_value());
  EXPECT_EQ(parsed<PredictOptions>({"predict", "runs/x", "--prompt", ""}).prompt, "");
}

TEST(CommandLine, UnderstandsTheModelCommands) {
  EXPECT_EQ(parsed<ModelSummaryOptions>({"model", "summary", "x"}).model, "x");
  EXPECT_EQ(parsed<ModelVerifyOptions>({"model", "verify", "x", "--json"}).format, Format::kJson);
  EXPECT_EQ(parsed<ModelExportOptions>({"model", "export", "x", "--out", "y.npz"}).out, "y.npz");
}

TEST(CommandLine, EveryCommandHasHelp) {
  for (const std::vector<std::string>& arguments : {std::vector<std::string>{"--help"},
                                                    {"train", "--help"},
                                                    {"eval", "-h"},
                                                    {"predict", "--help"},
                                                    {"model", "--help"},
                                                    {"model", "summary", "--help"},
                                                    {"model", "verify", "--help"},
                                                    {"model", "export", "--help"},
                                                    {"doctor", "--help"},
                                                    {"job-reference", "--help"}}) {
    EXPECT_GT(parsed<HelpOptions>(arguments).text.size(), 50U);
  }
  EXPECT_EQ(parsed<HelpOptions>({"--version"}).text, "tandem 1.2.3\n");
}

TEST(CommandLine, RefusesAnEmptyNameOfWhatToWrite) {
  EXPECT_EQ(complaint({"train", "x.toml", "--out", ""}),
            "--out: must not be empty\nSee `tandem train --help`");
  EXPECT_EQ(complaint({"model", "export", "runs/x", "--out", ""}),
            "--out: must not be empty\nSee `tandem model export --help`");
}

TEST(CommandLine, SuggestsWhatWasMeant) {
  EXPECT_NE(complaint({"trian", "x.toml"}).find("did you mean `train`"), std::string::npos);
  EXPECT_NE(complaint({"model", "sumary", "x"}).find("did you mean `summary`"), std::string::npos);
  EXPECT_NE(complaint({"train", "x.toml", "--dryrun"}).find("did you mean `--dry-run`"),
            std::string::npos);
  EXPECT_NE(complaint({"train", "x.toml", "--ou=y"}).find("did you mean `--out`"),
            std::string::npos);
  EXPECT_EQ(complaint({"logs", "a-1", "--workers", "1"}),
            "unknown option `--workers`; did you mean `--worker`?\nSee `tandem logs --help`");
  // What only the job file has.
  EXPECT_EQ(complaint({"train", "x.toml", "--workers", "2"}),
            "unknown option `--workers`; did you mean the job file's `cluster.workers=...`?\nSee "
            "`tandem train --help`");
  EXPECT_NE(complaint({"submit", "x.toml", "--early-stop-patience=3"}).find("unknown option"),
            std::string::npos);
  EXPECT_NE(complaint({"submit", "x.toml", "--max-restart=3"}).find("`cluster.max_restarts=...`"),
            std::string::npos);
  EXPECT_EQ(complaint({"nodes", "--epochs", "2"}),
            "unknown option `--epochs`\nSee `tandem nodes --help`");
  EXPECT_NE(complaint({"--verson"}).find("did you mean `--version`"), std::string::npos);
}

TEST(CommandLine, RefusesWhatMakesNoSense) {
  complaint({});
  complaint({"train"});
  complaint({"model"});
  complaint({"train", "x.toml", "--timeout", "soon"});
  complaint({"train", "x.toml", "--timeout", "-1"});
  complaint({"train", "x.toml", "-q", "-v"});
  complaint({"eval", "x", "--part", "all"});
  complaint({"predict", "x"});
  complaint({"predict", "x", "a.csv", "--prompt", "y"});
  complaint({"predict", "x", "a.csv", "--top", "0"});
  complaint({"model", "export", "x"});
  complaint({"doctor", "extra"});
}

}  // namespace
}  // namespace tandem::cli
