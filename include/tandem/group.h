// Collective operations among processes ("ranks"), on plain memory; needs no libtorch.
//
//   tandem::Group group = tandem::Group::from_environment();
//   std::vector<float> numbers(1000, 1.0F);
//   group.all_reduce(numbers);  // Now each is group.size().
//
// Every rank makes the same calls in the same order. A call returns when this rank may use the
// result, or throws tandem::Failure; after that the group is of no more use. Buffers are contiguous
// ranges (std::vector, std::span, std::array) of float, double, int32_t, int64_t or uint8_t.
//
// A Group is a handle: copies are the same group. Calls may come from any thread and run one after
// another; which is first must be the same at every rank, so one thread is the usual thing.
#pragma once

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <future>
#include <memory>
#include <ranges>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "tandem/error.h"

namespace tandem {

enum class Op : std::uint8_t { kSum, kMin, kMax };
// How a sum's bits come about. kOrdered: in a fixed tree over ranks, so they depend on nothing but
// the operands. kRing: one rank after another, each slice from another one on; between machines
// Gloo's own ring, which needs the least memory.
enum class Order : std::uint8_t { kOrdered, kRing };

struct GroupOptions {
  // For each call, from its start; also for all ranks to come, in from_environment().
  std::chrono::milliseconds timeout = std::chrono::seconds(60);
  std::string engine = "auto";  // auto, shm, gloo or mpi.
};

namespace detail {

enum class Type : std::uint8_t { kFloat32, kFloat64, kInt32, kInt64, kUint8 };

template <typename T>
concept Element = std::same_as<T, float> || std::same_as<T, double> ||
    std::same_as<T, std::int32_t> || std::same_as<T, std::int64_t> || std::same_as<T, std::uint8_t>;

template <typename R>
concept Input = std::ranges::contiguous_range<R> && std::ranges::sized_range<R> &&
    Element<std::ranges::range_value_t<R>>;

template <typename R>
concept Output =
    Input<R> && !std::is_const_v<std::remove_reference_t<std::ranges::range_reference_t<R>>>;

// One whose data outlives the expression: for what goes on in the background.
template <typename R>
concept LastingOutput = Output<R> && std::ranges::borrowed_range<R>;

template <typename R>
concept LastingInput = Input<R> && std::ranges::borrowed_range<R>;

template <typename A, typename B>
concept SameElements = std::same_as<std::ranges::range_value_t<A>, std::ranges::range_value_t<B>>;

template <Element T>
constexpr Type type_of() {
  if constexpr (std::same_as<T, float>) return Type::kFloat32;
  if constexpr (std::same_as<T, double>) return Type::kFloat64;
  if constexpr (std::same_as<T, std::int32_t>) return Type::kInt32;
  if constexpr (std::same_as<T, std::int64_t>) return Type::kInt64;
  return Type::kUint8;
}

struct Operand {
  void* data = nullptr;
  std::size_t count = 0;
  Type type = Type::kFloat32;
};

template <Output R>
Operand operand(R&& range) {
  return {std::ranges::data(range), std::ranges::size(range),
          type_of<std::ranges::range_value_t<R>>()};
}

template <Input R>
std::span<const std::byte> bytes(const R& range) {
  return std::as_bytes(std::span(std::ranges::data(range), std::ranges::size(range)));
}

template <Output R>
std::span<std::byte> writable_bytes(R&& range) {
  return std::as_writable_bytes(std::span(std::ranges::data(range), std::ranges::size(range)));
}

}  // namespace detail

// A call that runs in the background. Its buffer must live, and stay untouched, until wait()
// returns. Dropping a Work does not stop the call.
class Work {
 public:
  Work() = default;
  explicit Work(std::shared_future<void> end) : end_(std::move(end)) {}

  // Throws what the call would have thrown. May be called again.
  void wait() const {
    if (end_.valid()) end_.get();
  }
  bool done() const {
    return !end_.valid() || end_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }

 private:
  std::shared_future<void> end_;
};

class Group {
 public:
  using Options = GroupOptions;

  // Of this process alone: every call does nothing, quickly.
  Group();

  // Of the processes that a launcher started: from RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT,
  // or what mpirun or srun set; of this process alone when nothing is set. Returns when all are
  // there. Throws kTimeout with the ranks that did not come.
  static Group from_environment(const Options& options = {});

  int rank() const;
  int size() const;
  std::string_view engine() const;  // "none", "shm", "gloo" or "mpi".
  const Options& options() const;

  // In place: every rank gets the combination of all, with the same bits at every rank; with
  // Order::kOrdered in every run and with every engine.
  void all_reduce(detail::Output auto&& data, Op op = Op::kSum, Order order = Order::kOrdered) {
    run(all_reduce_call(detail::operand(data), op, order));
  }
  // `all` has size() equal blocks; `mine` gets the combination of everybody's block rank().
  template <detail::Output All, detail::Output Mine>
  requires detail::SameElements<All, Mine>
  void reduce_scatter(All&& all, Mine&& mine, Op op = Op::kSum, Order order = Order::kOrdered) {
    run(reduce_scatter_call(detail::operand(all), detail::writable_bytes(mine), op, order));
  }
  // `all` gets everybody's `mine`, by rank.
  template <detail::Input Mine, detail::Output All>
  requires detail::SameElements<Mine, All>
  void all_gather(const Mine& mine, All&& all) {
    run(all_gather_call(detail::bytes(mine), detail::writable_bytes(all)));
  }
  // Block i of `from` goes to rank i; block i of `to` comes from it.
  template <detail::Input From, detail::Output To>
  requires detail::SameElements<From, To>
  void all_to_all(const From& from, To&& to) {
    run(all_to_all_call(detail::bytes(from), detail::writable_bytes(to), sizeof(*std::data(to))));
  }
  // Everyone gets the data of `root`.
  void broadcast(detail::Output auto&& data, int root = 0) {
    run(broadcast_call(detail::writable_bytes(data), root));
  }
  // `all`, at `root`, gets everybody's `mine`, by rank; the others may pass an empty one.
  template <detail::Input Mine, detail::Output All>
  requires detail::SameElements<Mine, All>
  void gather(const Mine& mine, All&& all, int root = 0) {
    run(gather_call(detail::bytes(mine), detail::writable_bytes(all), root));
  }
  void barrier() { run(barrier_call()); }

  // The same in the background, one after another in the order of the calls. A call without _async
  // waits for those before it.
  Work all_reduce_async(detail::LastingOutput auto&& data, Op op = Op::kSum,
                        Order order = Order::kOrdered) {
    return start(all_reduce_call(detail::operand(data), op, order));
  }
  template <detail::LastingOutput All, detail::LastingOutput Mine>
  requires detail::SameElements<All, Mine> Work
  reduce_scatter_async(All&& all, Mine&& mine, Op op = Op::kSum, Order order = Order::kOrdered) {
    return start(
        reduce_scatter_call(detail::operand(all), detail::writable_bytes(mine), op, order));
  }
  template <detail::LastingInput Mine, detail::LastingOutput All>
  requires detail::SameElements<Mine, All> Work all_gather_async(Mine&& mine, All&& all) {
    return start(all_gather_call(detail::bytes(mine), detail::writable_bytes(all)));
  }
  template <detail::LastingInput From, detail::LastingOutput To>
  requires detail::SameElements<From, To> Work all_to_all_async(From&& from, To&& to) {
    return start(
        all_to_all_call(detail::bytes(from), detail::writable_bytes(to), sizeof(*std::data(to))));
  }
  Work broadcast_async(detail::LastingOutput auto&& data, int root = 0) {
    return start(broadcast_call(detail::writable_bytes(data), root));
  }
  template <detail::LastingInput Mine, detail::LastingOutput All>
  requires detail::SameElements<Mine, All> Work gather_async(Mine&& mine, All&& all, int root = 0) {
    return start(gather_call(detail::bytes(mine), detail::writable_bytes(all), root));
  }
  Work barrier_async() { return start(barrier_call()); }

  // Zeroed memory, ours until the last copy of the group is gone; the fastest operands there are:
  // what lies there is reduced in place. Every rank asks for the same.
  template <detail::Element T>
  std::span<T> allocate(std::size_t count) {
    const std::span<std::byte> memory = run_allocate(count, sizeof(T));
    return {reinterpret_cast<T*>(memory.data()), count};
  }

  struct State;  // src/library/group_state.h
  explicit Group(std::shared_ptr<State> state);
  const std::shared_ptr<State>& state() const { return state_; }

 private:
  using Call = std::function<void()>;

  void run(const Call& call);
  Work start(Call call);
  // Each checks its arguments at once and throws kInvalidArgument.
  Call all_reduce_call(const detail::Operand& data, Op op, Order order);
  Call reduce_scatter_call(const detail::Operand& all, std::span<std::byte> mine, Op op,
                           Order order);
  Call all_gather_call(std::span<const std::byte> mine, std::span<std::byte> all);
  Call all_to_all_call(std::span<const std::byte> from, std::span<std::byte> to,
                       std::size_t element_bytes);
  Call broadcast_call(std::span<std::byte> data, int root);
  Call gather_call(std::span<const std::byte> mine, std::span<std::byte> all, int root);
  Call barrier_call();
  std::span<std::byte> run_allocate(std::size_t count, std::size_t element_bytes);

  std::shared_ptr<State> state_;
};

}  // namespace tandem
