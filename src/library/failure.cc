#include "library/failure.h"

namespace tandem::library {
namespace {

Failure::Code translate(Code code) {
  switch (code) {
    case Code::kPeerLost:
      return Failure::Code::kPeerLost;
    case Code::kTimeout:
      return Failure::Code::kTimeout;
    case Code::kCorrupt:
      return Failure::Code::kCorrupt;
    case Code::kVersionMismatch:
      return Failure::Code::kVersionMismatch;
    case Code::kDenied:
      return Failure::Code::kDenied;
    case Code::kNotFound:
      return Failure::Code::kNotFound;
    case Code::kInvalidArgument:
      return Failure::Code::kInvalidArgument;
    case Code::kOutOfSpace:
      return Failure::Code::kOutOfSpace;
    case Code::kCancelled:
      return Failure::Code::kCancelled;
    case Code::kDiverged:
      return Failure::Code::kDiverged;
    case Code::kInternal:
      return Failure::Code::kInternal;
  }
  return Failure::Code::kInternal;
}

}  // namespace

void raise(const Error& error) {
  throw Failure(translate(error.code()), error.message());
}

void refuse(const std::string& message) {
  throw Failure(Failure::Code::kInvalidArgument, message);
}

}  // namespace tandem::library
