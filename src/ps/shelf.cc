#include "ps/shelf.h"

#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <utility>

#include "ps/message.h"
#include "ps/plan.h"

namespace tandem::ps {

namespace {

bool has_same_tables(const Holding& holding, const TableSetConfig& config) {
  if (!holding.tables) return config.tables.empty();
  return is_same_set(holding.tables->config(), config);
}

}  // namespace

Status Holding::use(std::int64_t step) {
  TANDEM_TRY(slice->use(step));
  return tables ? tables->use(step) : Status();
}

Result<std::shared_ptr<Holding>> make_holding(const SliceConfig& config,
                                              const TableSetConfig& tables,
                                              std::size_t vector_floats) try {
  auto holding = std::make_shared<Holding>();
  const std::size_t count = 2 * (config.slice.end - config.slice.begin);
  TANDEM_ASSIGN(collective::Arena arena, collective::Arena::create());
  holding->arena = std::make_unique<collective::Arena>(std::move(arena));
  // A server whose slice is empty has tables by key, and memory to share all the same.
  TANDEM_ASSIGN(holding->memory,
                holding->arena->map(0, std::max<std::size_t>(1, count) * sizeof(float)));
  TANDEM_ASSIGN(
      holding->slice,
      DenseSlice::create(config, {reinterpret_cast<float*>(holding->memory.data()), count}));
  holding->vector_floats = vector_floats;
  if (!tables.tables.empty()) {
    TANDEM_ASSIGN(holding->tables, TableSet::create(tables));
  }
  return holding;
} catch (const std::bad_alloc&) {
  return Error(Code::kOutOfSpace, fmt::format("a server's slice of {} floats does not fit into "
                                              "memory; use more servers",
                                              config.slice.end - config.slice.begin));
}

std::shared_ptr<Holding> Shelf::find(const SliceConfig& config, const TableSetConfig& tables,
                                     std::size_t vector_floats) const {
  const auto found = std::find_if(all_.rbegin(), all_.rend(), [&](const auto& each) {
    return each->vector_floats == vector_floats && is_same_slice(each->slice->config(), config) &&
           has_same_tables(*each, tables);
  });
  return found == all_.rend() ? nullptr : *found;
}

void Shelf::put(std::shared_ptr<Holding> holding) {
  if (all_.size() == kMost) all_.erase(all_.begin());
  all_.push_back(std::move(holding));
}

void Shelf::keep_only(std::uint64_t generation) {
  std::erase_if(all_, [&](const auto& each) { return each->used_in != generation; });
}

Result<Shelf::Fetched> Shelf::fetch(std::int64_t step, std::size_t array, std::size_t place,
                                    std::size_t count) const {
  if (count > kMostPayload / sizeof(float))
    return Error(Code::kInvalidArgument, fmt::format("{} floats are too many at once", count));
  for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
    DenseSlice& slice = *(*each)->slice;
    const std::size_t begin = slice.config().slice.begin;
    if (place < begin) continue;
    // All tasks before the step are applied, though nobody has said that the stretch ends there; or
    // it is in the midst of the stretch after this step, and so goes on from there.
    const auto& progress = (*each)->progress;
    const bool begun = progress && progress->has_begun();
    if (begun && progress->from() != step && !progress->stands_after(step)) continue;
    auto floats = slice.fetch(begun ? slice.step() : step, array, place - begin, count);
    if (floats.ok()) return Fetched{*floats, *each};
  }
  return Error(Code::kNotFound, fmt::format("{} floats from {} on of array {} after step {} are "
                                            "not held here",
                                            count, place, array, step));
}

Result<TableSet*> Shelf::tables(std::int64_t step, const KeyShare& share) const {
  for (auto each = all_.rbegin(); each != all_.rend(); ++each) {
    TableSet* const tables = (*each)->tables.get();
    if (tables == nullptr || !(tables->config().share == share)) continue;
    // As in fetch(): all tasks before the step are applied.
    const auto& progress = (*each)->progress;
    if (progress && progress->has_begun()) {
      if (progress->stands_after(step) && !tables->is_loading()) return tables;
      continue;
    }
    if (!tables->has(step)) continue;
    TANDEM_TRY(tables->use(step));
    return tables;
  }
  return Error(Code::kNotFound,
               fmt::format("rows of share {} of {} after step {} are not held here", share.number,
                           share.of, step));
}

void Shelf::describe(wire::PsBegun& begun) const {
  for (const auto& each : all_) {
    const Bucket& slice = each->slice->config().slice;
    wire::PsHeld& held = *begun.add_held();
    held.mutable_range()->set_begin(slice.begin);
    held.mutable_range()->set_end(slice.end);
    held.set_floats(each->vector_floats);
    if (each->tables) {
      held.set_share(static_cast<std::uint32_t>(each->tables->config().share.number));
      held.set_shares(static_cast<std::uint32_t>(each->tables->config().share.of));
    }
    if (!each->progress || !each->progress->has_begun()) {
      for (const std::int64_t step : each->slice->steps()) {
        if (!each->tables || each->tables->has(step)) held.add_steps(step);
      }
      continue;
    }
    // In the middle of a stretch there is no state that others could take over; once all tasks of a
    // step are applied, and no more, there is the one after it.
    const std::int64_t step = each->progress->open_step();
    const bool loading = each->slice->is_loading() || (each->tables && each->tables->is_loading());
    if (!loading && each->progress->stands_after(step)) held.add_steps(step);
  }
}

}  // namespace tandem::ps
