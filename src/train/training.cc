#include "train/training.h"

#include <fmt/format.h>

#include "checkpoint/manifest.h"
#include "checkpoint/owner.h"
#include "checkpoint/path_text.h"
#include "checkpoint/store.h"
#include "train/ownership.h"
#include "train/reports.h"
#include "train/saved_model.h"
#include "train/standing.h"

namespace tandem::train {
namespace {

// Whether the group is over because of another worker: then this one can go on in the next.
bool is_about_others(const Error& error) {
  return error.code() == Code::kPeerLost || error.code() == Code::kTimeout;
}

// Why the rows of sparse tables are not on disk, and what to do.
Error not_collected(const Error& why) {
  Error error = Error(why).within("collect the sparse tables");
  if (why.code() != Code::kOutOfSpace) return error;
  return Error(why.code(), error.message() +
                               "; make room there for the tables twice, once to collect them and "
                               "once for the file that is made of them");
}

}  // namespace

Training::Training(const TrainRequest& request, Prepared prepared, Places& places, Judge& judge,
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

Status Training::run(Trainable trainable) {
  TANDEM_ASSIGN(stepper_, Stepper::create(job_, *model_, std::move(trainable)));
  // Who loses a server that has no copy goes back, perhaps to the beginning.
  if (job_.has_servers()) capture(*model_, stepper_->optimizer(), {}, first_state_);
  voice_.say(started_message(job_, parts_, model_->blueprint(), length_, notes_));
  for (;;) {
    const Result<End> end = train_in_next_group();
    if (end.ok() && *end == End::kOfTraining) return {};
    const bool may_go_on = end.ok() || is_about_others(end.error()) || state_lost_;
    if (!end.ok() && !(may_go_on && places_.may_follow())) {
      if (end.error().code() == Code::kCancelled && !group_) save_between_groups();
      if (end.error().code() == Code::kCorrupt) voice_.event("corrupt", end.error().message());
      return Status(end.error());
    }
    leave(end.ok() ? nullptr : &end.error());
  }
}

Result<Training::End> Training::train_in_next_group() {
  state_lost_ = false;
  TANDEM_ASSIGN(Place place, places_.next(parting_, [this] { voice_.beat(); }));
  group_.emplace(std::move(place.group));
  if (place.anew) forget();
  TANDEM_TRY(catch_up(place.resume));
  Meeting meeting{std::move(place.ends), std::move(place.servers), course_.step, optimizer_steps_,
                  whole_steps_,          table_source(),           tables_steps_};
  const auto join = [&] { return stepper_->join(*group_, std::move(meeting)); };
  // Tables may move meanwhile.
  Status joined = has_tables() ? voice_.beating(join) : join();
  if (!joined.ok()) {
    // More servers died than there were copies: whoever places the workers sends them back.
    state_lost_ = joined.error().code() == Code::kNotFound;
    return std::move(joined).error();
  }
  appoint_writer(std::move(place.owner));
  // Others may not have got as far: who wished to stop wishes it again, and all judge together.
  regroups_ = stopped_ = pauses_ = checkpoints_end_ = false;
  last_test_.reset();
  verdict_.reset();
  first_step_ = course_.step;
  placed_ = false;
  TANDEM_TRY(job_.is_async() ? train_stretches() : train_steps());
  if (regroups_) {
    if (job_.has_servers()) TANDEM_TRY(take_state_along());
    return End::kOfGroup;
  }
  TANDEM_TRY(finish());
  return End::kOfTraining;
}

exchange::RecordSource Training::table_source() {
  if (tables_from_.empty()) return {};
  return tables_in(tables_from_, model_->blueprint(), state_names(stepper_->optimizer()));
}

void Training::leave(const Error* error) {
  // A group that did not come about changes nothing about the one before.
  if (group_) parting_ = error == nullptr ? Parting::kAgreed : Parting::kBroken;
  if (group_) count_traffic();
  // Others may wait for this worker inside the group, where they do not see what became of servers.
  if (group_ && error != nullptr && job_.has_servers()) group_->give_up(error->code());
  stepper_->leave();
  group_.reset();
  voice_.say(left_message(places_.generation(), course_.step, error));
}

void Training::count_traffic() {
  for (const collective::Traffic& traffic : {group_->traffic(), stepper_->traffic()}) {
    traffic_.sent += traffic.sent;
    traffic_.received += traffic.received;
  }
}

void Training::forget() {
  // Without servers there is a checkpoint, which has all of it.
  if (job_.has_servers()) restore(first_state_, *model_, stepper_->optimizer());
  course_ = Course(first_schedule_);
  optimizer_steps_ = whole_steps_ = tables_steps_ = 0;
  tables_from_.clear();
  has_state_ = false;
}

Status Training::catch_up(const std::filesystem::path& checkpoint) {
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

Status Training::resume(const std::filesystem::path& checkpoint, collective::Deadline deadline) {
  Snapshot snapshot;
  capture(*model_, stepper_->optimizer(), {}, snapshot);
  // When that fails the others, who wait for it, learn of its end.
  if (group_->rank() == 0) {
    TANDEM_ASSIGN(snapshot, read_snapshot(checkpoint, *model_, stepper_->optimizer()));
  }
  TANDEM_TRY(share(snapshot, *group_, 0, deadline));
  TANDEM_TRY(take_over(snapshot));
  if (course_.step > length_.total_steps) {
    return Error(Code::kInvalidArgument,
                 fmt::format("the checkpoint is of step {}, but the job ends after {}; raise "
                             "train.epochs or train.steps, or go back to an earlier checkpoint "
                             "with --step",
                             course_.step, length_.total_steps));
  }
  optimizer_steps_ = whole_steps_ = tables_steps_ = course_.step;
  tables_from_ = checkpoint;
  return {};
}

Status Training::copy_from(int rank, collective::Deadline deadline) {
  Snapshot snapshot;
  capture(*model_, stepper_->optimizer(), course_.numbers(), snapshot);
  TANDEM_TRY(share(snapshot, *group_, rank, deadline));
  if (group_->rank() == rank) return {};
  copied_ = true;
  TANDEM_TRY(take_over(snapshot));
  // The other's may be old, where servers have the newest.
  optimizer_steps_ = whole_steps_ = tables_steps_ = -1;
  return {};
}

Status Training::take_over(const Snapshot& snapshot) {
  TANDEM_TRY(course_.restore(snapshot.numbers));
  restore(snapshot, *model_, stepper_->optimizer());
  return {};
}

void Training::appoint_writer(std::string owner) {
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

Status Training::checkpoint_if_due() {
  if (!checkpointer_) return {};
  const bool is_best = wants_best_ && course_.best && course_.best->first == course_.step;
  // The best one cannot come later, so it waits for the last.
  while (is_best && !checkpointer_->wait(Voice::kLook)) voice_.beat();
  if (is_best || checkpointer_->is_due(course_.step)) TANDEM_TRY(take_checkpoint());
  report_checkpoint();
  return {};
}

bool Training::may_pause() const {
  return job_.is_async() || pauses_ || is_epoch_to_judge() || course_.step == first_step_;
}

Status Training::await_others() {
  if (group_->size() == 1) return {};
  return voice_.beating(
      [this] { return group_->barrier(collective::deadline_after(writing_patience())); });
}

void Training::report_checkpoint() {
  const auto outcome = checkpointer_->outcome();
  if (!outcome) return;
  if (outcome->status.ok()) {
    voice_.event("checkpoint",
                 fmt::format("step {}, written in {:.3f} s", outcome->step, outcome->seconds));
  } else {
    displaced_ = check_ownership(request_.run_directory, owner_, places_);
    voice_.event("checkpoint_failed", fmt::format("step {}: {}; training goes on", outcome->step,
                                                  outcome->status.error().message()));
  }
}

Status Training::complete() {
  TANDEM_TRY(stepper_->complete(course_.step));
  whole_steps_ = course_.step;
  return {};
}

Status Training::take_state() {
  TANDEM_TRY(complete());
  TANDEM_TRY(stepper_->fetch_state(course_.step));
  optimizer_steps_ = course_.step;
  return {};
}

Status Training::take_state_along() {
  if (checkpointer_) TANDEM_TRY(take_state());
  return group_->barrier(collective::deadline_after(finish_patience()));
}

Status Training::take_tables(Status& kept) {
  kept = {};
  if (!has_tables() || taken_steps_ == course_.step) return {};
  tables_.reset();  // The disk may need the room.
  taken_steps_ = -1;
  auto files = TableFiles::create(request_.run_directory, model_->blueprint(),
                                  state_names(stepper_->optimizer()));
  if (!files.ok()) {
    kept = not_collected(files.error());
    return {};
  }
  const Status read =
      stepper_->read_tables(course_.step, [&](const exchange::TableRecords& records) {
        voice_.beat();
        kept = (*files)->add(records);
        return kept;
      });
  if (kept.ok()) TANDEM_TRY(read);
  if (kept.ok()) kept = (*files)->finish();
  if (!kept.ok()) {
    kept = not_collected(kept.error());
    return {};
  }
  tables_ = std::move(files).value();
  taken_steps_ = course_.step;
  return {};
}

Status Training::take_checkpoint() {
  TANDEM_TRY(take_state());
  Status kept;
  TANDEM_TRY(take_tables(kept));
  if (kept.ok()) {
    write_checkpoint();
    // Whoever writes has them, and the disk may need the room then. What ends here is saved, too.
    if (!checkpoints_end_ && !has_ended()) {
      tables_.reset();
      taken_steps_ = -1;
    }
    return {};
  }
  // As when it cannot be written.
  checkpointer_->put_off(course_.step);
  voice_.event("checkpoint_failed",
               fmt::format("step {}: {}; training goes on", course_.step, kept.error().message()));
  return {};
}

void Training::write_checkpoint() {
  const auto best = course_.best ? std::optional(course_.best->first) : std::nullopt;
  if (checkpointer_->take(course_.step, *model_, stepper_->optimizer(), course_.numbers(), best,
                          tables_))
    wants_best_ = false;
}

void Training::await_checkpoint() {
  while (!checkpointer_->wait(Voice::kLook)) voice_.beat();
  report_checkpoint();
}

Status Training::checkpoint_the_end() {
  if (!checkpointer_) return {};
  await_checkpoint();
  TANDEM_TRY(take_checkpoint());
  await_checkpoint();
  return {};
}

void Training::save_between_groups() {
  const bool has_all =
      !job_.has_servers() || (optimizer_steps_ == course_.step && whole_steps_ == course_.step &&
                              (!has_tables() || taken_steps_ == course_.step));
  if (!checkpointer_ || !has_state_ || !has_all) return;
  await_checkpoint();
  write_checkpoint();
  await_checkpoint();
}

}  // namespace tandem::train
