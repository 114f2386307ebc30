#include "group.h"

#include <cstdlib>

#include "collective/host.h"
#include "collective/shm_engine.h"

namespace tandem::worker {
std::string token() {
  const char* value = std::getenv("TANDEM_TOKEN");
  return value == nullptr ? "" : value;
}

Result<collective::Group> join_group(const GroupOptions& options) {
  if (options.join.size == 1) return collective::Group();
  const auto patience =
      std::chrono::milliseconds(static_cast<std::int64_t>(options.patience_s * 1000));
  if (options.arena < 0) {
    collective::JoinOptions join = options.join;
    join.token = token();
    join.patience = patience;
    return collective::join(join);
  }
  TANDEM_ASSIGN(collective::Arena arena, collective::Arena::adopt(options.arena));
  collective::Membership membership;
  membership.rank = options.join.rank;
  membership.members.assign(static_cast<std::size_t>(options.join.size),
                            {collective::host_name(), 0});
  TANDEM_ASSIGN(auto engine, collective::make_shm_engine(
                                 std::make_shared<const collective::Arena>(std::move(arena)),
                                 std::move(membership), collective::deadline_after(patience)));
  return collective::Group(std::move(engine));
}

}  // namespace tandem::worker
