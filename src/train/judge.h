// Whom the first worker of a group asks whether training ends (converge/judge.h): whoever placed
// the workers, or itself where nobody did. Belongs to one thread.
#pragma once

#include <chrono>
#include <functional>
#include <optional>

#include "base/result.h"
#include "collective/group.h"
#include "converge/judge.h"
#include "train/reporter.h"

namespace tandem::train {

class Judge {
 public:
  virtual ~Judge() = default;

  virtual void ask(const converge::Question& question) = 0;
  // The verdict on what was asked last, or nothing when none came for so long.
  virtual Result<std::optional<converge::Verdict>> answer(std::chrono::milliseconds at_most) = 0;
};

// For workers that no node has placed, which all know the same criteria. Reports what it decides.
class OwnJudge final : public Judge {
 public:
  OwnJudge(const job::Train& train, Reporter& reporter)
      : criteria_(converge::criteria_of(train)), reporter_(reporter) {}

  void ask(const converge::Question& question) override;
  Result<std::optional<converge::Verdict>> answer(std::chrono::milliseconds) override {
    return std::optional(verdict_);
  }

 private:
  const converge::Criteria criteria_;
  Reporter& reporter_;
  converge::Verdict verdict_;
};

// Every worker of the group calls it with the same question and gets the same verdict: the first
// one asks and hands on what it hears. Nothing when `stop`, called a few times a second, returned
// true there before the verdict came. kTimeout when it does not come for long; `patience` is how
// long the workers wait for each other.
Result<std::optional<converge::Verdict>> consult(Judge& judge, const converge::Question& question,
                                                 collective::Group& group,
                                                 std::chrono::milliseconds patience,
                                                 const std::function<bool()>& stop);

}  // namespace tandem::train
