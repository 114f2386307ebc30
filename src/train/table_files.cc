#include "train/table_files.h"

#include <array>
#include <cstring>
#include <utility>

#include "train/table_names.h"

namespace tandem::train {
namespace {

std::span<const std::byte> bytes_of(const std::int64_t& number) {
  return std::as_bytes(std::span(&number, 1));
}

std::span<const std::int64_t> integers_of(const NamelessFile& file) {
  return {reinterpret_cast<const std::int64_t*>(file.bytes().data()),
          file.bytes().size() / sizeof(std::int64_t)};
}

std::span<const float> floats_of(const NamelessFile& file) {
  return {reinterpret_cast<const float*>(file.bytes().data()), file.bytes().size() / sizeof(float)};
}

}  // namespace

std::vector<std::string> state_names(optim::Optimizer& optimizer) {
  std::vector<std::string> names;
  for (const optim::StateTensor& tensor : optimizer.state()) names.emplace_back(tensor.name);
  return names;
}

Result<std::unique_ptr<TableFiles>> TableFiles::create(const std::filesystem::path& directory,
                                                       const arch::Blueprint& blueprint,
                                                       std::vector<std::string> state_names) {
  auto files = std::unique_ptr<TableFiles>(new TableFiles(std::move(state_names)));
  const auto make = [&] { return NamelessFile::create(directory); };
  for (const arch::Table& table : blueprint.tables) {
    TANDEM_ASSIGN(NamelessFile keys, make());
    TANDEM_ASSIGN(NamelessFile touched, make());
    TANDEM_ASSIGN(NamelessFile weights, make());
    TANDEM_ASSIGN(NamelessFile candidates, make());
    std::vector<NamelessFile> state;
    for (std::size_t i = 0; i < files->state_names_.size(); ++i) {
      TANDEM_ASSIGN(NamelessFile array, make());
      state.push_back(std::move(array));
    }
    files->tables_.push_back({blueprint.slots[static_cast<std::size_t>(table.slot)].name,
                              static_cast<std::size_t>(table.width), std::move(keys),
                              std::move(touched), std::move(weights), std::move(candidates),
                              std::move(state)});
  }
  return files;
}

Status TableFiles::add(const exchange::TableRecords& records) {
  Table& table = tables_[records.table];
  const std::size_t array_bytes = table.width * sizeof(float);
  for (std::size_t at = 0; at < records.bytes.size(); at += records.record_bytes) {
    const std::span<const std::byte> record = records.bytes.subspan(at, records.record_bytes);
    std::int64_t key;
    std::uint32_t touched;
    std::memcpy(&key, record.data(), sizeof key);
    std::memcpy(&touched, record.data() + sizeof key, sizeof touched);
    if (records.what == exchange::Records::kCandidates) {
      std::uint32_t touches;
      std::memcpy(&touches, record.data() + kHeadBytes, sizeof touches);
      const std::array<std::int64_t, kCandidateNumbers> numbers = {key, touched, touches};
      TANDEM_TRY(table.candidates.append(std::as_bytes(std::span(numbers))));
      continue;
    }
    TANDEM_TRY(table.keys.append(bytes_of(key)));
    TANDEM_TRY(table.touched.append(bytes_of(touched)));
    TANDEM_TRY(table.weights.append(record.subspan(kHeadBytes, array_bytes)));
    for (std::size_t i = 0; i < table.state.size(); ++i) {
      TANDEM_TRY(
          table.state[i].append(record.subspan(kHeadBytes + (1 + i) * array_bytes, array_bytes)));
    }
  }
  return {};
}

Status TableFiles::finish() {
  for (Table& table : tables_) {
    for (NamelessFile* const file :
         {&table.keys, &table.touched, &table.weights, &table.candidates})
      TANDEM_TRY(file->finish());
    for (NamelessFile& file : table.state) TANDEM_TRY(file.finish());
  }
  return {};
}

std::vector<checkpoint::TensorView> TableFiles::keys() const {
  std::vector<checkpoint::TensorView> views;
  for (const Table& table : tables_) {
    const std::span<const std::int64_t> keys = integers_of(table.keys);
    views.push_back(
        {table.name + std::string(checkpoint::kKeysSuffix), {std::ssize(keys)}, {}, keys});
  }
  return views;
}

checkpoint::TensorView TableFiles::rows(std::size_t table) const {
  const Table& of = tables_[table];
  return {of.name + std::string(checkpoint::kRowsSuffix),
          {std::ssize(integers_of(of.keys)), static_cast<std::int64_t>(of.width)},
          floats_of(of.weights)};
}

std::vector<checkpoint::TensorView> TableFiles::training() const {
  std::vector<checkpoint::TensorView> views;
  for (const Table& table : tables_) {
    const std::int64_t rows = std::ssize(integers_of(table.keys));
    views.push_back({touched_name(table.name), {rows}, {}, integers_of(table.touched)});
    const std::span<const std::int64_t> candidates = integers_of(table.candidates);
    views.push_back({candidates_name(table.name),
                     {std::ssize(candidates) / std::int64_t{kCandidateNumbers}, kCandidateNumbers},
                     {},
                     candidates});
  }
  for (const Table& table : tables_) {
    for (std::size_t i = 0; i < table.state.size(); ++i) {
      views.push_back(
          {state_name(table.name, state_names_[i]),
           {std::ssize(integers_of(table.keys)), static_cast<std::int64_t>(table.width)},
           floats_of(table.state[i])});
    }
  }
  return views;
}

}  // namespace tandem::train
