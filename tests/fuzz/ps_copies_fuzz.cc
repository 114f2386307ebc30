// clang-format off
// Sources: src/ps/message.cc src/ps/plan.cc src/ps/pieces.cc src/ps/scope.cc src/ps/tables.cc src/ps/round.cc
// src/ps/row_list.cc src/ps/row_arrivals.cc src/ps/row_round.cc src/ps/row_update.cc src/ps/dense_slice.cc src/ps/service.cc src/ps/service_generation.cc src/ps/service_rows.cc
// src/ps/services.cc src/ps/shelf.cc src/ps/service_async.cc src/ps/arrivals.cc src/ps/dispenser.cc src/ps/task_progress.cc
// src/ps/crew.cc src/ps/event_order.cc src/ps/progress_wire.cc src/ps/service_tables.cc src/ps/table_set.cc
// src/ps/sparse_table.cc src/ps/sparse_table_records.cc src/ps/sparse_table_snapshot.cc src/ps/row_map.cc src/ps/row_rule.cc src/ps/block_pool.cc src/base/rows.cc
// src/optim/optimizer.cc src/optim/factors.cc src/optim/portable.cc
// src/optim/clip.cc src/collective/tree.cc src/base/hash.cc
// src/collective/reducer.cc src/collective/reduce.cc src/collective/arena.cc src/base/memory.cc src/base/file.cc src/base/atomic_file.cc src/base/text.cc src/collective/host.cc
// src/base/span_math.cc src/base/check.cc src/base/result.cc wire/ps.pb.cc
// Links: -lfmt -lprotobuf-lite -lxxhash
// clang-format on
//
// A server that holds a copy of a slice and does what the first holder did (ps/event_order.h) takes
// whatever workers pass on to it: events in any order, of any number, how far a state has come that
// it is given, and what is known of tasks. What makes no sense ends its sender's connection and
// nothing else, and a copy never sends floats of results. Of the first byte the highest bit says
// that the copy is yet to be brought level with the others, else it trains.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <vector>

#include "ps/progress_wire.h"
#include "ps_messages.h"

namespace {

using namespace tandem;
using namespace tandem::ps;

// The second half of the vector: what the last of two servers is the first holder of.
constexpr std::size_t kParameters = 4096, kSlice = 2048;

class NoResults final : public Nowhere {
 public:
  void send(PeerId, const Header& header, std::span<const std::byte> payload) override {
    if (header.kind == Kind::kResult && !payload.empty()) std::abort();
  }
};

std::string begin_of(int worker) {
  Plan plan;
  plan.generation = 1;
  plan.parameters = plan.floats = kParameters;
  plan.buckets = {{3000, kParameters}, {0, 3000}, {kParameters, kParameters}};
  plan.trainable = {{0, kParameters}};
  plan.optimizer.momentum = 0.9;
  plan.lanes = 2;
  plan.ends = {1, 2};
  plan.replicas = 2;
  plan.async = AsyncRule{.stale_lr = StaleRate::kLowered, .compensation = 0.1};
  wire::PsBegin begin;
  *begin.mutable_plan() = to_wire(plan, {.slice = 1, .copy = 1}, 2);
  begin.set_worker(worker);
  return begin.SerializeAsString();
}

void load(Services& services) {
  const std::vector<float> zeros(kSlice);
  const std::string floats(reinterpret_cast<const char*>(zeros.data()), kSlice * sizeof(float));
  for (const std::uint32_t array : {0U, 1U})
    must_give(services, 1, {.kind = Kind::kLoad, .slot = array, .place = kSlice}, floats);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  NoResults out;
  Services services(out, [](const std::string&) {});
  for (int worker = 0; worker < 2; ++worker) {
    must_give(services, static_cast<PeerId>(worker + 1), {.kind = Kind::kBegin}, begin_of(worker));
  }
  load(services);
  if (size == 0 || data[0] < 0x80) must_give(services, 1, {.kind = Kind::kUse}, "");
  give_all(services, std::as_bytes(std::span(data, size)));
  return 0;
}
