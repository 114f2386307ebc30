// What a parameter server does with tables that are kept by key: see ps/table_set.h.
#include <fmt/format.h>

#include <algorithm>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "ps/service.h"

namespace tandem::ps {

Error asked_too_soon(const Header& header) {
  return Error(Code::kInvalidArgument,
               fmt::format("a message of kind {} asks again before the last answer was read",
                           static_cast<int>(header.kind)));
}

Status Service::step_tables() {
  TableSet& tables = *holding_->tables;
  const double rate = lr();
  const auto update = [&]() -> Result<optim::Updated> {
    try {
      TANDEM_TRY(tables.begin(rate));
      return rows_->apply(tables);
    } catch (const std::bad_alloc&) {
      return Error(Code::kOutOfSpace, "the memory for what a step changes is out");
    }
  };
  Result<optim::Updated> updated = update();
  if (!updated.ok()) {
    TANDEM_TRY(tables.roll_back());
    return std::move(updated).error().within("this server's tables");
  }
  TANDEM_TRY(tables.commit(rate));
  end_rows(*updated);
  return {};
}

Status send_records(Outbox& out, const Shelf& shelf, PeerId to, const Header& fetch, Unsent& last) {
  if (!last.expired()) return asked_too_soon(fetch);
  if (!(fetch.number >= 1 && fetch.number <= 0xffff)) return unexpected(fetch);
  const KeyShare share{fetch.code, static_cast<std::size_t>(fetch.number)};
  TANDEM_ASSIGN(TableSet* const tables, shelf.tables(fetch.step, share));
  TANDEM_ASSIGN(TableSet::Fetched fetched, tables->fetch(fetch.place, fetch.slot, fetch.sequence));
  Header answer = fetch;
  answer.kind = Kind::kRecords;
  answer.number = static_cast<double>(fetched.all);
  const auto records = std::make_shared<const std::string>(std::move(fetched.records));
  last = records;
  out.lend(to, answer, std::as_bytes(std::span(*records)), records);
  return {};
}

Status Service::fetch_records(PeerId peer, const Header& header) {
  // While workers train on them there is no other state.
  if (!has_tables() || (in_use_ && header.step != holding_->slice->step()))
    return unexpected(header);
  return send_records(out_, *shelf_, peer, header, members_.at(peer).records);
}

Status Service::load_records(const Header& header, std::span<const std::byte> records) {
  if (in_use_ || !has_tables() || header.slot > static_cast<std::uint32_t>(Records::kCandidates))
    return unexpected(header);
  if (!incoming_ && !holding_) {
    TANDEM_ASSIGN(incoming_, make_holding(config_, tables_config_, plan_->floats));
  }
  return incoming_or_held().tables->load(header.step, header.place,
                                         static_cast<Records>(header.slot), records);
}

Status Service::send_sizes(PeerId peer, const Header& header) {
  if (!in_use_ || !has_tables()) return unexpected(header);
  wire::PsTableSizes sizes;
  for (const SparseTable& table : holding_->tables->tables()) {
    wire::PsTableSize& size = *sizes.add_tables();
    size.set_rows(static_cast<std::uint64_t>(table.rows()));
    size.set_candidates(static_cast<std::uint64_t>(table.candidates()));
    size.set_evicted(static_cast<std::uint64_t>(table.evicted()));
    size.set_bytes(table.bytes());
  }
  out_.send_text(peer, {.kind = Kind::kSizesAre}, sizes.SerializeAsString());
  return {};
}

}  // namespace tandem::ps
