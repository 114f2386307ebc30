// Asks whoever placed this worker whether training ends, over the control socket: the node, which
// in a cluster passes it on to the master and the answer back. Belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>

#include "control.h"
#include "train/judge.h"

namespace tandem::worker {

class NodeJudge final : public train::Judge {
 public:
  // Both must outlive it.
  NodeJudge(Control& control, train::Reporter& reporter) : control_(control), reporter_(reporter) {}

  void ask(const converge::Question& question) override;
  // Asks again every second.
  Result<std::optional<converge::Verdict>> answer(std::chrono::milliseconds at_most) override;

 private:
  void send();

  Control& control_;
  train::Reporter& reporter_;
  std::uint64_t asked_ = 0;  // Questions so far.
  wire::WorkerMessage question_;
  std::chrono::steady_clock::time_point sent_at_;
};

}  // namespace tandem::worker
