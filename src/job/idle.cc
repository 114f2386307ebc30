#include "job/idle.h"

#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/check.h"
#include "job/field.h"
#include "job/schema.h"

namespace tandem::job {
namespace {

// What the keys do nothing beside.
struct Reason {
  std::string_view selector;
  std::string value;
  std::vector<std::string_view> paths;
};

std::string in_quotes(std::string_view word) {
  return fmt::format("\"{}\"", word);
}

// The reason that counts for each key, so that no key is named twice.
std::vector<Reason> reasons_of_cluster(const Job& job) {
  if (!job.has_servers()) {
    return {{"cluster.strategy",
             in_quotes(job.cluster.strategy),
             {"cluster.servers", "cluster.replicas", "ps.consistency", "ps.staleness", "ps.quorum",
              "ps.stale_lr", "ps.compensation", "ps.transport", "ps.pull", "ps.admit_after",
              "ps.evict_after"}}};
  }
  const std::string_view consistency = job.ps.consistency;
  Reason reason{"ps.consistency", in_quotes(consistency), {}};
  if (consistency != "ssp") reason.paths = {"ps.staleness"};
  if (consistency == "bsp")
    reason.paths.insert(reason.paths.end(), {"ps.stale_lr", "ps.compensation"});
  std::vector<Reason> reasons{reason};
  if (job.ps.tables == "dense")
    reasons.push_back(
        {"ps.tables", in_quotes(job.ps.tables), {"ps.admit_after", "ps.evict_after"}});
  return reasons;
}

std::vector<Reason> reasons_of(const Job& job) {
  std::vector<Reason> reasons = reasons_of_cluster(job);
  if (job.checkpoint.keep == 0) {
    reasons.push_back({"checkpoint.keep",
                       "0",
                       {"checkpoint.every_steps", "checkpoint.every_seconds", "checkpoint.best"}});
  }
  return reasons;
}

bool is_default(std::string_view path, const Job& job) {
  Job copy = job, untouched;  // Fields are reached through pointers that could write.
  const Key* key = job_schema().first_row(path);
  TANDEM_CHECK(key != nullptr);
  return field_text(*key, &copy) == field_text(*key, &untouched);
}

// "`a`", "`a` and `b`", "`a`, `b` and `c`".
std::string listed(const std::vector<std::string_view>& names) {
  std::string text;
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (i > 0) text += i + 1 == names.size() ? " and " : ", ";
    text += fmt::format("`{}`", names[i]);
  }
  return text;
}

}  // namespace

std::optional<std::string> rows_never_made(const Job& job, std::int64_t steps) {
  const std::int64_t touches = job.is_async() ? steps * job.lanes() : steps;
  if (!job.has_servers() || !job.has_sparse_tables() || job.ps.admit_after < touches)
    return std::nullopt;
  return fmt::format(
      "no row of a table will be trained: `ps.admit_after` is {}, and training has {} {}",
      job.ps.admit_after, touches, job.is_async() ? "tasks" : "steps");
}

std::vector<std::string> idle_settings(const Job& job) {
  std::vector<std::string> sentences;
  if (job.train.steps > 0) {
    if (auto sentence = rows_never_made(job, job.train.steps))
      sentences.push_back(std::move(*sentence));
  }
  for (Reason& reason : reasons_of(job)) {
    std::erase_if(reason.paths, [&](std::string_view path) { return is_default(path, job); });
    if (reason.paths.empty()) continue;
    sentences.push_back(fmt::format("{} {} no effect with {} = {}", listed(reason.paths),
                                    reason.paths.size() == 1 ? "has" : "have", reason.selector,
                                    reason.value));
  }
  return sentences;
}

}  // namespace tandem::job
