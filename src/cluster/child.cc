#include "cluster/child.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <linux/close_range.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <utility>

namespace tandem::cluster {
namespace {

struct Ends {
  Descriptor ours, theirs;
};

Status make_pipe(Ends& ends) {
  std::array<int, 2> fds{};
  if (::pipe2(fds.data(), O_CLOEXEC) != 0) return system_error("create a pipe", errno);
  ends = {Descriptor(fds[0]), Descriptor(fds[1])};
  return {};
}

Status make_socket_pair(Ends& ends) {
  std::array<int, 2> fds{};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds.data()) != 0) {
    return system_error("create a control socket", errno);
  }
  ends = {Descriptor(fds[0]), Descriptor(fds[1])};
  return {};
}

Status make_non_blocking(const Descriptor& fd) {
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return system_error("make a descriptor non-blocking", errno);
  }
  return {};
}

std::vector<char*> pointers(const std::vector<std::string>& strings) {
  std::vector<char*> result;
  result.reserve(strings.size() + 1);
  for (const std::string& string : strings) result.push_back(const_cast<char*>(string.c_str()));
  result.push_back(nullptr);
  return result;
}

// The command's arguments as a program gets them: behind its own name.
std::vector<std::string> words_of(const Command& command) {
  std::vector<std::string> words{command.program.string()};
  words.insert(words.end(), command.arguments.begin(), command.arguments.end());
  return words;
}

// What the child needs between fork and exec, prepared before: only calls that are safe in a copy
// of a process with threads may be made there, so nothing allocates.
struct Launch {
  const char* program;
  char* const* arguments;
  char* const* environment;
  pid_t parent;
  int input, output, errors, control, inherited;  // inherited: -1 when there is none.
  int failure;  // Takes errno when exec fails; closed by a successful exec.
};

// Puts `from` at number `to`, open across exec. False on failure.
bool place(int from, int to) {
  if (from != to) return ::dup2(from, to) == to;
  const int flags = ::fcntl(from, F_GETFD);
  return flags >= 0 && ::fcntl(from, F_SETFD, flags & ~FD_CLOEXEC) == 0;
}

// A copy of `fd` above the numbers that the child gives a meaning to, so that place() overwrites
// none of them.
int lift(int fd) {
  return ::fcntl(fd, F_DUPFD_CLOEXEC, kInheritedDescriptor + 1);
}

void reset_signals() {
  struct sigaction action {};
  action.sa_handler = SIG_DFL;
  for (int number = 1; number < NSIG; ++number) {
    // Left as the parent has it: ignored, a write beyond the file size limit is an error instead of
    // a death.
    if (number != SIGXFSZ) ::sigaction(number, &action, nullptr);
  }
  sigset_t none;
  ::sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
}

[[noreturn]] void run_child(const Launch& launch) {
  const int failure = lift(launch.failure);
  const auto give_up = [failure]() {
    const int error = errno;
    // Nothing is to be done when even this fails: the parent sees the exit code.
    [[maybe_unused]] const ssize_t written = ::write(failure, &error, sizeof error);
    ::_exit(127);
  };
  const int input = lift(launch.input), output = lift(launch.output), errors = lift(launch.errors),
            control = lift(launch.control),
            inherited = launch.inherited < 0 ? -1 : lift(launch.inherited);
  if (failure < 0 || input < 0 || output < 0 || errors < 0 || control < 0 ||
      (inherited < 0 && launch.inherited >= 0))
    give_up();
  if (::setpgid(0, 0) != 0) give_up();
  if (::prctl(PR_SET_PDEATHSIG, SIGKILL) != 0) give_up();
  // The parent may have died before the line above; then nobody would ever end this process.
  if (::getppid() != launch.parent) ::_exit(127);
  reset_signals();
  if (!place(input, 0) || !place(output, 1) || !place(errors, 2) ||
      !place(control, kControlDescriptor) ||
      (inherited >= 0 && !place(inherited, kInheritedDescriptor)))
    give_up();
  // Whatever else our own parent left open is not the child's business.
  ::close_range(kControlDescriptor + (inherited >= 0 ? 2 : 1), ~0U, CLOSE_RANGE_CLOEXEC);
  ::execve(launch.program, launch.arguments, launch.environment);
  give_up();
  std::abort();
}

// The errno with which exec failed, or 0 when it succeeded.
int read_failure(int fd) {
  int error = 0;
  ssize_t got;
  do {
    got = ::read(fd, &error, sizeof error);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(sizeof error) ? error : 0;
}

}  // namespace

std::string signal_name(int number) {
  const char* name = ::sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

Error become(const Command& command) {
  const std::vector<std::string> words = words_of(command);
  ::execve(command.program.c_str(), pointers(words).data(), pointers(command.environment).data());
  return system_error(fmt::format("start {}", command.program.string()), errno);
}

Result<Child> Child::start(const Command& command) {
  Ends output, errors, control, failure;
  TANDEM_TRY(make_pipe(output));
  TANDEM_TRY(make_pipe(errors));
  TANDEM_TRY(make_pipe(failure));
  TANDEM_TRY(make_socket_pair(control));
  for (const Ends* ends : {&output, &errors, &control}) TANDEM_TRY(make_non_blocking(ends->ours));
  const Descriptor null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!null.is_open()) return system_error("open /dev/null", errno);

  const std::vector<std::string> words = words_of(command);
  const std::vector<char*> argument_pointers = pointers(words);
  const std::vector<char*> environment_pointers = pointers(command.environment);
  const Launch launch{command.program.c_str(),
                      argument_pointers.data(),
                      environment_pointers.data(),
                      ::getpid(),
                      command.input >= 0 ? command.input : null.get(),
                      output.theirs.get(),
                      errors.theirs.get(),
                      control.theirs.get(),
                      command.inherited,
                      failure.theirs.get()};

  Child child;
  child.pid_ = ::fork();
  if (child.pid_ < 0) return system_error("start a process", errno);
  if (child.pid_ == 0) run_child(launch);
  // Also done by the child; whoever is first, the group exists before anyone signals it. Fails
  // harmlessly after exec.
  ::setpgid(child.pid_, child.pid_);
  failure.theirs.close();
  if (const int error = read_failure(failure.ours.get()); error != 0) {
    return system_error(fmt::format("start {}", command.program.string()), error);
  }
  child.pidfd_ = Descriptor(static_cast<int>(::syscall(SYS_pidfd_open, child.pid_, 0)));
  if (!child.pidfd_.is_open()) return system_error("watch a child process", errno);
  child.control_ = std::move(control.ours);
  child.output_ = std::move(output.ours);
  child.errors_ = std::move(errors.ours);
  return child;
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      exit_(other.exit_),
      pidfd_(std::move(other.pidfd_)),
      control_(std::move(other.control_)),
      output_(std::move(other.output_)),
      errors_(std::move(other.errors_)) {}

Child::~Child() {
  if (pid_ < 0 || exit_.has_value()) return;
  signal(SIGKILL);
  // After SIGKILL this is short: the kernel lets go of the process.
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Child::signal(int number) const {
  if (pid_ > 0 && !exit_.has_value()) ::kill(-pid_, number);
}

std::optional<Exit> Child::try_wait() {
  if (exit_.has_value()) return exit_;
  siginfo_t info{};
  // WNOWAIT keeps the pid, and so the group's number, ours while the rest of the group is killed.
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
      info.si_pid == 0) {
    return std::nullopt;
  }
  signal(SIGKILL);
  int status = 0;
  while (::waitpid(pid_, &status, 0) < 0 && errno == EINTR) {
  }
  exit_ = WIFSIGNALED(status) ? Exit{true, WTERMSIG(status)} : Exit{false, WEXITSTATUS(status)};
  return exit_;
}

}  // namespace tandem::cluster
