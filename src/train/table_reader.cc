// The part of train/table_files.h that reads checkpoints.
#include <fmt/format.h>

#include <cstring>
#include <utility>

#include "base/file.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/store.h"
#include "train/table_files.h"
#include "train/table_names.h"

namespace tandem::train {
namespace {

namespace fs = std::filesystem;

// Bytes of records that are given away at a time, about.
constexpr std::size_t kRecordBytes = std::size_t{1} << 20;

// A file whose tensors are found by name. Whether it is whole was checked when it was chosen.
class TensorFile {
 public:
  static Result<TensorFile> open(const fs::path& path) {
    TANDEM_ASSIGN(MappedFile file, MappedFile::open(path));
    TANDEM_ASSIGN(checkpoint::Safetensors tensors,
                  checkpoint::parse_safetensors(file.bytes(), path.string()));
    return TensorFile(path, std::move(file), std::move(tensors));
  }

  // The bytes of a tensor that must have this type, these rows (-1: any) and this width.
  Result<std::span<const std::byte>> find(const std::string& name, checkpoint::Dtype dtype,
                                          std::int64_t rows, std::int64_t width) const {
    for (const checkpoint::TensorEntry& entry : tensors_.tensors) {
      if (entry.name != name) continue;
      const bool is_flat = entry.shape.size() == 1 && width == 1;
      const bool fits = entry.dtype == dtype && !entry.shape.empty() &&
                        (rows < 0 || entry.shape[0] == rows) &&
                        (is_flat || (entry.shape.size() == 2 && entry.shape[1] == width));
      if (fits) return tensors_.bytes(entry);
      return Error(Code::kInvalidArgument,
                   fmt::format("{}: tensor `{}` is {} {}, which does not fit the job's tables",
                               path_.string(), name, to_string(entry.dtype),
                               checkpoint::to_string(entry.shape)));
    }
    return Error(
        Code::kInvalidArgument,
        fmt::format("{} has no `{}`: it was not made with sparse tables (ps.tables), or by "
                    "another optimizer; go on with the job that it was made by",
                    path_.string(), name));
  }

  const fs::path& path() const { return path_; }

 private:
  TensorFile(fs::path path, MappedFile file, checkpoint::Safetensors tensors)
      : path_(std::move(path)), file_(std::move(file)), tensors_(std::move(tensors)) {}

  fs::path path_;
  MappedFile file_;
  checkpoint::Safetensors tensors_;
};

std::int64_t integer_at(std::span<const std::byte> bytes, std::size_t index) {
  std::int64_t value;
  std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

class Reader {
 public:
  Reader(const TensorFile& model, const TensorFile& training,
         const std::vector<std::string>& state_names, const exchange::RecordSink& sink)
      : model_(model), training_(training), state_names_(state_names), sink_(sink) {}

  Status read(std::size_t number, const std::string& name, const arch::Table& table) {
    TANDEM_TRY(read_rows(number, name, table));
    return read_candidates(number, name, table);
  }

 private:
  Status read_rows(std::size_t number, const std::string& name, const arch::Table& table) {
    const std::string suffix(checkpoint::kRowsSuffix);
    TANDEM_ASSIGN(const auto keys, model_.find(name + std::string(checkpoint::kKeysSuffix),
                                               checkpoint::Dtype::kI64, -1, 1));
    const auto rows = static_cast<std::int64_t>(keys.size() / sizeof(std::int64_t));
    TANDEM_ASSIGN(const auto touched,
                  training_.find(touched_name(name), checkpoint::Dtype::kI64, rows, 1));
    std::vector<std::span<const std::byte>> arrays(1 + state_names_.size());
    TANDEM_ASSIGN(arrays[0],
                  model_.find(name + suffix, checkpoint::Dtype::kF32, rows, table.width));
    for (std::size_t i = 0; i < state_names_.size(); ++i) {
      TANDEM_ASSIGN(arrays[1 + i], training_.find(state_name(name, state_names_[i]),
                                                  checkpoint::Dtype::kF32, rows, table.width));
    }
    const std::size_t array_bytes = static_cast<std::size_t>(table.width) * sizeof(float);
    begin(number, exchange::Records::kRows, kHeadBytes + arrays.size() * array_bytes);
    for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) {
      TANDEM_TRY(add_head(model_, name, table, integer_at(keys, i), integer_at(touched, i)));
      for (const std::span<const std::byte> array : arrays)
        add(array.data() + i * array_bytes, array_bytes);
      TANDEM_TRY(pass_on(kRecordBytes));
    }
    return pass_on(0);
  }

  Status read_candidates(std::size_t number, const std::string& name, const arch::Table& table) {
    TANDEM_ASSIGN(const auto all, training_.find(candidates_name(name), checkpoint::Dtype::kI64, -1,
                                                 kCandidateNumbers));
    begin(number, exchange::Records::kCandidates, kHeadBytes + sizeof(std::uint32_t));
    for (std::size_t i = 0; i < all.size() / sizeof(std::int64_t); i += kCandidateNumbers) {
      TANDEM_TRY(add_head(training_, name, table, integer_at(all, i), integer_at(all, i + 1)));
      TANDEM_ASSIGN(const std::uint32_t touches, count_of(training_, name, integer_at(all, i + 2)));
      add(&touches, sizeof touches);
      TANDEM_TRY(pass_on(kRecordBytes));
    }
    return pass_on(0);
  }

  Status add_head(const TensorFile& file, const std::string& name, const arch::Table& table,
                  std::int64_t key, std::int64_t touched) {
    if (key <= last_ || key >= table.all_rows) {
      return Error(Code::kCorrupt,
                   fmt::format("{}: table `{}` of {} rows has key {} behind {}",
                               file.path().string(), name, table.all_rows, key, last_));
    }
    last_ = key;
    TANDEM_ASSIGN(const std::uint32_t step, count_of(file, name, touched));
    add(&key, sizeof key);
    add(&step, sizeof step);
    return {};
  }

  static Result<std::uint32_t> count_of(const TensorFile& file, const std::string& name,
                                        std::int64_t number) {
    if (std::in_range<std::uint32_t>(number)) return static_cast<std::uint32_t>(number);
    return Error(Code::kCorrupt,
                 fmt::format("{}: table `{}` counts {} steps", file.path().string(), name, number));
  }

  void begin(std::size_t table, exchange::Records what, std::size_t record_bytes) {
    table_ = table;
    what_ = what;
    record_bytes_ = record_bytes;
    last_ = -1;
  }
  void add(const void* data, std::size_t bytes) {
    records_.insert(records_.end(), static_cast<const std::byte*>(data),
                    static_cast<const std::byte*>(data) + bytes);
  }
  Status pass_on(std::size_t least) {
    if (records_.empty() || records_.size() < least) return {};
    const Status taken = sink_({table_, what_, record_bytes_, records_});
    records_.clear();
    return taken;
  }

  const TensorFile& model_;
  const TensorFile& training_;
  const std::vector<std::string>& state_names_;
  const exchange::RecordSink& sink_;
  std::size_t table_ = 0;
  exchange::Records what_ = exchange::Records::kRows;
  std::size_t record_bytes_ = 0;
  std::int64_t last_ = -1;  // Key.
  std::vector<std::byte> records_;
};

}  // namespace

exchange::RecordSource tables_in(const fs::path& checkpoint, const arch::Blueprint& blueprint,
                                 std::vector<std::string> state_names) {
  return [checkpoint, &blueprint,
          names = std::move(state_names)](const exchange::RecordSink& sink) -> Status {
    TANDEM_ASSIGN(const TensorFile model,
                  TensorFile::open(checkpoint / checkpoint::kModelFileName));
    TANDEM_ASSIGN(const TensorFile training,
                  TensorFile::open(checkpoint / checkpoint::kTrainingFileName));
    Reader reader(model, training, names, sink);
    for (std::size_t i = 0; i < blueprint.tables.size(); ++i) {
      const arch::Table& table = blueprint.tables[i];
      const std::string& name = blueprint.slots[static_cast<std::size_t>(table.slot)].name;
      TANDEM_TRY(reader.read(i, name, table));
    }
    return {};
  };
}

}  // namespace tandem::train
