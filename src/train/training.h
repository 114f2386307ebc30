// The whole run inside one worker (train/trainer.h): what goes from group to group, and what
// happens in one. Inside, by who calls it when: training.cc meets the others and keeps files,
// training_steps.cc makes steps, training_judgement.cc evaluates, decides and ends.
//
// Belongs to one thread.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collective/group.h"
#include "converge/judge.h"
#include "data/loader.h"
#include "data/sampler.h"
#include "data/source.h"
#include "model/model.h"
#include "train/checkpointer.h"
#include "train/course.h"
#include "train/evaluate.h"
#include "train/judge.h"
#include "train/places.h"
#include "train/preparation.h"
#include "train/reporter.h"
#include "train/request.h"
#include "train/snapshot.h"
#include "train/stepper.h"
#include "train/task_runner.h"
#include "train/voice.h"
#include "wire/worker.pb.h"

namespace tandem::train {

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
           Reporter& reporter, const std::atomic<bool>& stop);

  Status run(Trainable trainable);

 private:
  enum class End : std::uint8_t { kOfGroup, kOfTraining };

  Result<End> train_in_next_group();
  void leave(const Error* error);

  // What the group that ends, and its servers, have moved.
  void count_traffic();

  // What the others had is lost: back to the first weights, or to the checkpoint that is named.
  void forget();

  // The members of a group come from different places: some trained on while others did not, and
  // some are new. All take over the state of the one that is furthest.
  Status catch_up(const std::filesystem::path& checkpoint);

  // Takes over where a checkpoint stands. The first worker reads it for all.
  Status resume(const std::filesystem::path& checkpoint, collective::Deadline deadline);
  Status copy_from(int rank, collective::Deadline deadline);
  Status take_over(const Snapshot& snapshot);

  // The first worker writes the run's files.
  void appoint_writer(std::string owner);

  // Whether servers keep tables by key.
  bool has_tables() const { return model_->blueprint().window > 0; }
  // Takes a checkpoint when it is time, and tells how the last one went.
  Status checkpoint_if_due();
  // Where servers keep tables by key that takes as long as these are large: whether all know that
  // there may be one here, and wait for it.
  bool may_pause() const;
  Status await_others();
  void report_checkpoint();
  Status take_checkpoint();
  // Brings what servers have up to date here, too.
  Status take_state();
  // The same for who writes, before all leave the group: whoever gives the next places may be gone
  // by then. The others wait, because servers end a generation with the first worker that leaves.
  Status take_state_along();
  void write_checkpoint();
  void await_checkpoint();
  // Who trains rows of tables has old ones, until it asks for all.
  Status complete();
  // Where servers keep tables by key: what they hold now, in files. `kept` is whether these have
  // it, which a full disk may prevent.
  Status take_tables(Status& kept);
  BatchView batch_view();
  exchange::RecordSource table_source();
  // How large they are; none where there are none.
  Result<std::vector<wire::TableSize>> table_sizes();

  // The last one, however soon after another, so that the run can go on from its end.
  Status checkpoint_the_end();

  // Asked to end while it waits for a place: what the last group did is saved by who wrote for it.
  // Not where that group broke and servers have the rest of the state.
  void save_between_groups();

  // The first step of a group is done, or there was none left to do.
  void report_placed();

  // Whether the run ends here because somebody asked for it. Workers end together: one that was
  // asked tells the others with its next step.
  bool stopping();

  // Whether it was decided that training ends here. That a person asks to stop does not undo it.
  bool has_ended() const { return verdict_ && verdict_->ending != converge::Ending::kNone; }

  // Whether the epoch that has ended here shall be judged, and was not yet.
  bool is_epoch_to_judge() const;

  // Whether it shall be decided, without a new evaluation, if training ends here: after the last
  // step, and where a group begins, because its members may come from the end or from a checkpoint.
  bool is_to_decide() const;
  // Judges, decides and saves where that is due.
  Status between_steps();
  Status train_steps();

  // As train_steps(), for workers that do not wait for each other between two meetings.
  Status train_stretches();

  // Where workers meet next: the end of an epoch, a checkpoint, the end.
  std::int64_t next_meeting() const;
  Status one_stretch(TaskRunner& runner, const data::Sampler& sampler);
  Status one_step(data::Loader& loader, const data::Sampler& sampler);
  // Whether nothing but the next step may follow the one after `step` steps.
  bool may_overlap(std::int64_t step) const;
  // A step is done.
  void count(const StepOutcome& outcome, const data::Sampler& sampler);

  // Looks only now and then: a step may be shorter than a system call is worth.
  bool wants_regroup();
  void report_progress();

  // What epochs are judged by: the validation part, or the test part when there is none.
  Status evaluate_epoch();

  // Lets it be decided whether training ends here. No verdict when the run was asked to stop
  // meanwhile.
  Status decide(const std::optional<converge::Measured>& measured);
  void note_best(const Evaluation& evaluation);

  // Evaluates and reports it; nothing when the run was asked to stop meanwhile.
  Result<std::optional<Evaluation>> evaluate_part(const data::Dataset& part, const char* name);

  // The first worker may write for long while the others wait. One that hangs is ended by its node.
  std::chrono::milliseconds finish_patience() const;
  std::chrono::milliseconds writing_patience() const;

  // The final judgement, which the last epoch may have given already.
  Result<std::optional<Evaluation>> evaluate_test();

  // The first worker saves for all; every one tells its hash.
  Result<std::string> save();
  Status finish();
  void set_ending(wire::Finished& finished) const;

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
  std::int64_t whole_steps_ = 0;      // When all rows of tables here were up to date.
  // Where servers keep tables by key: what can be given to them, and after which step that is.
  // Empty: from the beginning, without rows.
  std::filesystem::path tables_from_;
  std::int64_t tables_steps_ = 0;
  std::shared_ptr<const TableFiles> tables_;  // What they held after the last step that was asked.
  std::int64_t taken_steps_ = -1;             // That step.
  Snapshot first_state_;                      // Of a job with servers.
  bool has_state_ = false;                    // Others may start from it.
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
  bool pauses_ = false;    // The first said in the last step that it will take a checkpoint.
  bool checkpoints_end_ = false;
  Parting parting_ = Parting::kNone;
  bool copied_ = false, placed_ = false;
  std::int64_t first_step_ = 0;

  Staleness staleness_;  // Since this worker began.
  double lr_ = 0, grad_norm_ = 0;
  std::chrono::steady_clock::time_point last_look_ = std::chrono::steady_clock::now();
};

}  // namespace tandem::train
