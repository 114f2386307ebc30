// A map from 64-bit keys to rows of a fixed number of 4-byte words, made to be large: open
// addressing with the rows in the table itself, up to 93 % full (70 % when they are narrow), and
// growth without two tables.
//
// The keys' hashes share them out to 64 parts that grow by themselves, each by a ninth at a time
// into blocks of a common pool (ps/block_pool.h); so while it grows the map holds one part, 1/64
// of the rows, twice. A part is an array of buckets:
//
//   offset  size       what
//   0       15         tags: a byte of the hash for each slot; 0: the slot is empty
//   15      1          how many rows passed this bucket by because it was full; 255: many
//   16      15 * slot  slots: key (8), touched (4), words (4 each)
//
// A row is in the first bucket of its key's sequence that had room. A search compares tags, then
// keys, and ends at a bucket that nobody passed by. Searching and erasing take constant time,
// inserting does on average; in the worst case it moves one part.
//
// Owns its rows. Belongs to one thread at a time; searches may run side by side.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "base/result.h"
#include "base/rng.h"
#include "ps/block_pool.h"
#include "ps/tags.h"

namespace tandem::ps {

// A row in a map; valid until the map's generation() changes. Converts to false when there is none.
class Row {
 public:
  Row() = default;
  explicit Row(std::byte* slot) : slot_(slot) {}
  explicit operator bool() const { return slot_ != nullptr; }

  std::uint64_t key() const {
    std::uint64_t key;  // Rows need not lie at multiples of 8.
    std::memcpy(&key, slot_, sizeof key);
    return key;
  }
  // Of the caller, who may write it.
  std::uint32_t& touched() const { return *reinterpret_cast<std::uint32_t*>(slot_ + 8); }
  float* words() const { return reinterpret_cast<float*>(slot_ + kHeadBytes); }

  static constexpr std::size_t kHeadBytes = 12;

 private:
  friend class RowMap;
  std::byte* slot_ = nullptr;
};

class RowMap {
 public:
  static std::uint64_t hash(std::uint64_t key) { return mix64(key); }

  explicit RowMap(std::size_t words);

  // None when the key has no row. REQUIRES, here and below: hash == RowMap::hash(key).
  Row find(std::uint64_t key, std::uint64_t hash) const;

  // A new row, its words and touched() unspecified. kOutOfSpace, changing nothing, when the memory
  // is full. REQUIRES: the key has none.
  Result<Row> insert(std::uint64_t key, std::uint64_t hash);

  // REQUIRES: the key has a row.
  void erase(std::uint64_t key, std::uint64_t hash);

  // Finds the rows of many keys with their cache misses overlapping, and calls use(index, hash,
  // row) for each in order; false from it ends the loop. `use` may change the map.
  template <typename Use>
  void find_each(std::span<const std::uint64_t> keys, Use&& use) const;

  // Calls visit(Row) for all rows in an order of the map's own.
  template <typename Visit>
  void for_each(Visit&& visit) const;

  // Looks at the rows of about `most_slots` slots, from where the last call ended, and erases those
  // for which expired(Row) is true. Returns how many. Rows that move meanwhile may be seen twice or
  // not, until the next round.
  template <typename Expired>
  std::size_t sweep(std::size_t most_slots, Expired&& expired);

  std::size_t size() const { return size_; }
  // Slots, used and empty.
  std::size_t capacity() const;
  // All memory that the map holds.
  std::size_t bytes() const;
  // Grows whenever a Row may have become invalid.
  std::uint64_t generation() const { return generation_; }

 private:
  static constexpr std::size_t kParts = 64;
  static constexpr std::size_t kSlots = 15;  // Of a bucket.
  static constexpr std::size_t kTagBytes = 16;
  // What is asked for goes into the second cache: a loop of random prefetches alone was faster so;
  // in find_each() the difference was within the noise.
  static constexpr int kInto = 2;
  // Keys between asking for memory and using it: as many as the processor has misses in flight.
  static constexpr std::size_t kAhead = 32;

  struct Part {
    std::vector<std::byte*> blocks;
    std::uint64_t buckets = 0;
    std::size_t size = 0;
  };

  // The upper part of the hash names the part, the middle the first bucket, the lowest byte the
  // tag.
  static std::uint64_t first_bucket(const Part& part, std::uint64_t hash) {
    return ((hash >> 24 & 0xffffffffU) * part.buckets) >> 32;
  }
  // Number `probe` of the key's sequence of buckets.
  static std::uint64_t nth_bucket(const Part& part, std::uint64_t hash, std::uint64_t probe) {
    return probe == 0 ? first_bucket(part, hash)
                      : ((mix64(hash + probe) >> 32) * part.buckets) >> 32;
  }
  static std::uint8_t tag_of(std::uint64_t hash) {
    const auto tag = static_cast<std::uint8_t>(hash);
    return tag == 0 ? 1 : tag;
  }

  std::byte* bucket(const Part& part, std::uint64_t index) const {
    return part.blocks[index >> block_shift_] + (index & block_mask_) * bucket_bytes_;
  }
  Row slot(std::byte* bucket, std::size_t index) const {
    return Row(bucket + kTagBytes + index * slot_bytes_);
  }

  // The key's first bucket, for which the processor is asked; null when there is none yet. Always
  // inline, for gcc drops calls of functions that do nothing but ask.
  [[gnu::always_inline]] std::byte* ask_for_bucket(std::uint64_t hash) const {
    const Part& part = parts_[hash >> 58];
    if (part.buckets == 0) return nullptr;
    std::byte* const first = bucket(part, first_bucket(part, hash));
    __builtin_prefetch(first, 0, kInto);
    return first;
  }
  // A key on its way through find_each().
  struct Sought {
    std::uint64_t hash = 0;
    std::uint64_t probe = 0;
    std::byte* bucket = nullptr;  // Number `probe` of its sequence, which the processor brings.
    Row row;                      // Likely the key's; the processor brings it.
  };
  [[gnu::always_inline]] void ask_for_row(const Row& row) const {
    __builtin_prefetch(row.slot_, 0, kInto);
    if (ask_bytes_ <= 16) return;  // Such rows do not cross lines.
    for (std::size_t at = 64; at < ask_bytes_; at += 64)
      __builtin_prefetch(row.slot_ + at, 0, kInto);
    __builtin_prefetch(row.slot_ + ask_bytes_ - 1, 0, kInto);
  }
  // Looks into the bucket, which has come by now: asks for the row, or else for the next bucket.
  [[gnu::always_inline]] void look(Sought& sought) const {
    if (sought.row || sought.bucket == nullptr) return;
    Matches matches(sought.bucket, tag_of(sought.hash));
    if (matches.any()) {
      sought.row = slot(sought.bucket, matches.first());
      for (; matches.any(); matches.drop_first()) ask_for_row(slot(sought.bucket, matches.first()));
    } else if (passed_by(sought.bucket) != 0) {
      const Part& part = parts_[sought.hash >> 58];
      sought.bucket = bucket(part, nth_bucket(part, sought.hash, ++sought.probe));
      __builtin_prefetch(sought.bucket, 0, kInto);
    }
  }

  // The place of a row in the sequence of its key.
  struct Place {
    std::uint64_t probe = 0;
    std::byte* bucket = nullptr;  // Null: nowhere.
    std::size_t slot = 0;
  };
  Place search(const Part& part, std::uint64_t key, std::uint64_t hash) const;
  // None when no bucket of the sequence has room.
  Row place(Part& part, std::uint64_t hash) const;
  Status grow(Part& part);
  bool allocate(std::size_t blocks, Part& into);
  bool move_rows(const Part& from, Part& to) const;
  void release(Part& part);

  // Constant after construction.
  std::size_t slot_bytes_;
  std::size_t ask_bytes_;  // Of a row; what is read on in order, the processor fetches by itself.
  std::size_t most_load_percent_;
  std::size_t bucket_bytes_;
  unsigned block_shift_;  // Of the number of buckets in a block.
  std::uint64_t block_mask_;

  BlockPool pool_;
  std::array<Part, kParts> parts_;
  std::size_t size_ = 0;
  std::uint64_t generation_ = 0;
  // Where the next sweep begins.
  std::size_t sweep_part_ = 0;
  std::uint64_t sweep_bucket_ = 0;
};

template <typename Use>
void RowMap::find_each(std::span<const std::uint64_t> keys, Use&& use) const {
  // A ring of the keys under way. The first bucket of each is asked for at once; kAhead keys later
  // it is looked into, and again kAhead keys later for the few whose row is in their second bucket;
  // 2 * kAhead keys later it is used.
  std::array<Sought, 4 * kAhead> ring;
  const std::size_t count = keys.size();
  std::uint64_t generation = generation_;
  for (std::size_t i = 0; i < count + ring.size(); ++i) {
    Sought& newest = ring[i % ring.size()];
    if (i >= ring.size()) {
      const std::size_t oldest = i - ring.size();
      Row row = newest.row;
      if (!row || row.key() != keys[oldest]) row = find(keys[oldest], newest.hash);
      if (!use(oldest, newest.hash, row)) return;
      if (generation_ != generation) {  // What was asked for has moved.
        for (Sought& sought : ring) sought.bucket = nullptr, sought.row = Row();
        generation = generation_;
      }
    }
    if (i < count) {
      const std::uint64_t hashed = hash(keys[i]);
      newest = {hashed, 0, ask_for_bucket(hashed), Row()};
    }
    if (i >= kAhead && i < count + kAhead) look(ring[(i - kAhead) % ring.size()]);
    if (i >= 2 * kAhead && i < count + 2 * kAhead) look(ring[(i - 2 * kAhead) % ring.size()]);
  }
}

template <typename Visit>
void RowMap::for_each(Visit&& visit) const {
  for (const Part& part : parts_) {
    for (std::uint64_t b = 0; b < part.buckets; ++b) {
      std::byte* const at = bucket(part, b);
      for (std::size_t i = 0; i < kSlots; ++i) {
        if (at[i] != std::byte{0}) visit(slot(at, i));
      }
    }
  }
}

template <typename Expired>
std::size_t RowMap::sweep(std::size_t most_slots, Expired&& expired) {
  std::size_t erased = 0;
  const std::size_t budget = most_slots < capacity() ? most_slots : capacity();
  for (std::size_t seen = 0; seen < budget;) {
    const Part& part = parts_[sweep_part_];
    if (sweep_bucket_ >= part.buckets) {
      sweep_part_ = (sweep_part_ + 1) % kParts;
      sweep_bucket_ = 0;
      continue;
    }
    std::byte* const at = bucket(part, sweep_bucket_++);
    for (std::size_t i = 0; i < kSlots; ++i) {
      if (at[i] == std::byte{0} || !expired(slot(at, i))) continue;
      const std::uint64_t key = slot(at, i).key();
      erase(key, hash(key));
      ++erased;
    }
    seen += kSlots;
  }
  return erased;
}

}  // namespace tandem::ps
