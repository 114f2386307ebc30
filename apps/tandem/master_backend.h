// The HTTP API's view of a master: every call is handed to the master's thread and waited for.
// Methods may be called from any thread but that one.
#pragma once

#include <filesystem>
#include <memory>
#include <string>

#include "cluster/master.h"
#include "net/loop.h"
#include "web/backend.h"

namespace tandem::cli {

class MasterBackend final : public web::Backend {
 public:
  // Both must outlive it.
  MasterBackend(net::Loop& loop, cluster::Master& master) : loop_(loop), master_(master) {}

  Result<nlohmann::json> jobs() override;
  Result<nlohmann::json> job(const std::string& id) override;
  Result<nlohmann::json> nodes() override;
  Result<nlohmann::json> submit(const web::Submission& submission) override;
  Result<nlohmann::json> cancel(const std::string& id) override;
  Result<nlohmann::json> resume(const std::string& id, std::optional<std::int64_t> step) override;
  Result<nlohmann::json> resize(const std::string& id, const web::Resizing& wanted) override;
  Result<nlohmann::json> report(const std::string& id) override;
  Result<web::LogPart> logs(const web::LogQuery& query) override;
  Result<web::LogPart> metrics_lines(const std::string& id, std::uint64_t offset) override;
  std::string prometheus() override;

 private:
  // Calls `function` on the master's thread and returns what it does.
  template <typename T, typename Function>
  Result<T> ask(Function function);
  Result<web::LogPart> part_of(const std::string& id, const std::string& file, std::uint64_t offset,
                               std::size_t most_bytes);

  net::Loop& loop_;
  cluster::Master& master_;
};

}  // namespace tandem::cli
