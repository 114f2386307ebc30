#include "ps/ring.h"

namespace tandem::ps {

bool RingWriter::write(const Header& header) {
  if (written_ - memory_->read.load(std::memory_order_acquire) >= RingMemory::kSlots) return false;
  memory_->slots[written_ % RingMemory::kSlots] = encode(header);
  // Sequentially consistent against doze(): either it sees the header or we see the sleeper.
  memory_->written.store(++written_);
  return true;
}

Result<Header> RingReader::read() {
  const HeaderBytes bytes = memory_->slots[read_ % RingMemory::kSlots];
  memory_->read.store(++read_, std::memory_order_release);
  return parse(bytes);
}

bool RingReader::doze() {
  memory_->reader_sleeps.store(1);
  if (memory_->written.load() == read_) return true;
  wake();
  return false;
}

}  // namespace tandem::ps
