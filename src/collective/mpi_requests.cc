#include "collective/mpi_requests.h"

#include <fmt/format.h>

#include <thread>

namespace tandem::collective {
namespace {

using Clock = std::chrono::steady_clock;

// Ranks may outnumber cores: after a short spin a waiting rank leaves its core to the others.
constexpr std::chrono::microseconds kSpin{1000}, kNap{20};

std::string text_of(int code) {
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "unknown error";
  return {text, static_cast<std::size_t>(length)};
}

std::string name_of(int peer, const Membership& membership) {
  if (peer != MpiRequests::kEverybody) return membership.name(peer);
  return fmt::format("one of workers 0 to {} (MPI does not say which)", membership.size() - 1);
}

}  // namespace

Error mpi_error(int code, const std::string& about) {
  int kind = MPI_ERR_UNKNOWN;
  MPI_Error_class(code, &kind);
  const std::string text = fmt::format("{}: MPI: {}", about, text_of(code));
  switch (kind) {
    case MPI_ERR_NO_MEM:
      return Error(Code::kOutOfSpace, text);
    case MPI_ERR_OTHER:  // OpenMPI's answer to a connection that broke.
    case MPI_ERR_UNKNOWN:
      return Error(Code::kPeerLost, text + "; a worker may be gone");
    default:
      return Error(Code::kInternal, text);
  }
}

void MpiRequests::begin() {
  began_ = Clock::now();
  requests_.clear();
  peers_.clear();
}

MPI_Request& MpiRequests::add(int peer) {
  peers_.push_back(peer);
  return requests_.emplace_back(MPI_REQUEST_NULL);
}

Status MpiRequests::finish(int code, const Membership& membership, Deadline deadline) {
  int done = 0;
  const int count = static_cast<int>(requests_.size());
  statuses_.resize(requests_.size());
  while (code == MPI_SUCCESS) {
    code = MPI_Testall(count, requests_.data(), &done, statuses_.data());
    if (done != 0 || code != MPI_SUCCESS) break;
    const auto now = Clock::now();
    if (now >= deadline) return late(membership, now);
    if (now - began_ < kSpin) {
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(kNap);
    }
  }
  if (code == MPI_SUCCESS) return {};
  int peer = peers_.empty() ? kEverybody : peers_.back();
  if (code == MPI_ERR_IN_STATUS) {
    for (std::size_t i = 0; i < statuses_.size(); ++i) {
      const int own = statuses_[i].MPI_ERROR;
      if (own == MPI_SUCCESS || own == MPI_ERR_PENDING) continue;
      peer = peers_[i];
      code = own;
      break;
    }
  }
  return mpi_error(code, name_of(peer, membership));
}

Error MpiRequests::late(const Membership& membership, Deadline now) {
  int peer = kEverybody;
  for (std::size_t i = 0; i < requests_.size() && peer == kEverybody; ++i) {
    int done = 0;
    MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE);
    if (done == 0) peer = peers_[i];
  }
  return Error(
      Code::kTimeout,
      fmt::format("{} has not answered for {:.1f} s; it is late, not known to be dead "
                  "(stopped? network cut?)",
                  name_of(peer, membership), std::chrono::duration<double>(now - began_).count()));
}

}  // namespace tandem::collective
