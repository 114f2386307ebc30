#include "library/buffer_mean.h"

namespace tandem::library {

void BufferMean::fill() {
  // Nothing where nothing changed, even if that is infinite.
  change_.copy_((buffer_ - agreed_).masked_fill_(buffer_ == agreed_, 0));
}

void BufferMean::take() {
  agreed_.add_(change_);
  // data(): another backward through the same graph must not take it for a change.
  buffer_.data().copy_(agreed_);
}

}  // namespace tandem::library
