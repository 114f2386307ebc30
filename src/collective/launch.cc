// What launchers tell their processes: collective/join.h.
#include <fmt/format.h>

#include <charconv>

#include "collective/join.h"

namespace tandem::collective {
namespace {

// Rank 0's port when nobody chose one.
constexpr std::uint16_t kUsualPort = 29500;
// Slurm tells no port, and two jobs on a host need two.
// Below those that Linux gives away by itself.
constexpr std::uint16_t kSlurmPorts = 12000, kSlurmFirstPort = 20000;

// The first host of Slurm's short form: of "rack1-n[007-009,12],other" it is "rack1-n007". The
// first task of a step runs there.
std::string first_node(std::string_view list) {
  std::string host;
  bool inside = false, skipping = false;  // Brackets; what follows their first number.
  for (const char c : list) {
    if (c == '[') {
      inside = true;
    } else if (c == ']') {
      inside = skipping = false;
    } else if (inside) {
      skipping = skipping || c == '-' || c == ',';
      if (!skipping) host += c;
    } else if (c == ',') {
      break;
    } else {
      host += c;
    }
  }
  return host;
}

struct Names {
  const char* rank;
  const char* size;
};

Result<std::int64_t> number(const std::string& name, const std::string& text, std::int64_t least,
                            std::int64_t most) {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error == std::errc() && end == text.data() + text.size() && value >= least && value <= most)
    return value;
  return Error(Code::kInvalidArgument,
               fmt::format("the environment says {}={}, which is no number from {} to {}", name,
                           text, least, most));
}

// Whether both are set; an error when only one is.
Result<bool> has(const Lookup& lookup, const Names& names) {
  const bool rank = lookup(names.rank).has_value(), size = lookup(names.size).has_value();
  if (rank == size) return rank;
  return Error(Code::kInvalidArgument,
               fmt::format("the environment has {} but not {}; set both or none",
                           rank ? names.rank : names.size, rank ? names.size : names.rank));
}

Status read_rank(const Lookup& lookup, const Names& names, JoinOptions& options) {
  constexpr std::int64_t kMostRanks = 65536;
  TANDEM_ASSIGN(const std::int64_t size, number(names.size, *lookup(names.size), 1, kMostRanks));
  TANDEM_ASSIGN(const std::int64_t rank, number(names.rank, *lookup(names.rank), 0, size - 1));
  options.rank = static_cast<int>(rank);
  options.size = static_cast<int>(size);
  return {};
}

// Where rank 0 is, when the environment tells.
Status read_master(const Lookup& lookup, JoinOptions& options) {
  options.port = kUsualPort;
  if (const auto address = lookup("MASTER_ADDR"); address && !address->empty())
    options.address = *address;
  if (const auto port = lookup("MASTER_PORT")) {
    TANDEM_ASSIGN(const std::int64_t value, number("MASTER_PORT", *port, 1, 65535));
    options.port = static_cast<std::uint16_t>(value);
  }
  return {};
}

}  // namespace

Result<std::optional<JoinOptions>> join_options_from(const Lookup& lookup) {
  JoinOptions options;
  options.token = lookup("TANDEM_TOKEN").value_or("");
  constexpr Names kPlain{"RANK", "WORLD_SIZE"};
  TANDEM_ASSIGN(const bool plain, has(lookup, kPlain));
  if (plain) {
    TANDEM_TRY(read_rank(lookup, kPlain, options));
    if (options.size > 1 &&
        (lookup("MASTER_ADDR").value_or("").empty() || !lookup("MASTER_PORT"))) {
      return Error(Code::kInvalidArgument,
                   "the environment has RANK and WORLD_SIZE but not MASTER_ADDR and MASTER_PORT: "
                   "where the rank 0 listens");
    }
    TANDEM_TRY(read_master(lookup, options));
    return std::optional(options);
  }
  constexpr Names kOpenMpi{"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"};
  TANDEM_ASSIGN(const bool open_mpi, has(lookup, kOpenMpi));
  if (open_mpi) {
    TANDEM_TRY(read_rank(lookup, kOpenMpi, options));
    TANDEM_TRY(read_master(lookup, options));
    options.engine = "mpi";
    return std::optional(options);
  }
  // A batch script itself runs with SLURM_PROCID=0 but without a step; it is no rank.
  constexpr Names kSlurm{"SLURM_PROCID", "SLURM_NTASKS"};
  if (lookup("SLURM_STEP_ID") && lookup(kSlurm.rank) && lookup(kSlurm.size)) {
    TANDEM_TRY(read_rank(lookup, kSlurm, options));
    auto nodes = lookup("SLURM_STEP_NODELIST");
    if (!nodes) nodes = lookup("SLURM_JOB_NODELIST");
    if (nodes) options.address = first_node(*nodes);
    TANDEM_TRY(read_master(lookup, options));
    if (const auto job = lookup("SLURM_JOB_ID"); job && !lookup("MASTER_PORT")) {
      TANDEM_ASSIGN(const std::int64_t id, number("SLURM_JOB_ID", *job, 0, INT64_MAX));
      options.port = static_cast<std::uint16_t>(kSlurmFirstPort + id % kSlurmPorts);
    }
    return std::optional(options);
  }
  return std::optional<JoinOptions>();
}

}  // namespace tandem::collective
