#include "train/reports.h"

#include <algorithm>

namespace tandem::train {

wire::WorkerMessage started_message(const job::Job& job, const data::Parts& parts,
                                    const arch::Blueprint& blueprint, const Length& length,
                                    const std::vector<std::string>& notes) {
  wire::WorkerMessage message;
  wire::Started& started = *message.mutable_started();
  started.set_parameters(all_parameters(blueprint));
  started.set_buffers(blueprint.buffers);
  started.set_train_samples(parts.train->size());
  started.set_validation_samples(parts.validation->size());
  started.set_test_samples(parts.test->size());
  started.set_batch(std::min(job.train.batch, parts.train->size()));
  started.set_lanes(job.lanes());
  started.set_steps_per_epoch(length.steps_per_epoch);
  started.set_total_steps(length.total_steps);
  for (const std::string& note : notes) started.add_notes(note);
  return message;
}

wire::WorkerMessage placed_message(std::uint64_t generation, std::int64_t first_step, bool copied) {
  wire::WorkerMessage message;
  wire::Placed& placed = *message.mutable_placed();
  placed.set_generation(generation);
  placed.set_step(first_step);
  placed.set_copied(copied);
  return message;
}

wire::WorkerMessage progress_message(const Course& course, const Length& length, double lr,
                                     double grad_norm, double lane_s) {
  wire::WorkerMessage message;
  wire::Progress& progress = *message.mutable_progress();
  progress.set_step(course.step);
  progress.set_epoch(course.step / length.steps_per_epoch);
  progress.set_samples(course.samples);
  progress.set_loss(course.loss_sum / static_cast<double>(course.loss_steps));
  progress.set_lr(lr);
  progress.set_train_s(course.train_s);
  progress.set_grad_norm(grad_norm);
  progress.set_lane_s(lane_s);
  return message;
}

wire::WorkerMessage evaluated_message(const Evaluation& evaluation, std::int64_t step,
                                      const Length& length, const char* part) {
  wire::WorkerMessage message;
  wire::Evaluated& evaluated = *message.mutable_evaluated();
  evaluated.set_step(step);
  evaluated.set_epoch((step + length.steps_per_epoch - 1) / length.steps_per_epoch);
  evaluated.set_part(part);
  evaluated.set_loss(evaluation.loss);
  evaluated.set_has_accuracy(evaluation.accuracy.has_value());
  evaluated.set_accuracy(evaluation.accuracy.value_or(0));
  if (evaluation.rmse) evaluated.set_rmse(*evaluation.rmse);
  return message;
}

wire::WorkerMessage left_message(std::uint64_t generation, std::int64_t step, const Error* error) {
  wire::WorkerMessage message;
  message.mutable_left()->set_generation(generation);
  message.mutable_left()->set_step(step);
  if (error != nullptr) {
    message.mutable_left()->set_code(std::string(to_string(error->code())));
    message.mutable_left()->set_message(error->message());
  }
  return message;
}

wire::WorkerMessage event_message(const std::string& kind, const std::string& detail) {
  wire::WorkerMessage message;
  message.mutable_event()->set_kind(kind);
  message.mutable_event()->set_detail(detail);
  return message;
}

void set_evaluation(const Evaluation& evaluation, wire::Finished& finished) {
  finished.set_has_eval(true);
  finished.set_loss(evaluation.loss);
  finished.set_has_accuracy(evaluation.accuracy.has_value());
  finished.set_accuracy(evaluation.accuracy.value_or(0));
  if (evaluation.rmse) finished.set_rmse(*evaluation.rmse);
}

}  // namespace tandem::train
