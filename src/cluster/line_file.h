// A file to which whole lines are appended: metrics.jsonl, events.jsonl, logs. Each line is in the
// file when append() returns, and a line that does not fit on the disk is taken back instead of
// left half. Belongs to one thread.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <string_view>

#include "base/descriptor.h"
#include "base/result.h"

namespace tandem::cluster {

class LineFile {
 public:
  // Creates the file. kInvalidArgument when it exists.
  static Result<LineFile> create(const std::filesystem::path& path);

  // Goes on with a file, or creates it; half a line at its end is taken away.
  static Result<LineFile> reopen(const std::filesystem::path& path);

  // Writes the line and a newline. kOutOfSpace when the disk is full.
  Status append(std::string_view line);

 private:
  LineFile(std::filesystem::path path, Descriptor file, off_t size = 0)
      : path_(std::move(path)), file_(std::move(file)), size_(size) {}

  std::filesystem::path path_;
  Descriptor file_;
  off_t size_;
  std::string buffer_;
};

}  // namespace tandem::cluster
