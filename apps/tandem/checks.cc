#include "checks.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/statvfs.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <optional>

#include "base/descriptor.h"
#include "base/file.h"
#include "base/memory.h"
#include "base/text.h"
#include "counted.h"
#include "job/job.h"

namespace tandem::cli {
namespace {

constexpr std::uint64_t kMiB = std::uint64_t{1} << 20;
constexpr std::uint64_t kGiB = std::uint64_t{1} << 30;

std::optional<std::uint64_t> free_bytes(const char* path) {
  struct statvfs info {};
  if (::statvfs(path, &info) != 0) return std::nullopt;
  return std::uint64_t{info.f_bavail} * info.f_frsize;
}

bool same_letters(std::string_view a, std::string_view b) {
  return std::ranges::equal(a, b, [](char x, char y) {
    return std::tolower(static_cast<unsigned char>(x)) ==
           std::tolower(static_cast<unsigned char>(y));
  });
}

// OpenBLAS describes how it was built; only the first two words are about what it does here.
// "OpenBLAS 0.3.21 NO_LAPACKE ... MAX_THREADS=64" -> "OpenBLAS 0.3.21".
std::string name_and_version(const std::string& library) {
  return library.substr(0, library.find(' ', library.find(' ') + 1));
}

}  // namespace

std::string_view to_string(Verdict verdict) {
  switch (verdict) {
    case Verdict::kOk:
      return "ok";
    case Verdict::kWarn:
      return "warn";
    case Verdict::kFail:
      return "fail";
  }
  return "fail";
}

Check check_cpu(const Cpu& cpu) {
  const std::string sets = cpu.avx512 ? "AVX-512, AVX2" : cpu.avx2 ? "AVX2" : "no AVX2";
  Check check{"cpu", Verdict::kOk,
              fmt::format("{}, {} to use, {}", cpu.name.empty() ? "unknown processor" : cpu.name,
                          counted(cpu.cores, "core"), sets),
              ""};
  if (!cpu.avx2) {
    check.verdict = Verdict::kWarn;
    check.advice =
        "training works but is several times slower; a processor from 2013 or later has AVX2";
  }
  return check;
}

Check check_kernels(const Kernels& kernels) {
  return {"kernels", Verdict::kOk,
          fmt::format(
              "Tandem chooses OPENBLAS_CORETYPE={}, ATEN_CPU_CAPABILITY={}, ONEDNN_MAX_CPU_ISA={}",
              kernels.blas_core, kernels.aten, kernels.onednn),
          ""};
}

Check check_threads(const Cpu& cpu) {
  const std::int64_t threads = job::Train().threads;
  std::string finding =
      fmt::format("a worker computes with {} unless train.threads says otherwise; {} to use",
                  counted(threads, "thread"), counted(cpu.cores, "core"));
  if (cpu.cores > threads)
    finding += fmt::format(
        ". train.threads={} is often faster for large models; another number may give other bits",
        cpu.cores);
  return {"threads", Verdict::kOk, std::move(finding), ""};
}

Check check_blas(const Kernels& kernels, const std::map<std::string, std::string>& facts) {
  const auto fact = [&facts](const char* name) {
    const auto found = facts.find(name);
    return found == facts.end() ? std::string() : found->second;
  };
  const std::string library = name_and_version(fact("blas")), core = fact("blas_core");
  Check check{"blas", Verdict::kOk,
              library.empty() ? "the worker does not say which BLAS it uses" : library, ""};
  if (!core.empty()) check.finding += fmt::format(", kernels for {}", core);
  if (library.empty()) {
    check.verdict = Verdict::kWarn;
    check.advice = "use a worker of the same build as this program";
  } else if (!core.empty() && !same_letters(core, kernels.blas_core)) {
    check.verdict = Verdict::kWarn;
    check.advice = fmt::format(
        "{} was asked for; matrix products may be several times slower than they could be",
        kernels.blas_core);
  }
  return check;
}

Check check_memory() {
  const auto text = read_file("/proc/meminfo", kMiB);
  const std::uint64_t available = text.ok() ? meminfo_bytes(*text, "MemAvailable") : 0;
  if (available == 0)
    return {"memory", Verdict::kWarn, "unknown: /proc/meminfo cannot be read", "mount /proc"};
  Check check{"memory", Verdict::kOk,
              fmt::format("{} free of {}", human_bytes(available),
                          human_bytes(meminfo_bytes(*text, "MemTotal"))),
              ""};
  std::uint64_t usable = available;
  if (const auto limit = memory_limit()) {
    check.finding += fmt::format(", {} allowed in this container", human_bytes(*limit));
    usable = std::min(usable, *limit);
  }
  if (usable < kGiB) {
    check.verdict = Verdict::kWarn;
    check.advice =
        "a worker needs about 300 MiB besides data and model; free some memory or use a smaller "
        "train.batch";
  }
  return check;
}

Check check_disk() {
  const auto free = free_bytes(".");
  if (!free.has_value()) {
    return {"disk", Verdict::kFail,
            fmt::format("the current directory cannot be read: {}", std::strerror(errno)),
            "change to a directory that exists"};
  }
  Check check{"disk", Verdict::kOk,
              fmt::format("{} free in the current directory", human_bytes(*free)), ""};
  if (::access(".", W_OK) != 0) {
    check.verdict = Verdict::kWarn;
    check.finding += ", which is not writable";
    check.advice = "name a writable directory with --out";
  } else if (*free < kGiB) {
    check.verdict = *free < 64 * kMiB ? Verdict::kFail : Verdict::kWarn;
    check.advice = "free some space, or write runs elsewhere with --out";
  }
  return check;
}

Check check_shared_memory() {
  const auto free = free_bytes("/dev/shm");
  if (!free.has_value()) {
    return {"shared memory", Verdict::kWarn, "/dev/shm does not exist",
            "mount a tmpfs there; workers of one host meet in it"};
  }
  Check check{"shared memory", Verdict::kOk, fmt::format("{} free in /dev/shm", human_bytes(*free)),
              ""};
  if (*free < 64 * kMiB) {
    check.verdict = Verdict::kWarn;
    check.advice =
        "make it larger (docker run --shm-size=1g): gradients of workers on one host lie there";
  }
  return check;
}

Check check_open_files() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0)
    return {"open files", Verdict::kWarn, "the limit is unknown", ""};
  Check check{
      "open files", Verdict::kOk,
      limit.rlim_cur == RLIM_INFINITY ? "no limit" : fmt::format("at most {}", limit.rlim_cur), ""};
  if (limit.rlim_cur < 1024) {
    check.verdict = Verdict::kWarn;
    check.advice = "raise it with `ulimit -n 4096`";
  }
  return check;
}

Check check_loopback() {
  const Descriptor socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (!socket.is_open() ||
      ::bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0 ||
      ::listen(socket.get(), 1) != 0) {
    return {"loopback", Verdict::kFail,
            fmt::format("no port of 127.0.0.1 can be used: {}", std::strerror(errno)),
            "bring the loopback interface up: ip link set lo up"};
  }
  return {"loopback", Verdict::kOk, "ports of 127.0.0.1 can be used", ""};
}

}  // namespace tandem::cli
