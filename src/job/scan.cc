#include "job/scan.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

namespace tandem::job {
namespace {

constexpr int kMostKeyParts = 16;

// Bytes of the code point at the start of `text`, or 0 when it is not UTF-8.
std::size_t code_point_size(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : 0U;
  };
  const unsigned first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t size = first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : 2;
  if (first < 0xc2 || first > 0xf4) return 0;
  for (std::size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0U) != 0x80) return 0;
  }
  const bool overlong = (first == 0xe0 && byte(1) < 0xa0) || (first == 0xf0 && byte(1) < 0x90);
  const bool surrogate = first == 0xed && byte(1) >= 0xa0;
  const bool too_large = first == 0xf4 && byte(1) >= 0x90;
  return overlong || surrogate || too_large ? 0 : size;
}

class Scan {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}

  std::optional<Mistake> first_mistake() {
    while (!rest_.empty() && !mistake_ && !unterminated_) {
      const char c = rest_[0];
      if (c == '"' || c == '\'') {
        skip_string(c);
      } else if (c == '#') {
        while (!rest_.empty() && rest_[0] != '\n' && advance()) continue;
      } else {
        take_plain(c);
      }
    }
    return mistake_;
  }

 private:
  // Goes one code point on; false when it is none.
  bool advance() {
    const std::size_t size = code_point_size(rest_);
    if (size == 0) {
      fail("the text is not UTF-8", "save it as UTF-8");
      return false;
    }
    ++place_.column;
    if (rest_[0] == '\n') {
      ++place_.line;
      place_.column = 1;
    }
    rest_.remove_prefix(size);
    return true;
  }

  void fail(std::string message, std::string help) {
    mistake_ = Mistake{place_, std::move(message), std::move(help)};
  }

  void take_plain(char c) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r';
    if (!blank && (c <= ' ' || c > '~')) {
      if (code_point_size(rest_) != 0) {
        fail("a character that may not stand here",
             "outside of quotes only letters, digits and ASCII signs may stand");
        return;
      }
    } else if (c == '.' && ++dots_ >= kMostKeyParts) {
      place_.column = 1;
      place_.length = Place::kToLineEnd;
      fail("a key has too many parts", fmt::format("at most {} are allowed", kMostKeyParts));
      return;
    } else if (c == '\n' || c == '=' || c == ',' || c == '[' || c == '{') {
      dots_ = 0;
    }
    advance();
  }

  void skip_string(char delimiter) {
    if (rest_.starts_with(std::string(3, delimiter))) {
      place_.length = 3;
      fail("a string over several lines", "write it on one line");
      return;
    }
    for (bool first = true;; first = false) {
      if (rest_.empty() || rest_[0] == '\n') {
        unterminated_ = true;  // toml++ stops here too, and says why.
        return;
      }
      const char c = rest_[0];
      if (!advance()) return;
      if (!first && c == delimiter) return;
      if (c == '\\' && delimiter == '"' && !rest_.empty() && rest_[0] != '\n' && !advance()) return;
    }
  }

  std::string_view rest_;
  Place place_{Place::kFile, 1, 1, 1};
  int dots_ = 0;  // In the key that is being read.
  bool unterminated_ = false;
  std::optional<Mistake> mistake_;
};

}  // namespace

std::optional<Mistake> scan(std::string_view text) {
  return Scan(text).first_mistake();
}

}  // namespace tandem::job
