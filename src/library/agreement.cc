#include "library/agreement.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/hash.h"
#include "library/failure.h"

namespace tandem::library {
namespace {

// What a rank tells the others of its list.
struct Digest {
  std::array<char, 32> hash;
  std::uint64_t bytes;

  friend bool operator==(const Digest&, const Digest&) = default;
};

using Words = std::array<std::uint8_t, 512>;  // Zero-terminated.

std::string joined(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line + '\n';
  return text;
}

std::vector<Digest> gather(Group& group, const std::string& text) {
  Digest mine{{}, text.size()};
  const std::string hash = hash_hex(std::as_bytes(std::span(text)));
  std::copy_n(hash.begin(), std::min(hash.size(), mine.hash.size()), mine.hash.begin());
  std::array<std::uint8_t, sizeof mine> raw;
  std::memcpy(raw.data(), &mine, sizeof mine);
  std::vector<std::uint8_t> all(sizeof mine * static_cast<std::size_t>(group.size()));
  group.all_gather(raw, all);
  std::vector<Digest> digests(static_cast<std::size_t>(group.size()));
  std::memcpy(digests.data(), all.data(), all.size());
  return digests;
}

// The first line in which they differ, in words; "nothing" for the end of a list.
std::string difference(int rank, const std::vector<std::string>& mine, int usual_rank,
                       const std::string& usual_text) {
  std::size_t begin = 0;
  for (std::size_t i = 0;; ++i) {
    const std::size_t end = usual_text.find('\n', begin);
    const std::string theirs =
        end == std::string::npos ? "nothing" : "`" + usual_text.substr(begin, end - begin) + "`";
    const std::string ours = i < mine.size() ? "`" + mine[i] + "`" : "nothing";
    if (ours != theirs || end == std::string::npos)
      return fmt::format("rank {} has {} where rank {} has {}", rank, ours, usual_rank, theirs);
    begin = end + 1;
  }
}

}  // namespace

void demand_agreement(Group& group, const std::vector<std::string>& lines,
                      const std::string& what) {
  if (group.size() == 1) return;
  std::string text = joined(lines);
  const std::vector<Digest> digests = gather(group, text);
  const auto alike = [&](const Digest& d) { return std::count(digests.begin(), digests.end(), d); };
  std::size_t usual = 0;
  for (std::size_t i = 0; i < digests.size(); ++i) {
    if (alike(digests[i]) > alike(digests[usual])) usual = i;
  }
  const auto culprit = std::find_if(digests.begin(), digests.end(),
                                    [&](const Digest& d) { return !(d == digests[usual]); });
  if (culprit == digests.end()) return;
  std::string usual_text = text;
  usual_text.resize(digests[usual].bytes);
  group.broadcast(std::span(reinterpret_cast<std::uint8_t*>(usual_text.data()), usual_text.size()),
                  static_cast<int>(usual));
  Words words{};
  const std::string mine = difference(group.rank(), lines, static_cast<int>(usual), usual_text);
  std::copy_n(mine.begin(), std::min(mine.size(), words.size() - 1), words.begin());
  group.broadcast(words, static_cast<int>(culprit - digests.begin()));
  refuse(what + ": " + reinterpret_cast<const char*>(words.data()));
}

}  // namespace tandem::library
