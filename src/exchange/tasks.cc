#include "exchange/tasks.h"

#include <utility>

namespace tandem::exchange {

Result<std::unique_ptr<Tasks>> Tasks::create(const Plan& plan, const ServersConfig& config,
                                             collective::Group& group, std::span<float> parameters,
                                             optim::Optimizer& optimizer, Deadline deadline) {
  TANDEM_ASSIGN(ServerLink link,
                ServerLink::connect(plan, config, group, parameters, optimizer, deadline));
  return std::unique_ptr<Tasks>(new Tasks(std::move(link), group, parameters, plan.reduce.lanes));
}

Status Tasks::begin_stretch(const ps::StretchPlan& stretch, Deadline deadline) {
  Status begun;
  if (group_.rank() == 0) begun = client_.begin_stretch(stretch, deadline);
  TANDEM_TRY(share_outcome(begun, group_, deadline));
  return pull(deadline);
}

Status Tasks::end_stretch(const Status& taken, std::int64_t step, Deadline deadline) {
  // From then on nobody works on the stretch any more.
  TANDEM_TRY(share_outcome(taken, group_, deadline));
  // And nobody leaves before the servers know where they stand: who leaves ends the generation.
  Status stands;
  if (group_.rank() == 0) stands = client_.use(step, deadline);
  return share_outcome(stands, group_, deadline);
}

Result<ps::TaskGiven> Tasks::next(const ps::TaskDone& done, Deadline deadline) {
  TANDEM_ASSIGN(ps::TaskGiven given, client_.next_task(done, deadline));
  if (given.pull) TANDEM_TRY(pull(deadline));
  return given;
}

Status Tasks::finish(Deadline deadline) {
  TANDEM_TRY(client_.finish(deadline));
  return take_results();
}

Status Tasks::pull(Deadline deadline) {
  TANDEM_TRY(client_.pull(deadline));
  return take_results();
}

Status Tasks::take_results() {
  link_.copy_trained({0, parameters_.size()}, parameters_);
  if (!client_.is_finite())
    return Error(Code::kDiverged, "an update made a parameter a number that is not finite");
  return {};
}

}  // namespace tandem::exchange
