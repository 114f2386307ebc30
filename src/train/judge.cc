#include "train/judge.h"

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>

#include "converge/messages.h"
#include "train/reports.h"

namespace tandem::train {
namespace {

using std::chrono::milliseconds;

// What the first worker hands on, again and again until there is a verdict, so that the others know
// that it lives and can say that they do; a plain value that travels as bytes.
struct Round {
  enum class State : std::uint64_t { kWaiting, kStopped, kDecided };
  State state = State::kWaiting;
  std::uint64_t bytes = 0;  // Of the verdict, which follows.
};

Status hand_on(Round& round, std::string& verdict, collective::Group& group,
               milliseconds patience) {
  const collective::Deadline deadline = collective::deadline_after(patience);
  TANDEM_TRY(group.broadcast(std::as_writable_bytes(std::span(&round, 1)), 0, deadline));
  if (round.state != Round::State::kDecided) return {};
  verdict.resize(round.bytes);
  return group.broadcast(std::as_writable_bytes(std::span(verdict)), 0, deadline);
}

}  // namespace

void OwnJudge::ask(const converge::Question& question) {
  verdict_ = converge::judge(criteria_, question);
  if (verdict_.ending != converge::Ending::kConverged || !question.measured) return;
  reporter_.report(event_message("early_stop", verdict_.reason));
}

Result<std::optional<converge::Verdict>> consult(Judge& judge, const converge::Question& question,
                                                 collective::Group& group, milliseconds patience,
                                                 const std::function<bool()>& stop) {
  // Whoever must answer is there: it would have ended this worker otherwise, or another will. The
  // limit is for what nobody thought of. Looks are counted and not time, which goes on while the
  // run is suspended.
  constexpr milliseconds kMost = std::chrono::minutes(10), kLongest{200}, kShortest{1};
  const milliseconds look = std::clamp(patience / 4, kShortest, kLongest);
  const bool asks = group.rank() == 0;
  if (asks) judge.ask(question);
  for (milliseconds waited{0}; waited < kMost; waited += look) {
    Round round;
    std::string bytes;
    if (asks) {
      TANDEM_ASSIGN(const std::optional<converge::Verdict> verdict, judge.answer(look));
      if (verdict) {
        bytes = converge::to_wire(*verdict, 0).SerializeAsString();
        round = {Round::State::kDecided, bytes.size()};
      } else if (stop()) {
        round.state = Round::State::kStopped;
      }
    } else {
      stop();
    }
    TANDEM_TRY(hand_on(round, bytes, group, patience));
    if (round.state == Round::State::kStopped) return std::optional<converge::Verdict>();
    if (round.state == Round::State::kWaiting) continue;
    wire::Verdict told;
    if (!told.ParseFromString(bytes)) return Error(Code::kCorrupt, "the verdict cannot be read");
    TANDEM_ASSIGN(converge::Verdict verdict, converge::from_wire(told));
    return std::optional(std::move(verdict));
  }
  return Error(Code::kTimeout, "nobody said whether training shall go on");
}

}  // namespace tandem::train
