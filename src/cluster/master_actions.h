// Does what a master's coordinator decides: sends orders to nodes, begins and ends jobs, and finds
// the checkpoints from which workers go on. Belongs to the master's thread.
#pragma once

#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "base/result.h"
#include "cluster/master_state.h"

namespace tandem::cluster {

class MasterActions {
 public:
  explicit MasterActions(MasterState& state) : state_(state) {}

  // Does them in their order, after what is being done, and looks when the coordinator wants to be
  // asked again.
  void apply(JobActions actions);

 private:
  // Places of a generation that goes on from a checkpoint, until that is found.
  struct Held {
    std::uint64_t generation = 0;
    std::vector<std::pair<PlaceWorker, NodeId>> places;
  };

  void carry_out(MasterJob& job, const StartWorker& start, NodeId node);
  void carry_out(MasterJob& job, const PlaceWorker& place, NodeId node);
  void carry_out(MasterJob& job, const AnswerWorker& answer, NodeId node);
  void carry_out(MasterJob& job, const EndWorker& end, NodeId node);
  void carry_out(MasterJob& job, const StartServer& start, NodeId node);
  void carry_out(MasterJob& job, const EndServer& end, NodeId node);
  void carry_out(MasterJob& job, const TellUser& news, NodeId node);
  void carry_out(MasterJob& job, const EndJob& end, NodeId node);

  bool is_ready(MasterJob& job);
  void keep_begun(MasterJob& job, Status status);
  void keep(MasterJob& job, Status status);
  void release(MasterJob& job, const Result<ResumePoint>& point);
  void send_place(MasterJob& job, const PlaceWorker& place, NodeId node, const ResumePoint* found);

  MasterState& state_;
  std::map<JobId, Error> broken_;  // Jobs that end because of their files.
  std::map<JobId, Held> held_;
  std::deque<JobAction> todo_;
  bool applying_ = false;
  net::Timer timer_;
};

}  // namespace tandem::cluster
