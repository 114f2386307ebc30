#include "checkpoint/model_file.h"

#include <gtest/gtest.h>

#include <vector>

#include "checkpoint/testing.h"

namespace tandem::checkpoint {
namespace {

using testing::contains;
using testing::safetensors_bytes;
using testing::slurp;
using testing::spill;
using testing::TemporaryDirectory;

const std::vector<float> kParameters = {1, 2, 3, 4, 5, 6};
const std::vector<float> kBuffers = {7, 8};

ModelContent content() {
  return {{{"w", {2, 2}, std::span(kParameters).first(4)},
           {"b", {2}, std::span(kParameters).subspan(4)}},
          {{"mean", {2}, kBuffers}},
          {{"kind", "mlp"}}};
}

TEST(ModelFile, HasKeysOfTablesAsWholeNumbers) {
  const TemporaryDirectory run;
  const std::vector<std::int64_t> keys = {3, std::int64_t{1} << 40};
  ModelContent tables{{{"user.keys", {2}, {}, std::span(keys)},
                       {"user.rows", {2, 2}, std::span(kParameters).first(4)}},
                      {},
                      {}};
  ASSERT_TRUE(save_model(run / "model.safetensors", tables).ok());
  EXPECT_TRUE(verify_model(run.path()).ok());
  const auto model = load_model(run.path());
  ASSERT_TRUE(model.ok()) << model.error().message();
  ASSERT_NE(model->find_keys("user.keys"), nullptr);
  EXPECT_EQ(model->find_keys("user.keys")->values, keys);
  EXPECT_NE(model->find("user.rows"), nullptr);
  EXPECT_TRUE(model->skipped.empty());
  const auto some =
      load_model(run.path(), [](std::string_view name) { return name == "user.rows"; });
  ASSERT_TRUE(some.ok());
  EXPECT_EQ(some->find_keys("user.keys"), nullptr);
  EXPECT_EQ(some->tensors.size(), 1U);
  tables.parameters[0].shape = {3};
  EXPECT_FALSE(save_model(run / "model.safetensors", tables).ok());
}

TEST(ModelFile, TellsOfTablesThatMakeNoSense) {
  const auto complaint = [](std::vector<std::int64_t> keys, Shape rows, const char* author) {
    ModelFile model{.path = "x", .metadata = {{author, ""}}};
    model.keys.push_back({"user.keys", {std::ssize(keys)}, keys});
    if (!rows.empty()) model.tensors.push_back({"user.rows", rows, {}});
    const Status status = check_tables(model);
    return status.ok() ? "" : status.error().message();
  };
  EXPECT_EQ(complaint({0, 3}, {2, 4}, "tandem.job"), "");
  EXPECT_TRUE(contains(complaint({3, 0}, {2, 4}, "tandem.job"), "`user`: its keys do not ascend"));
  EXPECT_TRUE(contains(complaint({-1}, {1, 4}, "tandem.job"), "do not ascend"));
  EXPECT_TRUE(contains(complaint({0, 3}, {3, 4}, "tandem.job"), "do not fit rows of shape"));
  EXPECT_TRUE(contains(complaint({0, 3}, {}, "tandem.job"), "but not its rows"));
  EXPECT_EQ(complaint({0, 3}, {}, "format"), "") << "somebody else's keys";
}

TEST(ModelFile, LoadsWhatWasSaved) {
  const TemporaryDirectory run;
  const auto saved = save_model(run / "model.safetensors", content());
  ASSERT_TRUE(saved.ok()) << saved.error().message();
  EXPECT_EQ(saved->weights_hash, weights_hash(kParameters, kBuffers));
  EXPECT_EQ(saved->bytes, std::filesystem::file_size(run / "model.safetensors"));

  for (const auto& path : {run.path(), run / "model.safetensors"}) {
    const auto model = load_model(path);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_EQ(model->path, run / "model.safetensors");
    EXPECT_EQ(model->metadata, (Metadata{{"kind", "mlp"}}));
    ASSERT_EQ(model->tensors.size(), 3U);
    EXPECT_EQ(model->tensors[0].name, "w");
    EXPECT_EQ(model->tensors[2].name, "mean");
    EXPECT_EQ(model->find("mean")->values, kBuffers);
    EXPECT_EQ(model->find("w")->shape, (Shape{2, 2}));
    EXPECT_EQ(model->find("absent"), nullptr);
    ASSERT_TRUE(model->manifest.has_value());
    EXPECT_EQ(model->manifest->weights_hash, saved->weights_hash);
    EXPECT_EQ(views(model->tensors)[1].values.size(), 2U);
  }
  EXPECT_TRUE(verify_model(run.path()).ok());
}

TEST(ModelFile, EqualModelsGiveEqualFiles) {
  const TemporaryDirectory run;
  ASSERT_TRUE(save_model(run / "a.safetensors", content()).ok());
  ASSERT_TRUE(save_model(run / "b.safetensors", content()).ok());
  EXPECT_EQ(slurp(run / "a.safetensors"), slurp(run / "b.safetensors"));
}

TEST(ModelFile, RefusesAFlippedByte) {
  const TemporaryDirectory run;
  const auto path = run / "model.safetensors";
  ASSERT_TRUE(save_model(path, content()).ok());
  std::string bytes = slurp(path);
  bytes[bytes.size() - 1] = static_cast<char>(bytes[bytes.size() - 1] ^ 1);
  spill(path, bytes);
  for (const auto& error : {load_model(path).error(), verify_model(path).error()}) {
    EXPECT_EQ(error.code(), Code::kCorrupt);
    EXPECT_TRUE(contains(error.message(), path.string())) << error.message();
    EXPECT_TRUE(contains(error.message(), "\"mean\"")) << error.message();
  }
}

TEST(ModelFile, RefusesATruncatedFile) {
  const TemporaryDirectory run;
  const auto path = run / "model.safetensors";
  ASSERT_TRUE(save_model(path, content()).ok());
  spill(path, slurp(path).substr(0, 100));
  EXPECT_TRUE(contains(verify_model(path).error().message(), "truncated"));
  std::filesystem::remove(manifest_path(path));
  EXPECT_TRUE(contains(load_model(path).error().message(), "truncated"));
}

TEST(ModelFile, LoadsButDoesNotVerifyWithoutAManifest) {
  const TemporaryDirectory run;
  const auto path = run / "model.safetensors";
  ASSERT_TRUE(save_model(path, content()).ok());
  std::filesystem::remove(manifest_path(path));
  const auto model = load_model(path);
  ASSERT_TRUE(model.ok());
  EXPECT_FALSE(model->manifest.has_value());
  const auto verified = verify_model(path);
  ASSERT_FALSE(verified.ok());
  EXPECT_EQ(verified.error().code(), Code::kNotFound);
  EXPECT_TRUE(contains(verified.error().message(), "model.manifest.json is missing"));
}

TEST(ModelFile, RefusesADamagedManifest) {
  const TemporaryDirectory run;
  const auto path = run / "model.safetensors";
  ASSERT_TRUE(save_model(path, content()).ok());
  spill(manifest_path(path), "{");
  EXPECT_EQ(load_model(path).error().code(), Code::kCorrupt);
  spill(manifest_path(path), std::string(kMostManifestBytes + 1, ' '));
  EXPECT_FALSE(load_model(path).ok());
}

TEST(ModelFile, SkipsTensorsWithoutFloats) {
  const TemporaryDirectory run;
  spill(run / "x.safetensors",
        safetensors_bytes(R"({"n":{"dtype":"I64","shape":[],"data_offsets":[0,8]},)"
                          R"("w":{"dtype":"BF16","shape":[2],"data_offsets":[8,12]}})",
                          12));
  const auto model = load_model(run / "x.safetensors");
  ASSERT_TRUE(model.ok()) << model.error().message();
  ASSERT_EQ(model->tensors.size(), 1U);
  EXPECT_EQ(model->tensors[0].values.size(), 2U);
  EXPECT_EQ(model->skipped, std::vector<std::string>{"n (I64)"});
}

TEST(ModelFile, SaysWhatIsMissing) {
  const TemporaryDirectory run;
  const auto none = load_model(run / "absent.safetensors");
  ASSERT_FALSE(none.ok());
  EXPECT_EQ(none.error().code(), Code::kNotFound);
  const auto empty = load_model(run.path());
  ASSERT_FALSE(empty.ok());
  EXPECT_EQ(empty.error().code(), Code::kNotFound);
  EXPECT_TRUE(contains(empty.error().message(), "holds no model.safetensors"));
}

TEST(ModelFile, KeepsTheOldModelWhenTheNewOneIsRefused) {
  const TemporaryDirectory run;
  const auto path = run / "model.safetensors";
  ASSERT_TRUE(save_model(path, content()).ok());
  ModelContent wrong = content();
  wrong.buffers[0].shape = {3};
  EXPECT_EQ(save_model(path, wrong).error().code(), Code::kInvalidArgument);
  EXPECT_TRUE(verify_model(path).ok());
}

}  // namespace
}  // namespace tandem::checkpoint
