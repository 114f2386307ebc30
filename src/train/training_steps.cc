// The part of Training that makes steps, and reports them.
#include <fmt/format.h>

#include <algorithm>

#include "train/reports.h"
#include "train/training.h"

namespace tandem::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

}  // namespace

void Training::report_placed() {
  if (placed_) return;
  placed_ = true;
  voice_.say(placed_message(places_.generation(), first_step_, copied_));
}

bool Training::stopping() {
  if (group_->size() == 1 && stop_) stopped_ = true;
  return stopped_;
}

Status Training::between_steps() {
  const bool pauses = has_tables() && may_pause();
  if (is_epoch_to_judge()) TANDEM_TRY(evaluate_epoch());
  if (is_to_decide()) TANDEM_TRY(decide({}));
  if (!has_tables() || pauses) {
    TANDEM_TRY(checkpoint_if_due());
  } else if (checkpointer_) {
    report_checkpoint();
  }
  if (pauses) TANDEM_TRY(await_others());
  return displaced_;
}

Status Training::train_steps() {
  const data::Sampler sampler(parts_.train->size(), job_.train.batch, job_.lanes(),
                              job_.train.seed);
  const collective::LaneRange lanes = stepper_->lanes();
  data::Loader loader(*parts_.train, sampler,
                      {course_.step, length_.total_steps, lanes.begin, lanes.end,
                       stepper_->has_rows() ? lanes.size() : 0},
                      job_.data.prefetch);
  Clock::time_point last_report = Clock::now();
  for (;;) {
    if (stepper_->is_pending()) {
      if (checkpointer_) report_checkpoint();
      TANDEM_TRY(displaced_);
    } else {
      TANDEM_TRY(between_steps());
      if (stopping() || has_ended()) break;
      if (regroups_) return {};
    }
    const std::int64_t before = course_.step;
    Status stepped = one_step(loader, sampler);
    if (!stepped.ok()) {
      // The run ends here: the report tells how far it came.
      if (stepped.error().code() == Code::kDiverged && course_.loss_steps > 0) report_progress();
      return stepped;
    }
    voice_.beat();
    if (course_.step == before) continue;
    report_placed();
    const bool epoch_end = course_.step % length_.steps_per_epoch == 0;
    if (epoch_end || before == 0 || seconds_since(last_report) >= job_.train.report_every_s) {
      report_progress();
      last_report = Clock::now();
    }
  }
  if (course_.loss_steps > 0) report_progress();
  return {};
}

Status Training::train_stretches() {
  const data::Sampler sampler(parts_.train->size(), job_.train.batch, job_.lanes(),
                              job_.train.seed);
  // Each keeps running statistics of its own, and a group that broke may not have averaged them.
  if (group_->size() > 1 && !model_->buffers().empty()) {
    TANDEM_TRY(group_->broadcast(std::as_writable_bytes(model_->buffers()), 0,
                                 collective::deadline_after(finish_patience())));
  }
  TaskRunner runner(job_, *model_, *parts_.train, sampler, *stepper_, *group_);
  for (;;) {
    TANDEM_TRY(between_steps());
    if (stopping() || has_ended()) break;
    if (regroups_) return {};
    TANDEM_TRY(one_stretch(runner, sampler));
  }
  report_placed();
  return {};
}

std::int64_t Training::next_meeting() const {
  std::int64_t to = std::min(
      length_.total_steps, (course_.step / length_.steps_per_epoch + 1) * length_.steps_per_epoch);
  if (job_.checkpoint.keep > 0 && job_.checkpoint.every_steps > 0)
    to = std::min(to, course_.step + job_.checkpoint.every_steps);
  return to;
}

Status Training::one_stretch(TaskRunner& runner, const data::Sampler& sampler) {
  const Clock::time_point begin = Clock::now();
  Clock::time_point last_report = begin;
  Course shown = course_;  // What is reported meanwhile.
  double told_loss = 0;
  std::int64_t told_samples = 0;
  const auto add_loss = [&](Course& to, double loss, std::int64_t samples) {
    if (samples <= told_samples) return false;
    to.loss_sum = (loss - told_loss) / static_cast<double>(samples - told_samples);
    to.loss_steps = 1;
    told_loss = loss;
    told_samples = samples;
    return true;
  };
  const TaskRunner::Hooks hooks{
      .wish =
          [&] {
            if (stop_) return TaskRunner::Wish::kStop;
            if (wants_regroup()) return TaskRunner::Wish::kRegroup;
            const bool pauses =
                checkpointer_ && shown.step > course_.step && checkpointer_->is_due(shown.step);
            return pauses ? TaskRunner::Wish::kPause : TaskRunner::Wish::kGoOn;
          },
      .lr =
          [this](std::int64_t step) {
            lr_ = course_.schedule.lr_at(step);
            return lr_;
          },
      .stands =
          [&](const StretchOutcome& outcome) {
            stopped_ |= outcome.stops;
            regroups_ |= outcome.regroups;
            if (outcome.step > course_.step) {
              verdict_.reset();
              course_.exact = false;
            }
            for (; course_.step < outcome.step; ++course_.step) {
              course_.samples += sampler.step_samples(course_.step / length_.steps_per_epoch,
                                                      course_.step % length_.steps_per_epoch);
            }
            course_.samples -= outcome.dropped_samples;
            course_.dropped += outcome.dropped_samples;
            course_.train_s += seconds_since(begin);
            staleness_.add(outcome);
            if (add_loss(course_, outcome.loss, outcome.samples)) report_progress();
            // Rows of tables were not pulled.
            if (!stepper_->has_rows() || has_tables()) whole_steps_ = course_.step;
          },
      .progress =
          [&](const ps::TaskGiven& given) {
            if (given.samples > 0) report_placed();
            shown.step = given.below / job_.lanes();
            shown.samples = course_.samples + given.samples;
            shown.train_s = course_.train_s + seconds_since(begin);
            if (seconds_since(last_report) >= job_.train.report_every_s &&
                add_loss(shown, given.loss, given.samples)) {
              voice_.say(progress_message(shown, length_, lr_, 0, 0));
              last_report = Clock::now();
            }
            voice_.beat();
          }};
  whole_steps_ = -1;  // The parameters are of no step until the stretch is over.
  return runner.run(course_.step, next_meeting(), hooks);
}

Status Training::one_step(data::Loader& loader, const data::Sampler& sampler) {
  const Clock::time_point begin = Clock::now();
  // That before it may not be counted yet.
  const std::int64_t step = course_.step + (stepper_->is_pending() ? 1 : 0);
  const std::int64_t samples =
      sampler.step_samples(step / length_.steps_per_epoch, step % length_.steps_per_epoch);
  const bool pauses = has_tables() && checkpointer_ && checkpointer_->is_due(course_.step + 1);
  stepper_->wish(stop_             ? Wish::kStop
                 : wants_regroup() ? Wish::kRegroup
                                   : Wish::kGoOn,
                 pauses ? Pause::kAfterStep : Pause::kNone);
  if (stepper_->has_rows()) {
    const collective::LaneRange lanes = stepper_->lanes();
    for (std::int64_t i = 0; i < lanes.size(); ++i)
      stepper_->add_rows(loader.peek(i)->batch, lanes.begin + i);
  }
  Status status = stepper_->begin_step(step, course_.schedule.lr_at(step));
  for (std::int64_t lane = stepper_->lanes().begin; lane < stepper_->lanes().end; ++lane) {
    if (status.ok()) status = stepper_->run_lane(loader.next()->batch, lane, samples);
    if (const auto settled = stepper_->take_settled()) count(*settled, sampler);
    if (!status.ok() && stepper_->is_pending())
      return status;  // Of the step before, which it names.
    if (!status.ok()) return std::move(status).error().within(fmt::format("step {}", step + 1));
    voice_.beat();
  }
  if (may_overlap(step)) {
    TANDEM_ASSIGN(const bool is_left, stepper_->leave_pending());
    course_.train_s += is_left ? seconds_since(begin) : 0;
    if (is_left) return {};
  }
  TANDEM_ASSIGN(const StepOutcome outcome, stepper_->finish_step());
  count(outcome, sampler);
  course_.train_s += seconds_since(begin);
  return {};
}

bool Training::may_overlap(std::int64_t step) const {
  const std::int64_t done = step + 1;
  return done < length_.total_steps && done % length_.steps_per_epoch != 0 && !stop_ &&
         !(checkpointer_ && checkpointer_->is_due(done));
}

void Training::count(const StepOutcome& outcome, const data::Sampler& sampler) {
  const std::int64_t samples = sampler.step_samples(course_.step / length_.steps_per_epoch,
                                                    course_.step % length_.steps_per_epoch);
  lr_ = course_.schedule.lr_at(course_.step);
  stopped_ |= outcome.wish == Wish::kStop;
  regroups_ |= outcome.wish == Wish::kRegroup;
  pauses_ = outcome.pause == Pause::kAfterStep;
  ++course_.step;
  verdict_.reset();
  course_.samples += samples;
  grad_norm_ = outcome.grad_norm;
  course_.loss_sum += outcome.sums.loss / static_cast<double>(samples);
  ++course_.loss_steps;
}

bool Training::wants_regroup() {
  constexpr double kLook_s = 0.01;
  if (seconds_since(last_look_) < kLook_s) return false;
  last_look_ = Clock::now();
  return places_.has_next();
}

void Training::report_progress() {
  voice_.say(progress_message(course_, length_, lr_, grad_norm_, stepper_->take_lane_seconds()));
  course_.loss_sum = 0;
  course_.loss_steps = 0;
}

}  // namespace tandem::train
