#include "progress_text.h"

#include <gtest/gtest.h>

namespace tandem::cli {
namespace {

wire::Started started() {
  wire::Started message;
  message.set_parameters(421642);
  message.set_train_samples(1437);
  message.set_batch(64);
  message.set_lanes(4);
  message.set_steps_per_epoch(23);
  message.set_total_steps(460);
  message.add_notes("3 of 8 tensors taken");
  return message;
}

Position sample() {
  Position position;
  position.step = 52;
  position.total_steps = 460;
  position.epoch = 3;
  position.total_epochs = 20;
  position.loss = 0.2134;
  position.lr = 0.05;
  position.samples_per_s = 12345;
  position.left_s = 12;
  return position;
}

TEST(ProgressText, SaysWhatTheRunWillDo) {
  job::Job job;
  job.name = "digits";
  job.model.config.kind = "cnn";
  const std::string text = start_text(job, started(), {"SkylakeX", "avx512", "AVX512_CORE"});
  for (const char* part :
       {"digits: cnn", "421,642", "1,437 training", "64 in 4 lanes", "23 steps an epoch",
        "460 in all", "SkylakeX", "1 thread", "3 of 8 tensors"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part;
  }
}

TEST(ProgressText, OneIsSingular) {
  wire::Started small = started();
  small.set_lanes(1);
  small.set_steps_per_epoch(1);
  const std::string start = start_text(job::Job(), small, {});
  EXPECT_NE(start.find("64 in 1 lane; 1 step an epoch, 460 in all"), std::string::npos) << start;
  cluster::Report report;
  report.steps = 1;
  report.epochs = 1;
  report.samples = 1;
  const std::string end = summary_text(report, {}, "", Charset::kAscii);
  EXPECT_NE(end.find("1 step, 1 epoch, 1 sample\n"), std::string::npos) << end;
}

TEST(ProgressText, OneLineHoldsEverything) {
  EXPECT_EQ(progress_line(sample()),
            "epoch 3/20  step 52/460  loss 0.2134  lr 0.05  12,345 samples/s  12.0 s left");
}

TEST(ProgressText, TheBarFitsEveryWidth) {
  for (std::size_t width = 1; width < 200; ++width) {
    const std::string text = progress_bar(sample(), width, Charset::kAscii);
    EXPECT_LE(text.size(), std::max<std::size_t>(width, 6)) << width;
  }
  EXPECT_EQ(progress_bar(sample(), 200, Charset::kAscii),
            " 11 % [##------------------]  epoch 3/20  step 52/460  loss 0.2134  lr 0.05  12,345 "
            "samples/s  12.0 s left");
  EXPECT_NE(progress_bar(sample(), 100, Charset::kUtf8).find("██░"), std::string::npos);
}

TEST(ProgressText, TheLastStepBelongsToTheLastEpoch) {
  wire::Progress progress;
  progress.set_step(460);
  progress.set_epoch(20);
  EXPECT_EQ(position(started(), progress).epoch, 20);
  progress.set_step(23);
  progress.set_epoch(1);
  EXPECT_EQ(position(started(), progress).epoch, 1);
  progress.set_step(24);
  EXPECT_EQ(position(started(), progress).epoch, 2);
}

TEST(ProgressText, AnEvaluationShowsAccuracyWhereThereIsOne) {
  wire::Evaluated evaluated;
  evaluated.set_epoch(3);
  evaluated.set_part("validation");
  evaluated.set_loss(0.1234);
  EXPECT_EQ(evaluation_line(started(), evaluated), "epoch 3/20  validation: loss 0.1234");
  evaluated.set_has_accuracy(true);
  evaluated.set_accuracy(0.96871);
  EXPECT_EQ(evaluation_line(started(), evaluated),
            "epoch 3/20  validation: loss 0.1234, accuracy 96.87 %");
  evaluated.set_has_accuracy(false);
  evaluated.set_rmse(0.88123);
  EXPECT_EQ(evaluation_line(started(), evaluated),
            "epoch 3/20  validation: loss 0.1234, rmse 0.8812");
}

TEST(ProgressText, TheSummaryHasResultTimeCurveAndPlace) {
  cluster::Report report;
  report.status = cluster::RunStatus::kFinished;
  report.reason = "all 20 epochs done";
  report.evaluation = cluster::Evaluation{0.05, 0.9861};
  report.weights_hash = "0123456789abcdef0123456789abcdef";
  report.samples = 1000;
  report.train_s = 2;
  const double losses[] = {2.3, 0.5, 0.05};
  const std::string text = summary_text(report, losses, "runs/digits-1", Charset::kUtf8);
  for (const char* part : {"finished: all 20 epochs done", "accuracy 98.61 %", "500 samples/s",
                           "2.3000 █▂▁ 0.0500", "0123456789abcdef", "runs/digits-1"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << " in:\n" << text;
  }
}

}  // namespace
}  // namespace tandem::cli
