#include "train/trainer.h"

#include <utility>

#include "train/preparation.h"
#include "train/training.h"

namespace tandem::train {

Status train(const TrainRequest& request, Places& places, Judge& judge, Reporter& reporter,
             const std::atomic<bool>& stop, std::string& key) {
  TANDEM_ASSIGN(Prepared prepared, prepare(request, key));
  Trainable trainable = std::move(prepared.trainable);
  return Training(request, std::move(prepared), places, judge, reporter, stop)
      .run(std::move(trainable));
}

}  // namespace tandem::train
