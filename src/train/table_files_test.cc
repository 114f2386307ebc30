#include "train/table_files.h"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "checkpoint/store.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

// Two tables, 2 and 1 wide, of 50 and 60 rows; adagrad has one number beside each weight.
arch::Blueprint blueprint_of() {
  const arch::Interface interface {
    .input_shape = {2}, .outputs = 1, .ids = { {0, 50}, {1, 60} }
  };
  return arch::build_with_window({.kind = "matrix_factorization", .dim = 2}, interface, 4).value();
}

const std::vector<std::string> kState = {"sum"};

void add(std::string& to, const auto& value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

// Rows of the table, and a candidate.
std::string rows_of(std::size_t width, std::initializer_list<std::uint64_t> keys) {
  std::string records;
  for (const std::uint64_t key : keys) {
    add(records, key);
    add(records, static_cast<std::uint32_t>(key + 1));
    for (std::size_t i = 0; i < 2 * width; ++i)
      add(records, static_cast<float>(key) + 0.25F * static_cast<float>(i));
  }
  return records;
}

class TableFilesTest : public testing::Test {
 protected:
  void SetUp() override { fs::create_directories(directory); }
  void TearDown() override { fs::remove_all(directory); }

  Status write(const std::string& first_rows) {
    TANDEM_ASSIGN(const auto files, TableFiles::create(directory, blueprint, kState));
    std::string candidate;
    add(candidate, std::uint64_t{7});
    add(candidate, std::uint32_t{3});
    add(candidate, std::uint32_t{2});
    const auto give = [&](std::size_t table, exchange::Records what, std::size_t bytes,
                          const std::string& records) {
      return files->add({table, what, bytes, std::as_bytes(std::span(records))});
    };
    TANDEM_TRY(give(0, exchange::Records::kRows, 28, first_rows));
    TANDEM_TRY(give(0, exchange::Records::kCandidates, 16, candidate));
    TANDEM_TRY(give(3, exchange::Records::kRows, 20, rows_of(1, {0, 59})));
    TANDEM_TRY(files->finish());
    checkpoint::ModelContent model, training;
    model.parameters = files->keys();
    for (std::size_t i = 0; i < 4; ++i) model.parameters.push_back(files->rows(i));
    training.parameters = files->training();
    return checkpoint::write_checkpoint(directory, 9, model, training);
  }

  Result<std::vector<std::string>> read() {
    std::vector<std::string> got(8);
    const auto sink = [&](const exchange::TableRecords& records) {
      std::string& to = got[2 * records.table + static_cast<std::size_t>(records.what)];
      to.append(reinterpret_cast<const char*>(records.bytes.data()), records.bytes.size());
      return Status();
    };
    TANDEM_TRY(tables_in(directory / "step-000000009", blueprint, kState)(sink));
    return got;
  }

  const arch::Blueprint blueprint = blueprint_of();
  const fs::path directory =
      fs::temp_directory_path() / ("table-files-" + std::to_string(::getpid()));
};

TEST_F(TableFilesTest, WhatIsReadIsWhatWasWritten) {
  ASSERT_TRUE(write(rows_of(2, {3, 4, 49})).ok());
  const auto got = read();
  ASSERT_TRUE(got.ok());
  EXPECT_EQ((*got)[0], rows_of(2, {3, 4, 49}));
  EXPECT_EQ((*got)[1].size(), 16U);
  EXPECT_EQ((*got)[2], "");
  EXPECT_EQ((*got)[6], rows_of(1, {0, 59}));
  EXPECT_TRUE(checkpoint::verify_checkpoint({9, directory / "step-000000009"}).ok());
  // Nothing is left beside it.
  EXPECT_EQ(std::distance(fs::directory_iterator(directory), {}), 1);
}

TEST_F(TableFilesTest, KeysThatAreNotTheTablesAreNamed) {
  ASSERT_TRUE(write(rows_of(2, {3, 50})).ok());
  EXPECT_EQ(read().error().code(), Code::kCorrupt);
  EXPECT_NE(read().error().message().find("`user.weight` of 50 rows has key 50"),
            std::string::npos);
  ASSERT_TRUE(write(rows_of(2, {4, 3})).ok());
  EXPECT_NE(read().error().message().find("has key 3 behind 4"), std::string::npos);
}

TEST_F(TableFilesTest, FilesOfAnotherOptimizerAreRefused) {
  ASSERT_TRUE(write(rows_of(2, {3})).ok());
  const Status other = tables_in(directory / "step-000000009", blueprint, {"momentum"})(
      [](const exchange::TableRecords&) { return Status(); });
  EXPECT_EQ(other.error().code(), Code::kInvalidArgument);
  EXPECT_NE(other.error().message().find("`table.user.weight.momentum`"), std::string::npos);
}

}  // namespace
}  // namespace tandem::train
