// Places in the texts that a job is made of (its file and the overrides of the command line), and
// messages that point at them. Plain values; every function is pure.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::job {

// A stretch of one line. Lines and columns count from 1, columns in code points.
struct Place {
  static constexpr std::int32_t kNowhere = -1;
  static constexpr std::uint32_t kToLineEnd = 1U << 30;
  static constexpr std::int32_t kFile = 0;  // Override i is text kFile + 1 + i.

  std::int32_t text = kNowhere;
  std::uint32_t line = 0;
  std::uint32_t column = 0;
  std::uint32_t length =
      1;  // Cut at the line's end when it is drawn: kToLineEnd is longer than any.

  friend auto operator<=>(const Place&, const Place&) = default;
};

// The texts themselves, kept to quote their lines.
struct Texts {
  std::string file_name;
  std::string file;
  std::vector<std::string> overrides;
};

struct Mistake {
  Place place;
  std::string message;  // What is wrong: "unknown key `train.optimiser`".
  std::string help;     // What to do about it, short; may be empty.
};

// Mistakes as they are found. Keeps the first kMostShown and counts the rest.
class Mistakes {
 public:
  static constexpr std::size_t kMostShown = 10;

  void add(Place place, std::string message, std::string help);
  bool empty() const { return found_.empty(); }
  // Whether another mistake would only be counted: callers may then stop looking.
  bool full() const { return found_.size() >= kMostShown; }

  // All of them in the order of the text, each but the first behind "error: ". REQUIRES: !empty().
  std::string render(const Texts& texts) const;

 private:
  std::vector<Mistake> found_;
  std::size_t left_out_ = 0;
};

// The message, the place, the line it is in and carets under it:
//
//   unknown key `train.optimiser`
//     --> digits.toml:7:1
//      |
//    7 | optimiser = { kind = "sgd" }
//      | ^^^^^^^^^ did you mean `optimizer`?
//
// Control characters are shown as `?`, tabs as spaces, and a long line is cut around the carets.
std::string render(const Texts& texts, const Mistake& mistake);

}  // namespace tandem::job
