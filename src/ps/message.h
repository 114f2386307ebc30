// What workers and parameter servers say to each other once both have proved that they know the
// secret (net/greeter.h). Every message is a header of 64 bytes, little-endian, and a payload:
//
//   offset  size  field    meaning
//        0     4  magic    54 44 50 53, "TDPS"
//        4     1  version  kMessageVersion; a reader refuses any other
//        5     1  kind     a Kind
//        6     2  code     kFailed: a tandem::Code; kResult, kStepped: 1 when a parameter is no
//                          number; kTask: a worker's wishes, or the server's kPullFirst;
//                          kPushRows: which list of rows; kFetchRecords: of which share
//        8     4  slot     which partial sum, list of rows, or array of a slice's state
//       12     4  reserved 0
//       16     8  step     steps done when the numbers were computed, signed; or a task
//       24     8  place    which piece of the slice (ps/pieces.h), which table, or from which
//                          float on; kTask: samples of the task, or tasks that are complete
//       32     8  bytes    of the payload, at most kMostPayload
//       40     8  offset   where the payload lies, for peers that share memory
//       48     8  number   a double: the learning rate, ...; kTask: the sum of losses;
//                          kFetchRecords: of how many shares
//       56     8  sequence kFetch: how many floats; kScale: the norm's bits; kTask: all samples;
//                          kPush of a task: its samples; of rows: how many of the list came before;
//                          kResult, kPush and kPull of a task: the number of the event
//                          (ps/event_order.h), where copies follow the first holder
//       64     n  payload  raw floats, a protobuf message of wire/ps.proto, or text
//
// Between processes that share memory the headers of pushes and results travel in a ring
// (ps/ring.h), and their payload stays where it lies. docs/wire-format.md says the same for readers
// of other languages. Plain values; no I/O here.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace tandem::ps {

inline constexpr std::uint8_t kMessageVersion = 2;
inline constexpr std::size_t kHeaderBytes = 64;
inline constexpr std::uint64_t kMostPayload = std::uint64_t{1} << 24;

enum class Kind : std::uint8_t {
  kBegin = 1,    // Worker: which job, and how it is cut; a PsBegin.
  kBegun = 2,    // Server: what it holds; a PsBegun.
  kUse = 3,      // Worker: go on from the state after `step`.
  kUsing = 4,    // Server: so it does.
  kPush = 5,     // Worker: floats of a piece of partial sum `slot`.
  kResult = 6,   // Server: what became of a piece; without payload where another sends it.
  kLoad = 7,     // Worker: floats of array `slot` of the state after `step`, from `place` on.
  kFetch = 8,    // Worker: send me so; `sequence` floats.
  kState = 9,    // Server: the answer to it.
  kFailed = 10,  // Either: why this connection ends, as text.
  kBell = 11,    // Either: look into the ring.
  kNorms = 12,   // Server: squares of the sums of its slice, as doubles; of copies without payload.
  kScale = 13,   // Worker: what gradients are to be multiplied by, in `number`.
  // Where workers do not wait for each other (ps/dispenser.h); `step` is then a task:
  kPull = 14,     // Worker: what are all pieces now? The answers are results.
  kStretch = 15,  // First worker: these are the tasks to hand out; a PsStretch.
  kTask = 16,     // Worker: `step` is complete, or -1; the next? Server: compute `step`; perhaps a
                  // PsTaskNews.
  kStretchEnd = 17,  // Server, instead of a task: all are complete; a PsStretchEnd.
  kClose = 18,       // Worker: this is what counts of a step; a PsClosed.
  kSum = 20,         // Worker: say the checksum of your state after `step`.
  kSumIs = 21,       // Server: XXH3-128 of it, as 32 hex digits.
  kProgress = 22,    // First worker: what I loaded is in the midst of a stretch; a PsProgress.
  kTally = 23,       // Worker: keep what is known of the tasks; a PsTally.

  // Rows of table `place`, where a job pulls partially (ps/row_round.h):
  kRowList = 30,   // Worker: rows of list `slot` (ps/row_list.h), from the `sequence`th on.
  kPullRows = 31,  // Worker: send me the rows of list `slot`.
  kRows = 32,      // Server: floats of them, from the `sequence`th on.
  kPushRows = 33,  // Worker: floats of partial sum `slot` for the rows of list `code`, likewise.
  kStepped = 34,   // Server: all rows of the step are updated.
  // Where rows are kept by key (ps/table_set.h), records of table `place`, of what `slot` says:
  kFetchRecords = 35,  // Worker: send me those after `step`, from the `sequence`th on.
  kRecords = 36,       // Server: some of them, and in `number` how many there are in all.
  kLoadRecords = 37,   // Worker: these belong to the state after `step`.
  kSizes = 38,         // Worker: how large are your tables?
  kSizesAre = 39,      // Server: a PsTableSizes.
};
inline constexpr std::uint8_t kLastKind = 39;

// Of kTask, in `code`: what the worker wishes, as bits; that the parameters are too old for it.
inline constexpr std::uint16_t kPullFirst = 1;

struct Header {
  Kind kind = Kind::kBell;
  std::uint16_t code = 0;
  std::uint32_t slot = 0;
  std::int64_t step = 0;
  std::uint64_t place = 0;
  std::uint64_t bytes = 0;
  std::uint64_t offset = 0;
  double number = 0;
  std::uint64_t sequence = 0;

  friend bool operator==(const Header&, const Header&) = default;
};

using HeaderBytes = std::array<std::byte, kHeaderBytes>;

HeaderBytes encode(const Header& header);
// kCorrupt or kVersionMismatch when it is none; what it says is then still to be checked.
Result<Header> parse(std::span<const std::byte, kHeaderBytes> bytes);

// The floats of a payload. REQUIRES: aligned, and whole.
std::span<const float> floats_of(std::span<const std::byte> payload);
std::span<const std::byte> bytes_of(std::span<const float> floats);

}  // namespace tandem::ps
