// A writer of checkpoints is killed before, and in the middle of, every call that changes the disk.
// Whenever that is, every checkpoint that has a name is whole, and the next writer cleans up.
//
// A program of its own, because it takes the place of the C library's functions: the n-th call of a
// writer is its last.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdarg>
#include <functional>
#include <map>
#include <thread>

#include "base/rng.h"
#include "checkpoint/store.h"
#include "checkpoint/testing.h"

namespace {

// Calls that a writer may still make; negative: all it wants.
int calls_left = -1;

void die() {
  ::kill(::getpid(), SIGKILL);
  for (;;) ::pause();
}

void count_call() {
  if (calls_left >= 0 && calls_left-- == 0) die();
}

template <typename... Arguments>
long counted(long number, Arguments... arguments) {
  count_call();
  return ::syscall(number, arguments...);
}

}  // namespace

extern "C" {

int open(const char* path, int flags, ...) {
  va_list rest;
  va_start(rest, flags);
  const int mode = (flags & O_CREAT) != 0 ? va_arg(rest, int) : 0;
  va_end(rest);
  if ((flags & O_CREAT) != 0) count_call();
  return static_cast<int>(::syscall(SYS_openat, AT_FDCWD, path, flags, mode));
}
ssize_t write(int fd, const void* bytes, size_t size) {
  count_call();
  // And once more with a part of the bytes written.
  if (calls_left == 0) size /= 2;
  const ssize_t written = ::syscall(SYS_write, fd, bytes, size);
  count_call();
  return written;
}
// The processes die, not the machine, so nothing needs to reach the disk.
int fsync(int) {
  count_call();
  return 0;
}
int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(counted(SYS_rename, from, to));
}
int renameat2(int from_fd, const char* from, int to_fd, const char* to, unsigned flags) noexcept {
  return static_cast<int>(counted(SYS_renameat2, from_fd, from, to_fd, to, flags));
}
int mkdir(const char* path, mode_t mode) noexcept {
  return static_cast<int>(counted(SYS_mkdir, path, mode));
}
int unlink(const char* path) noexcept {
  return static_cast<int>(counted(SYS_unlink, path));
}
int unlinkat(int fd, const char* path, int flags) noexcept {
  return static_cast<int>(counted(SYS_unlinkat, fd, path, flags));
}
int rmdir(const char* path) noexcept {
  return static_cast<int>(counted(SYS_rmdir, path));
}

}  // extern "C"

namespace tandem::checkpoint {
namespace {

namespace fs = std::filesystem;
using testing::TemporaryDirectory;

// A checkpoint whose every number is `value`.
Status write_filled(const fs::path& store, std::int64_t step, float value, std::size_t size = 50) {
  const std::vector<float> numbers(size, value);
  const Shape shape = {static_cast<std::int64_t>(size)};
  return write_checkpoint(store, step, {{{"w", shape, numbers}}, {}, {}},
                          {{{"a", shape, numbers}, {"b", shape, numbers}}, {}, {}});
}

// The value of every checkpoint by step. Fails for one that is not whole.
std::map<std::int64_t, float> values_in(const fs::path& store) {
  std::map<std::int64_t, float> values;
  const std::vector<Stored> all = list_checkpoints(store).value();
  for (const Stored& stored : all) {
    const Status whole = verify_checkpoint(stored);
    EXPECT_TRUE(whole.ok()) << whole.error().message();
    const Result<ModelFile> model = load_model(stored.path / kModelFileName);
    const Result<ModelFile> training = load_model(stored.path / kTrainingFileName);
    if (!model.ok() || !training.ok()) continue;
    values[stored.step] = model->tensors[0].values[0];
    EXPECT_EQ(training->tensors[0].values[0], values[stored.step]) << "files of two checkpoints";
  }
  return values;
}

// All names in the store, also of files within checkpoints.
std::vector<std::string> leftovers(const fs::path& store) {
  std::vector<std::string> found;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(store)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with('.') || testing::contains(name, ".tmp")) found.push_back(name);
  }
  return found;
}

enum class End : std::uint8_t { kDone, kKilled };

// Runs `work` in a process that ends with its n-th call or when `kill_after` is over.
End run_killed(int calls, std::optional<std::chrono::microseconds> kill_after,
               const std::function<bool()>& work) {
  const pid_t pid = ::fork();
  if (pid == 0) {
    calls_left = calls;
    const bool good = work();
    calls_left = -1;
    ::_exit(good ? 0 : 1);
  }
  EXPECT_GT(pid, 0);
  if (kill_after) {
    std::this_thread::sleep_for(*kill_after);
    ::kill(pid, SIGKILL);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(pid, &status, 0), pid);
  if (WIFSIGNALED(status)) {
    EXPECT_EQ(WTERMSIG(status), SIGKILL);
    return End::kKilled;
  }
  EXPECT_EQ(WEXITSTATUS(status), 0);
  return End::kDone;
}

// What a writer has got done, in memory that outlives it.
class Progress {
 public:
  Progress()
      : done_(static_cast<volatile int*>(::mmap(nullptr, sizeof(int), PROT_READ | PROT_WRITE,
                                                MAP_SHARED | MAP_ANONYMOUS, -1, 0))) {}
  ~Progress() { ::munmap(const_cast<int*>(done_), sizeof(int)); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  void set(int done) { *done_ = done; }
  int get() const { return *done_; }

 private:
  volatile int* const done_;
};

TEST(KilledWriter, LeavesOnlyWholeCheckpointsWhicheverCallWasItsLast) {
  int kills = 0;
  for (;; ++kills) {
    SCOPED_TRACE(kills);
    const TemporaryDirectory store;
    ASSERT_TRUE(write_filled(store.path(), 1, 1).ok());
    ASSERT_TRUE(write_filled(store.path(), 2, 2).ok());
    Progress progress;
    // A new one, one in the place of another, and the removal of one.
    const End end = run_killed(kills, std::nullopt, [&] {
      if (!write_filled(store.path(), 3, 3).ok()) return false;
      progress.set(1);
      if (!write_filled(store.path(), 2, 20).ok()) return false;
      progress.set(2);
      return remove_checkpoint(list_checkpoints(store.path()).value()[0]).ok();
    });
    std::map<std::int64_t, float> values = values_in(store.path());
    const Result<Choice> choice = choose_checkpoint(store.path(), std::nullopt);
    ASSERT_TRUE(choice.ok()) << choice.error().message();
    EXPECT_EQ(choice->refused.size(), 0U);
    EXPECT_EQ(choice->stored.step, values.count(3) > 0 ? 3 : 2);
    const int done = progress.get();
    EXPECT_TRUE(done < 1 || values[3] == 3);
    EXPECT_TRUE((done < 2 && values[2] == 2) || (done > 0 && values[2] == 20)) << values[2];
    EXPECT_TRUE(done == 2 || values[1] == 1);

    ASSERT_TRUE(write_filled(store.path(), 4, 4).ok());
    EXPECT_EQ(leftovers(store.path()), std::vector<std::string>());
    values[4] = 4;
    values.erase(1);
    std::map<std::int64_t, float> after = values_in(store.path());
    after.erase(1);
    EXPECT_EQ(after, values);
    if (end == End::kDone || ::testing::Test::HasFailure()) break;
  }
  // 4 files of 2 writes have at least 4 calls each.
  EXPECT_GT(kills, 2 * 4 * 4);
}

TEST(KilledWriter, LeavesOnlyWholeCheckpointsWheneverItWasKilled) {
  const TemporaryDirectory store;
  ASSERT_TRUE(write_filled(store.path(), 1, 1).ok());
  Progress newest;
  newest.set(1);
  for (std::uint64_t seed = 0; seed < 150; ++seed) {
    SCOPED_TRACE(seed);
    const std::chrono::microseconds after(Rng({seed}).below(8000));
    run_killed(-1, after, [&] {
      for (int step = newest.get() + 1;; ++step) {
        const auto value = static_cast<float>(step);
        if (!write_filled(store.path(), step, value, 20000).ok()) return false;
        newest.set(step);
        const std::vector<Stored> all = list_checkpoints(store.path()).value();
        for (const Stored& old : superfluous(all, 2, std::nullopt))
          if (!remove_checkpoint(old).ok()) return false;
      }
    });
    const std::map<std::int64_t, float> values = values_in(store.path());
    for (const auto& [step, value] : values) EXPECT_EQ(value, static_cast<float>(step));
    ASSERT_TRUE(values.count(newest.get()) > 0) << newest.get();
    const Result<Choice> choice = choose_checkpoint(store.path(), std::nullopt);
    ASSERT_TRUE(choice.ok()) << choice.error().message();
    EXPECT_EQ(choice->refused.size(), 0U);
    EXPECT_GE(choice->stored.step, newest.get());
  }
  EXPECT_GT(newest.get(), 1);
  ASSERT_TRUE(write_filled(store.path(), newest.get() + 1, 0).ok());
  EXPECT_EQ(leftovers(store.path()), std::vector<std::string>());
}

}  // namespace
}  // namespace tandem::checkpoint
