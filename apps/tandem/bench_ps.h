// The parts of `bench ps`. The dense part is measured between real processes: servers, workers and
// one that echoes, which all end with the one that measures.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"
#include "cluster/child.h"
#include "options.h"
#include "ps/client.h"
#include "surroundings.h"

namespace tandem::cli {

// No wait for another process takes longer.
inline constexpr std::chrono::seconds kBenchPsPatience{30};

// The sparse table, in this process.
Result<nlohmann::ordered_json> measure_sparse(const BenchPsOptions& options);
std::string sparse_text(const nlohmann::ordered_json& result);

// kOutOfSpace when there is too little memory for it.
Status check_dense_room(const BenchPsOptions& options);
// Pushes and pulls of all transports and sizes, as kMeasures does: a line of JSON for each.
Status measure_dense(const BenchPsOptions& options, const Surroundings& around);
std::string dense_text(const std::vector<nlohmann::ordered_json>& rows);

// What kServes, kWorks and kEchoes do, until they are killed or nobody needs them any more.
Status serve_bench(const BenchPsOptions& options, const Surroundings& around);
Status work_for_bench(const BenchPsOptions& options, const Surroundings& around);
Status echo_for_bench(std::size_t bytes);

// A worker's end of the servers, with one bucket of so many bytes; sgd.
Result<std::unique_ptr<ps::Client>> connect_bench(const BenchPsOptions& options,
                                                  const std::string& token);
inline constexpr double kBenchPsRate = 1.0 / 1024;  // Sums of it are exact.
// All floats at once, and nothing behind them.
inline constexpr std::size_t kBenchPsBuckets = 2;

// Another process of this program, with what it says at first: its port.
class BenchProcess {
 public:
  // `who` is what errors call it.
  static Result<BenchProcess> start(std::string who, std::vector<std::string> arguments,
                                    const std::vector<std::string>& environment);

  // Waits for it.
  Result<std::uint16_t> port();
  // What all its threads have used of the processor so far.
  double cpu_s() const;
  // What it complained about, when it has ended; "" while it runs.
  std::string complaint();

 private:
  BenchProcess(std::string who, cluster::Child child)
      : who_(std::move(who)), child_(std::move(child)) {}

  std::string who_;
  cluster::Child child_;
};

// All bytes there and then all back, or both at the same time.
enum class Echo : std::uint8_t { kPlain, kStreamed };

// The other end of a process that echoes.
class EchoClient {
 public:
  static Result<EchoClient> connect(std::uint16_t port, Echo kind);
  // Sends the bytes and receives as many.
  Status exchange(std::span<const std::byte> out, std::span<std::byte> in);

 private:
  EchoClient(Descriptor socket, Echo kind) : socket_(std::move(socket)), kind_(kind) {}
  Status stream(std::span<const std::byte> out, std::span<std::byte> in);

  Descriptor socket_;
  Echo kind_;
};

}  // namespace tandem::cli
