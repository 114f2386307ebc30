// Cuts a stream of bytes into lines, for the logs of child processes. Belongs to one thread.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <string_view>

namespace tandem::cluster {

class LineSplitter {
 public:
  // A line that grows beyond this is given in pieces: a child that never writes a newline costs no
  // more memory.
  static constexpr std::size_t kLongestLine = 16384;

  using Sink = std::function<void(std::string_view line)>;

  // Calls `sink` for each line that became whole, without its newline (and a carriage return before
  // it).
  void feed(std::string_view bytes, const Sink& sink);
  // Calls `sink` for what came after the last newline, if anything did.
  void finish(const Sink& sink);

 private:
  std::string partial_;
};

}  // namespace tandem::cluster
