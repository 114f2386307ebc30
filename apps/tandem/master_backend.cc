#include "master_backend.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <future>
#include <set>
#include <utility>

#include "base/descriptor.h"
#include "base/file.h"
#include "job/print.h"

namespace tandem::cli {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::chrono::seconds kPatience{5};

// What the job names must be there, or every worker would fail to load it.
Status check_files(const job::Job& job, const fs::path& base) {
  for (const std::string& name :
       {job.data.images, job.data.labels, job.data.test_images, job.data.test_labels, job.data.path,
        job.data.test_path, job.model.init_from}) {
    std::error_code error;
    if (name.empty() || fs::exists(base / name, error)) continue;
    return Error(
        Code::kInvalidArgument,
        fmt::format("the job names {}, which is not there; all machines of the cluster must "
                    "find it under this path",
                    (base / name).string()));
  }
  return {};
}

std::set<int> workers_with_logs(const fs::path& directory) {
  constexpr std::string_view kBefore = "worker-", kAfter = ".log";
  std::set<int> workers;
  std::error_code error;
  for (fs::directory_iterator entry(directory, error), end; !error && entry != end;
       entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(kBefore) || !name.ends_with(kAfter)) continue;
    int number = 0;
    const char* last = name.data() + name.size() - kAfter.size();
    const auto [stop, wrong] = std::from_chars(name.data() + kBefore.size(), last, number);
    if (wrong == std::errc() && stop == last) workers.insert(number);
  }
  return workers;
}

}  // namespace

template <typename T, typename Function>
Result<T> MasterBackend::ask(Function function) {
  auto promise = std::make_shared<std::promise<Result<T>>>();
  std::future<Result<T>> future = promise->get_future();
  loop_.post([promise, function = std::move(function)] { promise->set_value(function()); });
  if (future.wait_for(kPatience) != std::future_status::ready)
    return Error(Code::kTimeout, "the master is too busy to answer; try again");
  return future.get();
}

Result<json> MasterBackend::jobs() {
  return ask<json>([this] { return master_.jobs(); });
}

Result<json> MasterBackend::job(const std::string& id) {
  return ask<json>([this, id] { return master_.job(id); });
}

Result<json> MasterBackend::nodes() {
  return ask<json>([this] { return master_.nodes(); });
}

Result<json> MasterBackend::submit(const web::Submission& submission) {
  cluster::JobSubmission job;
  TANDEM_ASSIGN(job.parsed,
                job::parse_located(submission.job_toml, "job.toml", submission.overrides));
  if (job.parsed.job.name.empty()) job.parsed.job.name = "job";
  if (job.parsed.job.cluster.engine == "mpi") {
    return Error(Code::kInvalidArgument,
                 "engine `mpi` works only under `mpirun` or `srun`; use `auto` or `gloo`");
  }
  job.base_directory =
      submission.base_directory.empty() ? fs::current_path() : fs::path(submission.base_directory);
  if (!job.base_directory.is_absolute())
    return Error(Code::kInvalidArgument, "`base_directory` must be an absolute path");
  TANDEM_TRY(check_files(job.parsed.job, job.base_directory));
  job.priority = submission.priority;
  job.job_text = job::print(job.parsed.job);
  return ask<json>([this, job = std::move(job)] { return master_.submit(job); });
}

Result<json> MasterBackend::cancel(const std::string& id) {
  return ask<json>([this, id] { return master_.cancel(id); });
}

// One whose checkpoints take long to read is answered as it is meanwhile.
Result<json> MasterBackend::resume(const std::string& id, std::optional<std::int64_t> step) {
  auto promise = std::make_shared<std::promise<Result<json>>>();
  std::future<Result<json>> future = promise->get_future();
  loop_.post([this, promise, id, step] {
    master_.resume(id, step,
                   [promise](Result<json> answer) { promise->set_value(std::move(answer)); });
  });
  if (future.wait_for(kPatience / 2) == std::future_status::ready) return future.get();
  return job(id);
}

Result<json> MasterBackend::resize(const std::string& id, const web::Resizing& wanted) {
  return ask<json>([this, id, wanted] {
    return master_.resize(id, {wanted.workers, wanted.servers});
  });
}

Result<json> MasterBackend::report(const std::string& id) {
  TANDEM_ASSIGN(const fs::path directory,
                ask<fs::path>([this, id] { return master_.directory_of(id); }));
  const auto text = read_file(directory / "report.json");
  if (!text.ok()) {
    return Error(Code::kNotFound, fmt::format("{} has no report: it has not ended", id));
  }
  json report = json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (report.is_discarded())
    return Error(Code::kCorrupt, fmt::format("the report of {} is damaged", id));
  return report;
}

Result<web::LogPart> MasterBackend::part_of(const std::string& id, const std::string& file,
                                            std::uint64_t offset, std::size_t most_bytes) {
  // The end is asked for first: what is read after it is all there is.
  TANDEM_ASSIGN(const bool ended, ask<bool>([this, id] { return master_.has_ended(id); }));
  TANDEM_ASSIGN(const fs::path directory,
                ask<fs::path>([this, id] { return master_.directory_of(id); }));
  const fs::path path = directory / file;
  const Descriptor opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.is_open() && errno == ENOENT) return web::LogPart{"", offset, ended};
  if (!opened.is_open()) return system_error(fmt::format("open {}", path.string()), errno);
  web::LogPart part;
  part.text.resize(most_bytes);
  const ssize_t got =
      ::pread(opened.get(), part.text.data(), part.text.size(), static_cast<off_t>(offset));
  if (got < 0) return system_error(fmt::format("read {}", path.string()), errno);
  part.text.resize(static_cast<std::size_t>(got));
  part.next_offset = offset + part.text.size();
  part.ended = ended && part.text.size() < most_bytes;
  return part;
}

Result<web::LogPart> MasterBackend::logs(const web::LogQuery& query) {
  TANDEM_ASSIGN(const fs::path directory,
                ask<fs::path>([this, id = query.job] { return master_.directory_of(id); }));
  TANDEM_ASSIGN(const bool ended,
                ask<bool>([this, id = query.job] { return master_.has_ended(id); }));
  const std::set<int> workers = workers_with_logs(directory);
  if (workers.empty() && ended) {
    return Error(Code::kNotFound,
                 fmt::format("{} ended before it had a worker, so there is no log", query.job));
  }
  if (!workers.empty() && !workers.contains(query.worker)) {
    return Error(Code::kNotFound, fmt::format("{} has no worker {}; it has had {}", query.job,
                                              query.worker, fmt::join(workers, ", ")));
  }
  return part_of(query.job, fmt::format("worker-{}.log", query.worker), query.offset,
                 query.most_bytes);
}

Result<web::LogPart> MasterBackend::metrics_lines(const std::string& id, std::uint64_t offset) {
  constexpr std::size_t kMostBytes = std::size_t{256} << 10;
  TANDEM_ASSIGN(web::LogPart part, part_of(id, "metrics.jsonl", offset, kMostBytes));
  const std::size_t whole = part.text.rfind('\n') + 1;
  part.text.resize(whole);
  part.next_offset = offset + whole;
  return part;
}

std::string MasterBackend::prometheus() {
  const auto text = ask<std::string>([this] { return master_.prometheus(); });
  return text.ok() ? *text : "";
}

}  // namespace tandem::cli
