// A worker's end of its parameter servers, for one generation: pushes what the worker computed,
// piece by piece as backward gets there, and takes what the servers made of it. On a server's host
// nothing is copied on the way there: the server reads the partial sums where backward wrote them.
// Where no server is, a thread sends and receives while the worker computes (ps/pump.h).
//
// After an error the client is of no more use, and the step must be dropped. Belongs to one thread;
// its own thread is at work only between ready() and finish().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/arena.h"
#include "collective/engine.h"
#include "collective/membership.h"
#include "net/address.h"
#include "net/tls.h"
#include "ps/plan.h"
#include "ps/pump.h"
#include "ps/server_end.h"

namespace tandem::ps {

using collective::Deadline;

enum class Sharing : std::uint8_t { kWhereItCan, kNever };

struct ClientConfig {
  std::vector<net::Endpoint> servers;
  // Servers that take no part any more, and may have what the others need. For the worker that
  // calls restore().
  std::vector<net::Endpoint> former = {};
  std::string token;
  std::shared_ptr<const net::Tls> tls = nullptr;  // Null: in the clear.
  Plan plan;
  int worker = 0;    // Our rank.
  std::string name;  // What messages call us: "worker 2 (pid 71 on node-b)".
  Sharing sharing = Sharing::kWhereItCan;
};

// Steps that workers compute without waiting for each other (ps/dispenser.h).
struct StretchPlan {
  std::int64_t from = 0, to = 0;
  std::optional<std::int64_t> staleness = {};
  std::int64_t quorum = 0;
};

// A task that a worker has done (ps/dispenser.h), or none, and what it wishes.
struct TaskDone {
  std::int64_t task = -1;
  double loss = 0;  // Summed over its samples.
  std::int64_t samples = 0;
  std::uint16_t wish = 0;  // If not 0 the stretch ends soon, and everybody gets to know.
};

// The next one, or the end of the stretch.
struct TaskGiven {
  std::int64_t task = -1;
  bool pull = false;         // Before it is computed: the parameters are too old for it.
  std::int64_t below = 0;    // All tasks below are done.
  double loss = 0;           // Summed over all that were done in the stretch,
  std::int64_t samples = 0;  // of so many samples.
  std::optional<wire::PsStretchEnd> end;
};

// The arrays of a state: the parameters, then the optimizer's.
using Arrays = std::vector<std::span<float>>;

// Some of what a table that is kept by key holds, in the order of keys (ps/sparse_table.h).
struct TableRecords {
  std::size_t table = 0;
  Records what = Records::kRows;
  std::size_t record_bytes = 0;
  std::span<const std::byte> bytes;
};
// Takes them, table by table, rows before candidates. An Error ends it.
using RecordSink = std::function<Status(const TableRecords&)>;
// Gives all of a state to a sink, so; where it is empty there are none.
using RecordSource = std::function<Status(const RecordSink&)>;

// How large a table that is kept by key is, on all servers together.
struct TableSize {
  std::uint64_t rows = 0, candidates = 0, evicted = 0, bytes = 0;
};

class Client {
 public:
  // Connects to all servers. kPeerLost when one is gone.
  static Result<std::unique_ptr<Client>> connect(ClientConfig config, Deadline deadline);
  ~Client();

  // Whether every server has the state after `step` of the slices that are now its own; or all of
  // them are equally far in the stretch of tasks after it.
  bool all_have(std::int64_t step) const;
  // Whether the servers together have the state after `step`, of whatever slices, or one of each
  // slice that is in the midst of the stretch of tasks after it.
  bool can_fetch(std::int64_t step) const;
  // Takes the state after `step` from the servers. Arrays are whole vectors of parameters; empty
  // ones are left out.
  Status fetch(std::int64_t step, const Arrays& into, Deadline deadline);
  // Gives it to them, whatever they have; with what tables that are kept by key hold.
  Status load(std::int64_t step, const Arrays& from, Deadline deadline,
              const RecordSource& tables = {});
  // Gives those that lack it what others have, and leaves the others as they are: should this
  // worker die on the way, nothing is lost. `through` holds what was moved. In the midst of a
  // stretch of tasks those that are behind get what the furthest of their slice has.
  // REQUIRES: can_fetch(step).
  Status restore(std::int64_t step, const Arrays& through, Deadline deadline);
  // The servers go on from it. One worker calls these five, before any worker pushes.
  Status use(std::int64_t step, Deadline deadline);
  // Compares the checksums of all copies of each slice. kCorrupt names those that differ.
  Status compare_copies(std::int64_t step, Deadline deadline);

  // As those of collective::Reducer: the memory of this worker's partial sums, ours to write until
  // they are pushed, and again after finish().
  std::size_t partials() const { return now_.partials.size(); }
  std::span<float> partial(std::size_t index) { return now_.partials[index].memory; }

  // Where the plan has tables, before begin(): says which rows each of this worker's partial sums
  // reads and trains in the step, and brings those of the state after `steps_done` into
  // `parameters`, the whole vector of them. Rows that are not named are neither read nor pushed.
  // Where workers do not wait for each other, it is about a task, and brings what they are now.
  Status pull_rows(std::int64_t steps_done, std::span<const RowLists> rows,
                   std::span<float> parameters, Deadline deadline);
  // Where tables are kept by key: brings rows of the state after `step` into the windows, in the
  // order of their numbers, at any time between two steps. Where workers do not wait for each other
  // `step` is the first task after it.
  Status read_rows(std::int64_t step, const RowLists& rows, std::span<float> parameters,
                   Deadline deadline);
  // There, too: all that the tables hold after `step`. Takes little memory, and as long as it
  // takes: wherever whole tables move the time until the deadline is how long servers may be
  // silent.
  Status read_tables(std::int64_t step, const RecordSink& sink, Deadline deadline);
  Result<std::vector<TableSize>> table_sizes(Deadline deadline);
  // All rows of all tables of the state after `step`, at any time between two steps.
  Status fetch_tables(std::int64_t step, std::span<float> parameters, Deadline deadline);

  // The step after `steps_done` begins; or a task, of so many samples. REQUIRES: where the plan has
  // tables, pull_rows() was called for it.
  void begin(std::int64_t steps_done, double lr, std::uint64_t samples = 0);
  // The next `count` buckets are complete in every partial sum: pushes them. Where servers share no
  // memory, what is ready last overtakes what is not yet on its way.
  Status ready(std::size_t count);
  // Waits for all results. They are then to be read by result().
  Status finish(Deadline deadline);
  // Where they lie in this worker's memory, and not in that of a server, they may be had one by one
  // before: await_part() waits for those of a part of the vector.
  bool comes_in_parts() const;
  Status await_part(const Bucket& part, Deadline deadline);
  bool has_all();
  // Floats of the vector: parameters, and sums behind them. As many from at.begin on as lie
  // together, not beyond at.end.
  std::span<const float> result(const Bucket& at) const;
  // What the servers said of the step that was finished.
  double norm() const { return now_.norm; }
  bool is_finite() const { return now_.is_finite; }

  // Where workers do not wait for each other: begin() takes a task instead of a step, partial(0) is
  // the gradient, and there are results for this worker as soon as its pushes were applied.
  //
  // The first worker, after use(): these are the tasks of the stretch. `to` is at most so far that
  // the servers can keep account.
  Status begin_stretch(const StretchPlan& plan, Deadline deadline);
  // What the parameters are now; to be read by result().
  Status pull(Deadline deadline);
  // Tells what was done, and waits for the next. REQUIRES: all of begin_stretch() has ended.
  Result<TaskGiven> next_task(const TaskDone& done, Deadline deadline);

  bool shares_memory() const;  // With every server.
  collective::Traffic traffic();

 private:
  // Who gives which floats.
  struct Source {
    ServerEnd* server;
    Bucket part;
  };

  // Of servers that may be silent for so long, but need any time to move whole tables.
  using Patience = std::chrono::milliseconds;
  static Patience patience_until(Deadline deadline);
  // Of a pull that is for no task.
  static constexpr std::int64_t kNoTask = -1;

  explicit Client(ClientConfig config);

  // The first holder of each slice.
  std::span<const std::unique_ptr<ServerEnd>> first_holders() const {
    return std::span(servers_).first(config_.servers.size());
  }
  ServerEnd& furthest(std::size_t slice, std::int64_t step) const;
  bool is_complete(const ServerEnd& server, std::int64_t step) const;
  Status bring_level(const std::vector<ServerEnd*>& behind, std::int64_t step, std::size_t arrays,
                     Deadline deadline);

  Status make_memory();
  Status await_fetched(Deadline deadline);
  Status open(Deadline deadline);
  Status open_former(Deadline deadline);
  std::optional<std::vector<Source>> sources(std::int64_t step, Bucket range) const;
  Status fetch(std::int64_t step, std::span<const Bucket> ranges, const Arrays& into,
               Deadline deadline);
  void load_into(ServerEnd& server, std::int64_t step, const Arrays& from);
  Status load_tables(std::int64_t step, const RecordSource& from, Patience patience);
  // Servers that together have all rows after `step`, by share of however many; none: nobody has.
  std::vector<ServerEnd*> table_sources(std::int64_t step) const;
  Status move_tables(std::int64_t step, const std::vector<ServerEnd*>& to, Patience patience);
  Status move_table(std::int64_t step, ServerEnd& from, const KeyShare& share, std::size_t table,
                    Records what, const std::vector<ServerEnd*>& to, Patience patience);
  void begin_records(std::int64_t step, const std::vector<ServerEnd*>& to);
  Status give_records(std::int64_t step, const TableRecords& records,
                      const std::vector<ServerEnd*>& to, Patience patience);
  Result<std::size_t> record_bytes(std::size_t table, Records what) const;
  Status read_table(std::int64_t step, std::size_t table, Records what, const RecordSink& sink,
                    Patience patience);
  Status await(const std::function<bool()>& done, const std::string& what, Deadline deadline);
  Status await_held(const std::function<bool()>& done, const std::string& what, Deadline deadline);
  Status push_ready();
  Status await_results(Deadline deadline);
  Result<bool> turn_all();
  // Nobody else uses the connections while it lives.
  std::unique_lock<std::mutex> hold();
  // Says what it is given. After an Error nothing is sent any more: its memory is the caller's.
  Status kept(Status status);
  bool all_came() const;
  bool all_sent() const;
  void add_awaited(std::vector<pollfd>& entries);
  void sleep(std::chrono::milliseconds at_most);
  Status answer_norms();

  const ClientConfig config_;
  std::unique_ptr<collective::Arena> arena_;
  ClientStep now_;
  // First copies by slice, then second ones, ...; behind them, until use(), former servers.
  std::vector<std::unique_ptr<ServerEnd>> servers_;
  std::size_t present_ = 0;  // Without former ones.

  const bool passes_on_;  // Copies follow the first holder of their slice (ps/event_order.h).
  bool has_own_slices_ = false;  // The servers hold the slices of this generation.
  bool scaled_ = false;          // The norm of the step was answered.
  bool goes_on_ = true;  // With what the servers said that they have, and nothing was loaded.
  RowLists all_rows_, merged_;  // Of a step, over all partial sums of this worker.
  std::int64_t pulled_ = -1;    // For which step, by the steps done.

  // Null where it is not worth a thread: memory is shared, or results are awaited at once. Ends
  // before what it uses.
  std::unique_ptr<Pump> pump_;
};

}  // namespace tandem::ps
