// Every key of the job file as data: where it is, what it means, what it may hold, when it applies
// and which field it fills. Parsing, validation, suggestions, printing and the reference
// (docs/job-file.md) are all derived from these tables, so nothing is written twice. The tables are
// in keys.cc. Constant after the first use; any thread may read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "arch/arch.h"

namespace tandem::job {

// Gives the field of a record (a Job, or an arch::Layer for the keys of a layer) that a key fills.
template <typename T>
struct Access {
  T& (*of)(void* record);
};

// The same for a field of an enumeration, as a number: the place of its word in Key::words.
struct EnumAccess {
  std::size_t (*get)(void* record);
  void (*set)(void* record, std::size_t value);
};

using Field =
    std::variant<Access<std::string>, Access<std::int64_t>, Access<std::uint64_t>, Access<double>,
                 Access<bool>, Access<std::vector<std::int64_t>>, Access<std::vector<float>>,
                 Access<std::vector<std::string>>, Access<std::vector<arch::Layer>>, EnumAccess>;

struct Word {
  std::string_view name;
  std::string_view meaning;
};

// Bounds of a number, or of each number in a list.
struct Range {
  double least = -std::numeric_limits<double>::infinity();
  double most = std::numeric_limits<double>::infinity();
  bool open_least = false;  // `least` itself is not allowed.
  bool open_most = false;
};

// A key applies when the key `selector` holds one of `words`. No selector: always.
struct When {
  std::string_view selector;
  std::vector<std::string_view> words;
};

enum class Presence : std::uint8_t { kOptional, kRequired };
enum class Accepts : std::uint8_t { kItsType, kIntegerToo };

// One row of the table. A path may have several rows, for different defaults: the first that
// applies counts.
struct Key {
  std::string_view path;  // "train.optimizer.lr"
  Field field;
  std::string_view meaning;
  std::vector<Word> words = {};  // Not empty: the only strings allowed.
  Range range = {};
  When when = {};
  std::string_view fallback = {};  // The default as TOML; "": what the record's constructor gives.
  Presence presence = Presence::kOptional;
  Accepts accepts = Accepts::kItsType;

  std::string_view leaf() const { return path.substr(path.rfind('.') + 1); }
  bool is_word() const { return !words.empty(); }
};

// The keys of one kind of record.
class Schema {
 public:
  explicit Schema(std::vector<Key> keys);

  const std::vector<Key>& keys() const { return keys_; }
  // Every path once, in the order of the table.
  const std::vector<std::string_view>& paths() const { return paths_; }

  // The path's first row, or null when there is no such key.
  const Key* first_row(std::string_view path) const;
  // All rows of the path.
  std::vector<const Key*> rows(std::string_view path) const;
  // The row that counts for `record`, or null when the key does not apply to it.
  const Key* row_for(std::string_view path, void* record) const;
  bool applies(const Key& key, void* record) const;

  // Whether `path` is a table of keys: "train", "train.optimizer".
  bool is_table(std::string_view path) const;
  // Whether a bare word may stand for the table, as its `kind`: optimizer = "adam".
  bool takes_word(std::string_view path) const;
  // The names inside the table `path` ("" is the root), without repetition.
  std::vector<std::string_view> names_in(std::string_view path) const;

 private:
  std::vector<Key> keys_;
  std::vector<std::string_view> paths_;
};

// The keys of the whole file; records are job::Job.
const Schema& job_schema();
// The keys of one entry of `model.layers`; records are arch::Layer.
const Schema& layer_schema();

}  // namespace tandem::job
