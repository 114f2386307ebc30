// Helpers of this folder's tests: a directory that is removed with its owner, commands for /bin/sh,
// frames in files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <iterator>
#include <string>
#include <utility>

#include "cluster/child.h"
#include "wire/frame.h"

namespace tandem::cluster {

class ScratchDirectory {
 public:
  ScratchDirectory() {
    std::string pattern =
        (std::filesystem::temp_directory_path() / "tandem-cluster-test-XXXXXX").string();
    EXPECT_NE(::mkdtemp(pattern.data()), nullptr);
    path_ = pattern;
  }
  ~ScratchDirectory() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchDirectory(const ScratchDirectory&) = delete;
  ScratchDirectory& operator=(const ScratchDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }

 private:
  std::filesystem::path path_;
};

inline Command shell(std::string script) {
  return {"/bin/sh", {"-c", std::move(script)}, {"PATH=/usr/bin:/bin"}};
}

inline std::string content_of(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Writes the messages as frames into a file, for a shell to send with `cat FILE >&3`.
inline void write_frames(const std::filesystem::path& path,
                         std::initializer_list<wire::WorkerMessage> messages) {
  std::ofstream file(path, std::ios::binary);
  for (const wire::WorkerMessage& message : messages) {
    auto frame = wire::encode(message);
    ASSERT_TRUE(frame.ok());
    file << *frame;
  }
}

inline wire::WorkerMessage started_message() {
  wire::WorkerMessage message;
  message.mutable_started()->set_parameters(7);
  return message;
}

inline wire::WorkerMessage progress_message(std::int64_t step, std::int64_t epoch) {
  wire::WorkerMessage message;
  message.mutable_progress()->set_step(step);
  message.mutable_progress()->set_epoch(epoch);
  message.mutable_progress()->set_samples(step * 64);
  message.mutable_progress()->set_loss(0.5);
  message.mutable_progress()->set_train_s(2);
  return message;
}

inline wire::WorkerMessage finished_message(std::string status) {
  wire::WorkerMessage message;
  wire::Finished& finished = *message.mutable_finished();
  finished.set_status(std::move(status));
  finished.set_reason("all epochs done");
  finished.set_steps(100);
  finished.set_epochs(2);
  finished.set_samples(6400);
  finished.set_train_s(4);
  finished.set_weights_hash("0123456789abcdef0123456789abcdef");
  finished.set_has_eval(true);
  finished.set_loss(0.1);
  finished.set_has_accuracy(true);
  finished.set_accuracy(0.98);
  return message;
}

}  // namespace tandem::cluster
