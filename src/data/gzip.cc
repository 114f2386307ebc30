#include "data/gzip.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#define ZLIB_CONST  // Its input pointer is then const.
#include <zlib.h>

#include "base/text.h"

namespace tandem::data {
namespace {

constexpr std::size_t kLeastChunk = std::size_t{1} << 16;

// Owns zlib's state for one file.
class Inflater {
 public:
  Inflater() {
    ready_ = inflateInit2(&stream_, 15 + 16) == Z_OK;
  }  // 15: largest window; 16: gzip only.
  ~Inflater() { inflateEnd(&stream_); }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  Result<std::string> run(std::string_view bytes, std::size_t most_bytes);

 private:
  // Inflates into the free end of `out`; zlib's answer.
  int advance(std::string_view bytes, std::string& out);

  z_stream stream_{};
  bool ready_ = false;
  std::size_t read_ = 0;
  std::size_t written_ = 0;
};

int Inflater::advance(std::string_view bytes, std::string& out) {
  // zlib counts in 32 bits, so larger files go through it in pieces.
  constexpr std::size_t kMostPiece = std::numeric_limits<uInt>::max();
  const auto in_piece = static_cast<uInt>(std::min(bytes.size() - read_, kMostPiece));
  const auto out_piece = static_cast<uInt>(std::min(out.size() - written_, kMostPiece));
  stream_.next_in = reinterpret_cast<const Bytef*>(bytes.data() + read_);
  stream_.avail_in = in_piece;
  stream_.next_out = reinterpret_cast<Bytef*>(out.data() + written_);
  stream_.avail_out = out_piece;
  const int answer = inflate(&stream_, Z_NO_FLUSH);
  read_ += in_piece - stream_.avail_in;
  written_ += out_piece - stream_.avail_out;
  return answer;
}

Result<std::string> Inflater::run(std::string_view bytes, std::size_t most_bytes) {
  if (!ready_) return Error(Code::kOutOfSpace, "no memory to inflate gzip");
  // One byte more than allowed tells a file that just fits from one that is too large.
  const std::size_t most_room = most_bytes + 1;
  std::string out(std::min(most_room, std::max(kLeastChunk, bytes.size() * 4)), '\0');
  for (;;) {
    const int answer = advance(bytes, out);
    if (written_ > most_bytes) {
      return Error(
          Code::kInvalidArgument,
          fmt::format("the gzip content is larger than the {} allowed", human_bytes(most_bytes)));
    }
    if (answer == Z_STREAM_END) {
      if (read_ == bytes.size()) break;
      if (!is_gzip(bytes.substr(read_))) {
        return Error(
            Code::kCorrupt,
            fmt::format("bytes that are not gzip follow the gzip data at offset {}", read_));
      }
      if (inflateReset(&stream_) != Z_OK) return Error(Code::kInternal, "zlib refused a reset");
      continue;
    }
    if (answer != Z_OK && answer != Z_BUF_ERROR) {
      return Error(Code::kCorrupt,
                   fmt::format("the gzip data is damaged near offset {}: {}", read_,
                               stream_.msg != nullptr ? stream_.msg : "no valid data"));
    }
    if (written_ == out.size()) {
      out.resize(std::min(most_room, out.size() * 2));
    } else if (read_ == bytes.size()) {
      return Error(
          Code::kCorrupt,
          fmt::format("the gzip data is truncated: it ends at offset {} in the middle", read_));
    }
  }
  out.resize(written_);
  return out;
}

}  // namespace

bool is_gzip(std::string_view bytes) {
  return bytes.starts_with("\x1f\x8b");
}

Result<std::string> inflate_gzip(std::string_view bytes, std::int64_t most_bytes) {
  return Inflater().run(bytes, static_cast<std::size_t>(most_bytes));
}

}  // namespace tandem::data
