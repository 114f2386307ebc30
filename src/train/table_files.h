// Tables that servers keep by key, on their way into files and back. For a checkpoint or a model
// file what they hold is collected in files without a name, column by column, which are then mapped
// and written as tensors; from a checkpoint it is given back to servers as it is read. So neither
// takes memory in proportion to the tables. docs/model-files.md names the tensors.
//
// TableFiles belongs to one thread until finish(); then it does not change.
#pragma once

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "arch/arch.h"
#include "base/nameless_file.h"
#include "base/result.h"
#include "checkpoint/model_file.h"
#include "exchange/exchange.h"
#include "optim/optimizer.h"

namespace tandem::train {

// What the arrays of an optimizer's state are called.
std::vector<std::string> state_names(optim::Optimizer& optimizer);

class TableFiles {
 public:
  // In the file system of that directory.
  static Result<std::unique_ptr<TableFiles>> create(const std::filesystem::path& directory,
                                                    const arch::Blueprint& blueprint,
                                                    std::vector<std::string> state_names);

  // The next records, in the order of exchange::RecordSink. kOutOfSpace when the disk is full.
  Status add(const exchange::TableRecords& records);
  Status finish();

  // The tensors of a model file: keys of all tables, then, in the blueprint's order, their rows.
  // Views refer to this. REQUIRES, here and below: finish() was called.
  std::vector<checkpoint::TensorView> keys() const;
  checkpoint::TensorView rows(std::size_t table) const;
  // What a checkpoint's training file has besides.
  std::vector<checkpoint::TensorView> training() const;

 private:
  struct Table {
    std::string name;
    std::size_t width;
    NamelessFile keys, touched, weights, candidates;
    std::vector<NamelessFile> state;
  };

  explicit TableFiles(std::vector<std::string> names) : state_names_(std::move(names)) {}

  const std::vector<std::string> state_names_;
  std::vector<Table> tables_;
};

// What the tables of a checkpoint hold, read as it is asked for. When it is, kCorrupt or
// kInvalidArgument says what is wrong with the files.
exchange::RecordSource tables_in(const std::filesystem::path& checkpoint,
                                 const arch::Blueprint& blueprint,
                                 std::vector<std::string> state_names);

}  // namespace tandem::train
