#include "web/client.h"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <thread>

#include "base/text.h"
#include "cluster_secret.h"
#include "commands.h"
#include "job/print.h"
#include "job_source.h"

namespace tandem::cli {
namespace {

using Json = nlohmann::json;

void print(const Json& json) {
  print_out(json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

std::string text_of(const Json& json, const char* key) {
  const auto found = json.find(key);
  return found != json.end() && found->is_string() ? found->get<std::string>() : "";
}

std::string steps_of(const Json& job) {
  if (!job.contains("progress")) return "-";
  const std::int64_t step = job["progress"].value("step", std::int64_t{0});
  const std::int64_t total = job.value("total_steps", std::int64_t{0});
  return total > 0 ? fmt::format("{}/{}", step, total) : std::to_string(step);
}

// What a person should know beside the numbers.
std::string remark_of(const Json& job) {
  if (job.value("checking", false)) return "its checkpoints are read";
  if (job.contains("place_in_queue"))
    return fmt::format("{} in the queue: {}", job["place_in_queue"].dump(),
                       text_of(job, "waits_because"));
  if (job.value("waiting", false))
    return fmt::format("waits for workers: {}", text_of(job, "waits_because"));
  return text_of(job, "reason");
}

void print_jobs(const Json& jobs, bool all) {
  constexpr const char* kRow = "{:<24} {:<10} {:>8} {:>16} {:>10}  {}\n";
  std::string text = fmt::format(kRow, "JOB", "STATE", "WORKERS", "STEP", "LOSS", "");
  int shown = 0;
  for (const Json& job : jobs) {
    const std::string state = text_of(job, "state");
    if (!all && state != "queued" && state != "running") continue;
    ++shown;
    const std::string loss =
        job.contains("progress") ? fmt::format("{:.4g}", job["progress"].value("loss", 0.0)) : "-";
    text += fmt::format(
        kRow, text_of(job, "id"), state,
        fmt::format("{}/{}", job["workers"]["now"].dump(), job["workers"]["asked"].dump()),
        steps_of(job), loss, remark_of(job));
  }
  print_out(shown == 0 ? "no jobs\n" : text);
}

void print_nodes(const Json& nodes) {
  constexpr const char* kRow = "{:<24} {:>6} {:>6}  {:<24} {}\n";
  std::string text = fmt::format(kRow, "NODE", "SLOTS", "USED", "ADDRESS", "PROCESSOR");
  for (const Json& node : nodes) {
    text += fmt::format(kRow, text_of(node, "name"), node["slots"].dump(), node["used"].dump(),
                        text_of(node, "address"), text_of(node, "processor"));
  }
  print_out(nodes.empty() ? "no nodes\n" : text);
}

class Asking {
 public:
  Asking(const ClientOptions& options, const Surroundings& around, web::Client client)
      : options_(options), around_(around), client_(std::move(client)) {}

  Status run() {
    switch (options_.action) {
      case ClientAction::kSubmit:
        return submit();
      case ClientAction::kStatus:
        return status();
      case ClientAction::kJobs:
        return jobs();
      case ClientAction::kNodes:
        return nodes();
      case ClientAction::kLogs:
        return logs();
      case ClientAction::kCancel:
        return show(client_.cancel(options_.job));
      case ClientAction::kResume:
        return show(client_.resume(options_.job, options_.step));
      case ClientAction::kResize:
        return resize();
    }
    return {};
  }

 private:
  bool as_json() const { return options_.format == Format::kJson; }

  Status resize() {
    if (!options_.workers && !options_.servers)
      return Error(Code::kInvalidArgument, "say how many workers it shall have, or --servers");
    return show(client_.resize(options_.job, {options_.workers, options_.servers}));
  }

  // The job file is checked here, where a message can point at its lines, and by the master.
  Status submit() {
    TANDEM_ASSIGN(const LoadedJob loaded, load_job(options_.job, options_.overrides));
    warn_of_idle_settings(loaded.parsed.job, around_);
    web::Submission submission;
    submission.job_toml = job::print(loaded.parsed.job);
    submission.priority = static_cast<int>(options_.priority);
    submission.base_directory = loaded.base_directory.string();
    TANDEM_ASSIGN(const Json job, client_.submit(submission));
    if (as_json()) {
      print(job);
    } else {
      print_out(text_of(job, "id") + "\n");
    }
    return {};
  }

  Status status() {
    for (;;) {
      if (options_.job.empty()) {
        TANDEM_ASSIGN(const Json jobs, client_.jobs());
        TANDEM_ASSIGN(const Json nodes, client_.nodes());
        if (as_json()) {
          print({{"jobs", jobs["jobs"]}, {"nodes", nodes["nodes"]}});
        } else {
          print_nodes(nodes["nodes"]);
          print_out("\n");
          print_jobs(jobs["jobs"], false);
        }
      } else {
        TANDEM_TRY(show(client_.job(options_.job)));
      }
      std::fflush(stdout);
      if (!options_.follow) return {};
      std::this_thread::sleep_for(std::chrono::seconds(1));
      if (!as_json()) print_out("\n");
    }
  }

  Status jobs() {
    TANDEM_ASSIGN(const Json jobs, client_.jobs());
    if (as_json()) {
      print(jobs);
    } else {
      print_jobs(jobs["jobs"], true);
    }
    return {};
  }

  Status nodes() {
    TANDEM_ASSIGN(const Json nodes, client_.nodes());
    if (as_json()) {
      print(nodes);
    } else {
      print_nodes(nodes["nodes"]);
    }
    return {};
  }

  Status logs() {
    web::LogQuery query;
    query.job = options_.job;
    query.worker = static_cast<int>(options_.worker);
    const auto show_part = [](std::string_view text) {
      print_out(text);
      std::fflush(stdout);
      return web::Interest::kMore;
    };
    if (options_.follow) return client_.follow_logs(query, show_part);
    for (;;) {
      TANDEM_ASSIGN(const web::LogPart part, client_.logs(query));
      print_out(part.text);
      if (part.text.empty() && query.offset == 0) {
        if (!part.ended) TANDEM_TRY(check_begun(query));
        fmt::print(stderr, "worker {} of {} {}\n", query.worker, query.job,
                   part.ended ? "printed nothing" : "has printed nothing yet");
      }
      if (part.ended || part.text.empty()) return {};
      query.offset = part.next_offset;
    }
  }

  // Before its first worker a job cannot tell which ones it will have.
  Status check_begun(const web::LogQuery& query) const {
    TANDEM_ASSIGN(const Json job, client_.job(query.job));
    if (text_of(job, "state") != "queued") return {};
    return Error(Code::kNotFound,
                 fmt::format("{} has not begun, so worker {} has no log; `tandem status {}` says "
                             "why it waits, and with -f the log is shown once there is one",
                             query.job, query.worker, query.job));
  }

  Status show(const Result<Json>& job) {
    if (!job.ok()) return job.error();
    if (as_json()) {
      print(*job);
    } else {
      print_jobs(Json::array({*job}), true);
    }
    return {};
  }

  const ClientOptions& options_;
  const Surroundings& around_;
  const web::Client client_;
};

Status ask(const ClientOptions& options, const Surroundings& around) {
  const std::string address =
      !options.master.empty()
          ? options.master
          : environment_value(around.environment, "TANDEM_MASTER").value_or("127.0.0.1:7070");
  web::ClientConfig config;
  TANDEM_ASSIGN(config.master, web::parse_endpoint(address));
  TANDEM_ASSIGN(const auto secret, find_secret(options.secret, around));
  config.token = http_token(secret);
  return Asking(options, around, web::Client(config)).run();
}

}  // namespace

int client(const ClientOptions& options, const Surroundings& around) {
  const Status status = ask(options, around);
  if (status.ok()) return 0;
  print_error(around, status.error());
  return exit_code(status.error().code());
}

}  // namespace tandem::cli
