// What a trainer says while it works. The worker's reporter sends it to the node (wire/frame.h); a
// test's collects it.
#pragma once

#include "wire/worker.pb.h"

namespace tandem::train {

class Reporter {
 public:
  virtual ~Reporter() = default;
  virtual void report(const wire::WorkerMessage& message) = 0;
};

}  // namespace tandem::train
