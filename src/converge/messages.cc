#include "converge/messages.h"

#include <string>
#include <string_view>

namespace tandem::converge {
namespace {

constexpr std::string_view kFinished = "finished", kConverged = "converged";

wire::Memory to_wire(const Memory& memory) {
  wire::Memory told;
  if (memory.best) told.set_best(*memory.best);
  told.set_bad(memory.bad);
  if (memory.loss) told.set_loss(*memory.loss);
  if (memory.loss_before) told.set_loss_before(*memory.loss_before);
  if (memory.reached) told.set_reached(*memory.reached);
  if (memory.divergence) told.set_divergence(*memory.divergence);
  return told;
}

Memory from_wire(const wire::Memory& told) {
  Memory memory;
  if (told.has_best()) memory.best = told.best();
  memory.bad = told.bad();
  if (told.has_loss()) memory.loss = told.loss();
  if (told.has_loss_before()) memory.loss_before = told.loss_before();
  if (told.has_reached()) memory.reached = told.reached();
  if (told.has_divergence()) memory.divergence = told.divergence();
  return memory;
}

}  // namespace

wire::Question to_wire(const Question& question, std::uint64_t number) {
  wire::Question told;
  told.set_number(number);
  told.set_step(question.step);
  told.set_steps(question.steps);
  *told.mutable_memory() = to_wire(question.memory);
  if (question.measured) {
    wire::Measured& measured = *told.mutable_measured();
    measured.set_loss(question.measured->loss);
    if (question.measured->accuracy) measured.set_accuracy(*question.measured->accuracy);
    if (question.measured->divergence) measured.set_divergence(*question.measured->divergence);
  }
  return told;
}

wire::Verdict to_wire(const Verdict& verdict, std::uint64_t number) {
  wire::Verdict told;
  told.set_number(number);
  if (verdict.ending != Ending::kNone)
    told.set_ending(std::string(verdict.ending == Ending::kFinished ? kFinished : kConverged));
  told.set_reason(verdict.reason);
  *told.mutable_memory() = to_wire(verdict.memory);
  return told;
}

Result<Question> from_wire(const wire::Question& told) {
  // Larger ones could not be counted on, nor kept in a checkpoint.
  constexpr std::int64_t kMost = std::int64_t{1} << 53;
  if (told.memory().bad() < 0 || told.memory().bad() >= kMost)
    return Error(Code::kCorrupt, "a count of evaluations in the question is out of range");
  Question question;
  question.step = told.step();
  question.steps = told.steps();
  question.memory = from_wire(told.memory());
  if (told.has_measured()) {
    Measured& measured = question.measured.emplace();
    measured.loss = told.measured().loss();
    if (told.measured().has_accuracy()) measured.accuracy = told.measured().accuracy();
    if (told.measured().has_divergence()) measured.divergence = told.measured().divergence();
  }
  return question;
}

Result<Verdict> from_wire(const wire::Verdict& told) {
  Verdict verdict;
  if (told.ending() == kFinished) {
    verdict.ending = Ending::kFinished;
  } else if (told.ending() == kConverged) {
    verdict.ending = Ending::kConverged;
  } else if (!told.ending().empty()) {
    return Error(Code::kCorrupt, "the verdict is none that this version knows");
  }
  verdict.reason = told.reason();
  verdict.memory = from_wire(told.memory());
  return verdict;
}

}  // namespace tandem::converge
