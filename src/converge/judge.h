// Decides when training ends: all its steps are done, the model is good enough, does not get better
// any more, or the nodes' models agree. A pure function of what was measured and of what earlier
// evaluations left in the memory, so whoever asks gets the same answer: whoever judges keeps
// nothing, and the memory goes with the training, into its checkpoints and back with it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "job/job.h"

namespace tandem::converge {

// What ends a training before its last step.
struct Criteria {
  std::int64_t patience = 0;    // Evaluations without improvement; 0: any number.
  std::string metric = "loss";  // Or "accuracy": what `patience` and `target` look at.
  double min_delta = 0;         // The least improvement.
  double target = 0;            // As good as this is good enough; 0: nothing is.
  double change = 0;  // The loss changed by less between evaluations, as a fraction; 0: off.
  // The nodes' models differ by at most this (converge/divergence.h); 0: off. No job asks for it as
  // long as every exchange keeps the models equal.
  double divergence = 0;

  // Whether there is one at all.
  bool any() const { return patience > 0 || target > 0 || change > 0 || divergence > 0; }
};
Criteria criteria_of(const job::Train& train);

// What is left of the evaluations so far.
struct Memory {
  std::optional<double> best;               // The larger the better: a loss is negated.
  std::int64_t bad = 0;                     // Evaluations since the best.
  std::optional<double> loss, loss_before;  // Of the last two evaluations.
  std::optional<double> reached;            // The value that was as good as the target.
  std::optional<double> divergence;         // Of the last evaluation that had one.

  bool operator==(const Memory&) const = default;
};

struct Measured {
  double loss = 0;                   // Mean over samples.
  std::optional<double> accuracy;    // Absent for regression.
  std::optional<double> divergence;  // Of the nodes' models, where these differ.
};

struct Question {
  std::int64_t step = 0;   // Done so far,
  std::int64_t steps = 0;  // of so many at most.
  Memory memory;
  std::optional<Measured> measured;  // The evaluation after this step, when there was one.
};

enum class Ending : std::uint8_t { kNone, kFinished, kConverged };

struct Verdict {
  Ending ending = Ending::kNone;
  std::string reason;  // Why it ends, for people.
  Memory memory;       // For the next question.
};

Verdict judge(const Criteria& criteria, const Question& question);

}  // namespace tandem::converge
