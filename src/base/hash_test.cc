#include "base/hash.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace tandem {
namespace {

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

TEST(Hash, IsXxh3With128Bits) {
  // From xxHash's own command: `xxhsum -H2`.
  EXPECT_EQ(hash_hex({}), "99aa06d3014798d86001c324468d497f");
  EXPECT_EQ(hash_hex(bytes_of("tandem\n")), "f5c17c2e73c023c2eab7f7070755c36b");
}

TEST(Hash, DoesNotDependOnHowTheBytesCome) {
  std::string text;
  for (int i = 0; i < 5000; ++i) text += static_cast<char>(i * 7);
  for (std::size_t cut :
       {std::size_t{0}, std::size_t{1}, std::size_t{240}, std::size_t{4096}, text.size()}) {
    Hasher hasher;
    hasher.add(bytes_of(text).first(cut));
    hasher.add(bytes_of(text).subspan(cut));
    EXPECT_EQ(hasher.hex(), hash_hex(bytes_of(text))) << cut;
  }
}

TEST(Hash, CanGoOnAfterItWasRead) {
  Hasher hasher;
  EXPECT_EQ(hasher.hex(), hash_hex({}));
  hasher.add({});
  EXPECT_EQ(hasher.hex(), hash_hex({}));
  hasher.add(bytes_of("a"));
  EXPECT_EQ(hasher.hex(), hash_hex(bytes_of("a")));
}

}  // namespace
}  // namespace tandem
