#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "base/hash.h"
#include "checkpoint/manifest.h"
#include "checkpoint/model_file.h"
#include "checkpoint/store.h"
#include "data/loader.h"
#include "data/source.h"
#include "job/print.h"
#include "model/model.h"
#include "optim/schedule.h"
#include "train/checkpointer.h"
#include "train/early_stop.h"
#include "train/evaluate.h"
#include "train/misfit.h"
#include "train/recipe.h"
#include "train/saved_model.h"
#include "train/stepper.h"

namespace tandem::train {
namespace {

using Clock = std::chrono::steady_clock;

// Before the names of the schedule's numbers in a checkpoint.
const std::string kSchedule = "schedule.";

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

class Training {
 public:
  Training(const TrainRequest& request, collective::Group& group, Reporter& reporter,
           const std::atomic<bool>& stop, std::string& key)
      : request_(request),
        job_(request.job),
        group_(group),
        reporter_(reporter),
        stop_(stop),
        key_(key),
        early_stop_(job_.train) {}

  Status run() {
    TANDEM_TRY(prepare());
    report_started();
    TANDEM_TRY(train_steps());
    return finish();
  }

 private:
  Status prepare() {
    TANDEM_ASSIGN(parts_, data::load(job_.data, request_.base_directory));
    TANDEM_ASSIGN(arch::Blueprint blueprint, make_blueprint());
    TANDEM_TRY(blame(misfit_of_targets(job_.train, parts_)));
    TANDEM_ASSIGN(Trainable trainable,
                  blame("model.freeze", trainable_ranges(blueprint, job_.model.freeze)));
    TANDEM_ASSIGN(model_,
                  model::Model::create(std::move(blueprint), job_.train.loss, job_.train.threads));
    model_->initialise(job_.train.seed);
    if (!job_.model.init_from.empty()) TANDEM_TRY(start_from_file());
    length_ = length_of(job_.train, parts_.train->size());
    if (request_.rehearsal == Rehearsal::kOneStep) {
      length_.total_steps = 1;
    } else {
      TANDEM_TRY(blame(misfit_of_length(job_.train, length_, parts_)));
    }
    TANDEM_ASSIGN(optim::Schedule schedule,
                  optim::Schedule::create(job_.train.schedule, job_.train.optimizer.lr,
                                          {length_.steps_per_epoch, length_.total_steps}));
    schedule_ = schedule;
    TANDEM_TRY(agree());
    TANDEM_ASSIGN(stepper_, Stepper::create(job_, *model_, std::move(trainable), group_));
    if (!request_.resume.empty()) TANDEM_TRY(resume());
    const bool writes = group_.rank() == 0 && request_.rehearsal == Rehearsal::kNo;
    if (writes && job_.checkpoint.keep > 0) {
      checkpoint::Metadata place = {{checkpoint::kBaseDirectory, request_.base_directory.string()}};
      checkpointer_.emplace(request_.store, job_.checkpoint, step_, model_->blueprint(),
                            trained_metadata(job_, parts_), std::move(place));
    }
    return {};
  }

  // Takes over where a checkpoint stands. The first worker reads it for all.
  Status resume() {
    Snapshot snapshot;
    capture(*model_, stepper_->optimizer(), {}, snapshot);
    // When that fails the others, who wait for it, learn of its end.
    if (group_.rank() == 0) {
      TANDEM_ASSIGN(snapshot, read_snapshot(request_.resume, *model_, stepper_->optimizer()));
    }
    TANDEM_TRY(share(snapshot, group_, collective::deadline_after(request_.start_patience)));
    restore(snapshot, *model_, stepper_->optimizer());
    TANDEM_TRY(take_over(snapshot.numbers));
    notes_.push_back(fmt::format("goes on after step {}", step_));
    return {};
  }

  Numbers position() const {
    Numbers numbers = {{"step", static_cast<double>(step_)},
                       {"samples", static_cast<double>(samples_)},
                       {"train_s", train_s_},
                       {"loss_sum", loss_sum_},
                       {"loss_steps", static_cast<double>(loss_steps_)},
                       {"early_stop.bad", static_cast<double>(early_stop_.state().bad)}};
    if (early_stop_.state().best) numbers["early_stop.best"] = *early_stop_.state().best;
    if (best_) {
      numbers["best.step"] = static_cast<double>(best_->first);
      numbers["best.value"] = best_->second;
    }
    for (const optim::StateValue& value : schedule_->state())
      numbers[kSchedule + std::string(value.name)] = value.value;
    return numbers;
  }

  Status take_over(const Numbers& numbers) {
    TANDEM_ASSIGN(step_, count(numbers, "step"));
    TANDEM_ASSIGN(samples_, count(numbers, "samples"));
    TANDEM_ASSIGN(train_s_, number(numbers, "train_s"));
    TANDEM_ASSIGN(loss_sum_, number(numbers, "loss_sum"));
    TANDEM_ASSIGN(loss_steps_, count(numbers, "loss_steps"));
    EarlyStop::State memory;
    TANDEM_ASSIGN(memory.bad, count(numbers, "early_stop.bad"));
    if (numbers.contains("early_stop.best")) memory.best = numbers.at("early_stop.best");
    early_stop_.restore(memory);
    if (numbers.contains("best.step")) {
      best_.emplace();
      TANDEM_ASSIGN(best_->first, count(numbers, "best.step"));
      TANDEM_ASSIGN(best_->second, number(numbers, "best.value"));
    }
    std::vector<optim::StateValue> schedule;
    for (const optim::StateValue& value : schedule_->state()) {
      TANDEM_ASSIGN(const double kept, number(numbers, kSchedule + std::string(value.name)));
      schedule.push_back({value.name, kept});
    }
    return schedule_->restore(schedule);
  }

  // Takes a checkpoint when it is time, and tells how the last one went.
  void checkpoint_if_due() {
    if (!checkpointer_) return;
    if (wants_best_ || checkpointer_->is_due(step_)) take_checkpoint();
    if (const auto outcome = checkpointer_->outcome()) {
      if (outcome->status.ok()) {
        event("checkpoint",
              fmt::format("step {}, written in {:.3f} s", outcome->step, outcome->seconds));
      } else {
        event("checkpoint_failed", fmt::format("step {}: {}; training goes on", outcome->step,
                                               outcome->status.error().message()));
      }
    }
  }

  void take_checkpoint() {
    const auto best = best_ ? std::optional(best_->first) : std::nullopt;
    if (checkpointer_->take(step_, *model_, stepper_->optimizer(), position(), best))
      wants_best_ = false;
  }

  // The last one, however soon after another, so that the run can go on from its end.
  void checkpoint_the_end() {
    if (!checkpointer_) return;
    constexpr std::chrono::milliseconds kLook{100};
    const auto settle = [&] {
      while (!checkpointer_->wait(kLook)) beat();
      checkpoint_if_due();
    };
    settle();
    take_checkpoint();
    settle();
  }

  // Workers that differ in the job, the first weights or the kernels would not compute one truth.
  Status agree() {
    if (group_.size() == 1) return {};
    const std::string hash = checkpoint::weights_hash(model_->parameters(), model_->buffers());
    const std::string facts =
        fmt::format("{}\n{}\n{}\n{} {} {}", job::print(job_), kernel_set(), hash,
                    data::fingerprint(*parts_.train), data::fingerprint(*parts_.validation),
                    data::fingerprint(*parts_.test));
    const std::string mine = hash_hex(std::as_bytes(std::span(facts)));
    std::string all(mine.size() * static_cast<std::size_t>(group_.size()), ' ');
    TANDEM_TRY(group_.all_gather(std::as_bytes(std::span(mine)),
                                 std::as_writable_bytes(std::span(all)),
                                 collective::deadline_after(request_.start_patience)));
    for (int rank = 0; rank < group_.size(); ++rank) {
      if (all.compare(static_cast<std::size_t>(rank) * mine.size(), mine.size(), all, 0,
                      mine.size()) == 0)
        continue;
      return Error(Code::kInvalidArgument,
                   fmt::format("{} has another job, data, kernel set or version than worker 0; run "
                               "`tandem doctor` on both hosts and compare",
                               group_.membership().name(rank)));
    }
    return {};
  }

  // Passes a result on; when it is an Error, `key` is what a message shall point at.
  template <typename T>
  Result<T> blame(std::string key, Result<T> result) {
    if (!result.ok()) key_ = std::move(key);
    return result;
  }

  Status blame(const std::optional<Misfit>& misfit) {
    if (!misfit) return {};
    key_ = misfit->key;
    return Error(Code::kInvalidArgument, misfit->message);
  }

  Result<arch::Blueprint> make_blueprint() {
    TANDEM_ASSIGN(const arch::Interface interface,
                  blame("train.loss", interface_of(parts_.spec, job_.train.loss)));
    arch::LayerError where;
    Result<arch::Blueprint> blueprint = arch::build(job_.model.config, interface, &where);
    return blame(where.layer >= 0 ? fmt::format("model.layers[{}]", where.layer) : "model.kind",
                 std::move(blueprint));
  }

  Status start_from_file() {
    const std::filesystem::path path = request_.base_directory / job_.model.init_from;
    TANDEM_ASSIGN(const checkpoint::ModelFile file,
                  blame("model.init_from", checkpoint::load_model(path)));
    TANDEM_ASSIGN(notes_, blame("model.init_from", start_from(file, *model_)));
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
    started.set_batch(std::min(job_.train.batch, parts_.train->size()));
    started.set_lanes(job_.lanes());
    started.set_steps_per_epoch(length_.steps_per_epoch);
    started.set_total_steps(length_.total_steps);
    for (const std::string& note : notes_) started.add_notes(note);
    send(message);
  }

  void send(const wire::WorkerMessage& message) {
    reporter_.report(message);
    last_message_ = Clock::now();
  }

  // Says again where the run is when nothing has been said for a while, so that a slow worker is
  // not taken for a dead one.
  void beat() {
    constexpr double kSilence_s = 0.5;
    if (last_progress_.has_progress() && seconds_since(last_message_) >= kSilence_s)
      send(last_progress_);
  }

  // Whether the run ends here because somebody asked for it. Workers end together: one that was
  // asked tells the others with its next step.
  bool stopping() {
    if (group_.size() == 1 && stop_) stopped_ = true;
    return stopped_;
  }

  Status train_steps() {
    const data::Sampler sampler(parts_.train->size(), job_.train.batch, job_.lanes(),
                                job_.train.seed);
    const collective::LaneRange lanes = stepper_->lanes();
    data::Loader loader(*parts_.train, sampler,
                        {step_, length_.total_steps, lanes.begin, lanes.end}, job_.data.prefetch);
    Clock::time_point last_report = Clock::now();
    while (step_ < length_.total_steps && !stopping() && !reason_) {
      TANDEM_TRY(one_step(loader, sampler));
      const bool epoch_end = step_ % length_.steps_per_epoch == 0;
      if (epoch_end || step_ == 1 || seconds_since(last_report) >= job_.train.report_every_s) {
        report_progress();
        last_report = Clock::now();
      }
      beat();
      if (epoch_end && step_ / length_.steps_per_epoch % job_.train.eval_every_epochs == 0) {
        TANDEM_TRY(evaluate_epoch());
      }
      checkpoint_if_due();
    }
    if (loss_steps_ > 0) report_progress();
    return {};
  }

  Status one_step(data::Loader& loader, const data::Sampler& sampler) {
    const Clock::time_point begin = Clock::now();
    const std::int64_t epoch = step_ / length_.steps_per_epoch;
    const std::int64_t samples = sampler.step_samples(epoch, step_ % length_.steps_per_epoch);
    if (stop_) stepper_->wish(Wish::kStop);
    for (std::int64_t lane = stepper_->lanes().begin; lane < stepper_->lanes().end; ++lane) {
      Status status = stepper_->run_lane(loader.next()->batch, step_, lane, samples);
      if (!status.ok()) return std::move(status).error().within(fmt::format("step {}", step_ + 1));
      beat();
    }
    lr_ = schedule_->lr_at(step_);
    TANDEM_ASSIGN(const StepOutcome outcome, stepper_->finish_step(step_, lr_));
    if (outcome.wish == Wish::kStop) stopped_ = true;
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
    last_progress_ = message;
    send(message);
  }

  // What epochs are judged by: the validation part, or the test part when there is none.
  Status evaluate_epoch() {
    const bool validation = parts_.validation->size() > 0;
    const data::Dataset& part = validation ? *parts_.validation : *parts_.test;
    if (part.size() == 0) return {};
    TANDEM_ASSIGN(const std::optional<Evaluation> evaluation,
                  evaluate_part(part, validation ? "validation" : "test"));
    if (!evaluation) return {};
    if (!validation) last_test_ = {step_, *evaluation};
    if (schedule_->observe(evaluation->loss)) {
      event("rate", fmt::format("learning rate lowered to {:.6g}", schedule_->lr_at(step_)));
    }
    note_best(*evaluation);
    reason_ = early_stop_.observe(*evaluation);
    if (reason_) event("early_stop", *reason_);
    return {};
  }

  void note_best(const Evaluation& evaluation) {
    if (job_.checkpoint.best == "none") return;
    const double value =
        job_.checkpoint.best == "accuracy" ? evaluation.accuracy.value_or(0) : -evaluation.loss;
    if (best_ && value <= best_->second) return;
    best_ = {step_, value};
    wants_best_ = true;
  }

  // Evaluates and reports it; nothing when the run was asked to stop meanwhile.
  Result<std::optional<Evaluation>> evaluate_part(const data::Dataset& part, const char* name) {
    TANDEM_ASSIGN(
        const std::optional<Evaluation> evaluated_part,
        evaluate(*model_, part, job_.data.prefetch, group_, patience_of(job_.cluster), [this] {
          beat();
          return stop_.load();
        }));
    if (!evaluated_part) {
      stopped_ = true;
      return std::optional<Evaluation>();
    }
    const Evaluation& evaluation = *evaluated_part;
    wire::WorkerMessage message;
    wire::Evaluated& evaluated = *message.mutable_evaluated();
    evaluated.set_step(step_);
    evaluated.set_epoch((step_ + length_.steps_per_epoch - 1) / length_.steps_per_epoch);
    evaluated.set_part(name);
    evaluated.set_loss(evaluation.loss);
    evaluated.set_has_accuracy(evaluation.accuracy.has_value());
    evaluated.set_accuracy(evaluation.accuracy.value_or(0));
    send(message);
    return std::optional<Evaluation>(evaluation);
  }

  // The final judgement, which the last epoch may have given already.
  Result<std::optional<Evaluation>> evaluate_test() {
    if (stopping() || parts_.test->size() == 0) return std::optional<Evaluation>();
    if (last_test_ && last_test_->first == step_)
      return std::optional<Evaluation>(last_test_->second);
    return evaluate_part(*parts_.test, "test");
  }

  void event(const char* kind, const std::string& detail) {
    wire::WorkerMessage message;
    message.mutable_event()->set_kind(kind);
    message.mutable_event()->set_detail(detail);
    send(message);
  }

  // The first worker saves for all; every one tells its hash.
  Result<std::string> save() {
    if (group_.rank() != 0)
      return checkpoint::weights_hash(model_->parameters(), model_->buffers());
    TANDEM_ASSIGN(std::string hash, save_trained(request_.run_directory, job_, parts_, *model_));
    event("saved", std::string(checkpoint::kModelFileName));
    return hash;
  }

  Status finish() {
    const bool cancelled = stopping();
    wire::WorkerMessage message;
    wire::Finished& finished = *message.mutable_finished();
    checkpoint_the_end();
    TANDEM_ASSIGN(const std::string hash, save());
    TANDEM_ASSIGN(const std::optional<Evaluation> evaluation, evaluate_test());
    if (evaluation) {
      finished.set_has_eval(true);
      finished.set_loss(evaluation->loss);
      finished.set_has_accuracy(evaluation->accuracy.has_value());
      finished.set_accuracy(evaluation->accuracy.value_or(0));
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
    const collective::Traffic traffic = group_.traffic();
    finished.set_bytes_sent(traffic.sent);
    finished.set_bytes_received(traffic.received);
    finished.set_engine(std::string(group_.engine()));
    finished.set_model_path((request_.run_directory / checkpoint::kModelFileName).string());
    send(message);
    return {};
  }

  const TrainRequest& request_;
  const job::Job& job_;
  collective::Group& group_;
  Reporter& reporter_;
  const std::atomic<bool>& stop_;
  std::string& key_;

  data::Parts parts_;
  std::unique_ptr<model::Model> model_;
  std::unique_ptr<Stepper> stepper_;
  std::optional<optim::Schedule> schedule_;
  EarlyStop early_stop_;
  Length length_;
  std::optional<Checkpointer> checkpointer_;  // The first worker's.
  std::vector<std::string> notes_;

  bool stopped_ = false;   // The workers agreed to end here.
  std::int64_t step_ = 0;  // Done so far.
  std::int64_t samples_ = 0;
  double train_s_ = 0, lr_ = 0, grad_norm_ = 0;
  double loss_sum_ = 0;                // Since the last progress report.
  std::int64_t loss_steps_ = 0;        // Steps in it.
  std::optional<std::string> reason_;  // Why training shall end early.
  // After which step, and how good: the larger the better.
  std::optional<std::pair<std::int64_t, double>> best_;
  bool wants_best_ = false;  // That one has no checkpoint yet.
  std::optional<std::pair<std::int64_t, Evaluation>>
      last_test_;  // After which step, and what it gave.
  wire::WorkerMessage last_progress_;
  Clock::time_point last_message_ = Clock::now();
};

}  // namespace

Status train(const TrainRequest& request, collective::Group& group, Reporter& reporter,
             const std::atomic<bool>& stop, std::string& key) {
  return Training(request, group, reporter, stop, key).run();
}

}  // namespace tandem::train
