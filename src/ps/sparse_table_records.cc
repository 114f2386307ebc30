// What leaves a sparse table and comes back: records of rows and candidates, and the way back to
// the last mark. Layout of records, little-endian, as in snapshots (sparse_table_snapshot.cc):
//
//   offset  size       field
//   0       8          key
//   8       4          step of its last touch
//   12      4 * words  a row: weights, then the optimizer's state
//   12      4          a candidate: how often it was touched
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/check.h"
#include "base/hash.h"
#include "ps/candidates.h"
#include "ps/sparse_table.h"

namespace tandem::ps {
namespace {

using Before = TableMark::Before;

Error refused(std::string message) {
  return Error(Code::kInvalidArgument, std::move(message));
}

}  // namespace

std::vector<std::uint64_t> SparseTable::keys(Records what) const {
  const RowMap& map = what == Records::kRows ? rows_ : candidates_;
  std::vector<std::uint64_t> keys;
  keys.reserve(map.size());
  map.for_each([&](const Row& row) {
    if (!is_old(row)) keys.push_back(row.key());
  });
  return keys;
}

std::size_t SparseTable::record_bytes(Records what) const {
  return Row::kHeadBytes + sizeof(float) * (what == Records::kRows ? rule_.words() : 1);
}

void SparseTable::append(Records what, std::span<const std::uint64_t> keys, std::string& to) const {
  const RowMap& map = what == Records::kRows ? rows_ : candidates_;
  const std::size_t bytes = record_bytes(what);
  map.find_each(keys, [&](std::size_t i, std::uint64_t, const Row& row) {
    TANDEM_CHECK(row);
    char head[Row::kHeadBytes];
    std::memcpy(head, &keys[i], sizeof keys[i]);
    std::memcpy(head + sizeof keys[i], &row.touched(), sizeof row.touched());
    to.append(head, sizeof head);
    to.append(reinterpret_cast<const char*>(row.words()), bytes - sizeof head);
    return true;
  });
}

SparseTable::Digest SparseTable::digest(Records what) const {
  const RowMap& map = what == Records::kRows ? rows_ : candidates_;
  std::vector<std::byte> record(record_bytes(what));
  Digest digest;
  map.for_each([&](const Row& row) {
    if (is_old(row)) return;
    const std::uint64_t key = row.key();
    std::memcpy(record.data(), &key, sizeof key);
    std::memcpy(record.data() + sizeof key, &row.touched(), sizeof row.touched());
    std::memcpy(record.data() + Row::kHeadBytes, row.words(), record.size() - Row::kHeadBytes);
    ++digest.records;
    digest.sum += hash64(record);
  });
  return digest;
}

Status SparseTable::insert(Records what, std::span<const std::byte> records) {
  const std::size_t bytes = record_bytes(what);
  if (records.size() % bytes != 0)
    return refused(fmt::format("{} bytes are no records of {}", records.size(), bytes));
  for (; !records.empty(); records = records.subspan(bytes)) {
    std::uint64_t key;
    std::uint32_t touched;
    std::memcpy(&key, records.data(), sizeof key);
    std::memcpy(&touched, records.data() + sizeof key, sizeof touched);
    const std::uint64_t hash = RowMap::hash(key);
    if (rows_.find(key, hash) || candidates_.find(key, hash))
      return refused(fmt::format("key {} is there twice", key));
    if (touched < 1 || static_cast<std::int64_t>(touched) > step_)
      return refused(fmt::format("key {} was touched in step {}", key, touched));
    const auto rest = records.subspan(sizeof key, bytes - sizeof key);
    if (what == Records::kCandidates) {
      TANDEM_TRY(restore_candidate(key, rest));
      continue;
    }
    TANDEM_TRY(restore_row(key, rest));
    const Row row = rows_.find(key, hash);
    const std::span<const float> words(row.words(), rule_.words());
    const auto bad =
        std::find_if(words.begin(), words.end(), [](float word) { return !std::isfinite(word); });
    if (bad != words.end()) return refused(fmt::format("the row of key {} has {}", key, *bad));
  }
  return {};
}

void SparseTable::mark() {
  if (!marked_) marked_.emplace();
  marked_->step = step_;
  marked_->evicted = evicted_;
  marked_->before.clear();
  marked_->words.clear();
}

void SparseTable::note(std::uint64_t key, std::uint64_t hash, const Row& row) {
  Before before{.key = key};
  if (row) {
    before.what = Before::kRow;
    before.touched = row.touched();
    marked_->words.insert(marked_->words.end(), row.words(), row.words() + rule_.words());
  } else if (config_.admit_after > 0) {
    if (const Row candidate = candidates_.find(key, hash)) {
      before.what = Before::kCandidate;
      before.touched = candidate.touched();
      before.touches = touches_of(candidate);
    }
  }
  marked_->before.push_back(before);
}

// The last first: a key may have been pushed to several times.
Status SparseTable::take_back() {
  TANDEM_CHECK(marked_);
  const TableMark mark = std::move(*marked_);
  marked_.reset();
  std::span<const float> words = mark.words;
  for (auto before = mark.before.rbegin(); before != mark.before.rend(); ++before) {
    const std::size_t own = before->what == Before::kRow ? rule_.words() : 0;
    TANDEM_TRY(restore(*before, words.last(own)));
    words = words.first(words.size() - own);
  }
  step_ = mark.step;
  evicted_ = mark.evicted;
  return {};
}

Status SparseTable::restore(const Before& before, std::span<const float> words) {
  const std::uint64_t hash = RowMap::hash(before.key);
  Row row = rows_.find(before.key, hash);
  Row candidate = candidates_.find(before.key, hash);
  if (row && before.what != Before::kRow) rows_.erase(before.key, hash);
  if (candidate && before.what != Before::kCandidate) candidates_.erase(before.key, hash);
  if (before.what == Before::kRow) {
    if (!row) {
      TANDEM_ASSIGN(row, rows_.insert(before.key, hash));
    }
    row.touched() = before.touched;
    std::copy(words.begin(), words.end(), row.words());
  } else if (before.what == Before::kCandidate) {
    if (!candidate) {
      TANDEM_ASSIGN(candidate, candidates_.insert(before.key, hash));
    }
    candidate.touched() = before.touched;
    set_touches(candidate, before.touches);
  }
  return {};
}

}  // namespace tandem::ps
