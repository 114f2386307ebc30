#include "exchange/tasks.h"

#include <utility>

namespace tandem::exchange {

Result<std::unique_ptr<Tasks>> Tasks::create(const Plan& plan, const ServersConfig& config,
                                             collective::Group& group, std::span<float> parameters,
                                             optim::Optimizer& optimizer, Deadline deadline) {
  TANDEM_ASSIGN(ServerLink link,
                ServerLink::connect(plan, config, group, parameters, optimizer, deadline));
  return std::unique_ptr<Tasks>(new Tasks(std::move(link), group, parameters));
}

Status Tasks::begin_stretch(const ps::StretchPlan& stretch, Deadline deadline) {
  Status begun;
  if (group_.rank() == 0) begun = client_.begin_stretch(stretch, deadline);
  TANDEM_TRY(share_outcome(begun, group_, deadline));
  return pull(deadline);
}

Status Tasks::end_stretch(std::int64_t step, Deadline deadline) {
  // From then on nobody works on the stretch any more.
  TANDEM_TRY(share_outcome(pull(deadline), group_, deadline));
  if (group_.rank() == 0) TANDEM_TRY(client_.use(step, deadline));
  return {};
}

Result<ps::TaskGiven> Tasks::next(const ps::TaskDone& done, Deadline deadline) {
  TANDEM_ASSIGN(ps::TaskGiven given, client_.next_task(done, deadline));
  if (given.pull) TANDEM_TRY(pull(deadline));
  return given;
}

Status Tasks::finish(Deadline deadline) {
  TANDEM_TRY(client_.finish(deadline));
  link_.copy_trained(parameters_);
  if (!client_.is_finite())
    return Error(Code::kDiverged, "an update made a parameter a number that is not finite");
  return {};
}

Status Tasks::pull(Deadline deadline) {
  TANDEM_TRY(client_.pull(deadline));
  link_.copy_trained(parameters_);
  return {};
}

}  // namespace tandem::exchange
