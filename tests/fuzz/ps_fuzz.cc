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
// A parameter server takes whatever its workers send: messages that are not due, do not fit or make
// no sense end their sender's connection and nothing else. The input is a list of messages: who
// sends it, its header as it travels, and the payload that the header claims. The first bit of the
// first byte says whether the plan has tables, and the second then whether they are kept by key;
// the last bit of the last byte says whether workers do not wait for each other.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <vector>

#include "ps_messages.h"

namespace {

using namespace tandem;
using namespace tandem::ps;

// Of a vector of pieces alone, with tables whose rows travel by themselves, or with tables that are
// kept by key.
enum class What : std::uint8_t { kPieces, kRows, kKeys };
struct Way {
  What what = What::kPieces;
  bool is_async = false;
};

Way way_of(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return {};
  const What what = data[0] >= 0xc0 ? What::kKeys : data[0] >= 0x80 ? What::kRows : What::kPieces;
  return {what, data[size - 1] % 2 == 1};
}

std::string begin_of(int worker, const Way& way) {
  Plan plan;
  plan.generation = 1;
  plan.parameters = 3000;
  plan.floats = 3010;
  plan.buckets = {{1500, 3000}, {0, 1500}, {3000, 3010}};
  plan.trainable = {{0, 3000}};
  if (way.what == What::kRows) {
    plan.optimizer.kind = optim::OptimizerKind::kAdagrad;
    plan.pull = Pull::kPartial;
    plan.tables = {{0, 100, 8}, {900, 50, 4}};
  } else if (way.what == What::kKeys) {
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
  if (way.is_async) {
    plan.floats = plan.parameters;
    plan.buckets.back() = {3000, 3000};
    plan.async = AsyncRule{.stale_lr = StaleRate::kLowered, .compensation = 0.1};
  }
  wire::PsBegin begin;
  *begin.mutable_plan() = to_wire(plan, {}, 1);
  begin.set_worker(worker);
  return begin.SerializeAsString();
}

// Workers that do not wait have a state, and work to hand out.
void begin_stretch(Services& services, What what) {
  const std::size_t first = what == What::kKeys ? 200 : 0;
  const std::vector<float> zeros(3000 - first);
  for (const std::uint32_t array : {0U, 1U}) {
    const Header load{
        .kind = Kind::kLoad, .slot = array, .place = first, .bytes = zeros.size() * sizeof(float)};
    if (!give(services, 1, load, std::as_bytes(std::span(zeros)))) std::abort();
  }
  for (const std::uint64_t table : {0U, 1U}) {
    const Header load{.kind = Kind::kLoadRecords, .place = table};
    if (what == What::kKeys && !give(services, 1, load, {})) std::abort();
  }
  must_give(services, 1, {.kind = Kind::kUse}, "");
  wire::PsStretch stretch;
  stretch.set_to(4);
  stretch.set_staleness(1);
  must_give(services, 1, {.kind = Kind::kStretch}, stretch.SerializeAsString());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Nowhere out;
  Services services(out, [](const std::string&) {});
  const Way way = way_of(data, size);
  for (int worker = 0; worker < 2; ++worker) {
    must_give(services, static_cast<PeerId>(worker + 1), {.kind = Kind::kBegin},
              begin_of(worker, way));
  }
  if (way.is_async) begin_stretch(services, way.what);
  give_all(services, std::as_bytes(std::span(data, size)));
  return 0;
}
