#include "job/scan.h"

#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <utility>

#include "base/utf8.h"

namespace tandem::job {
namespace {

constexpr int kMostKeyParts = 16;

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
    const auto size = static_cast<std::size_t>(decode_utf8(rest_).bytes);
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
      if (decode_utf8(rest_).bytes != 0) {
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
