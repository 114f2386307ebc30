// The rows of tables at one parameter server, as a worker sees them: which it has asked for, and
// the gradients that it pushes (ps/row_round.h is the other end). Each ServerEnd owns one.
//
// Nothing here waits. Belongs to the client's thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "ps/connection.h"
#include "ps/plan.h"
#include "ps/tables.h"

namespace tandem::ps {

// A partial sum of this worker.
struct RowSource {
  std::uint32_t partial = 0;  // Its number among all workers'.
  std::span<const float> vector;
};

// Whether a server answers pulls, or another one that holds the same does.
enum class Gives : std::uint8_t { kRows, kNothing };

class RowEnd {
 public:
  // `connection` must outlive it.
  RowEnd(const Plan& plan, const Bucket& slice, const KeyShare& share, Gives gives,
         Connection& connection);

  // Whether the server holds no rows.
  bool is_empty() const { return ranges_.empty(); }

  // A step begins, in which so many of this worker's partial sums touch these rows; `all` are the
  // rows of all of them. Registers the lists, and asks for the server's part of `all` after `step`
  // steps, if it gives rows. They are written into `parameters`, the whole vector, as they come.
  // Where rows are held by key, the place of one in its table's window is its place in `all`, which
  // must stay.
  void pull(std::int64_t step, const RowLists& all, std::span<const RowLists> sums,
            std::span<float> parameters);
  // The same between steps, for rows that are held by key and not trained. REQUIRES: it gives rows.
  void read(std::int64_t step, const RowLists& all, std::span<float> parameters);
  bool has_pulled() const;

  void begin_step();
  // Instead: no rows are pushed.
  void begin_nothing() { stepped_ = true; }
  // Pushes the rows of tables that are complete with so many buckets. kDiverged when a gradient is
  // no number: the server would refuse it. REQUIRES: the sources are the partial sums of pull().
  Status push(std::span<const RowSource> sources, std::size_t buckets_ready, std::int64_t step,
              double lr);
  bool has_pushed() const;
  bool has_stepped() const { return is_empty() || stepped_; }

  // Whether a message of a server is about rows; then place() and message() take it, or say that it
  // was not due.
  static bool is_mine(const Header& header) {
    return header.kind == Kind::kRows || header.kind == Kind::kStepped;
  }
  Result<std::span<std::byte>> place(const Header& header);
  Status message(const Header& header);
  // Of the step that kStepped ended.
  bool is_finite() const { return finite_; }

 private:
  // A table's rows here.
  struct Held {
    RowRange range;
    std::size_t bucket = 0;  // They are complete with this one.
    // What was registered for this table: what is pulled, then by partial sum where there are
    // several. Tables with the same rows, such as an embedding and its bias, use the list of the
    // first: `names` are numbers among those of all tables.
    std::vector<RowList> lists;
    std::vector<std::size_t> names;
    std::size_t came = 0;    // Of the rows that were asked for.
    std::size_t placed = 0;  // How many rows of the window are behind the last that came.
    bool is_pushed = false;
    std::vector<std::vector<float>> gathered;  // By source.
  };

  // Tells the server of one of a table's lists, unless it knows the rows already.
  void register_list(std::size_t range, std::size_t which, std::span<const std::uint32_t> rows);
  const RowList& list(const Held& held, std::size_t which) const;
  void ask(std::int64_t step, const RowLists& all, std::span<float> parameters);
  // Where rows of a list lie in the vector, for rows in their order.
  class Places;
  Status push_one(Held& held, std::size_t index, const RowSource& source, std::size_t which);
  Held* wanted(const Header& rows);
  Error unexpected() const;

  Connection& connection_;
  const Gives gives_;
  std::vector<Held> ranges_;
  std::int64_t step_ = 0;  // Whose rows were pulled, or are pushed.
  double lr_ = 0;
  std::span<float> parameters_;
  const RowLists* all_ = nullptr;  // Of the last pull.
  RowList scratch_;
  std::vector<float> received_;
  bool stepped_ = false, finite_ = true;
};

}  // namespace tandem::ps
