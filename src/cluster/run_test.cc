#include "cluster/run.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <csignal>
#include <nlohmann/json.hpp>

#include "cluster/testing.h"

namespace tandem::cluster {
namespace {

namespace fs = std::filesystem;
using Json = nlohmann::json;

class SilentView : public RunView {
 public:
  void message(const wire::WorkerMessage& message) override {
    if (message.event().kind() == "recording_failed") ++warnings;
  }
  void line(int, Stream, std::string_view) override {}
  void stopping(Order, Cause) override {}
  void resumed() override {}
  void tick() override {}
  void lost(std::size_t, const std::deque<std::string>& last_lines) override {
    lines.assign(last_lines.begin(), last_lines.end());
  }

  std::vector<std::string> lines;
  int warnings = 0;
};

// Runs a shell script in the place of the worker: the script sees the worker's arguments.
class Run : public testing::Test {
 protected:
  Report run_script(const std::string& script) {
    const fs::path program = scratch.path() / "worker.sh";
    std::ofstream(program) << "#!/bin/sh\n" << script << "\n";
    fs::permissions(program, fs::perms::owner_all);
    auto created = RunDirectory::create_at(scratch.path() / "run");
    EXPECT_TRUE(created.ok());
    RunRequest request;
    request.parsed = parsed;
    request.parsed.job.name = "sample";
    request.job_text = "name = \"sample\"\n";
    request.base_directory = scratch.path();
    request.worker_program = program;
    request.environment = {"PATH=/usr/bin:/bin"};
    request.kernels = {"Haswell", "avx2", "AVX2"};
    request.version = "1.2.3";
    auto signals = SignalQueue::create();
    EXPECT_TRUE(signals.ok());
    return run(request, *created, *signals, view);
  }
  std::string frames(std::initializer_list<wire::WorkerMessage> messages) {
    const fs::path path = scratch.path() / fmt::format("frames-{}", count_++);
    write_frames(path, messages);
    return fmt::format("cat {} >&3; ", path.string());
  }
  Json written(const char* name) const {
    return Json::parse(content_of(scratch.path() / "run" / name));
  }

  ScratchDirectory scratch;
  SilentView view;
  job::ParsedJob parsed;

 private:
  int count_ = 0;
};

TEST_F(Run, LeavesAWholeDirectory) {
  wire::WorkerMessage saved;
  saved.mutable_event()->set_kind("checkpoint");
  saved.mutable_event()->set_detail("model.safetensors");
  wire::WorkerMessage finished = finished_message("finished");
  finished.mutable_finished()->set_model_path(
      (scratch.path() / "run" / "model.safetensors").string());
  wire::WorkerMessage evaluated;
  evaluated.mutable_evaluated()->set_part("validation");
  const Report report =
      run_script("echo \"$@\"; " + frames({started_message(), progress_message(50, 1),
                                           progress_message(50, 1), evaluated, saved, finished}));
  EXPECT_EQ(report.status, RunStatus::kFinished);
  EXPECT_EQ(exit_code(report), 0);

  const fs::path run = scratch.path() / "run";
  EXPECT_EQ(content_of(run / "job.toml"), "name = \"sample\"\n");
  EXPECT_EQ(content_of(run / "worker-0.log"),
            fmt::format("train --run {} --control 3 --base-directory {} --join-timeout 72.000 "
                        "--placed-by-node --number 0\n",
                        run.string(), scratch.path().string()));
  const std::string metrics = content_of(run / "metrics.jsonl");
  EXPECT_EQ(std::ranges::count(metrics, '\n'), 2) << "a repeated Progress is no new line";
  EXPECT_EQ(Json::parse(metrics.substr(0, metrics.find('\n')))["step"], 50);
  EXPECT_EQ(written("events.jsonl")["kind"], "checkpoint");
  const Json json = written("report.json");
  EXPECT_EQ(json["status"], "finished");
  EXPECT_EQ(json["steps"], 100);
  EXPECT_EQ(json["model"], "model.safetensors");
  EXPECT_EQ(json["version"], "1.2.3");
  EXPECT_EQ(json["kernels"]["blas_core"], "Haswell");
  EXPECT_EQ(json["cluster"]["workers"]["end"], 1);
  EXPECT_EQ(json["job_hash"].get<std::string>().size(), 32U);
  EXPECT_GT(json["bytes"]["sent"]["control"], 0);
  EXPECT_EQ(json["events"].size(), 1U);
}

TEST_F(Run, AKilledWorkerStillLeavesAReport) {
  const Report report = run_script(frames({started_message(), progress_message(7, 0)}) +
                                   "echo the last line; kill -9 $$");
  EXPECT_EQ(exit_code(report), exit_code(Code::kPeerLost));
  const Json json = written("report.json");
  EXPECT_EQ(json["status"], "failed");
  EXPECT_EQ(json["error"]["code"], "peer_lost");
  EXPECT_EQ(json["steps"], 7);
  EXPECT_EQ(json["cluster"]["workers"], (Json{{"start", 1}, {"end", 0}}));
  EXPECT_EQ(json["events"][0]["kind"], "lost");
  const auto is_loss = [](const Json& event) { return event["kind"] == "lost"; };
  EXPECT_EQ(std::ranges::count_if(json["events"], is_loss), 3) << "it was replaced twice";
  EXPECT_EQ(view.lines, std::vector<std::string>{"the last line"});
}

TEST_F(Run, AWorkerThatMayNotBeReplacedEndsTheRun) {
  parsed.job.cluster.max_restarts = 0;
  const Report report =
      run_script(frames({started_message(), progress_message(7, 0)}) + "kill -9 $$");
  EXPECT_EQ(exit_code(report), exit_code(Code::kPeerLost));
  EXPECT_EQ(written("report.json")["events"].size(), 1U);
}

TEST_F(Run, AMistakeThatTheWorkerFindsIsReportedAtTheUsersOwnText) {
  auto job = job::parse_located(
      "[data]\nsource = \"digits\"\n[model]\nkind = \"layers\"\n"
      "layers = [{ kind = \"linear\", out = 3 }]\n",
      "mine.toml", {});
  ASSERT_TRUE(job.ok()) << job.error().message();
  parsed = *std::move(job);
  wire::WorkerMessage failed;
  failed.mutable_failed()->set_code("invalid_argument");
  failed.mutable_failed()->set_message("a linear layer needs a vector");
  failed.mutable_failed()->set_key("model.layers[0]");
  const Report report = run_script(frames({failed}) + "exit 2");
  EXPECT_EQ(exit_code(report), exit_code(Code::kInvalidArgument));
  const std::string message = written("report.json")["error"]["message"];
  EXPECT_EQ(message.find("a linear layer needs a vector\n  --> mine.toml:5:11\n"), 0U) << message;
  EXPECT_EQ(message, report.error->message());
}

TEST_F(Run, AMissingWorkerStillLeavesAReport) {
  const Report report = run_script("exit 0");
  EXPECT_EQ(report.status, RunStatus::kFailed);
  EXPECT_EQ(written("report.json")["error"]["code"], "peer_lost");
}

TEST_F(Run, AFullDiskCostsLinesButNotTheRun) {
  // A limit on the size of files stands for the full disk. The report itself is small enough for it
  // here.
  rlimit before{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &before), 0);
  const std::string script = frames({started_message(), progress_message(50, 1)}) +
                             "yes 0123456789012345678901234567890123456789 | head -c 100000; " +
                             frames({finished_message("finished")});
  const auto handler = std::signal(SIGXFSZ, SIG_IGN);
  const rlimit small{65536, before.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &small), 0);
  const Report report = run_script(script);
  ::setrlimit(RLIMIT_FSIZE, &before);
  std::signal(SIGXFSZ, handler);

  EXPECT_EQ(report.status, RunStatus::kFinished);
  EXPECT_EQ(view.warnings, 1);
  const Json events = written("report.json")["events"];
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["kind"], "recording_failed");
  const std::string detail = events[0]["detail"];
  EXPECT_NE(detail.find("worker-0.log"), std::string::npos) << detail;
  EXPECT_TRUE(content_of(scratch.path() / "run" / "worker-0.log").ends_with("\n"));
}

}  // namespace
}  // namespace tandem::cluster
