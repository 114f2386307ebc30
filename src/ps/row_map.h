// A map from 64-bit keys to rows of a fixed number of 4-byte words, made to be large: open
// addressing with the rows in the table itself, up to 93 % full (50 to 70 % when they are narrow),
// and growth without two tables.
//
// The keys' hashes share them out to 64 parts that grow by themselves, each by a ninth at a time
// into blocks of a common pool (ps/block_pool.h); so while it grows the map holds one part, 1/64
// of the rows, twice. A part is an array of buckets:
//
//   offset  size      what
//   0       h - 1     tags: a byte of the hash for each slot; 0: the slot is empty, or not there
//   h - 1   1         how many rows passed this bucket by because it was full; 255: many
//   h       n * slot  slots: key (8), touched (4), words (4 each)
//
// The head has h = 16 bytes, for n = 15 slots. Rows of one or two words lie in small buckets, of
// two cache lines with h = 8 and n = 7 or 6: both are asked for at once, so that a search waits
// once for memory, and not for tags, then for the row.
//
// A row is in the first bucket of its key's sequence that had room. A search compares tags, then
// keys, and ends at a bucket that nobody passed by. Searching and erasing take constant time,
// inserting does on average; in the worst case it moves one part.
//
// Owns its rows. Belongs to one thread at a time; searches may run side by side.
#pragma once

#include <algorithm>
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
  static constexpr std::size_t kSmallBucketBytes = 128;
  // What is asked for goes into the first cache; asking for the second made no difference.
  static constexpr int kInto = 3;
  // Keys that are asked for before others are looked at: as many as the processor has misses in
  // flight.
  static constexpr std::size_t kGroup = 32;

  // Of parts that have none.
  alignas(kSmallBucketBytes) static constexpr std::array<std::byte, kSmallBucketBytes> kNoBucket{};

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
    return Row(bucket + head_bytes_ + index * slot_bytes_);
  }
  Matches matches(const std::byte* bucket, std::uint8_t tag) const {
    return Matches(bucket, tag, slot_mask_);
  }
  std::uint8_t& passed_by(std::byte* bucket) const {
    return *reinterpret_cast<std::uint8_t*>(bucket + head_bytes_ - 1);
  }
  std::uint8_t passed_by(const std::byte* bucket) const {
    return std::to_integer<std::uint8_t>(bucket[head_bytes_ - 1]);
  }

  [[gnu::always_inline]] void ask_for(const std::byte* bucket) const {
    __builtin_prefetch(bucket, 0, kInto);
    if (in_small_buckets_) __builtin_prefetch(bucket + 64, 0, kInto);
  }
  // The key's first bucket, for which the processor is asked. Always inline, for gcc drops calls of
  // functions that do nothing but ask.
  [[gnu::always_inline]] const std::byte* ask_for_bucket(std::uint64_t hash) const {
    const Part& part = parts_[hash >> 58];
    if (part.buckets == 0) return kNoBucket.data();
    const std::byte* const first = bucket(part, first_bucket(part, hash));
    ask_for(first);
    return first;
  }
  [[gnu::always_inline]] void ask_for_row(const Row& row) const {
    __builtin_prefetch(row.slot_, 0, kInto);
    for (std::size_t at = 64; at < ask_bytes_; at += 64)
      __builtin_prefetch(row.slot_ + at, 0, kInto);
    __builtin_prefetch(row.slot_ + ask_bytes_ - 1, 0, kInto);
  }
  // Keys on their way through find_each().
  struct Group {
    std::array<std::uint64_t, kGroup> hash;
    std::array<const std::byte*, kGroup> bucket;  // In which to look next; the processor brings it.
    std::array<Row, kGroup> row;                  // Likely the key's; the processor brings it.
    std::array<std::uint32_t, kGroup> missing;    // Those whose first bucket had no such row,
    std::size_t missing_count = 0;                // so many.
    std::size_t count = 0;
  };
  // Looks into the bucket of key `i`, which has come by now, and asks for the row. Without a branch
  // on whether there is one: that would be guessed wrong too often.
  [[gnu::always_inline]] bool look(Group& group, std::size_t i) const {
    Matches found = matches(group.bucket[i], tag_of(group.hash[i]));
    const bool any = found.any();
    const Row row = slot(const_cast<std::byte*>(group.bucket[i]), any ? found.first() : 0);
    group.row[i] = any ? row : Row();
    if (in_small_buckets_) return any;
    for (; found.any(); found.drop_first())
      ask_for_row(slot(const_cast<std::byte*>(group.bucket[i]), found.first()));
    return any;
  }
  void look_first(Group& group) const {
    std::size_t missing = 0;
    for (std::size_t i = 0; i < group.count; ++i) {
      group.missing[missing] = static_cast<std::uint32_t>(i);
      missing += look(group, i) ? 0 : 1;
    }
    group.missing_count = missing;
    for (std::size_t m = 0; m < missing; ++m) {
      const std::uint32_t i = group.missing[m];
      const Part& part = parts_[group.hash[i] >> 58];
      if (passed_by(group.bucket[i]) == 0) continue;
      group.bucket[i] = bucket(part, nth_bucket(part, group.hash[i], 1));
      ask_for(group.bucket[i]);
    }
  }
  void look_again(Group& group) const {
    for (std::size_t m = 0; m < group.missing_count; ++m) look(group, group.missing[m]);
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
  bool in_small_buckets_;
  std::size_t head_bytes_;   // Of a bucket,
  std::size_t slots_;        // which has so many.
  std::uint32_t slot_mask_;  // A bit for each.
  std::size_t ask_bytes_;    // Of a row; what is read on in order, the processor fetches by itself.
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
  // A ring of groups of keys under way. The first buckets of a group are asked for at once; a group
  // later they are looked into, and again a group later the second buckets of the few keys that
  // were not there; then they are used, each while another key's bucket is asked for.
  constexpr std::size_t kUnderWay = 4;
  std::array<Group, kUnderWay> ring;
  const std::size_t groups = (keys.size() + kGroup - 1) / kGroup;
  std::uint64_t generation = generation_;
  for (std::size_t turn = 0; turn < groups + kUnderWay - 1; ++turn) {
    const std::size_t first = turn * kGroup;
    Group& newest = ring[turn % kUnderWay];
    newest.count = first >= keys.size() ? 0 : std::min(kGroup, keys.size() - first);
    Group& oldest = ring[(turn + 1) % kUnderWay];
    for (std::size_t i = 0; i < newest.count; ++i) {
      newest.hash[i] = hash(keys[first + i]);
      newest.bucket[i] = ask_for_bucket(newest.hash[i]);
    }
    for (std::size_t i = 0; i < oldest.count; ++i) {
      const std::size_t index = first - (kUnderWay - 1) * kGroup + i;
      Row row = oldest.row[i];
      if (!row || row.key() != keys[index]) row = find(keys[index], oldest.hash[i]);
      if (!use(index, oldest.hash[i], row)) return;
      if (generation_ == generation) continue;
      for (Group& group : ring) {  // What was asked for has moved.
        group.bucket.fill(kNoBucket.data());
        group.row.fill(Row());
      }
      generation = generation_;
    }
    look_again(ring[(turn + 2) % kUnderWay]);
    look_first(ring[(turn + 3) % kUnderWay]);
  }
}

template <typename Visit>
void RowMap::for_each(Visit&& visit) const {
  for (const Part& part : parts_) {
    for (std::uint64_t b = 0; b < part.buckets; ++b) {
      std::byte* const at = bucket(part, b);
      for (std::size_t i = 0; i < slots_; ++i) {
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
    for (std::size_t i = 0; i < slots_; ++i) {
      if (at[i] == std::byte{0} || !expired(slot(at, i))) continue;
      const std::uint64_t key = slot(at, i).key();
      erase(key, hash(key));
      ++erased;
    }
    seen += slots_;
  }
  return erased;
}

}  // namespace tandem::ps
