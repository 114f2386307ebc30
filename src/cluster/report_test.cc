#include "cluster/report.h"

#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>

namespace tandem::cluster {
namespace {

using Json = nlohmann::json;

Report sample() {
  Report report;
  report.name = "digits";
  report.status = RunStatus::kFinished;
  report.steps = 100;
  report.samples = 6400;
  report.train_s = 4;
  report.weights_hash = "0123456789abcdef0123456789abcdef";
  report.evaluation = Evaluation{0.1, 0.98};
  report.strategy = "allreduce";
  report.lanes = 4;
  report.workers = {1, 1};
  report.events.push_back({1.5, "checkpoint", "worker 0", "saved", std::nullopt});
  report.events.push_back({2.5, "recovered", "worker 0", "back", 12.0});
  return report;
}

TEST(Report, HasEveryFieldOfTheContract) {
  const Json json = Json::parse(to_json(sample()));
  for (const char* field :
       {"name",    "status", "reason",     "error",          "steps",        "epochs",
        "samples", "wall_s", "train_s",    "bytes",          "cluster",      "weights_hash",
        "exact",   "eval",   "job_hash",   "base_directory", "kernels",      "threads",
        "model",   "events", "started_at", "version",        "samples_per_s"}) {
    EXPECT_TRUE(json.contains(field)) << field;
  }
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["samples_per_s"], 1600);
  EXPECT_EQ(json["eval"]["accuracy"], 0.98);
  EXPECT_EQ(json["cluster"]["strategy"], "allreduce");
  EXPECT_EQ(json["cluster"]["engine"], "none");
  EXPECT_EQ(json["cluster"]["lanes"], 4);
  EXPECT_EQ(json["cluster"]["workers"], (Json{{"start", 1}, {"end", 1}}));
  EXPECT_EQ(json["cluster"]["servers"], (Json{{"start", 0}, {"end", 0}}));
  for (const char* direction : {"sent", "received"}) {
    for (const char* kind : {"gradients", "parameters", "control"}) {
      EXPECT_TRUE(json["bytes"][direction][kind].is_number_unsigned());
    }
  }
  ASSERT_EQ(json["events"].size(), 2U);
  EXPECT_FALSE(json["events"][0].contains("recovered_ms"));
  EXPECT_EQ(json["events"][1]["recovered_ms"], 12);
}

TEST(Report, WhatIsUnknownIsNull) {
  const Json json = Json::parse(to_json(Report()));
  for (const char* field : {"error", "weights_hash", "eval", "model"})
    EXPECT_TRUE(json[field].is_null()) << field;
  EXPECT_EQ(json["events"], Json::array());
  EXPECT_EQ(json["samples_per_s"], 0);
}

TEST(Report, IsValidJsonWhateverTheNumbersAndTextsAre) {
  Report report = sample();
  report.evaluation = Evaluation{std::numeric_limits<double>::quiet_NaN(), std::nullopt};
  report.error = Error(Code::kPeerLost, "not UTF-8: \xff\xfe \"quoted\"\n");
  const Json json = Json::parse(to_json(report));
  EXPECT_TRUE(json["eval"]["loss"].is_null());
  EXPECT_TRUE(json["eval"]["accuracy"].is_null());
  EXPECT_FALSE(json["eval"].contains("rmse"));
  report.evaluation->rmse = 0.5;
  EXPECT_EQ(nlohmann::json::parse(to_json(report))["eval"]["rmse"], 0.5);
  EXPECT_EQ(json["error"]["code"], "peer_lost");
}

TEST(Report, TheExitCodeFollowsTheStatusAndTheError) {
  Report report = sample();
  EXPECT_EQ(exit_code(report), 0);
  report.status = RunStatus::kConverged;
  EXPECT_EQ(exit_code(report), 0);
  report.status = RunStatus::kCancelled;
  EXPECT_EQ(exit_code(report), 130);
  report.status = RunStatus::kFailed;
  report.error = Error(Code::kDiverged, "NaN");
  EXPECT_EQ(exit_code(report), 10);
}

}  // namespace
}  // namespace tandem::cluster
