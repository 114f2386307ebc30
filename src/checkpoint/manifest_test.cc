#include "checkpoint/manifest.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "base/hash.h"
#include "checkpoint/safetensors_writer.h"
#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::bytes_of;
using testing::contains;

class ManifestTest : public ::testing::Test {
 protected:
  ManifestTest() {
    prefix_ = safetensors_prefix(tensors_, {{"k", "v"}}).value();
    manifest_ = make_manifest("model.safetensors", prefix_, tensors_, [&](auto bytes) {
                  sunk_.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
                  return Status();
                }).value();
    for (const std::string_view piece : safetensors_pieces(prefix_, tensors_)) bytes_ += piece;
  }

  std::string complaint(const Manifest& manifest, const std::string& bytes) {
    const Status status = check_manifest(manifest, bytes_of(bytes), "m");
    if (status.ok()) return "none";
    EXPECT_EQ(status.error().code(), Code::kCorrupt);
    EXPECT_TRUE(status.error().message().starts_with("m: "));
    return status.error().message();
  }

  const std::vector<float> values_ = {1, 2, 3, 4, 5, 6};
  const std::vector<TensorView> tensors_ = {{"first", {2, 2}, std::span(values_).first(4)},
                                            {"second", {2}, std::span(values_).subspan(4)}};
  std::string prefix_;
  std::string bytes_;
  std::string sunk_;  // What the sink got while the manifest was made.
  Manifest manifest_;
};

TEST_F(ManifestTest, IsMadeWhileTheBytesPass) {
  EXPECT_EQ(sunk_, bytes_);
  const auto full = [](auto) { return Status(Error(Code::kOutOfSpace, "full")); };
  EXPECT_EQ(make_manifest("m", prefix_, tensors_, full).error().code(), Code::kOutOfSpace);
}

// Longer than what is hashed at once.
TEST(Manifest, OfLongTensorsFits) {
  std::vector<float> values(300001);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
  const std::vector<TensorView> tensors = {{"a", {100000}, std::span(values).first(100000)},
                                           {"b", {200001}, std::span(values).subspan(100000)}};
  const std::string prefix = safetensors_prefix(tensors, {}).value();
  std::string sunk;
  const auto manifest = make_manifest("m", prefix, tensors, [&](auto bytes) {
    sunk.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
    return Status();
  });
  EXPECT_EQ(sunk.size(), prefix.size() + values.size() * sizeof(float));
  const Status fits = check_manifest(manifest.value(), bytes_of(sunk), "m");
  EXPECT_TRUE(fits.ok()) << fits.error().message();
}

TEST_F(ManifestTest, SurvivesJson) {
  const auto parsed = parse_manifest(to_json(manifest_), "m");
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  EXPECT_EQ(parsed->file, "model.safetensors");
  EXPECT_EQ(parsed->bytes, bytes_.size());
  EXPECT_EQ(parsed->file_hash, hash_hex(bytes_of(bytes_)));
  EXPECT_EQ(parsed->weights_hash,
            weights_hash(std::span(values_).first(4), std::span(values_).subspan(4)));
  ASSERT_EQ(parsed->tensors.size(), 2U);
  EXPECT_EQ(parsed->tensors[1].name, "second");
  EXPECT_EQ(parsed->tensors[1].shape, Shape{2});
  EXPECT_EQ(parsed->tensors[1].hash, hash_hex(std::as_bytes(std::span(values_).subspan(4))));
  EXPECT_EQ(complaint(*parsed, bytes_), "none");
}

TEST_F(ManifestTest, NoticesEveryFlippedByte) {
  for (std::size_t i = 0; i < bytes_.size(); ++i) {
    std::string damaged = bytes_;
    damaged[i] = static_cast<char>(damaged[i] ^ 0x10);
    EXPECT_NE(complaint(manifest_, damaged), "none") << i;
  }
}

TEST_F(ManifestTest, NamesTheDamagedTensor) {
  std::string damaged = bytes_;
  damaged.back() = '\x7f';
  EXPECT_TRUE(contains(complaint(manifest_, damaged), "tensor \"second\" is damaged"));
}

TEST_F(ManifestTest, TellsTruncationFromGrowth) {
  EXPECT_TRUE(contains(complaint(manifest_, bytes_.substr(0, bytes_.size() - 1)), "truncated"));
  EXPECT_TRUE(contains(complaint(manifest_, bytes_ + "x"), "too long"));
  EXPECT_TRUE(contains(complaint(manifest_, ""), "truncated"));
}

TEST_F(ManifestTest, NamesTensorsThatOnlyOneSideHas) {
  Manifest more = manifest_;
  more.tensors.push_back({"third", {1}, std::string(32, '0')});
  EXPECT_TRUE(contains(complaint(more, bytes_), "\"third\" is in the manifest but not"));
  Manifest fewer = manifest_;
  fewer.tensors.pop_back();
  EXPECT_TRUE(contains(complaint(fewer, bytes_), "\"second\" is in the file but not"));
  Manifest other = manifest_;
  other.tensors[0].shape = {4};
  EXPECT_TRUE(contains(complaint(other, bytes_), "[2, 2], but the manifest says F32 or I64 [4]"));
}

TEST_F(ManifestTest, NoticesADamagedHeaderAndADamagedManifest) {
  std::string header = bytes_;
  header[header.find("\"v\"") + 1] = 'w';
  EXPECT_TRUE(contains(complaint(manifest_, header), "header is damaged"));
  Manifest damaged = manifest_;
  damaged.weights_hash = std::string(32, 'a');
  EXPECT_TRUE(contains(complaint(damaged, bytes_), "manifest is damaged"));
}

TEST_F(ManifestTest, RefusesWhatIsNoManifest) {
  const std::string good = to_json(manifest_);
  for (const std::string& json :
       {std::string(), std::string("[]"), std::string("{}"), good.substr(0, good.size() / 2),
        std::string(1 << 20, '['), "{\"format\":" + std::string(100000, '[')}) {
    const auto parsed = parse_manifest(json, "m");
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().code(), Code::kCorrupt);
    EXPECT_TRUE(contains(parsed.error().message(), "manifest m: "));
  }
  for (const std::string key : {"format", "version", "file", "bytes", "xxh3_128", "weights_hash",
                                "tensors", "name", "shape"}) {
    std::string json = good;
    json.replace(json.find("\"" + key + "\""), key.size() + 2, "\"other\"");
    EXPECT_FALSE(parse_manifest(json, "m").ok()) << key;
  }
}

TEST_F(ManifestTest, RefusesANewerVersion) {
  std::string json = to_json(manifest_);
  const std::string version = "\"version\": 1";
  json.replace(json.find(version), version.size(), "\"version\": 2");
  const auto parsed = parse_manifest(json, "m");
  ASSERT_FALSE(parsed.ok());
  EXPECT_EQ(parsed.error().code(), Code::kVersionMismatch);
}

TEST(ManifestPath, StandsBesideTheModel) {
  EXPECT_EQ(manifest_path("runs/a.b/model.safetensors"), "runs/a.b/model.manifest.json");
}

TEST_F(ManifestTest, RefusesSizesThatNoTensorHas) {
  for (const char* size : {"9223372036854775808", "18446744073709551615", "-1", "1.5"}) {
    std::string json = to_json(manifest_);
    json.replace(json.find("[2,2]"), 5, std::string("[") + size + "]");
    EXPECT_EQ(parse_manifest(json, "m").error().code(), Code::kCorrupt) << size;
  }
}

}  // namespace
}  // namespace tandem::checkpoint
