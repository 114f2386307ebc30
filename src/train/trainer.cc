#include "train/trainer.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include "checkpoint/manifest.h"
#include "checkpoint/model_file.h"
#include "checkpoint/owner.h"
#include "checkpoint/path_text.h"
#include "checkpoint/store.h"
#include "data/loader.h"
#include "train/checkpointer.h"
#include "train/course.h"
#include "train/evaluate.h"
#include "train/judge.h"
#include "train/ownership.h"
#include "train/preparation.h"
#include "train/reports.h"
#include "train/saved_model.h"
#include "train/standing.h"
#include "train/stepper.h"
#include "train/task_runner.h"
#include "train/voice.h"

namespace tandem::train {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// Whether the group is over because of another worker: then this one can go on in the next.
bool is_about_others(const Error& error) {
  return error.code() == Code::kPeerLost || error.code() == Code::kTimeout;
}

// How often parameters were 0, 1, ... steps behind, and gradients missed 0, 1, ... updates.
struct Staleness {
  std::vector<std::uint64_t> steps, updates;

  void add(const StretchOutcome& stretch) {
    add(stretch.staleness, steps);
    add(stretch.missed, updates);
  }

 private:
  static void add(const std::vector<std::uint64_t>& counts, std::vector<std::uint64_t>& to) {
    to.resize(std::max(to.size(), counts.size()));
    for (std::size_t i = 0; i < counts.size(); ++i) to[i] += counts[i];
  }
};

class Training {
 public:
  Training(const TrainRequest& request, Prepared prepared, Places& places, Judge& judge,
           Reporter& reporter, const std::atomic<bool>& stop)
      : request_(request),
        job_(request.job),
        criteria_(converge::criteria_of(job_.train)),
        places_(places),
        judge_(judge),
        voice_(reporter),
        stop_(stop),
        parts_(std::move(prepared.parts)),
        model_(std::move(prepared.model)),
        length_(prepared.length),
        facts_(std::move(prepared.facts)),
        notes_(std::move(prepared.notes)),
        first_schedule_(prepared.schedule),
        course_(prepared.schedule) {}

  Status run(Trainable trainable) {
    TANDEM_ASSIGN(stepper_, Stepper::create(job_, *model_, std::move(trainable)));
    // Who loses a server that has no copy goes back, perhaps to the beginning.
    if (job_.has_servers()) capture(*model_, stepper_->optimizer(), {}, first_state_);
    voice_.say(started_message(job_, parts_, model_->blueprint(), length_, notes_));
    for (;;) {
      const Result<End> end = train_in_next_group();
      if (end.ok() && *end == End::kOfTraining) return {};
      const bool may_go_on = end.ok() || is_about_others(end.error()) || state_lost_;
      if (!end.ok() && !(may_go_on && places_.may_follow())) return Status(end.error());
      leave(end.ok() ? nullptr : &end.error());
    }
  }

 private:
  enum class End : std::uint8_t { kOfGroup, kOfTraining };

  Result<End> train_in_next_group() {
    state_lost_ = false;
    TANDEM_ASSIGN(Place place, places_.next(parting_, [this] { voice_.beat(); }));
    group_.emplace(std::move(place.group));
    if (place.anew) forget();
    TANDEM_TRY(catch_up(place.resume));
    Status joined = stepper_->join(
        *group_, {std::move(place.ends), std::move(place.servers), course_.step, optimizer_steps_});
    if (!joined.ok()) {
      // More servers died than there were copies: whoever places the workers sends them back.
      state_lost_ = joined.error().code() == Code::kNotFound;
      return std::move(joined).error();
    }
    appoint_writer(std::move(place.owner));
    // Others may not have got as far: who wished to stop wishes it again, and all judge together.
    regroups_ = stopped_ = checkpoints_end_ = false;
    last_test_.reset();
    verdict_.reset();
    first_step_ = course_.step;
    placed_ = false;
    TANDEM_TRY(job_.is_async() ? train_stretches() : train_steps());
    if (regroups_) return End::kOfGroup;
    TANDEM_TRY(finish());
    return End::kOfTraining;
  }

  void leave(const Error* error) {
    parting_ = error == nullptr ? Parting::kAgreed : Parting::kBroken;
    if (group_) count_traffic();
    stepper_->leave();
    group_.reset();
    voice_.say(left_message(places_.generation(), course_.step, error));
  }

  // What the group that ends, and its servers, have moved.
  void count_traffic() {
    for (const collective::Traffic& traffic : {group_->traffic(), stepper_->traffic()}) {
      traffic_.sent += traffic.sent;
      traffic_.received += traffic.received;
    }
  }

  // What the others had is lost: back to the first weights, or to the checkpoint that is named.
  void forget() {
    restore(first_state_, *model_, stepper_->optimizer());
    course_ = Course(first_schedule_);
    optimizer_steps_ = 0;
    has_state_ = false;
  }

  // The members of a group come from different places: some trained on while others did not, and
  // some are new. All take over the state of the one that is furthest.
  Status catch_up(const std::filesystem::path& checkpoint) {
    const collective::Deadline deadline = collective::deadline_after(request_.start_patience);
    TANDEM_ASSIGN(
        const Standings standings,
        compare(*group_, {has_state_ ? course_.step : -1, course_.judged, facts_}, deadline));
    copied_ = false;
    if (!standings.somebody_has_state) {
      if (!checkpoint.empty()) TANDEM_TRY(resume(checkpoint, deadline));
    } else if (!standings.all_equal) {
      TANDEM_TRY(copy_from(standings.furthest, deadline));
    }
    has_state_ = true;
    return {};
  }

  // Takes over where a checkpoint stands. The first worker reads it for all.
  Status resume(const std::filesystem::path& checkpoint, collective::Deadline deadline) {
    Snapshot snapshot;
    capture(*model_, stepper_->optimizer(), {}, snapshot);
    // When that fails the others, who wait for it, learn of its end.
    if (group_->rank() == 0) {
      TANDEM_ASSIGN(snapshot, read_snapshot(checkpoint, *model_, stepper_->optimizer()));
    }
    TANDEM_TRY(share(snapshot, *group_, 0, deadline));
    TANDEM_TRY(take_over(snapshot));
    optimizer_steps_ = course_.step;
    return {};
  }

  Status copy_from(int rank, collective::Deadline deadline) {
    Snapshot snapshot;
    capture(*model_, stepper_->optimizer(), course_.numbers(), snapshot);
    TANDEM_TRY(share(snapshot, *group_, rank, deadline));
    if (group_->rank() == rank) return {};
    copied_ = true;
    TANDEM_TRY(take_over(snapshot));
    optimizer_steps_ = -1;  // The other's may be old, where servers have the newest.
    return {};
  }

  Status take_over(const Snapshot& snapshot) {
    TANDEM_TRY(course_.restore(snapshot.numbers));
    restore(snapshot, *model_, stepper_->optimizer());
    return {};
  }

  // The first worker writes the run's files.
  void appoint_writer(std::string owner) {
    if (owner != owner_) checkpointer_.reset();
    owner_ = std::move(owner);
    displaced_ = {};
    const bool writes = group_->rank() == 0 && request_.rehearsal == Rehearsal::kNo;
    if (!writes || job_.checkpoint.keep == 0) {
      checkpointer_.reset();
    } else if (!checkpointer_) {
      checkpoint::Metadata place = {
          {checkpoint::kBaseDirectory, checkpoint::path_to_text(request_.base_directory)},
          {checkpoint::kStepsPerEpoch, std::to_string(length_.steps_per_epoch)}};
      const auto may_write = [run = request_.run_directory, owner = owner_] {
        return checkpoint::check_owner(run, owner);
      };
      checkpointer_.emplace(request_.store, may_write, job_.checkpoint, course_.step,
                            model_->blueprint(), trained_metadata(job_, parts_), std::move(place));
    }
  }

  // Takes a checkpoint when it is time, and tells how the last one went.
  Status checkpoint_if_due() {
    if (!checkpointer_) return {};
    const bool is_best = wants_best_ && course_.best && course_.best->first == course_.step;
    // The best one cannot come later, so it waits for the last.
    while (is_best && !checkpointer_->wait(Voice::kLook)) voice_.beat();
    if (is_best || checkpointer_->is_due(course_.step)) TANDEM_TRY(take_checkpoint());
    if (const auto outcome = checkpointer_->outcome()) {
      if (outcome->status.ok()) {
        voice_.event("checkpoint",
                     fmt::format("step {}, written in {:.3f} s", outcome->step, outcome->seconds));
      } else {
        displaced_ = check_ownership(request_.run_directory, owner_, places_);
        voice_.event("checkpoint_failed",
                     fmt::format("step {}: {}; training goes on", outcome->step,
                                 outcome->status.error().message()));
      }
    }
    return {};
  }

  Status take_checkpoint() {
    TANDEM_TRY(stepper_->fetch_state(course_.step));
    optimizer_steps_ = course_.step;
    const auto best = course_.best ? std::optional(course_.best->first) : std::nullopt;
    if (checkpointer_->take(course_.step, *model_, stepper_->optimizer(), course_.numbers(), best))
      wants_best_ = false;
    return {};
  }

  // The last one, however soon after another, so that the run can go on from its end.
  Status checkpoint_the_end() {
    if (!checkpointer_) return {};
    const auto settle = [&] {
      while (!checkpointer_->wait(Voice::kLook)) voice_.beat();
      return checkpoint_if_due();
    };
    TANDEM_TRY(settle());
    TANDEM_TRY(take_checkpoint());
    return settle();
  }

  // The first step of a group is done, or there was none left to do.
  void report_placed() {
    if (placed_) return;
    placed_ = true;
    voice_.say(placed_message(places_.generation(), first_step_, copied_));
  }

  // Whether the run ends here because somebody asked for it. Workers end together: one that was
  // asked tells the others with its next step.
  bool stopping() {
    if (group_->size() == 1 && stop_) stopped_ = true;
    return stopped_;
  }

  // Whether it was decided that training ends here. That a person asks to stop does not undo it.
  bool has_ended() const { return verdict_ && verdict_->ending != converge::Ending::kNone; }

  // Whether the epoch that has ended here shall be judged, and was not yet.
  bool is_epoch_to_judge() const {
    return course_.step > course_.judged && course_.step % length_.steps_per_epoch == 0 &&
           course_.step / length_.steps_per_epoch % job_.train.eval_every_epochs == 0;
  }

  // Whether it shall be decided, without a new evaluation, if training ends here: after the last
  // step, and where a group begins, because its members may come from the end or from a checkpoint.
  bool is_to_decide() const {
    if (verdict_ || stopped_) return false;
    const bool begins = course_.step == first_step_ && course_.judged > 0 && criteria_.any();
    return begins || course_.step >= length_.total_steps;
  }

  Status train_steps() {
    const data::Sampler sampler(parts_.train->size(), job_.train.batch, job_.lanes(),
                                job_.train.seed);
    const collective::LaneRange lanes = stepper_->lanes();
    data::Loader loader(*parts_.train, sampler,
                        {course_.step, length_.total_steps, lanes.begin, lanes.end},
                        job_.data.prefetch);
    Clock::time_point last_report = Clock::now();
    for (;;) {
      if (is_epoch_to_judge()) TANDEM_TRY(evaluate_epoch());
      if (is_to_decide()) TANDEM_TRY(decide({}));
      TANDEM_TRY(checkpoint_if_due());
      TANDEM_TRY(displaced_);
      if (stopping() || has_ended()) break;
      if (regroups_) return {};
      Status stepped = one_step(loader, sampler);
      if (!stepped.ok()) {
        // The run ends here: the report tells how far it came.
        if (stepped.error().code() == Code::kDiverged && course_.loss_steps > 0) report_progress();
        return stepped;
      }
      report_placed();
      const bool epoch_end = course_.step % length_.steps_per_epoch == 0;
      if (epoch_end || course_.step == 1 ||
          seconds_since(last_report) >= job_.train.report_every_s) {
        report_progress();
        last_report = Clock::now();
      }
      voice_.beat();
    }
    if (course_.loss_steps > 0) report_progress();
    return {};
  }

  // As train_steps(), for workers that do not wait for each other between two meetings.
  Status train_stretches() {
    const data::Sampler sampler(parts_.train->size(), job_.train.batch, job_.lanes(),
                                job_.train.seed);
    TaskRunner runner(job_, *model_, *parts_.train, sampler, *stepper_, *group_);
    for (;;) {
      if (is_epoch_to_judge()) TANDEM_TRY(evaluate_epoch());
      if (is_to_decide()) TANDEM_TRY(decide({}));
      TANDEM_TRY(checkpoint_if_due());
      TANDEM_TRY(displaced_);
      if (stopping() || has_ended()) break;
      if (regroups_) return {};
      TANDEM_TRY(one_stretch(runner, sampler));
    }
    report_placed();
    return {};
  }

  // Where workers meet next: the end of an epoch, a checkpoint, the end.
  std::int64_t next_meeting() const {
    std::int64_t to = std::min(length_.total_steps, (course_.step / length_.steps_per_epoch + 1) *
                                                        length_.steps_per_epoch);
    if (job_.checkpoint.keep > 0 && job_.checkpoint.every_steps > 0)
      to = std::min(to, course_.step + job_.checkpoint.every_steps);
    return to;
  }

  Status one_stretch(TaskRunner& runner, const data::Sampler& sampler) {
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
                  checkpointer_ && checkpointer_->is_due(shown.step) && shown.step > course_.step;
              return pauses ? TaskRunner::Wish::kPause : TaskRunner::Wish::kGoOn;
            },
        .lr =
            [this](std::int64_t step) {
              lr_ = course_.schedule.lr_at(step);
              return lr_;
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
    TANDEM_ASSIGN(const StretchOutcome outcome, runner.run(course_.step, next_meeting(), hooks));
    stopped_ |= outcome.stops;
    regroups_ |= outcome.regroups;
    if (outcome.step > course_.step) verdict_.reset();
    for (; course_.step < outcome.step; ++course_.step) {
      course_.samples += sampler.step_samples(course_.step / length_.steps_per_epoch,
                                              course_.step % length_.steps_per_epoch);
    }
    course_.samples -= outcome.dropped_samples;
    dropped_samples_ += outcome.dropped_samples;
    course_.train_s += seconds_since(begin);
    staleness_.add(outcome);
    if (add_loss(course_, outcome.loss, outcome.samples)) report_progress();
    return {};
  }

  Status one_step(data::Loader& loader, const data::Sampler& sampler) {
    const Clock::time_point begin = Clock::now();
    const std::int64_t epoch = course_.step / length_.steps_per_epoch;
    const std::int64_t samples =
        sampler.step_samples(epoch, course_.step % length_.steps_per_epoch);
    stepper_->wish(stop_ ? Wish::kStop : wants_regroup() ? Wish::kRegroup : Wish::kGoOn);
    lr_ = course_.schedule.lr_at(course_.step);
    Status status = stepper_->begin_step(course_.step, lr_);
    for (std::int64_t lane = stepper_->lanes().begin; lane < stepper_->lanes().end; ++lane) {
      if (status.ok()) status = stepper_->run_lane(loader.next()->batch, lane, samples);
      if (!status.ok())
        return std::move(status).error().within(fmt::format("step {}", course_.step + 1));
      voice_.beat();
    }
    TANDEM_ASSIGN(const StepOutcome outcome, stepper_->finish_step());
    stopped_ |= outcome.wish == Wish::kStop;
    regroups_ |= outcome.wish == Wish::kRegroup;
    ++course_.step;
    verdict_.reset();
    course_.samples += samples;
    grad_norm_ = outcome.grad_norm;
    course_.loss_sum += outcome.sums.loss / static_cast<double>(samples);
    ++course_.loss_steps;
    course_.train_s += seconds_since(begin);
    return {};
  }

  // Looks only now and then: a step may be shorter than a system call is worth.
  bool wants_regroup() {
    constexpr double kLook_s = 0.01;
    if (seconds_since(last_look_) < kLook_s) return false;
    last_look_ = Clock::now();
    return places_.has_next();
  }

  void report_progress() {
    voice_.say(progress_message(course_, length_, lr_, grad_norm_, stepper_->take_lane_seconds()));
    course_.loss_sum = 0;
    course_.loss_steps = 0;
  }

  // What epochs are judged by: the validation part, or the test part when there is none.
  Status evaluate_epoch() {
    const bool validation = parts_.validation->size() > 0;
    const data::Dataset& part = validation ? *parts_.validation : *parts_.test;
    if (part.size() == 0) {
      course_.judged = course_.step;
      return {};
    }
    TANDEM_ASSIGN(const std::optional<Evaluation> evaluation,
                  evaluate_part(part, validation ? "validation" : "test"));
    if (!evaluation) return {};
    TANDEM_TRY(decide(converge::Measured{evaluation->loss, evaluation->accuracy, {}}));
    if (!verdict_) return {};
    course_.judged = course_.step;
    if (!validation) last_test_ = {course_.step, *evaluation};
    if (course_.schedule.observe(evaluation->loss)) {
      voice_.event("rate", fmt::format("learning rate lowered to {:.6g}",
                                       course_.schedule.lr_at(course_.step)));
    }
    note_best(*evaluation);
    return {};
  }

  // Lets it be decided whether training ends here. No verdict when the run was asked to stop
  // meanwhile.
  Status decide(const std::optional<converge::Measured>& measured) {
    const converge::Question question{course_.step, length_.total_steps, course_.memory, measured};
    if (criteria_.any() || course_.step >= length_.total_steps) {
      TANDEM_ASSIGN(verdict_, consult(judge_, question, *group_, finish_patience(), [this] {
                      voice_.beat();
                      return stop_.load();
                    }));
      stopped_ |= !verdict_;
    } else {
      verdict_ = converge::judge(criteria_, question);  // Nothing can end it.
    }
    if (verdict_) course_.memory = verdict_->memory;
    return {};
  }

  void note_best(const Evaluation& evaluation) {
    if (job_.checkpoint.best == "none") return;
    const double value =
        job_.checkpoint.best == "accuracy" ? evaluation.accuracy.value_or(0) : -evaluation.loss;
    if (course_.best && value <= course_.best->second) return;
    course_.best = {course_.step, value};
    wants_best_ = true;
  }

  // Evaluates and reports it; nothing when the run was asked to stop meanwhile.
  Result<std::optional<Evaluation>> evaluate_part(const data::Dataset& part, const char* name) {
    TANDEM_ASSIGN(const std::optional<Evaluation> evaluated,
                  evaluate(*model_, part, job_.data.prefetch, *group_, finish_patience(), [this] {
                    voice_.beat();
                    return stop_.load();
                  }));
    if (!evaluated) {
      stopped_ = true;
      return std::optional<Evaluation>();
    }
    voice_.say(evaluated_message(*evaluated, course_.step, length_, name));
    return evaluated;
  }

  // The first worker may write for long while the others wait. One that hangs is ended by its node.
  std::chrono::milliseconds finish_patience() const {
    constexpr std::chrono::minutes kWriting{30};
    return patience_of(job_.cluster) + (checkpoints_end_ ? kWriting : std::chrono::minutes(0));
  }

  // The final judgement, which the last epoch may have given already.
  Result<std::optional<Evaluation>> evaluate_test() {
    if (last_test_ && last_test_->first == course_.step)
      return std::optional<Evaluation>(last_test_->second);
    if (stopping() || parts_.test->size() == 0) return std::optional<Evaluation>();
    return evaluate_part(*parts_.test, "test");
  }

  // The first worker saves for all; every one tells its hash.
  Result<std::string> save() {
    if (group_->rank() != 0)
      return checkpoint::weights_hash(model_->parameters(), model_->buffers());
    TANDEM_TRY(check_ownership(request_.run_directory, owner_, places_));
    TANDEM_ASSIGN(std::string hash, voice_.beating([this] {
      return save_trained(request_.run_directory, job_, parts_, *model_);
    }));
    voice_.event("saved", std::string(checkpoint::kModelFileName));
    return hash;
  }

  Status finish() {
    report_placed();
    checkpoints_end_ = true;
    TANDEM_TRY(checkpoint_the_end());
    TANDEM_ASSIGN(const std::string hash, save());
    TANDEM_ASSIGN(const std::optional<Evaluation> evaluation, evaluate_test());
    // Whoever ends first must not be missed by one that could then not say that all is saved.
    // The first may still write.
    TANDEM_TRY(voice_.beating(
        [this] { return group_->barrier(collective::deadline_after(finish_patience())); }));
    wire::WorkerMessage message;
    wire::Finished& finished = *message.mutable_finished();
    if (evaluation) set_evaluation(*evaluation, finished);
    set_ending(finished);
    finished.set_steps(course_.step);
    finished.set_epochs(course_.step / length_.steps_per_epoch);
    finished.set_samples(course_.samples);
    finished.set_train_s(course_.train_s);
    finished.set_weights_hash(hash);
    count_traffic();
    finished.set_bytes_sent(traffic_.sent);
    finished.set_bytes_received(traffic_.received);
    finished.set_engine(std::string(group_->engine()));
    finished.set_dropped_samples(dropped_samples_);
    for (const std::uint64_t count : staleness_.steps) finished.add_staleness(count);
    for (const std::uint64_t count : staleness_.updates) finished.add_missed_updates(count);
    finished.set_model_path((request_.run_directory / checkpoint::kModelFileName).string());
    voice_.say(message);
    return {};
  }

  void set_ending(wire::Finished& finished) const {
    if (!has_ended()) {
      finished.set_status("cancelled");
      finished.set_reason("asked to stop");
      return;
    }
    const bool converged = verdict_->ending == converge::Ending::kConverged;
    finished.set_status(converged ? "converged" : "finished");
    const bool cut_short = stopped_ && parts_.test->size() > 0 && !finished.has_eval();
    finished.set_reason(verdict_->reason +
                        (cut_short ? "; asked to stop before the last evaluation" : ""));
  }

  // Constant after construction.
  const TrainRequest& request_;
  const job::Job& job_;
  const converge::Criteria criteria_;
  Places& places_;
  Judge& judge_;
  Voice voice_;
  const std::atomic<bool>& stop_;
  const data::Parts parts_;
  const std::unique_ptr<model::Model> model_;
  const Length length_;
  const std::string facts_;
  const std::vector<std::string> notes_;

  const optim::Schedule first_schedule_;

  // The state that goes from group to group.
  Course course_;
  bool state_lost_ = false;           // The servers had not what the group was to go on from.
  std::int64_t optimizer_steps_ = 0;  // What the optimizer's state here is, where servers have one.
  Snapshot first_state_;              // Of a job with servers.
  bool has_state_ = false;            // Others may start from it.
  std::optional<collective::Group> group_;
  std::unique_ptr<Stepper> stepper_;          // Refers to the group.
  std::optional<Checkpointer> checkpointer_;  // The first worker's.
  std::string owner_;                         // Whose the run directory must be.
  Status displaced_;                          // Whether it was another's.
  collective::Traffic traffic_;               // Of groups that are over.
  bool stopped_ = false;                      // The workers agreed to end here.
  bool wants_best_ = false;                   // The best has no checkpoint yet.
  // After which step, and what it gave.
  std::optional<std::pair<std::int64_t, Evaluation>> last_test_;

  // Whether training ends at this step, once that was decided.
  std::optional<converge::Verdict> verdict_;

  // Of this group.
  bool regroups_ = false;  // The workers agreed to meet anew.
  bool checkpoints_end_ = false;
  Parting parting_ = Parting::kNone;
  bool copied_ = false, placed_ = false;
  std::int64_t first_step_ = 0;

  // Since this worker began.
  Staleness staleness_;
  std::int64_t dropped_samples_ = 0;
  double lr_ = 0, grad_norm_ = 0;
  Clock::time_point last_look_ = Clock::now();
};

}  // namespace

Status train(const TrainRequest& request, Places& places, Judge& judge, Reporter& reporter,
             const std::atomic<bool>& stop, std::string& key) {
  TANDEM_ASSIGN(Prepared prepared, prepare(request, key));
  Trainable trainable = std::move(prepared.trainable);
  return Training(request, std::move(prepared), places, judge, reporter, stop)
      .run(std::move(trainable));
}

}  // namespace tandem::train
