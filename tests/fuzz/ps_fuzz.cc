// clang-format off
// Sources: src/ps/message.cc src/ps/plan.cc src/ps/pieces.cc src/ps/scope.cc src/ps/tables.cc src/ps/round.cc
// src/ps/row_list.cc src/ps/row_round.cc src/ps/row_update.cc src/ps/dense_slice.cc src/ps/service.cc src/ps/service_rows.cc
// src/ps/services.cc src/ps/shelf.cc src/ps/service_async.cc src/ps/arrivals.cc src/ps/dispenser.cc src/ps/task_progress.cc
// src/ps/crew.cc src/ps/event_order.cc src/ps/progress_wire.cc src/ps/service_tables.cc src/ps/table_set.cc
// src/ps/sparse_table.cc src/ps/sparse_table_records.cc src/ps/sparse_table_snapshot.cc src/ps/row_map.cc src/ps/row_rule.cc src/ps/block_pool.cc src/base/rows.cc
// src/optim/optimizer.cc src/optim/factors.cc src/optim/portable.cc
// src/optim/clip.cc src/collective/tree.cc src/base/hash.cc
// src/collective/reducer.cc src/collective/reduce.cc src/collective/arena.cc src/collective/host.cc
// src/base/span_math.cc src/base/check.cc src/base/result.cc wire/ps.pb.cc
// Links: -lfmt -lprotobuf-lite -lxxhash
// clang-format on
//
// A parameter server takes whatever its workers send: messages that are not due, do not fit or make
// no sense end their sender's connection and nothing else. The input is a list of messages: who
// sends it, its header as it travels, and the payload that the header claims. The first bit of the
// first byte says whether the plan has tables, and the second then whether they are kept by key;
// else the last bit of the last byte says whether workers do not wait for each other.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "ps/services.h"

namespace {

using namespace tandem;
using namespace tandem::ps;

constexpr std::size_t kMostFloats = 5000;

class Nowhere final : public Outbox {
 public:
  void send(PeerId, const Header&, std::span<const std::byte>) override { ++sent; }
  void lend(PeerId, const Header&, std::span<const std::byte>,
            std::shared_ptr<const void>) override {
    ++sent;
  }
  void send_text(PeerId, const Header&, std::string) override { ++sent; }
  void share(PeerId, const SharedMemory&) override {}
  void close(PeerId) override {}

  std::size_t sent = 0;
};

// Of a vector of pieces alone, with tables whose rows travel by themselves, with tables that are
// kept by key, or of pieces from workers that do not wait for each other.
enum class Way : std::uint8_t { kPieces, kRows, kKeys, kAsync };

Way way_of(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return Way::kPieces;
  if (data[0] >= 0xc0) return Way::kKeys;
  if (data[0] >= 0x80) return Way::kRows;
  return data[size - 1] % 2 == 1 ? Way::kAsync : Way::kPieces;
}

std::string begin_of(int worker, Way way) {
  Plan plan;
  plan.generation = 1;
  plan.parameters = 3000;
  plan.floats = 3010;
  plan.buckets = {{1500, 3000}, {0, 1500}, {3000, 3010}};
  plan.trainable = {{0, 3000}};
  if (way == Way::kRows) {
    plan.optimizer.kind = optim::OptimizerKind::kAdagrad;
    plan.pull = Pull::kPartial;
    plan.tables = {{0, 100, 8}, {900, 50, 4}};
  } else if (way == Way::kKeys) {
    plan.optimizer.kind = optim::OptimizerKind::kAdagrad;
    plan.pull = Pull::kPartial;
    plan.tables = {{0, 20, 8}, {160, 10, 4}};
    plan.sparse = {{1000, 3, 0.1}, {500, 4, 0}};
    plan.admit_after = 1;
    plan.evict_after = 2;
  } else {
    plan.optimizer.momentum = 0.9;
  }
  plan.lanes = 2;
  plan.ends = {1, 2};
  if (way == Way::kAsync) {
    plan.floats = plan.parameters;
    plan.buckets.back() = {3000, 3000};
    plan.async = AsyncRule{.stale_lr = StaleRate::kLowered, .compensation = 0.1};
  }
  wire::PsBegin begin;
  *begin.mutable_plan() = to_wire(plan, {}, 1);
  begin.set_worker(worker);
  return begin.SerializeAsString();
}

// Whether the sender may go on.
bool give(Services& services, PeerId peer, const Header& header,
          std::span<const std::byte> payload) {
  Status status;
  if (header.bytes > 0) {
    auto place = services.place(peer, header);
    if (place.ok()) {
      if (place->size() != header.bytes) std::abort();
      std::copy(payload.begin(), payload.end(), place->begin());
      status = services.message(peer, header, *place);
    } else {
      status = place.error();
    }
  } else {
    status = services.message(peer, header, {});
  }
  if (!status.ok()) services.gone(peer, status.error());
  return status.ok();
}

// A plan from outside is huge only on paper here.
bool is_small(const Header& header, std::span<const std::byte> payload) {
  if (header.kind != Kind::kBegin) return true;
  wire::PsBegin begin;
  return begin.ParseFromArray(payload.data(), static_cast<int>(payload.size())) &&
         begin.plan().floats() <= kMostFloats && begin.memory().empty();
}

// Workers that do not wait have a state, and work to hand out.
void begin_stretch(Services& services) {
  const std::vector<float> zeros(3000);
  for (const std::uint32_t array : {0U, 1U}) {
    const Header load{.kind = Kind::kLoad, .slot = array, .bytes = 12000};
    if (!give(services, 1, load, std::as_bytes(std::span(zeros)))) std::abort();
  }
  if (!give(services, 1, {.kind = Kind::kUse}, {})) std::abort();
  wire::PsStretch stretch;
  stretch.set_to(4);
  stretch.set_staleness(1);
  const std::string text = stretch.SerializeAsString();
  if (!give(services, 1, {.kind = Kind::kStretch, .bytes = text.size()},
            std::as_bytes(std::span(text))))
    std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::span<const std::byte> input = std::as_bytes(std::span(data, size));
  Nowhere out;
  Services services(out, [](const std::string&) {});
  const Way way = way_of(data, size);
  for (int worker = 0; worker < 2; ++worker) {
    const std::string begin = begin_of(worker, way);
    const Header header{.kind = Kind::kBegin, .bytes = begin.size()};
    if (!give(services, static_cast<PeerId>(worker + 1), header, std::as_bytes(std::span(begin))))
      std::abort();
  }
  if (way == Way::kAsync) begin_stretch(services);
  while (input.size() > kHeaderBytes) {
    const auto peer = static_cast<PeerId>(std::to_integer<int>(input[0] & std::byte{0x7f}) % 3 + 1);
    const auto header = parse(input.subspan(1).first<kHeaderBytes>());
    input = input.subspan(1 + kHeaderBytes);
    if (!header.ok()) continue;
    std::vector<std::byte> payload(std::min<std::size_t>(header->bytes, kMostFloats * 4));
    if (payload.size() != header->bytes) continue;
    const std::size_t there = std::min(payload.size(), input.size());
    std::copy_n(input.begin(), there, payload.begin());
    input = input.subspan(there);
    if (is_small(*header, payload)) give(services, peer, *header, payload);
  }
  return 0;
}
