#include "cluster/signals.h"

#include <pthread.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tandem::cluster {

Result<SignalQueue> SignalQueue::create() {
  sigset_t wanted;
  ::sigemptyset(&wanted);
  for (const int number : {SIGINT, SIGTERM, SIGTSTP}) ::sigaddset(&wanted, number);
  // Under nohup SIGHUP is ignored, and shall be: a blocked signal would reach us all the same.
  struct sigaction hangup {};
  if (::sigaction(SIGHUP, nullptr, &hangup) == 0 && hangup.sa_handler != SIG_IGN)
    ::sigaddset(&wanted, SIGHUP);

  SignalQueue queue;
  Descriptor fd(::signalfd(-1, &wanted, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd.is_open()) return system_error("watch for signals", errno);
  if (const int error = ::pthread_sigmask(SIG_BLOCK, &wanted, &queue.before_); error != 0) {
    return system_error("block signals", error);
  }
  queue.fd_ = std::move(fd);
  return queue;
}

SignalQueue::SignalQueue(SignalQueue&& other) noexcept
    : fd_(std::move(other.fd_)), before_(other.before_) {}

SignalQueue::~SignalQueue() {
  if (fd_.is_open()) ::pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

std::optional<int> SignalQueue::take() {
  signalfd_siginfo info{};
  ssize_t got;
  do {
    got = ::read(fd_.get(), &info, sizeof info);
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof info)) return std::nullopt;
  return static_cast<int>(info.ssi_signo);
}

}  // namespace tandem::cluster
