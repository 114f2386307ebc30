// One copy of a slice at a parameter server as a worker sees it: what was pushed to it, what came
// back, and what is awaited. The worker's Client (ps/client.h) owns one for each copy of each
// slice, and the step that all of them share.
//
// Nothing here waits. Belongs to the client's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "collective/arena.h"
#include "net/address.h"
#include "ps/connection.h"
#include "ps/credit.h"
#include "ps/plan.h"
#include "ps/push_order.h"
#include "ps/row_end.h"

namespace tandem::ps {

// What the servers of a worker have in common, and the step under way.
struct ClientStep {
  struct OwnPartial {
    std::uint32_t number = 0;  // Among all workers'.
    std::span<float> memory;
  };

  ClientStep(const Plan& plan_of_all, std::size_t servers_of_all)
      : plan(plan_of_all), servers(servers_of_all) {}

  // Constant once the client is connected.
  const Plan& plan;
  const std::size_t servers;
  collective::Mapping memory;  // Rings, then partial sums.
  std::vector<OwnPartial> partials;
  bool moves_meanwhile = false;  // While the worker computes messages are sent and received.

  std::vector<float> received;  // Results of servers that share no memory.
  std::int64_t step = 0;
  double lr = 0;
  std::uint64_t samples = 0;  // Of a task.
  std::size_t buckets_ready = 0;
  double norm = 0;
  bool is_finite = true;
};

class ServerEnd final : public Receiver {
 public:
  // `now` must outlive it.
  ServerEnd(ClientStep& now, const SliceCopy& which, net::SecureSocket socket,
            const net::Endpoint& endpoint);
  // Of a server that takes no part any more: what it has can be fetched.
  ServerEnd(ClientStep& now, net::SecureSocket socket, const net::Endpoint& endpoint);

  // "server 2 (127.0.0.1:4711)".
  const std::string& name() const { return name_; }
  const Bucket& slice() const { return slice_; }
  std::size_t slice_number() const { return which_.slice; }
  // Another server sends the results.
  bool is_copy() const { return which_.copy > 0; }
  // What is said to the first holder is passed on to this one once it was answered there, with the
  // number that it got (ps/event_order.h). `first` must outlive it.
  void follow(const ServerEnd& first) { first_ = &first; }
  // It takes no part: there are more servers than blocks of the vector.
  bool is_idle() const { return pieces_.empty() && rows_.is_empty(); }
  Connection& connection() { return connection_; }
  const Connection& connection() const { return connection_; }

  // What it said of itself; null until then.
  const wire::PsBegun* begun() const { return begun_ ? &*begun_ : nullptr; }
  // The parts of this vector of which it has said that it has the state after `step`.
  std::vector<Bucket> held(std::int64_t step) const;
  // Whether its slice is one of them, or is in the midst of the stretch of tasks after that step.
  bool has_slice(std::int64_t step) const;
  // The shares of tables that it has after `step`.
  std::vector<KeyShare> shares(std::int64_t step) const;
  // How far in that stretch: updates that it has. Of two copies the one with more is further.
  std::uint64_t updates(std::int64_t step) const;
  // Maps the server's memory, once it has said where it is. `rings` is where ours for it lie.
  Status share(std::size_t rings);

  void begin_step();
  // As much as the server's credit allows; where pieces overtake each other, as much as is on its
  // way at once.
  Status push_ready();
  // Whether more is to be pushed when something has moved.
  bool waits_to_push() const { return waits_to_push_; }
  // Where it follows: all that may be passed on by now.
  Status pass_on();
  bool has_all() const { return came_ == pieces_.size() && rows_.has_stepped(); }
  // Whether the results have come of all its pieces that lie in that part of the vector.
  bool has_part(const Bucket& part) const;
  // As many floats of the vector as lie together from `begin` on, not beyond `end`.
  std::span<const float> result(std::size_t begin, std::size_t end) const;
  RowEnd& rows() { return rows_; }
  const RowEnd& rows() const { return rows_; }
  bool has_squares() const { return squares_came_ || is_idle(); }
  const std::vector<double>& squares() const { return squares_; }

  void fetch(std::int64_t step, std::uint32_t array, std::size_t begin, std::span<float> into);
  bool has_fetched() const { return wanted_.empty(); }
  void load(std::int64_t step, std::uint32_t array, std::size_t begin, std::span<const float> from);
  // Of what was loaded, where that is in the midst of a stretch.
  void set_progress(const wire::PsProgress& progress);
  void use(std::int64_t step);
  bool is_using(std::int64_t step) const { return using_ == step || is_idle(); }
  // Asks for the checksum of its state; "" until it came.
  void ask_checksum(std::int64_t step);
  const std::string& checksum() const { return checksum_; }

  // Tables that are kept by key. Asks for records from number `from` on; there are some, or all
  // have come, once has_records().
  void ask_records(std::int64_t step, const KeyShare& share, std::size_t table, Records what,
                   std::size_t from);
  bool has_records() const { return !records_asked_; }
  const std::string& records() const { return records_; }
  std::size_t all_records() const { return all_records_; }
  void load_records(std::int64_t step, std::size_t table, Records what, std::string records);
  void ask_sizes();
  const wire::PsTableSizes* sizes() const { return sizes_ ? &*sizes_ : nullptr; }

  // Where workers do not wait for each other. What all pieces are now comes as results.
  void pull();
  void set_stretch(const wire::PsStretch& stretch);
  void ask_for_task(const Header& task);
  // What it answered: a task, or the end of the stretch.
  const Header* task() const { return task_ ? &*task_ : nullptr; }
  // What came with the task.
  const wire::PsTaskNews& news() const { return news_; }
  const wire::PsStretchEnd* stretch_end() const { return stretch_end_ ? &*stretch_end_ : nullptr; }

  Result<std::span<std::byte>> place(const Header& header) override;
  Status message(const Header& header, std::span<const std::byte> payload) override;

 private:
  enum class PieceState : std::uint8_t { kHere, kPushed, kCame };
  struct Wanted {
    std::size_t begin;
    std::uint32_t array;
    std::span<float> into;
  };

  // Whether that is of this vector, and of the state after `step`.
  bool has_step(const wire::PsHeld& held, std::int64_t step) const;
  bool is_wanted(const Header& state) const;
  bool has_all_pushed() const { return order_.is_done() && rows_.has_pushed(); }
  // Only where somebody sends what is held back for it.
  Overtaking overtaking() const;
  Error unexpected() const;
  Status check_result(const Header& header) const;

  ClientStep& now_;
  const SliceCopy which_;
  const ServerEnd* first_ = nullptr;
  const std::string name_;
  const Bucket slice_;
  const std::vector<Piece> pieces_;
  Connection connection_;
  RowEnd rows_;
  collective::Mapping memory_;  // The server's.
  std::string text_;
  std::optional<wire::PsBegun> begun_;
  std::optional<std::int64_t> using_;
  std::deque<Wanted> wanted_;
  std::optional<Header> records_asked_;
  std::string records_;
  std::size_t all_records_ = 0;
  bool sizes_asked_ = false;
  std::optional<wire::PsTableSizes> sizes_;
  std::optional<std::int64_t> sum_asked_;
  std::string checksum_;

  // Of the step.
  PushOrder order_;
  std::vector<PieceState> states_;
  std::size_t came_ = 0;  // Pieces.
  Credit credit_;
  bool waits_to_push_ = false;
  std::vector<std::span<const float>> results_;
  std::vector<std::uint64_t> numbers_;  // Of the events that they are the results of.
  bool awaits_pull_ = false;            // To be passed on.
  std::vector<double> squares_;
  bool squares_came_ = false;

  // Of the task that was asked for.
  bool asked_ = false;
  std::optional<Header> task_;
  wire::PsTaskNews news_;
  std::optional<wire::PsStretchEnd> stretch_end_;
};

}  // namespace tandem::ps
