#include "tandem/group.h"

#include <fmt/format.h>

#include <limits>

#include "library/failure.h"
#include "library/group_state.h"

namespace tandem {
namespace {

using library::demand;
using library::refuse;

collective::Operand internal(const detail::Operand& operand) {
  static_assert(static_cast<int>(detail::Type::kUint8) ==
                static_cast<int>(collective::Type::kUint8));
  return {operand.data, operand.count, static_cast<collective::Type>(operand.type)};
}

collective::Op internal(Op op) {
  static_assert(static_cast<int>(Op::kMax) == static_cast<int>(collective::Op::kMax));
  return static_cast<collective::Op>(op);
}

collective::Order internal(Order order) {
  static_assert(static_cast<int>(Order::kRing) == static_cast<int>(collective::Order::kRing));
  return static_cast<collective::Order>(order);
}

void check_root(int root, int size) {
  if (root < 0 || root >= size)
    refuse(fmt::format("root is {}, but ranks go from 0 to {}", root, size - 1));
}

void check_blocks(const char* call, std::size_t whole_bytes, std::size_t block_bytes, int size) {
  if (whole_bytes != block_bytes * static_cast<std::size_t>(size)) {
    refuse(
        fmt::format("{}: one buffer has {} bytes, the other {}; it must be {} times as much, as "
                    "there are so many ranks",
                    call, block_bytes, whole_bytes, size));
  }
}

}  // namespace

Group::Group() : Group(std::make_shared<State>(collective::Group(), Options{})) {}

Group::Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

int Group::rank() const {
  return state_->group.rank();
}

int Group::size() const {
  return state_->group.size();
}

std::string_view Group::engine() const {
  return state_->group.engine();
}

const GroupOptions& Group::options() const {
  return state_->options;
}

void Group::run(const Call& call) {
  state_->calls.run(call);
}

Work Group::start(Call call) {
  return Work(state_->calls.start(std::move(call)));
}

// The queue's calls end before the state does, so a plain pointer is enough; a shared one could
// make the queue's own thread the last owner.
Group::Call Group::all_reduce_call(const detail::Operand& data, Op op, Order order) {
  return [state = state_.get(), data, op, order] {
    demand(
        state->group.all_reduce(internal(data), internal(op), internal(order), state->deadline()));
  };
}

Group::Call Group::reduce_scatter_call(const detail::Operand& all, std::span<std::byte> mine, Op op,
                                       Order order) {
  check_blocks("reduce_scatter", internal(all).bytes(), mine.size(), size());
  return [state = state_.get(), all, mine, op, order] {
    demand(state->group.reduce_scatter(internal(all), mine, internal(op), internal(order),
                                       state->deadline()));
  };
}

Group::Call Group::all_gather_call(std::span<const std::byte> mine, std::span<std::byte> all) {
  check_blocks("all_gather", all.size(), mine.size(), size());
  return [state = state_.get(), mine, all] {
    demand(state->group.all_gather(mine, all, state->deadline()));
  };
}

Group::Call Group::all_to_all_call(std::span<const std::byte> from, std::span<std::byte> to,
                                   std::size_t element_bytes) {
  if (from.size() != to.size() ||
      from.size() % (static_cast<std::size_t>(size()) * element_bytes) != 0) {
    refuse(
        fmt::format("all_to_all: the buffers have {} and {} elements; they must be equally many "
                    "and a multiple of the {} ranks",
                    from.size() / element_bytes, to.size() / element_bytes, size()));
  }
  return [state = state_.get(), from, to] {
    demand(state->group.all_to_all(from, to, state->deadline()));
  };
}

Group::Call Group::broadcast_call(std::span<std::byte> data, int root) {
  check_root(root, size());
  return [state = state_.get(), data, root] {
    demand(state->group.broadcast(data, root, state->deadline()));
  };
}

Group::Call Group::gather_call(std::span<const std::byte> mine, std::span<std::byte> all,
                               int root) {
  check_root(root, size());
  if (rank() == root) check_blocks("gather", all.size(), mine.size(), size());
  return [state = state_.get(), mine, all, root] {
    demand(state->group.gather(mine, all, root, state->deadline()));
  };
}

Group::Call Group::barrier_call() {
  return [state = state_.get()] { demand(state->group.barrier(state->deadline())); };
}

std::span<std::byte> Group::run_allocate(std::size_t count, std::size_t element_bytes) {
  if (count > std::numeric_limits<std::size_t>::max() / 2 / element_bytes)
    refuse(fmt::format("allocate: {} elements are more than there can be", count));
  if (count == 0) return {};
  const std::size_t bytes = count * element_bytes;
  std::span<std::byte> memory;
  state_->calls.run([&] {
    if (state_->group.size() > 1) {
      memory = demand(state_->group.allocate(bytes, state_->deadline()));
      return;
    }
    state_->memory.push_back(std::make_unique<std::vector<std::byte>>(bytes));
    memory = *state_->memory.back();
  });
  return memory;
}

}  // namespace tandem
