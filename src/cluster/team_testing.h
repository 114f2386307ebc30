// Helpers of the tests of Team and Coordinator: actions as short texts, so that a test reads as
// what shall be done.
#pragma once

#include <fmt/format.h>

#include <string>
#include <variant>
#include <vector>

#include "cluster/coordinator.h"

namespace tandem::cluster {

using Texts = std::vector<std::string>;

// "start 3", "start server 0", "kill server 0", "place 0 in 2 as 0/2", "place ... anew", "answer 1
// of 0: go on", "ask 1", "kill 1", "end finished".
inline std::string text_of(const TeamAction& action) {
  if (const auto* start = std::get_if<StartWorker>(&action))
    return fmt::format("start {}", start->worker);
  if (const auto* place = std::get_if<PlaceWorker>(&action))
    return fmt::format("place {} in {} as {}/{}{}", place->worker, place->generation, place->rank,
                       place->size, place->anew ? " anew" : "");
  if (const auto* answer = std::get_if<AnswerWorker>(&action))
    return fmt::format("answer {} of {}: {}", answer->number, answer->worker,
                       answer->verdict.ending == converge::Ending::kNone ? "go on" : "end");
  if (const auto* end = std::get_if<EndWorker>(&action))
    return fmt::format("{} {}", end->order == Order::kKill ? "kill" : "ask", end->worker);
  if (const auto* start = std::get_if<StartServer>(&action))
    return fmt::format("start server {}", start->server);
  if (const auto* end = std::get_if<EndServer>(&action))
    return fmt::format("kill server {}", end->server);
  if (const auto* end = std::get_if<EndJob>(&action))
    return end->how == EndJob::How::kFinished    ? "end finished"
           : end->how == EndJob::How::kCancelled ? "end cancelled"
                                                 : fmt::format("end failed {}", end->worker);
  return "";
}

// Without what is told to the user.
inline Texts texts(const TeamActions& actions) {
  Texts found;
  for (const TeamAction& action : actions) {
    if (const std::string text = text_of(action); !text.empty()) found.push_back(text);
  }
  return found;
}

// "job 1: start 0 on 2".
inline Texts texts(const JobActions& actions) {
  Texts found;
  for (const JobAction& action : actions) {
    if (std::holds_alternative<TellUser>(action.action)) continue;
    const bool ends = std::holds_alternative<EndJob>(action.action);
    found.push_back(fmt::format("job {}: {}", action.job, text_of(action.action)) +
                    (ends ? "" : fmt::format(" on {}", action.node)));
  }
  return found;
}

// What is told to the user of one kind: "worker 1: was killed".
inline Texts told(const TeamActions& actions, const std::string& kind) {
  Texts found;
  for (const TeamAction& action : actions) {
    const auto* news = std::get_if<TellUser>(&action);
    if (news != nullptr && news->kind == kind)
      found.push_back(fmt::format("{}: {}", news->who, news->detail));
  }
  return found;
}

}  // namespace tandem::cluster
