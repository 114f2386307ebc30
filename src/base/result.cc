#include "base/result.h"

#include <cerrno>
#include <system_error>

namespace tandem {

std::string_view to_string(Code code) {
  switch (code) {
    case Code::kPeerLost:
      return "peer_lost";
    case Code::kTimeout:
      return "timeout";
    case Code::kCorrupt:
      return "corrupt";
    case Code::kVersionMismatch:
      return "version_mismatch";
    case Code::kDenied:
      return "denied";
    case Code::kNotFound:
      return "not_found";
    case Code::kInvalidArgument:
      return "invalid_argument";
    case Code::kOutOfSpace:
      return "out_of_space";
    case Code::kCancelled:
      return "cancelled";
    case Code::kDiverged:
      return "diverged";
    case Code::kInternal:
      return "internal";
  }
  return "unknown";
}

int exit_code(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return 2;
    case Code::kNotFound:
      return 3;
    case Code::kCorrupt:
      return 4;
    case Code::kPeerLost:
      return 5;
    case Code::kTimeout:
      return 6;
    case Code::kDenied:
      return 7;
    case Code::kVersionMismatch:
      return 8;
    case Code::kOutOfSpace:
      return 9;
    case Code::kDiverged:
      return 10;
    case Code::kInternal:
      return 70;
    case Code::kCancelled:
      return 130;
  }
  return 1;
}

Error Error::within(std::string_view doing) && {
  return Error(code_, std::string(doing) + ": " + message_);
}

Error system_error(std::string_view doing, int error_number) {
  Code code = Code::kInternal;
  switch (error_number) {
    case ENOENT:
    case ENOTDIR:
      code = Code::kNotFound;
      break;
    case EACCES:
    case EPERM:
    case EROFS:
      code = Code::kDenied;
      break;
    case ENOSPC:
    case EDQUOT:
    case EFBIG:
    case ENOMEM:
      code = Code::kOutOfSpace;
      break;
    case EPIPE:
    case ECONNRESET:
      code = Code::kPeerLost;
      break;
    case ETIMEDOUT:
      code = Code::kTimeout;
      break;
    case EISDIR:
    case EEXIST:
    case ENAMETOOLONG:
      code = Code::kInvalidArgument;
      break;
    default:
      break;
  }
  return Error(code, std::string(doing) + ": " + std::system_category().message(error_number));
}

}  // namespace tandem
