#include "ps/row_map.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"

namespace tandem::ps {
namespace {

// A part that is fuller grows. Rows of 16 floats then take at most 1.46 times their floats. Of
// narrow rows the keys are the larger part anyway; they have more room, so that nearly all are in
// their first bucket: going from 93 % to 80 % made pulls of single floats a sixth to a fifth
// faster. In small buckets 1 % are not in their first at 50 %, and 3 % at 65 %: pulls took 8.8 and
// 10.3 ns a key.
constexpr std::size_t kMostLoadPercent = 93;
constexpr std::size_t kMostLoadPercentNarrow = 70;
constexpr std::size_t kMostLoadPercentSmall = 50;
// Rows up to these sizes are narrow, and lie in small buckets.
constexpr std::size_t kNarrowBytes = 32;
constexpr std::size_t kSmallRowBytes = 20;
// Of a bucket, and of a small one.
constexpr std::size_t kBucketHeadBytes = 16;
constexpr std::size_t kSmallHeadBytes = 8;
constexpr std::size_t kGrowthDivisor = 9;
// Blocks are at most this large, unless one bucket is larger.
constexpr std::size_t kBlockBytes = 32 << 10;
// A sequence without room in so many buckets is not followed further; its part grows.
constexpr std::uint64_t kMostProbes = 128;
constexpr std::uint8_t kMany = 255;
constexpr std::size_t kMostAskBytes = 512;

std::size_t rounded_up(std::size_t bytes) {
  return (bytes + 15) / 16 * 16;
}

unsigned shift_for(std::size_t bucket_bytes) {
  unsigned shift = 0;
  while (bucket_bytes << (shift + 1) <= kBlockBytes) ++shift;
  return shift;
}

std::size_t most_load_percent(std::size_t slot_bytes) {
  if (slot_bytes <= kSmallRowBytes) return kMostLoadPercentSmall;
  return slot_bytes <= kNarrowBytes ? kMostLoadPercentNarrow : kMostLoadPercent;
}

}  // namespace

RowMap::RowMap(std::size_t words)
    : slot_bytes_(Row::kHeadBytes + words * sizeof(float)),
      in_small_buckets_(slot_bytes_ <= kSmallRowBytes),
      head_bytes_(in_small_buckets_ ? kSmallHeadBytes : kBucketHeadBytes),
      slots_(in_small_buckets_ ? (kSmallBucketBytes - kSmallHeadBytes) / slot_bytes_
                               : kBucketHeadBytes - 1),
      slot_mask_((std::uint32_t{1} << slots_) - 1),
      ask_bytes_(slot_bytes_ < kMostAskBytes ? slot_bytes_ : kMostAskBytes),
      most_load_percent_(most_load_percent(slot_bytes_)),
      bucket_bytes_(in_small_buckets_ ? kSmallBucketBytes
                                      : rounded_up(head_bytes_ + slots_ * slot_bytes_)),
      block_shift_(shift_for(bucket_bytes_)),
      block_mask_((std::uint64_t{1} << block_shift_) - 1),
      pool_(bucket_bytes_ << block_shift_) {
  TANDEM_CHECK(words > 0 && slots_ < head_bytes_);
}

RowMap::Place RowMap::search(const Part& part, std::uint64_t key, std::uint64_t hash) const {
  if (part.buckets == 0) return {};
  for (std::uint64_t probe = 0; probe < kMostProbes; ++probe) {
    std::byte* const at = bucket(part, nth_bucket(part, hash, probe));
    for (Matches found = matches(at, tag_of(hash)); found.any(); found.drop_first()) {
      const std::size_t index = found.first();
      if (slot(at, index).key() == key) {
        return {probe, at, index};
      }
    }
    if (passed_by(at) == 0) break;
  }
  return {};
}

Row RowMap::find(std::uint64_t key, std::uint64_t hash) const {
  const Place place = search(parts_[hash >> 58], key, hash);
  return place.bucket == nullptr ? Row() : slot(place.bucket, place.slot);
}

Row RowMap::place(Part& part, std::uint64_t hash) const {
  if (part.buckets == 0) return {};
  for (std::uint64_t probe = 0; probe < kMostProbes; ++probe) {
    std::byte* const at = bucket(part, nth_bucket(part, hash, probe));
    const Matches empty = matches(at, 0);
    if (!empty.any()) continue;
    for (std::uint64_t before = 0; before < probe; ++before) {
      std::uint8_t& count = passed_by(bucket(part, nth_bucket(part, hash, before)));
      if (count != kMany) ++count;
    }
    at[empty.first()] = std::byte{tag_of(hash)};
    ++part.size;
    return slot(at, empty.first());
  }
  return {};
}

Result<Row> RowMap::insert(std::uint64_t key, std::uint64_t hash) {
  Part& part = parts_[hash >> 58];
  Row row;
  if ((part.size + 1) * 100 <= part.buckets * slots_ * most_load_percent_) row = place(part, hash);
  while (!row) {
    TANDEM_TRY(grow(part));
    row = place(part, hash);
  }
  std::memcpy(row.slot_, &key, sizeof key);
  ++size_;
  return row;
}

void RowMap::erase(std::uint64_t key, std::uint64_t hash) {
  Part& part = parts_[hash >> 58];
  const Place place = search(part, key, hash);
  TANDEM_CHECK(place.bucket != nullptr);
  place.bucket[place.slot] = std::byte{0};
  for (std::uint64_t before = 0; before < place.probe; ++before) {
    std::uint8_t& count = passed_by(bucket(part, nth_bucket(part, hash, before)));
    if (count != kMany) --count;
  }
  --part.size;
  --size_;
  ++generation_;
}

Status RowMap::grow(Part& part) {
  std::size_t blocks = part.blocks.size();
  Part larger;
  do {
    blocks += std::max<std::size_t>(1, blocks / kGrowthDivisor);
    if (!allocate(blocks, larger)) {
      return Error(Code::kOutOfSpace,
                   fmt::format("no memory for more than {} rows of {} bytes", size_, slot_bytes_));
    }
  } while (!move_rows(part, larger));
  release(part);
  part = std::move(larger);
  ++generation_;
  return {};
}

// Makes `into` an empty part of so many blocks. False, releasing it, when the memory is full.
bool RowMap::allocate(std::size_t blocks, Part& into) {
  release(into);
  into.blocks.reserve(blocks);
  while (into.blocks.size() < blocks) {
    std::byte* const block = pool_.take();
    if (block == nullptr) {
      release(into);
      return false;
    }
    into.blocks.push_back(block);
    for (std::uint64_t i = 0; i <= block_mask_; ++i) {
      std::memset(block + i * bucket_bytes_, 0, head_bytes_);
    }
  }
  into.buckets = blocks << block_shift_;
  return true;
}

bool RowMap::move_rows(const Part& from, Part& to) const {
  for (std::uint64_t b = 0; b < from.buckets; ++b) {
    std::byte* const at = bucket(from, b);
    for (std::size_t i = 0; i < slots_; ++i) {
      if (at[i] == std::byte{0}) continue;
      const Row old = slot(at, i);
      const Row row = place(to, hash(old.key()));
      if (!row) return false;
      std::memcpy(row.slot_, old.slot_, slot_bytes_);
    }
  }
  return true;
}

void RowMap::release(Part& part) {
  for (std::byte* const block : part.blocks) pool_.give_back(block);
  part = Part();
}

std::size_t RowMap::capacity() const {
  std::size_t slots = 0;
  for (const Part& part : parts_) slots += part.buckets * slots_;
  return slots;
}

std::size_t RowMap::bytes() const {
  std::size_t bytes = sizeof *this + pool_.bytes();
  for (const Part& part : parts_) bytes += part.blocks.capacity() * sizeof(part.blocks[0]);
  return bytes;
}

}  // namespace tandem::ps
