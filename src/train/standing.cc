#include "train/standing.h"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "base/check.h"

namespace tandem::train {
namespace {

// As it travels between the members.
struct Line {
  std::int64_t step = 0, judged = 0;
  std::array<char, 32> facts{};
};

}  // namespace

Result<Standings> compare(collective::Group& group, const Standing& mine,
                          collective::Deadline deadline) {
  Line line{mine.step, mine.judged, {}};
  TANDEM_CHECK(mine.facts.size() == line.facts.size());
  mine.facts.copy(line.facts.data(), line.facts.size());
  std::vector<Line> all(static_cast<std::size_t>(group.size()));
  if (group.size() == 1) {
    all[0] = line;
  } else {
    TANDEM_TRY(group.all_gather(std::as_bytes(std::span(&line, 1)),
                                std::as_writable_bytes(std::span(all)), deadline));
  }
  Standings standings;
  const auto place = [](const Line& each) { return std::pair(each.step, each.judged); };
  for (int rank = 0; rank < group.size(); ++rank) {
    const Line& each = all[static_cast<std::size_t>(rank)];
    if (each.facts != all[0].facts) {
      return Error(Code::kInvalidArgument,
                   fmt::format("{} has another job, data, kernel set or version than worker 0; run "
                               "`tandem doctor` on both hosts and compare",
                               group.membership().name(rank)));
    }
    const Line& best = all[static_cast<std::size_t>(standings.furthest)];
    if (place(each) > place(best)) standings.furthest = rank;
    standings.all_equal &= place(each) == place(all[0]);
    standings.somebody_has_state |= each.step >= 0;
  }
  return standings;
}

}  // namespace tandem::train
