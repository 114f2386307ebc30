// What a parameter server does with the messages of its workers about one slice of a job's
// parameters and optimizer state: sums what the workers of a generation push, updates, and gives
// every worker the result. Where several servers hold the slice, all do the same, and only the
// first sends results; the others say that they have them. Where workers do not wait for each other
// it applies pushes as they arrive (ps/arrivals.h), or in the order of the first holder
// (ps/event_order.h), and that of the last slice hands out the tasks.
// Knows no sockets: whoever does (ps/server.h) numbers the peers, brings their messages and carries
// out what is sent.
//
// A generation is over for all its workers when one of them is gone or sends what it must not; the
// state stays, and the next generation goes on from it. Belongs to one thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"
#include "collective/arena.h"
#include "ps/arrivals.h"
#include "ps/connection.h"
#include "ps/credit.h"
#include "ps/crew.h"
#include "ps/dense_slice.h"
#include "ps/dispenser.h"
#include "ps/event_order.h"
#include "ps/message.h"
#include "ps/plan.h"
#include "ps/round.h"
#include "ps/row_arrivals.h"
#include "ps/row_round.h"
#include "ps/shelf.h"

namespace tandem::ps {

using PeerId = std::uint64_t;

class Outbox {
 public:
  virtual ~Outbox() = default;

  // The payload stays as it is until it was sent.
  virtual void send(PeerId to, const Header& header, std::span<const std::byte> payload) = 0;
  // The same for a result that may overtake others (ps/connection.h).
  virtual void send_ahead(PeerId to, const Header& result, std::span<const std::byte> payload) {
    send(to, result, payload);
  }
  // The same for a payload that is part of `owner`, which is kept until then.
  virtual void lend(PeerId to, const Header& header, std::span<const std::byte> payload,
                    std::shared_ptr<const void> owner) = 0;
  virtual void send_text(PeerId to, const Header& header, std::string payload) = 0;
  virtual void share(PeerId with, const SharedMemory& memory) = 0;
  // What results that were sent and are not yet on their way cost (ps/credit.h): of a peer that
  // does not read they would fill the server's memory.
  virtual std::uint64_t unsent_results(PeerId to) const = 0;
  // Once what was sent is gone.
  virtual void close(PeerId peer) = 0;
};

// That a message came where none of its kind was due.
Error unexpected(const Header& header);

// Answers a kFetch.
Status send_state(Outbox& out, const Shelf& shelf, PeerId to, const Header& fetch);
// An answer that takes memory until it was sent, or nothing. Who does not read must not ask again:
// the server's memory would fill up.
using Unsent = std::weak_ptr<const void>;
Error asked_too_soon(const Header& header);

// Answers a kFetchRecords, unless the last answer to that peer is unsent. REQUIRES: no generation
// trains on tables of another step.
Status send_records(Outbox& out, const Shelf& shelf, PeerId to, const Header& fetch, Unsent& last);

class Service {
 public:
  using Log = std::function<void(const std::string&)>;

  // States are kept on the shelf, which may be that of other slices of this process, too. A worker
  // may have so many bytes of pushes unanswered, but always one piece (ps/credit.h).
  Service(Outbox& out, Log log, std::shared_ptr<Shelf> shelf = std::make_shared<Shelf>(),
          std::uint64_t credit_bytes = Credit::kNoLimit)
      : out_(out), log_(std::move(log)), shelf_(std::move(shelf)), credit_bytes_(credit_bytes) {}

  // As Receiver's, of a peer that has proved itself.
  Result<std::span<std::byte>> place(PeerId peer, const Header& header);
  Status message(PeerId peer, const Header& header, std::span<const std::byte> payload);
  // Nothing more has come for the moment: what was pushed in shared memory is used.
  void settle();
  // The connection is over.
  void gone(PeerId peer, const Error& why);
  // The generation is over for all its workers.
  void dismiss(const Error& why);

 private:
  // So many pieces at a time are worth waking up another thread.
  static constexpr std::size_t kPiecesForTwo = 16;

  // What each worker was answered last, in memory that workers of this host map.
  struct Copies {
    std::unique_ptr<collective::Arena> arena;
    collective::Mapping memory;
  };
  struct Member {
    int worker = 0;
    std::string name;
    std::size_t partials = 1;                              // That it pushes,
    Credit credit;                                         // and how much of them at a time.
    collective::Mapping memory;                            // Its own, where it shares it.
    std::map<std::uint32_t, std::vector<float>> received;  // By partial sum, where it does not.
    Unsent records;                                        // Of tables that are kept by key,
    std::map<std::size_t, Unsent> rows;                    // and rows, by table.
  };

  void grant(Member& member) const;
  Status check_push(PeerId peer, const Header& header) const;
  Status check_credit(PeerId peer, const Member& member, std::uint64_t cost) const;
  Result<std::span<float>> place_of_load(const Header& header);
  Status begin(PeerId peer, std::span<const std::byte> payload);
  Status check_member(const wire::PsBegin& begin);
  Status begin_generation(Plan plan, const wire::PsPlan& message);
  Status share(PeerId peer, Member& member, const wire::PsBegin& begin, wire::PsBegun& begun);
  Status use(PeerId peer, const Header& header);
  Status checksum(PeerId peer, const Header& header);
  Status push(PeerId peer, const Header& header, std::span<const std::byte> payload);
  Status scale(const Header& header);
  // Of tables: ps/service_rows.cc.
  // Pieces and rows of a step have one learning rate.
  static Status check_rate(const Header& header, std::optional<double> known);
  Status take_rows(PeerId peer, const Header& header);
  Status send_rows(PeerId peer, const Header& header, const RowRound::Pull& pull);
  // Where workers do not wait for each other.
  Status take_rows_async(PeerId peer, const Header& header);
  Status apply_arrived_rows(PeerId peer);
  void take_complete_rows();
  void end_rows(optim::Updated updated);
  // Of tables that are kept by key: ps/service_tables.cc.
  bool has_tables() const { return plan_->is_sparse(); }
  Status step_tables();
  Status fetch_records(PeerId peer, const Header& header);
  Status load_records(const Header& header, std::span<const std::byte> records);
  Status send_sizes(PeerId peer, const Header& header);
  // Of the step. REQUIRES: something was pushed.
  double lr() const { return rows_->lr() ? *rows_->lr() : *round_->lr(); }
  // All that can be done with what has come.
  void advance();
  void for_pieces(std::size_t begin, std::size_t end, const std::function<void(std::size_t)>& each);
  void sum_piece(std::size_t piece);
  optim::Updated apply_piece(std::size_t piece);
  void send_piece(std::size_t piece);
  void end_step();
  void send_norms();
  void send_result(const Header& header, std::span<const float> floats);
  void break_up(PeerId guilty, const Error& why);

  // Where workers do not wait for each other (service_async.cc).
  Status make_copies();
  void tell_progress(wire::PsBegun& begun) const;
  Status take_progress(const Header& header, std::span<const std::byte> payload);
  Status use_async(std::int64_t step);
  Status take_event(const EventOrder::Event& event);
  Status carry_out(const EventOrder::Event& event);
  Status push_async(PeerId peer, const Header& header, std::span<const std::byte> payload);
  Status pull(PeerId peer, const Header& header);
  void answer(PeerId peer, std::int64_t task, std::size_t piece);
  Status stretch(PeerId peer, std::span<const std::byte> payload);
  Status task(PeerId peer, const Header& header);
  Status close(const Header& header, std::span<const std::byte> payload);
  Status keep_tally(const Header& header, std::span<const std::byte> payload);
  void hand_out();

  bool is_async() const { return plan_->async.has_value(); }
  // Whether it does what the first holder did, in the same order.
  bool follows() const {
    return is_copy_ && is_async() && plan_->async->applying == Applying::kAtOnce;
  }
  // What a task has here: its pieces, and rows as a whole.
  std::size_t parts_of_task() const {
    return round_->pieces().size() + (row_arrivals_->is_empty() ? 0 : 1);
  }
  // Who pushes knows that every server of the generation has its state.
  void note_push() {
    if (!std::exchange(has_stepped_, true)) shelf_->keep_only(newest_generation_);
  }
  Holding& incoming_or_held() { return incoming_ ? *incoming_ : *holding_; }

  Outbox& out_;
  const Log log_;
  const std::shared_ptr<Shelf> shelf_;
  const std::uint64_t credit_bytes_;
  std::shared_ptr<Holding> holding_;   // The slice's, on the shelf; null when there is none.
  std::shared_ptr<Holding> incoming_;  // Is being loaded, and goes there.

  // Of the generation; empty between two.
  std::optional<Plan> plan_;
  std::string plan_bytes_;
  SliceConfig config_;
  TableSetConfig tables_config_;
  std::uint64_t newest_generation_ = 0;
  std::map<PeerId, Member> members_;
  std::map<PeerId, std::vector<std::byte>> texts_;  // Of messages under way.
  bool in_use_ = false;  // The workers have said what to go on from: now they push.
  std::optional<wire::PsProgress> given_progress_;  // Belongs to what is being loaded.
  bool is_copy_ = false;
  std::unique_ptr<Crew> crew_;  // Once a slice was large enough.
  bool has_stepped_ = false;    // In this generation.

  // Of the step under way.
  std::optional<Round> round_;
  std::optional<RowRound> rows_;
  bool stepping_ = false;  // The slice has begun the step.
  std::size_t done_ = 0;   // Pieces, summed and, unless the norm is awaited, applied.
  bool awaits_scale_ = false;
  double norm_ = 0;
  bool finite_ = true;
  std::vector<optim::Updated> updated_;  // By piece.
  std::vector<float> sums_;              // Where the norm matters.
  std::vector<double> squares_;

  // Of the generation, where workers do not wait for each other.
  Copies copies_;
  std::optional<Arrivals> arrivals_;
  std::optional<RowArrivals> row_arrivals_;
  EventOrder order_;
  std::optional<Dispenser> dispenser_;  // The last server's.
  bool is_last_ = false;
};

}  // namespace tandem::ps
