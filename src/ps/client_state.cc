// The part of Client that finds out which state the servers have, and sees to it that all have what
// they need.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "ps/client.h"

namespace tandem::ps {

// Of the servers that hold the slice, in the stretch of tasks after `step`; the first where all are
// equally far.
ServerEnd& Client::furthest(std::size_t slice, std::int64_t step) const {
  ServerEnd* best = servers_[slice].get();
  for (std::size_t i = slice; i < present_; i += config_.servers.size()) {
    if (servers_[i]->updates(step) > best->updates(step)) best = servers_[i].get();
  }
  return *best;
}

bool Client::is_complete(const ServerEnd& server, std::int64_t step) const {
  if (server.is_idle()) return true;
  return server.has_slice(step) &&
         server.updates(step) == furthest(server.slice_number(), step).updates(step);
}

bool Client::all_have(std::int64_t step) const {
  return std::all_of(servers_.begin(), servers_.end(),
                     [&](const auto& server) { return is_complete(*server, step); });
}

// Each time the part that reaches farthest: those of an earlier cut overlap others.
std::optional<std::vector<Client::Source>> Client::sources(std::int64_t step, Bucket range) const {
  std::vector<Source> all, chosen;
  for (const auto& server : servers_) {
    if (has_own_slices_) {
      all.push_back({server.get(), server->slice()});
    } else {
      for (const Bucket& part : server->held(step)) all.push_back({server.get(), part});
    }
  }
  range.end = std::min(range.end, config_.plan.parameters);
  while (range.begin < range.end) {
    const Source* best = nullptr;
    for (const Source& each : all) {
      if (each.part.begin <= range.begin && each.part.end > range.begin &&
          (best == nullptr || each.part.end > best->part.end))
        best = &each;
    }
    if (best == nullptr) return std::nullopt;
    chosen.push_back({best->server, {range.begin, std::min(range.end, best->part.end)}});
    range.begin = chosen.back().part.end;
  }
  return chosen;
}

bool Client::can_fetch(std::int64_t step) const {
  if (config_.plan.is_sparse() && table_sources(step).empty()) return false;
  for (std::size_t slice = 0; slice < config_.servers.size(); ++slice) {
    if (furthest(slice, step).updates(step) == 0 && !sources(step, servers_[slice]->slice()))
      return false;
  }
  return true;
}

void Client::load_into(ServerEnd& server, std::int64_t step, const Arrays& from) {
  const Bucket& slice = server.slice();
  const std::size_t end = std::clamp(config_.plan.parameters, slice.begin, slice.end);
  const std::size_t first = std::min(slice.begin, config_.plan.parameters);
  for (std::size_t array = 0; array < from.size(); ++array) {
    server.load(step, static_cast<std::uint32_t>(array), slice.begin,
                from[array].subspan(first, end - slice.begin));
  }
}

Status Client::load(std::int64_t step, const Arrays& from, Deadline deadline,
                    const RecordSource& tables) {
  goes_on_ = false;
  for (auto& server : servers_) {
    if (!server->is_idle()) load_into(*server, step, from);
  }
  if (config_.plan.is_sparse()) {
    const Patience patience = patience_until(deadline);
    TANDEM_TRY(load_tables(step, tables, patience));
    deadline = collective::deadline_after(patience);
  }
  return use(step, deadline);
}

Status Client::restore(std::int64_t step, const Arrays& through, Deadline deadline) {
  std::vector<ServerEnd*> missing, behind;
  std::vector<Bucket> ranges;
  std::set<std::size_t> fetched;
  for (const auto& server : servers_) {
    if (is_complete(*server, step)) continue;
    if (furthest(server->slice_number(), step).updates(step) > 0) {
      behind.push_back(server.get());
      continue;
    }
    missing.push_back(server.get());
    if (fetched.insert(server->slice_number()).second) ranges.push_back(server->slice());
  }
  TANDEM_TRY(fetch(step, ranges, through, deadline));
  for (ServerEnd* const server : missing) load_into(*server, step, through);
  if (config_.plan.is_sparse()) {
    const Patience patience = patience_until(deadline);
    TANDEM_TRY(move_tables(step, missing, patience));
    deadline = collective::deadline_after(patience);
  }
  return bring_level(behind, step, through.size(), deadline);
}

// In the midst of a stretch there is no state after a step that the worker's own memory could hold,
// so this one has its own.
Status Client::bring_level(const std::vector<ServerEnd*>& behind, std::int64_t step,
                           std::size_t arrays, Deadline deadline) {
  std::map<std::size_t, std::vector<std::vector<float>>> states;  // By slice.
  for (const ServerEnd* const server : behind) {
    const auto [state, is_new] = states.try_emplace(server->slice_number(), arrays);
    if (!is_new) continue;
    const Bucket& slice = server->slice();
    for (std::size_t array = 0; array < arrays; ++array) {
      state->second[array].resize(slice.end - slice.begin);
      furthest(server->slice_number(), step)
          .fetch(step, static_cast<std::uint32_t>(array), slice.begin, state->second[array]);
    }
  }
  TANDEM_TRY(await_fetched(deadline));
  for (ServerEnd* const server : behind) {
    const std::size_t slice = server->slice_number();
    for (std::size_t array = 0; array < arrays; ++array) {
      server->load(step, static_cast<std::uint32_t>(array), server->slice().begin,
                   states.at(slice)[array]);
    }
    server->set_progress(furthest(slice, step).begun()->progress());
  }
  return use(step, deadline);
}

Status Client::use(std::int64_t step, Deadline deadline) {
  has_own_slices_ = true;
  servers_.resize(present_);
  for (auto& server : servers_) {
    if (!server->is_idle()) server->use(step);
  }
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [&](const auto& server) { return server->is_using(step); });
      },
      "go on from a state", deadline);
}

Status Client::compare_copies(std::int64_t step, Deadline deadline) {
  if (config_.plan.replicas == 1) return {};
  for (auto& server : servers_) {
    if (!server->is_idle()) server->ask_checksum(step);
  }
  TANDEM_TRY(await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(), [](const auto& server) {
          return server->is_idle() || !server->checksum().empty();
        });
      },
      "give their checksums", deadline));
  for (std::size_t i = config_.servers.size(); i < servers_.size(); ++i) {
    const ServerEnd& first = *servers_[i % config_.servers.size()];
    if (servers_[i]->checksum() == first.checksum()) continue;
    return Error(Code::kCorrupt,
                 fmt::format("{} and {} hold different states of slice {} after step {} ({} and "
                             "{}): memory of one of them is damaged",
                             first.name(), servers_[i]->name(), first.slice_number(), step,
                             first.checksum(), servers_[i]->checksum()));
  }
  return {};
}

}  // namespace tandem::ps
