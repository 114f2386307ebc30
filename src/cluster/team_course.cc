// The part of Team that follows how far training is, and ends it.
#include <utility>

#include "cluster/team.h"

namespace tandem::cluster {

TeamActions Team::progressed(int worker, const DataProgress& progress) {
  const auto found = workers_.find(worker);
  if (found == workers_.end()) return take();
  if (speaker() == worker) progress_ = progress;
  if (progress.lane_seconds > 0 && progress.step > found->second.measured_step) {
    found->second.measured_step = progress.step;
    balance(worker, progress.lane_seconds);
  }
  return take();
}

TeamActions Team::asked(int worker, std::uint64_t number, const converge::Question& question) {
  if (!workers_.contains(worker)) return take();
  converge::Verdict verdict = converge::judge(config_.criteria, question);
  if (verdict.ending == converge::Ending::kConverged && question.measured) {
    // A question may come again; the user wants to hear it once.
    const std::pair decided{question.step, verdict.reason};
    if (std::exchange(decided_, decided) != decided) tell("early_stop", "master", verdict.reason);
  }
  actions_.emplace_back(AnswerWorker{worker, number, std::move(verdict)});
  return take();
}

}  // namespace tandem::cluster
