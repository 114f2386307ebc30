// The part of Client that moves tables which are kept by key (ps/table_set.h).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
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

Status Client::read_rows(std::int64_t step, const RowLists& rows, std::span<float> parameters,
                         Deadline deadline) {
  TANDEM_CHECK(config_.plan.is_sparse() && rows.size() == config_.plan.tables.size());
  all_rows_ = rows;
  for (auto& server : servers_) server->rows().read(step, all_rows_, parameters);
  return await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->rows().has_pulled(); });
      },
      "give the rows that were asked for", deadline);
}

Status Client::read_tables(std::int64_t step, const RecordSink& sink, Deadline deadline) {
  for (std::size_t table = 0; table < config_.plan.tables.size(); ++table) {
    for (const Records what : {Records::kRows, Records::kCandidates})
      TANDEM_TRY(read_table(step, table, what, sink, deadline));
  }
  return {};
}

// Each server sends its own in the order of keys: the smallest key of all comes first.
Status Client::read_table(std::int64_t step, std::size_t table, Records what,
                          const RecordSink& sink, Deadline deadline) {
  struct Stream {
    std::size_t at = 0;     // Bytes of the message that were used,
    std::size_t taken = 0;  // and records in all.
  };
  std::size_t record = Row::kHeadBytes + sizeof(float);
  if (what == Records::kRows) {
    TANDEM_ASSIGN(const RowRule rule,
                  RowRule::create(config_.plan.optimizer, config_.plan.tables[table].width));
    record = Row::kHeadBytes + rule.words() * sizeof(float);
  }
  std::vector<Stream> streams(servers_.size());
  for (auto& server : servers_) server->ask_records(step, table, what, 0);
  const auto answered = [&] {
    return await(
        [&] {
          return std::all_of(servers_.begin(), servers_.end(),
                             [](const auto& server) { return server->has_records(); });
        },
        "give what their tables hold", deadline);
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
        const std::string& records = servers_[i]->records();
        if (streams[i].at == records.size()) continue;
        if (records.size() % record != 0)
          return Error(Code::kCorrupt, fmt::format("{} sent half a record", servers_[i]->name()));
        if (first == streams.size() ||
            key_at(records, streams[i].at) < key_at(servers_[first]->records(), streams[first].at))
          first = i;
      }
      if (first == streams.size()) break;
      Stream& stream = streams[first];
      merged.append(servers_[first]->records(), stream.at, record);
      stream.at += record;
      ++stream.taken;
      is_short = stream.at == servers_[first]->records().size() &&
                 stream.taken < servers_[first]->all_records();
      if (is_short) {
        stream.at = 0;
        servers_[first]->ask_records(step, table, what, stream.taken);
      }
      if (merged.size() >= kRecordBytes) TANDEM_TRY(pass_on());
    }
    if (!is_short) break;
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (streams[i].taken == servers_[i]->all_records()) continue;
    return Error(Code::kCorrupt, fmt::format("{} sent {} of {} records", servers_[i]->name(),
                                             streams[i].taken, servers_[i]->all_records()));
  }
  return pass_on();
}

Status Client::load_tables(std::int64_t step, const RecordSource& from, Deadline deadline) {
  // Nothing of a table is worth a message, too: the server must know of the state.
  for (auto& server : servers_) {
    for (std::size_t table = 0; table < config_.plan.tables.size(); ++table)
      server->load_records(step, table, Records::kRows, {});
  }
  if (!from) return {};
  const auto sink = [&](const TableRecords& records) -> Status {
    std::vector<std::string> parts(servers_.size());
    const std::string_view bytes(reinterpret_cast<const char*>(records.bytes.data()),
                                 records.bytes.size());
    for (std::size_t at = 0; at < bytes.size(); at += records.record_bytes) {
      parts[KeyShare::owner(key_at(bytes, at), parts.size())].append(
          bytes.substr(at, records.record_bytes));
    }
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (!parts[i].empty())
        servers_[i]->load_records(step, records.table, records.what, std::move(parts[i]));
    }
    // What is not sent yet takes memory.
    return await(
        [&] {
          return std::none_of(servers_.begin(), servers_.end(),
                              [](const auto& server) { return server->connection().has_unsent(); });
        },
        "take what their tables hold", deadline);
  };
  return from(sink);
}

Result<std::vector<TableSize>> Client::table_sizes(Deadline deadline) {
  for (auto& server : servers_) server->ask_sizes();
  TANDEM_TRY(await(
      [&] {
        return std::all_of(servers_.begin(), servers_.end(),
                           [](const auto& server) { return server->sizes() != nullptr; });
      },
      "say how large their tables are", deadline));
  std::vector<TableSize> sizes(config_.plan.tables.size());
  for (const auto& server : servers_) {
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
