#include "judge.h"

#include "converge/messages.h"

namespace tandem::worker {

using Clock = std::chrono::steady_clock;

void NodeJudge::ask(const converge::Question& question) {
  *question_.mutable_question() = converge::to_wire(question, ++asked_);
  send();
}

Result<std::optional<converge::Verdict>> NodeJudge::answer(std::chrono::milliseconds at_most) {
  constexpr std::chrono::seconds kAgain{1};
  const Clock::time_point deadline = Clock::now() + at_most;
  for (;;) {
    // An answer to an earlier question, which was asked more than once, says nothing.
    const std::optional<wire::Verdict> told = control_.take_verdict();
    if (told && told->number() == asked_) {
      TANDEM_ASSIGN(converge::Verdict verdict, converge::from_wire(*told));
      return std::optional(std::move(verdict));
    }
    const Clock::time_point now = Clock::now();
    if (now >= deadline) return std::optional<converge::Verdict>();
    if (now - sent_at_ >= kAgain) send();
    TANDEM_TRY(control_.listen(std::chrono::ceil<std::chrono::milliseconds>(deadline - now)));
  }
}

void NodeJudge::send() {
  reporter_.report(question_);
  sent_at_ = Clock::now();
}

}  // namespace tandem::worker
