#include "cluster/lines.h"

#include <algorithm>

namespace tandem::cluster {

void LineSplitter::feed(std::string_view bytes, const Sink& sink) {
  while (!bytes.empty()) {
    const std::size_t newline = bytes.find('\n');
    const std::size_t room = kLongestLine - partial_.size();
    const std::size_t taken = std::min(std::min(newline, bytes.size()), room);
    partial_.append(bytes.substr(0, taken));
    bytes.remove_prefix(taken);
    const bool ended = !bytes.empty() && bytes.front() == '\n';
    if (ended) bytes.remove_prefix(1);
    if (!ended && partial_.size() < kLongestLine) continue;
    if (ended && partial_.ends_with('\r')) partial_.pop_back();
    sink(partial_);
    partial_.clear();
  }
}

void LineSplitter::finish(const Sink& sink) {
  if (partial_.empty()) return;
  sink(partial_);
  partial_.clear();
}

}  // namespace tandem::cluster
