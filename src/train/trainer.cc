#include "train/trainer.h"

#include <fmt/format.h>

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "checkpoint/model_file.h"
#include "data/loader.h"
#include "data/source.h"
#include "model/model.h"
#include "optim/schedule.h"
#include "train/early_stop.h"
#include "train/evaluate.h"
#include "train/recipe.h"
#include "train/saved_model.h"
#include "train/stepper.h"

namespace tandem::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Training {
 public:
  Training(const TrainRequest& request, Reporter& reporter, const std::atomic<bool>& stop)
      : request_(request),
        job_(request.parsed.job),
        reporter_(reporter),
        stop_(stop),
        early_stop_(job_.train) {}

  Status run() {
    TANDEM_TRY(prepare());
    report_started();
    TANDEM_TRY(train_steps());
    TANDEM_TRY(stepper_->check_parameters(step_ - 1));
    return finish();
  }

 private:
  Status prepare() {
    TANDEM_ASSIGN(parts_, data::load(job_.data, request_.base_directory));
    arch::LayerError where;
    Result<arch::Blueprint> blueprint = blueprint_of(job_, parts_.spec, &where);
    if (!blueprint.ok()) return at_layer(std::move(blueprint).error(), where);
    TANDEM_ASSIGN(std::vector<optim::Range> trainable,
                  trainable_ranges(*blueprint, job_.model.freeze));
    TANDEM_ASSIGN(model_, model::Model::create(std::move(blueprint).value(), job_.train.loss,
                                               job_.train.threads));
    model_->initialise(job_.train.seed);
    if (!job_.model.init_from.empty()) TANDEM_TRY(start_from_file());
    length_ = length_of(job_.train, parts_.train->size());
    if (request_.rehearsal == Rehearsal::kOneStep) length_.total_steps = 1;
    TANDEM_ASSIGN(optim::Schedule schedule,
                  optim::Schedule::create(job_.train.schedule, job_.train.optimizer.lr,
                                          {length_.steps_per_epoch, length_.total_steps}));
    schedule_ = schedule;
    TANDEM_ASSIGN(stepper_, Stepper::create(job_, *model_, std::move(trainable)));
    return {};
  }

  // Points at the layer in the job file, when the mistake is in one.
  Error at_layer(Error error, const arch::LayerError& where) const {
    const std::string key =
        where.layer >= 0 ? fmt::format("model.layers[{}]", where.layer) : "model.kind";
    return Error(error.code(), job::point_at(request_.parsed, key, error.message(), ""));
  }

  Status start_from_file() {
    const std::filesystem::path path = request_.base_directory / job_.model.init_from;
    Result<checkpoint::ModelFile> file = checkpoint::load_model(path);
    if (!file.ok()) return std::move(file).error().within("model.init_from");
    TANDEM_ASSIGN(notes_, start_from(*file, *model_));
    return {};
  }

  void report_started() {
    wire::WorkerMessage message;
    wire::Started& started = *message.mutable_started();
    started.set_parameters(model_->blueprint().parameters);
    started.set_buffers(model_->blueprint().buffers);
    started.set_train_samples(parts_.train->size());
    started.set_validation_samples(parts_.validation->size());
    started.set_test_samples(parts_.test->size());
    started.set_batch(job_.train.batch);
    started.set_lanes(job_.lanes());
    started.set_steps_per_epoch(length_.steps_per_epoch);
    started.set_total_steps(length_.total_steps);
    for (const std::string& note : notes_) started.add_notes(note);
    reporter_.report(message);
  }

  Status train_steps() {
    const data::Sampler sampler(parts_.train->size(), job_.train.batch, job_.lanes(),
                                job_.train.seed);
    data::Loader loader(*parts_.train, sampler, {0, length_.total_steps, 0, job_.lanes()},
                        job_.data.prefetch);
    Clock::time_point last_report = Clock::now();
    while (step_ < length_.total_steps && !stop_ && !reason_) {
      TANDEM_TRY(one_step(loader, sampler));
      const bool epoch_end = step_ % length_.steps_per_epoch == 0;
      if (epoch_end || step_ == 1 || seconds_since(last_report) >= job_.train.report_every_s) {
        report_progress();
        last_report = Clock::now();
      }
      if (epoch_end && step_ / length_.steps_per_epoch % job_.train.eval_every_epochs == 0) {
        TANDEM_TRY(evaluate_epoch());
      }
    }
    if (loss_steps_ > 0) report_progress();
    return {};
  }

  Status one_step(data::Loader& loader, const data::Sampler& sampler) {
    const Clock::time_point begin = Clock::now();
    const std::int64_t epoch = step_ / length_.steps_per_epoch;
    const std::int64_t samples = sampler.step_samples(epoch, step_ % length_.steps_per_epoch);
    for (std::int64_t lane = 0; lane < job_.lanes(); ++lane) {
      TANDEM_TRY(stepper_->run_lane(loader.next()->batch, step_, lane, samples));
    }
    lr_ = schedule_->lr_at(step_);
    TANDEM_ASSIGN(const StepOutcome outcome, stepper_->finish_step(step_, lr_));
    ++step_;
    samples_ += samples;
    grad_norm_ = outcome.grad_norm;
    loss_sum_ += outcome.sums.loss / static_cast<double>(samples);
    ++loss_steps_;
    train_s_ += seconds_since(begin);
    return {};
  }

  void report_progress() {
    wire::WorkerMessage message;
    wire::Progress& progress = *message.mutable_progress();
    progress.set_step(step_);
    progress.set_epoch(step_ / length_.steps_per_epoch);
    progress.set_samples(samples_);
    progress.set_loss(loss_sum_ / static_cast<double>(loss_steps_));
    progress.set_lr(lr_);
    progress.set_train_s(train_s_);
    progress.set_grad_norm(grad_norm_);
    loss_sum_ = 0;
    loss_steps_ = 0;
    reporter_.report(message);
  }

  // What epochs are judged by: the validation part, or the test part when there is none.
  Status evaluate_epoch() {
    const bool validation = parts_.validation->size() > 0;
    const data::Dataset& part = validation ? *parts_.validation : *parts_.test;
    if (part.size() == 0) return {};
    TANDEM_ASSIGN(const Evaluation evaluation,
                  evaluate_part(part, validation ? "validation" : "test"));
    if (stop_) return {};
    if (schedule_->observe(evaluation.loss)) {
      event("rate", fmt::format("learning rate lowered to {:.6g}", schedule_->lr_at(step_)));
    }
    reason_ = early_stop_.observe(evaluation);
    if (reason_) event("early_stop", *reason_);
    return {};
  }

  Result<Evaluation> evaluate_part(const data::Dataset& part, const char* name) {
    TANDEM_ASSIGN(const Evaluation evaluation,
                  evaluate(*model_, part, job_.data.prefetch, [this] { return stop_.load(); }));
    wire::WorkerMessage message;
    wire::Evaluated& evaluated = *message.mutable_evaluated();
    evaluated.set_step(step_);
    evaluated.set_epoch(step_ / length_.steps_per_epoch);
    evaluated.set_part(name);
    evaluated.set_loss(evaluation.loss);
    evaluated.set_has_accuracy(evaluation.accuracy.has_value());
    evaluated.set_accuracy(evaluation.accuracy.value_or(0));
    reporter_.report(message);
    return evaluation;
  }

  void event(const char* kind, const std::string& detail) {
    wire::WorkerMessage message;
    message.mutable_event()->set_kind(kind);
    message.mutable_event()->set_detail(detail);
    reporter_.report(message);
  }

  Status finish() {
    const bool cancelled = stop_;
    wire::WorkerMessage message;
    wire::Finished& finished = *message.mutable_finished();
    TANDEM_ASSIGN(const std::string hash,
                  save_trained(request_.run_directory, job_, parts_, *model_));
    event("saved", std::string(checkpoint::kModelFileName));
    if (!cancelled && parts_.test->size() > 0) {
      TANDEM_ASSIGN(const Evaluation evaluation, evaluate_part(*parts_.test, "test"));
      finished.set_has_eval(!stop_);
      finished.set_loss(evaluation.loss);
      finished.set_has_accuracy(evaluation.accuracy.has_value());
      finished.set_accuracy(evaluation.accuracy.value_or(0));
    }
    finished.set_status(cancelled ? "cancelled" : reason_ ? "converged" : "finished");
    finished.set_reason(cancelled
                            ? "asked to stop"
                            : reason_.value_or(fmt::format("{} steps done", length_.total_steps)));
    finished.set_steps(step_);
    finished.set_epochs(step_ / length_.steps_per_epoch);
    finished.set_samples(samples_);
    finished.set_train_s(train_s_);
    finished.set_weights_hash(hash);
    finished.set_model_path((request_.run_directory / checkpoint::kModelFileName).string());
    reporter_.report(message);
    return {};
  }

  const TrainRequest& request_;
  const job::Job& job_;
  Reporter& reporter_;
  const std::atomic<bool>& stop_;

  data::Parts parts_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<optim::Schedule> schedule_;
  EarlyStop early_stop_;
  Length length_;
  std::vector<std::string> notes_;

  std::int64_t step_ = 0;  // Done so far.
  std::int64_t samples_ = 0;
  double train_s_ = 0, lr_ = 0, grad_norm_ = 0;
  double loss_sum_ = 0;                // Since the last progress report.
  std::int64_t loss_steps_ = 0;        // Steps in it.
  std::optional<std::string> reason_;  // Why training shall end early.
};

}  // namespace

Status train(const TrainRequest& request, Reporter& reporter, const std::atomic<bool>& stop) {
  return Training(request, reporter, stop).run();
}

}  // namespace tandem::train
