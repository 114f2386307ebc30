// A child process that cannot be left behind: it has its own process group, dies with the thread
// that started it (PR_SET_PDEATHSIG), is noticed through a pidfd when it ends, and is killed and
// reaped by the destructor at the latest. It inherits /dev/null or what it is given as stdin, pipes
// as stdout and stderr, one end of a socket pair, and one descriptor more if asked for.
//
// Belongs to the thread that started it, which must live as long as the child shall.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::cluster {

// The number under which a child finds its end of the control socket.
inline constexpr int kControlDescriptor = 3;
// And Command::inherited, when there is one.
inline constexpr int kInheritedDescriptor = 4;

struct Command {
  std::filesystem::path program;
  std::vector<std::string> arguments;    // Without the program's own name.
  std::vector<std::string> environment;  // All of it, as NAME=value.
  int inherited = -1;                    // A descriptor to pass on as kInheritedDescriptor.
  int input = -1;                        // A descriptor for stdin; -1: /dev/null.
  // A line of its output that says that it has started, for one that sends no messages; "": none.
  std::string first_line = {};
};

// How a process ended.
struct Exit {
  bool by_signal = false;
  int number = 0;  // The exit code, or the signal.

  friend bool operator==(const Exit&, const Exit&) = default;
};

// "SIGKILL", or "signal 42" for one without a name.
std::string signal_name(int number);

// Replaces this process by the command's. Returns only on failure.
Error become(const Command& command);

class Child {
 public:
  // Starts the program. An Error (kNotFound, kDenied, ...) when it cannot be executed; then nothing
  // is left of it.
  static Result<Child> start(const Command& command);
  Child(Child&& other) noexcept;
  Child& operator=(Child&&) = delete;
  // Kills what still runs of the process group and reaps the child.
  ~Child();

  pid_t pid() const { return pid_; }
  // All of these are non-blocking. The pidfd is readable once the child has ended.
  int pidfd() const { return pidfd_.get(); }
  int control() const { return control_.get(); }
  int output() const { return output_.get(); }
  int errors() const { return errors_.get(); }

  // Sends the signal to the whole process group. No effect once the child was reaped.
  void signal(int number) const;

  // Nothing while the child runs. Once it has ended: kills what it left behind in its process
  // group, reaps it and returns how it ended, the same every time.
  std::optional<Exit> try_wait();

 private:
  Child() = default;

  pid_t pid_ = -1;
  std::optional<Exit> exit_;
  Descriptor pidfd_, control_, output_, errors_;
};

}  // namespace tandem::cluster
