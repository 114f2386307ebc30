#include "net/secret.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "net/crypto.h"

namespace tandem::net {
namespace {

class SecretFile : public testing::Test {
 protected:
  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "tandem-net-XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = directory_ / "secret";
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  void write(std::string_view text) {
    std::ofstream(path_) << text;
    ASSERT_EQ(::chmod(path_.c_str(), 0600), 0);
  }

  std::filesystem::path directory_, path_;
};

TEST_F(SecretFile, GivesBackWhatWasSaved) {
  const auto secret = make_secret(), other = make_secret();
  ASSERT_TRUE(secret.ok() && other.ok());
  EXPECT_FALSE(*secret == *other);
  ASSERT_TRUE(save_secret(path_, *secret).ok());
  struct stat status {};
  ASSERT_EQ(::stat(path_.c_str(), &status), 0);
  EXPECT_EQ(status.st_mode & 07777, 0600U);
  const auto loaded = load_secret(path_);
  ASSERT_TRUE(loaded.ok()) << loaded.error().message();
  EXPECT_TRUE(*loaded == *secret);
}

TEST_F(SecretFile, IsNotUsedWhenOthersCanReadIt) {
  ASSERT_TRUE(save_secret(path_, *make_secret()).ok());
  for (const mode_t mode : {0640U, 0604U, 0620U, 0602U, 0666U}) {
    ASSERT_EQ(::chmod(path_.c_str(), mode), 0);
    const auto loaded = load_secret(path_);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code(), Code::kDenied);
    EXPECT_NE(loaded.error().message().find("chmod 600 " + path_.string()), std::string::npos);
  }
}

TEST_F(SecretFile, IsNotReplaced) {
  const auto first = make_secret();
  ASSERT_TRUE(save_secret(path_, *first).ok());
  EXPECT_EQ(save_secret(path_, *make_secret()).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(*load_secret(path_) == *first);
}

TEST_F(SecretFile, HoldsASecretAndNothingElse) {
  EXPECT_EQ(load_secret(path_).error().code(), Code::kNotFound);
  EXPECT_EQ(load_secret(directory_).error().code(), Code::kInvalidArgument);
  for (const std::string& text :
       {std::string(), std::string(63, 'a'), std::string(65, 'a'), std::string(64, 'g'),
        std::string(64, '\0'), std::string(100000, 'a')}) {
    write(text);
    const auto loaded = load_secret(path_);
    ASSERT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.error().code(), Code::kCorrupt);
  }
  write(std::string(64, 'a'));  // Without a line's end, as an editor may leave it.
  EXPECT_TRUE(load_secret(path_).ok());
}

std::string from_hex(std::string_view hex) {
  std::string bytes;
  for (std::size_t i = 0; i < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16));
  return bytes;
}

template <std::size_t size>
std::string text(const std::array<char, size>& bytes) {
  return {bytes.data(), bytes.size()};
}

// RFC 5869, A.1; the first 32 of its 42 bytes, which do not depend on how many are asked for.
TEST(Crypto, DerivesKeysAsTheStandardSays) {
  const Key key = derive_key(std::string(22, '\x0b'), from_hex("000102030405060708090a0b0c"),
                             from_hex("f0f1f2f3f4f5f6f7f8f9"));
  EXPECT_EQ(text(key),
            from_hex("3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf"));
}

// What Python's hmac module gives for 32 bytes of 0x0b and "Hi There".
TEST(Crypto, AuthenticatesAsTheStandardSaysAndAgainWithTheSameKey) {
  Key key{};
  key.fill('\x0b');
  Mac mac(key);
  const std::string expected = text(mac.of("Hi There"));
  EXPECT_EQ(expected, from_hex("198a607eb44bfbc69903a0f1cf2bbdc5ba0aa3f3d9ae3c1c7a3b1696a0b68cf7"));
  EXPECT_NE(text(mac.of("Hi there")), expected);
  EXPECT_EQ(text(mac.of("Hi ", "There")), expected);
}

TEST(Crypto, ComparesWholeBytes) {
  EXPECT_TRUE(same_bytes("abc", "abc"));
  EXPECT_TRUE(same_bytes("", ""));
  EXPECT_FALSE(same_bytes("abc", "abd"));
  EXPECT_FALSE(same_bytes("abc", "ab"));
}

}  // namespace
}  // namespace tandem::net
