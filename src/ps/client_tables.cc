// The part of Client that moves tables which are kept by key (ps/table_set.h).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "base/check.h"
#include "ps/client.h"

namespace tandem::ps {
namespace {

// Bytes of a message of records, about.
constexpr std::size_t kRecordBytes = std::size_t{1} << 20;

std::uint64_t key_at(std::string_view records, std::size_t at) {
  std::uint64_t key;
  std::memcpy(&key, records.data() + at, sizeof key);
  return key;
}

}  // namespace

Client::Patience Client::patience_until(Deadline deadline) {
  const auto left = std::chrono::ceil<Patience>(deadline - Deadline::clock::now());
  return std::max(left, Patience(0));
}

Status Client::read_rows(std::int64_t step, const RowLists& rows, std::span<float> parameters,
                         Deadline deadline) {
  TANDEM_CHECK(config_.plan.is_sparse() && rows.size() == config_.plan.tables.size());
  all_rows_ = rows;
  for (const auto& server : first_holders()) server->rows().read(step, all_rows_, parameters);
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->rows().has_pulled(); });
      },
      "give the rows that were asked for", deadline);
}

Status Client::read_tables(std::int64_t step, const RecordSink& sink, Deadline deadline) {
  const Patience patience = patience_until(deadline);
  for (std::size_t table = 0; table < config_.plan.tables.size(); ++table) {
    for (const Records what : {Records::kRows, Records::kCandidates})
      TANDEM_TRY(read_table(step, table, what, sink, patience));
  }
  return {};
}

// Each server sends its own in the order of keys: the smallest key of all comes first.
Status Client::read_table(std::int64_t step, std::size_t table, Records what,
                          const RecordSink& sink, Patience patience) {
  struct Stream {
    std::size_t at = 0;     // Bytes of the message that were used,
    std::size_t taken = 0;  // and records in all.
  };
  TANDEM_ASSIGN(const std::size_t record, record_bytes(table, what));
  const auto servers = first_holders();
  std::vector<Stream> streams(servers.size());
  const auto ask = [&](std::size_t i) {
    servers[i]->ask_records(step, {i, servers.size()}, table, what, streams[i].taken);
  };
  for (std::size_t i = 0; i < servers.size(); ++i) ask(i);
  const auto answered = [&] {
    return await(
        [&] {
          return std::all_of(servers.begin(), servers.end(),
                             [](const auto& server) { return server->has_records(); });
        },
        "give what their tables hold", collective::deadline_after(patience));
  };
  std::string merged;
  const auto pass_on = [&]() -> Status {
    const Status taken = sink({table, what, record, std::as_bytes(std::span(merged))});
    merged.clear();
    // Whoever does not want more may ask again: no answer may be left then.
    if (!taken.ok()) TANDEM_TRY(answered());
    return taken;
  };
  for (;;) {
    TANDEM_TRY(answered());
    bool is_short = false;  // One of them must send more before others can go on.
    while (!is_short) {
      std::size_t first = streams.size();
      for (std::size_t i = 0; i < streams.size(); ++i) {
        const std::string& records = servers[i]->records();
        if (streams[i].at == records.size()) continue;
        if (records.size() % record != 0)
          return Error(Code::kCorrupt, fmt::format("{} sent half a record", servers[i]->name()));
        if (first == streams.size() ||
            key_at(records, streams[i].at) < key_at(servers[first]->records(), streams[first].at))
          first = i;
      }
      if (first == streams.size()) break;
      Stream& stream = streams[first];
      merged.append(servers[first]->records(), stream.at, record);
      stream.at += record;
      ++stream.taken;
      is_short = stream.at == servers[first]->records().size() &&
                 stream.taken < servers[first]->all_records();
      if (is_short) {
        stream.at = 0;
        ask(first);
      }
      if (merged.size() >= kRecordBytes) TANDEM_TRY(pass_on());
    }
    if (!is_short) break;
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].taken == servers[i]->all_records()) continue;
    return Error(Code::kCorrupt, fmt::format("{} sent {} of {} records", servers[i]->name(),
                                             streams[i].taken, servers[i]->all_records()));
  }
  return pass_on();
}

Result<std::size_t> Client::record_bytes(std::size_t table, Records what) const {
  if (what == Records::kCandidates) return Row::kHeadBytes + sizeof(float);
  TANDEM_ASSIGN(const RowRule rule,
                RowRule::create(config_.plan.optimizer, config_.plan.tables[table].width));
  return Row::kHeadBytes + rule.words() * sizeof(float);
}

// Each to the servers that have its key; those that are not in `to` have theirs.
Status Client::give_records(std::int64_t step, const TableRecords& records,
                            const std::vector<ServerEnd*>& to, Patience patience) {
  std::vector<std::string> parts(config_.servers.size());
  const std::string_view bytes(reinterpret_cast<const char*>(records.bytes.data()),
                               records.bytes.size());
  for (std::size_t at = 0; at < bytes.size(); at += records.record_bytes) {
    parts[KeyShare::owner(key_at(bytes, at), parts.size())].append(
        bytes.substr(at, records.record_bytes));
  }
  for (ServerEnd* const server : to) {
    const std::string& part = parts[server->slice_number()];
    if (!part.empty()) server->load_records(step, records.table, records.what, part);
  }
  // What is not sent yet takes memory.
  return await(
      [&] {
        return std::none_of(servers_.begin(), servers_.end(),
                            [](const auto& server) { return server->connection().has_unsent(); });
      },
      "take what their tables hold", collective::deadline_after(patience));
}

Status Client::load_tables(std::int64_t step, const RecordSource& from, Patience patience) {
  std::vector<ServerEnd*> to;
  for (std::size_t i = 0; i < present_; ++i) to.push_back(servers_[i].get());
  begin_records(step, to);
  if (!from) return {};
  return from(
      [&](const TableRecords& records) { return give_records(step, records, to, patience); });
}

// Nothing of a table is worth a message, too: the server must know of the state.
void Client::begin_records(std::int64_t step, const std::vector<ServerEnd*>& to) {
  for (ServerEnd* const server : to) {
    for (std::size_t table = 0; table < config_.plan.tables.size(); ++table)
      server->load_records(step, table, Records::kRows, {});
  }
}

std::vector<ServerEnd*> Client::table_sources(std::int64_t step) const {
  std::map<std::size_t, std::vector<ServerEnd*>> found;  // By how many shares there are.
  for (const auto& server : servers_) {
    for (const KeyShare& share : server->shares(step)) {
      std::vector<ServerEnd*>& all = found[share.of];
      all.resize(share.of);
      all[share.number] = server.get();
    }
  }
  for (auto& [shares, all] : found) {
    if (std::find(all.begin(), all.end(), nullptr) == all.end()) return all;
  }
  return {};
}

// Who has rows keeps them until a step was made with those of this generation, as with slices.
Status Client::move_tables(std::int64_t step, const std::vector<ServerEnd*>& to,
                           Patience patience) {
  const std::vector<ServerEnd*> from = table_sources(step);
  begin_records(step, to);
  for (std::size_t share = 0; share < from.size(); ++share) {
    for (std::size_t table = 0; table < config_.plan.tables.size(); ++table) {
      for (const Records what : {Records::kRows, Records::kCandidates})
        TANDEM_TRY(move_table(step, *from[share], {share, from.size()}, table, what, to, patience));
    }
  }
  return {};
}

Status Client::move_table(std::int64_t step, ServerEnd& from, const KeyShare& share,
                          std::size_t table, Records what, const std::vector<ServerEnd*>& to,
                          Patience patience) {
  TANDEM_ASSIGN(const std::size_t record, record_bytes(table, what));
  for (std::size_t taken = 0;;) {
    from.ask_records(step, share, table, what, taken);
    TANDEM_TRY(await([&] { return from.has_records(); }, "give what its tables hold",
                     collective::deadline_after(patience)));
    const std::string records = from.records();
    if (records.size() % record != 0)
      return Error(Code::kCorrupt, fmt::format("{} sent half a record", from.name()));
    TANDEM_TRY(
        give_records(step, {table, what, record, std::as_bytes(std::span(records))}, to, patience));
    taken += records.size() / record;
    if (records.empty() || taken >= from.all_records()) return {};
  }
}

Result<std::vector<TableSize>> Client::table_sizes(Deadline deadline) {
  const auto servers = first_holders();
  for (const auto& server : servers) server->ask_sizes();
  TANDEM_TRY(await(
      [&] {
        return std::all_of(servers.begin(), servers.end(),
                           [](const auto& server) { return server->sizes() != nullptr; });
      },
      "say how large their tables are", deadline));
  std::vector<TableSize> sizes(config_.plan.tables.size());
  for (const auto& server : servers) {
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      const wire::PsTableSize& part = server->sizes()->tables(static_cast<int>(i));
      sizes[i].rows += part.rows();
      sizes[i].candidates += part.candidates();
      sizes[i].evicted += part.evicted();
      sizes[i].bytes += part.bytes();
    }
  }
  return sizes;
}

}  // namespace tandem::ps
