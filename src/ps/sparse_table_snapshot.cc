// Snapshots of a sparse table. Byte layout, little-endian; docs/sparse-tables.md has it too:
//
//   offset  size            field
//   0       8               "TNDMROWS"
//   8       4               version, 1
//   12      4               width
//   16      4               words of a row: width and the optimizer's state
//   20      4               optimizer: 0 sgd, 1 adam, 2 adamw, 3 adagrad
//   24      8               seed
//   32      8               init_scale, a double
//   40      8               step
//   48      8               rows
//   56      8               candidates
//   64      12 + 4 * words  each row: key (8), step of its last touch (4), words
//           16              each candidate: key (8), step of its last touch (4), touches (4)
//   end     32              XXH3-128 of all before, as hex digits
//
// Rows and candidates ascend by key.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <string>
#include <vector>

#include "base/hash.h"
#include "ps/sparse_table.h"

namespace tandem::ps {
namespace {

constexpr char kMagic[] = {'T', 'N', 'D', 'M', 'R', 'O', 'W', 'S'};
constexpr std::uint32_t kVersion = 1;
constexpr std::size_t kChecksumBytes = 32;
constexpr std::size_t kBufferBytes = 1 << 18;

struct Header {
  char magic[sizeof kMagic];
  std::uint32_t version, width, words, optimizer;
  std::uint64_t seed;
  double init_scale;
  std::uint64_t step, rows, candidates;
};
static_assert(sizeof(Header) == 64 && std::endian::native == std::endian::little);

Error corrupt(std::string message) {
  return Error(Code::kCorrupt, "the snapshot of a sparse table " + std::move(message));
}

// Collects bytes, hashes them and passes them on.
class Writer {
 public:
  explicit Writer(const Sink& sink) : sink_(sink) {}

  Status add(const void* data, std::size_t bytes) {
    buffer_.append(static_cast<const char*>(data), bytes);
    return buffer_.size() < kBufferBytes ? Status() : flush();
  }
  Status finish() {
    TANDEM_TRY(flush());
    const std::string hex = hasher_.hex();
    return sink_(std::as_bytes(std::span(hex)));
  }

 private:
  Status flush() {
    hasher_.add(std::as_bytes(std::span(buffer_)));
    TANDEM_TRY(sink_(std::as_bytes(std::span(buffer_))));
    buffer_.clear();
    return {};
  }

  const Sink& sink_;
  Hasher hasher_;
  std::string buffer_;
};

// Reads records of one size, many at a time, and hashes them.
class Reader {
 public:
  explicit Reader(const Source& source) : source_(source) {}

  template <typename T>
  Status read(T& value) {
    const auto bytes = std::as_writable_bytes(std::span(&value, 1));
    TANDEM_TRY(source_(bytes));
    hasher_.add(bytes);
    return {};
  }

  // Calls use(key, rest) for each of `count` records, whose keys must ascend.
  template <typename Use>
  Status read_records(std::uint64_t count, std::size_t record_bytes, Use&& use) {
    const std::size_t at_once = std::max<std::size_t>(1, kBufferBytes / record_bytes);
    std::vector<std::byte> buffer(at_once * record_bytes);
    std::uint64_t last = 0;
    for (std::uint64_t done = 0; done < count;) {
      const auto now = static_cast<std::size_t>(std::min<std::uint64_t>(at_once, count - done));
      const std::span<std::byte> records = std::span(buffer).first(now * record_bytes);
      TANDEM_TRY(source_(records));
      hasher_.add(records);
      for (std::size_t i = 0; i < now; ++i, ++done) {
        const auto record = records.subspan(i * record_bytes, record_bytes);
        std::uint64_t key;
        std::memcpy(&key, record.data(), sizeof key);
        if (done != 0 && key <= last) return corrupt(fmt::format("has key {} out of order", key));
        last = key;
        TANDEM_TRY(use(key, std::span<const std::byte>(record.subspan(sizeof key))));
      }
    }
    return {};
  }

  Status check_hash() {
    std::string hex(kChecksumBytes, ' ');
    TANDEM_TRY(source_(std::as_writable_bytes(std::span(hex))));
    if (hex != hasher_.hex()) return corrupt("does not have the checksum that it names");
    return {};
  }

 private:
  const Source& source_;
  Hasher hasher_;
};

template <typename Keep>
std::vector<std::uint64_t> sorted_keys(const RowMap& map, Keep&& keep) {
  std::vector<std::uint64_t> keys;
  keys.reserve(map.size());
  map.for_each([&](const Row& row) {
    if (keep(row)) keys.push_back(row.key());
  });
  std::sort(keys.begin(), keys.end());
  return keys;
}

Status write_rows(const RowMap& map, std::span<const std::uint64_t> keys, std::size_t words,
                  Writer& writer) {
  Status status;
  map.find_each(keys, [&](std::size_t i, std::uint64_t, const Row& row) {
    status = writer.add(&keys[i], sizeof keys[i]);
    if (status.ok()) status = writer.add(&row.touched(), sizeof row.touched());
    if (status.ok()) status = writer.add(row.words(), words * sizeof(float));
    return status.ok();
  });
  return status;
}

Header header_of(const SparseTable& table) {
  Header header{};
  std::memcpy(header.magic, kMagic, sizeof kMagic);
  header.version = kVersion;
  header.width = static_cast<std::uint32_t>(table.config().width);
  header.words = static_cast<std::uint32_t>(table.row_words());
  header.optimizer = static_cast<std::uint32_t>(table.config().optimizer.kind);
  header.seed = table.config().seed;
  header.init_scale = table.config().init_scale;
  header.step = static_cast<std::uint64_t>(table.step());
  return header;
}

Status check_header(const Header& header, const SparseTable& table) {
  if (std::memcmp(header.magic, kMagic, sizeof kMagic) != 0) return corrupt("begins otherwise");
  if (header.version != kVersion) {
    return Error(Code::kVersionMismatch,
                 fmt::format("the snapshot of a sparse table has version {}; version {} is known",
                             header.version, kVersion));
  }
  const Header expected = header_of(table);
  const auto other = [](const char* what, const auto& has, const auto& wanted) -> Status {
    if (has == wanted) return {};
    return Error(Code::kInvalidArgument,
                 fmt::format("the snapshot of a sparse table has {} {}, but the table {}", what,
                             has, wanted));
  };
  TANDEM_TRY(other("width", header.width, expected.width));
  TANDEM_TRY(other("an optimizer of kind", header.optimizer, expected.optimizer));
  TANDEM_TRY(other("rows with state of so many words:", header.words, expected.words));
  TANDEM_TRY(other("seed", header.seed, expected.seed));
  TANDEM_TRY(other("init_scale", header.init_scale, expected.init_scale));
  if (header.step < 1 || header.step > static_cast<std::uint64_t>(kMostStep)) {
    return corrupt(fmt::format("is of step {}", header.step));
  }
  return {};
}

}  // namespace

Status SparseTable::save(const Sink& sink) const {
  const auto young = [this](const Row& row) { return !is_old(row); };
  const std::vector<std::uint64_t> rows = sorted_keys(rows_, young);
  const std::vector<std::uint64_t> candidates = sorted_keys(candidates_, young);
  Header header = header_of(*this);
  header.rows = rows.size();
  header.candidates = candidates.size();
  Writer writer(sink);
  TANDEM_TRY(writer.add(&header, sizeof header));
  TANDEM_TRY(write_rows(rows_, rows, rule_.words(), writer));
  TANDEM_TRY(write_rows(candidates_, candidates, 1, writer));
  return writer.finish();
}

Status SparseTable::restore_row(std::uint64_t key, std::span<const std::byte> rest) {
  TANDEM_ASSIGN(const Row row, rows_.insert(key, RowMap::hash(key)));
  std::memcpy(&row.touched(), rest.data(), sizeof row.touched());
  std::memcpy(row.words(), rest.data() + sizeof row.touched(), rule_.words() * sizeof(float));
  if (row.touched() >= 1 && static_cast<std::int64_t>(row.touched()) <= step_) return {};
  return corrupt(fmt::format("has key {} touched in step {}", key, row.touched()));
}

Status SparseTable::restore_candidate(std::uint64_t key, std::span<const std::byte> rest) {
  const std::uint64_t hash = RowMap::hash(key);
  if (rows_.find(key, hash)) return corrupt(fmt::format("has key {} twice", key));
  if (config_.admit_after == 0) return {};  // Nobody waits any more.
  TANDEM_ASSIGN(const Row candidate, candidates_.insert(key, hash));
  std::memcpy(&candidate.touched(), rest.data(), sizeof candidate.touched());
  std::memcpy(candidate.words(), rest.data() + sizeof candidate.touched(), sizeof(float));
  if (candidate.touched() >= 1 && static_cast<std::int64_t>(candidate.touched()) <= step_)
    return {};
  return corrupt(fmt::format("has key {} touched in step {}", key, candidate.touched()));
}

Result<SparseTable> SparseTable::restore(const SparseTableConfig& config, const Source& source) {
  TANDEM_ASSIGN(SparseTable table, create(config));
  Reader reader(source);
  Header header{};
  TANDEM_TRY(reader.read(header));
  TANDEM_TRY(check_header(header, table));
  TANDEM_TRY(table.begin_step(static_cast<std::int64_t>(header.step), config.optimizer.lr));
  const std::size_t head = Row::kHeadBytes;
  TANDEM_TRY(reader.read_records(
      header.rows, head + table.row_words() * sizeof(float),
      [&](std::uint64_t key, auto rest) { return table.restore_row(key, rest); }));
  TANDEM_TRY(reader.read_records(
      header.candidates, head + sizeof(std::uint32_t),
      [&](std::uint64_t key, auto rest) { return table.restore_candidate(key, rest); }));
  TANDEM_TRY(reader.check_hash());
  return table;
}

}  // namespace tandem::ps
