// The part of Training that evaluates, lets it be decided whether training ends, and ends it.
#include <fmt/format.h>

#include "checkpoint/model_file.h"
#include "train/ownership.h"
#include "train/recipe.h"
#include "train/reports.h"
#include "train/saved_model.h"
#include "train/training.h"

namespace tandem::train {
namespace {

// Of a weights_hash.
constexpr std::size_t kHashDigits = 32;

}  // namespace

bool Training::is_epoch_to_judge() const {
  return course_.step > course_.judged && course_.step % length_.steps_per_epoch == 0 &&
         course_.step / length_.steps_per_epoch % job_.train.eval_every_epochs == 0;
}

bool Training::is_to_decide() const {
  if (verdict_ || stopped_) return false;
  const bool begins = course_.step == first_step_ && course_.judged > 0 && criteria_.any();
  return begins || course_.step >= length_.total_steps;
}

Status Training::evaluate_epoch() {
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

Status Training::decide(const std::optional<converge::Measured>& measured) {
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

void Training::note_best(const Evaluation& evaluation) {
  if (job_.checkpoint.best == "none") return;
  const double value =
      job_.checkpoint.best == "accuracy" ? evaluation.accuracy.value_or(0) : -evaluation.loss;
  if (course_.best && value <= course_.best->second) return;
  course_.best = {course_.step, value};
  wants_best_ = true;
}

Result<std::optional<Evaluation>> Training::evaluate_part(const data::Dataset& part,
                                                          const char* name) {
  TANDEM_TRY(complete());
  TANDEM_ASSIGN(const std::optional<Evaluation> evaluated,
                evaluate(
                    *model_, part, job_.data.prefetch, *group_, finish_patience(),
                    [this] {
                      voice_.beat();
                      return stop_.load();
                    },
                    batch_view()));
  if (!evaluated) {
    stopped_ = true;
    return std::optional<Evaluation>();
  }
  voice_.say(evaluated_message(*evaluated, course_.step, length_, name));
  if (group_->rank() == 0 && has_tables()) {
    TANDEM_ASSIGN(const std::vector<wire::TableSize> sizes, table_sizes());
    wire::WorkerMessage message;
    message.mutable_tables()->set_step(course_.step);
    message.mutable_tables()->mutable_tables()->Add(sizes.begin(), sizes.end());
    voice_.say(message);
  }
  return evaluated;
}

BatchView Training::batch_view() {
  if (!has_tables()) return {};
  return [this](const data::Batch& batch) { return stepper_->look_up(batch, course_.step); };
}

Result<std::vector<wire::TableSize>> Training::table_sizes() {
  TANDEM_ASSIGN(const std::vector<exchange::TableSize> sizes, stepper_->table_sizes());
  std::vector<wire::TableSize> told(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const arch::Blueprint& blueprint = model_->blueprint();
    told[i].set_name(blueprint.slots[static_cast<std::size_t>(blueprint.tables[i].slot)].name);
    told[i].set_rows(sizes[i].rows);
    told[i].set_candidates(sizes[i].candidates);
    told[i].set_evicted(sizes[i].evicted);
    told[i].set_bytes(sizes[i].bytes);
  }
  return told;
}

std::chrono::milliseconds Training::finish_patience() const {
  return checkpoints_end_ ? writing_patience() : patience_of(job_.cluster);
}

std::chrono::milliseconds Training::writing_patience() const {
  constexpr std::chrono::minutes kWriting{30};
  return patience_of(job_.cluster) + kWriting;
}

Result<std::optional<Evaluation>> Training::evaluate_test() {
  if (last_test_ && last_test_->first == course_.step)
    return std::optional<Evaluation>(last_test_->second);
  if (stopping() || parts_.test->size() == 0) return std::optional<Evaluation>();
  return evaluate_part(*parts_.test, "test");
}

Result<std::string> Training::save() {
  std::string hash(kHashDigits, '0');
  if (group_->rank() == 0) {
    TANDEM_TRY(check_ownership(request_.run_directory, owner_, places_));
    Status kept;
    TANDEM_TRY(take_tables(kept));
    TANDEM_TRY(kept);
    TANDEM_ASSIGN(hash, voice_.beating([this] {
      return save_trained(request_.run_directory, job_, parts_, *model_, tables_.get());
    }));
    voice_.event("saved", std::string(checkpoint::kModelFileName));
  } else if (!has_tables()) {
    return checkpoint::weights_hash(model_->parameters(), model_->buffers());
  }
  // Who has not the tables takes the word of the one that does.
  if (has_tables()) {
    TANDEM_TRY(voice_.beating([&] {
      return group_->broadcast(std::as_writable_bytes(std::span(hash)), 0,
                               collective::deadline_after(finish_patience()));
    }));
  }
  return hash;
}

Status Training::finish() {
  report_placed();
  checkpoints_end_ = true;
  TANDEM_TRY(complete());
  TANDEM_TRY(checkpoint_the_end());
  TANDEM_ASSIGN(const std::string hash, save());
  TANDEM_ASSIGN(const std::optional<Evaluation> evaluation, evaluate_test());
  TANDEM_ASSIGN(const std::vector<wire::TableSize> sizes, table_sizes());
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
  finished.set_dropped_samples(course_.dropped);
  finished.mutable_tables()->Add(sizes.begin(), sizes.end());
  finished.set_inexact(!course_.exact);
  for (const std::uint64_t count : staleness_.steps) finished.add_staleness(count);
  for (const std::uint64_t count : staleness_.updates) finished.add_missed_updates(count);
  finished.set_model_path((request_.run_directory / checkpoint::kModelFileName).string());
  voice_.say(message);
  return {};
}

void Training::set_ending(wire::Finished& finished) const {
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

}  // namespace tandem::train
