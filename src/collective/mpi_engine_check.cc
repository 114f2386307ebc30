// For `mpirun -n N mpi_engine_check`: checks exchange and ring sums of the MPI engine, from another
// thread than the one that made it. Exits with 1 after a mistake. `mpi_engine_check late` checks
// that a rank which does not take part is called late, by name.
#include <fmt/format.h>
#include <mpi.h>

#include <cstdlib>
#include <string_view>
#include <thread>
#include <vector>

#include "collective/mpi_engine.h"

namespace tandem::collective {
namespace {

using namespace std::chrono_literals;

[[noreturn]] void give_up(const std::string& why) {
  fmt::print(stderr, "mpi_engine_check: {}\n", why);
  std::_Exit(1);
}

void require(bool holds, const std::string& what) {
  if (!holds) give_up(what);
}

void require(const Status& status, const std::string& what) {
  if (!status.ok()) give_up(what + ": " + status.error().message());
}

std::byte pattern(int from, int to, std::size_t i) {
  return static_cast<std::byte>(static_cast<std::size_t>(from * 7 + to * 31) + i * 13 + i / 251);
}

void check_exchange(Engine& engine, std::size_t bytes) {
  const int size = engine.membership().size(), rank = engine.membership().rank;
  std::vector<std::vector<std::byte>> out, in;
  std::vector<Send> sends;
  std::vector<Receive> receives;
  for (int peer = 0; peer < size; ++peer) {
    out.emplace_back(bytes);
    in.emplace_back(bytes);
    for (std::size_t i = 0; i < bytes; ++i) out.back()[i] = pattern(rank, peer, i);
    if (peer == rank) continue;
    // In two messages, whose order must hold.
    sends.push_back({peer, std::span(out.back()).first(bytes / 3)});
    sends.push_back({peer, std::span(out.back()).subspan(bytes / 3)});
    receives.push_back({peer, std::span(in.back()).first(bytes / 3)});
    receives.push_back({peer, std::span(in.back()).subspan(bytes / 3)});
  }
  const Traffic before = engine.traffic();
  require(engine.exchange(sends, receives, deadline_after(20s)), "exchange");
  const auto moved = static_cast<std::uint64_t>(size - 1) * bytes;
  require(engine.traffic().sent - before.sent == moved, "traffic");
  require(engine.traffic().received - before.received == moved, "traffic");
  for (int peer = 0; peer < size; ++peer) {
    for (std::size_t i = 0; i < bytes && peer != rank; ++i)
      require(in[static_cast<std::size_t>(peer)][i] == pattern(peer, rank, i), "received bytes");
  }
}

template <typename Element>
void check_sum(Engine& engine, Type type, std::size_t count) {
  const auto size = static_cast<std::size_t>(engine.membership().size());
  const auto rank = static_cast<std::size_t>(engine.membership().rank);
  const auto memory = engine.allocate(count * sizeof(Element), deadline_after(5s));
  require(memory.ok(), "allocate");
  auto* data = reinterpret_cast<Element*>(memory->data());
  const auto reduce = [&](Op op) {
    for (std::size_t i = 0; i < count; ++i) data[i] = static_cast<Element>(rank + i % 50);
    const auto done = engine.all_reduce({data, count, type}, op, Order::kRing, deadline_after(20s));
    require(done.has_value(), "ring sums are MPI's");
    require(*done, "all_reduce");
  };
  reduce(Op::kSum);
  for (std::size_t i = 0; i < count; ++i)
    require(data[i] == static_cast<Element>(size * (i % 50) + size * (size - 1) / 2), "sum");
  reduce(Op::kMin);
  for (std::size_t i = 0; i < count; ++i)
    require(data[i] == static_cast<Element>(i % 50), "minimum");
  reduce(Op::kMax);
  for (std::size_t i = 0; i < count; ++i)
    require(data[i] == static_cast<Element>(size - 1 + i % 50), "maximum");
}

void check_all(Engine& engine) {
  for (const std::size_t bytes : {0ul, 1ul, 4097ul, 1ul << 20, 20ul << 20})
    check_exchange(engine, bytes);
  for (const std::size_t count : {0ul, 1ul, 7ul, 100003ul}) {
    check_sum<float>(engine, Type::kFloat32, count);
    check_sum<double>(engine, Type::kFloat64, count);
    check_sum<std::int32_t>(engine, Type::kInt32, count);
    check_sum<std::int64_t>(engine, Type::kInt64, count);
    check_sum<std::uint8_t>(engine, Type::kUint8, count);
  }
  float x = 0;
  const auto soon = deadline_after(1s);
  require(!engine.all_reduce({&x, 1}, Op::kSum, Order::kOrdered, soon).has_value(),
          "ordered sums are not MPI's");
  for (const Member& member : engine.membership().members)
    require(member.pid > 0 && !member.host.empty(), "members");
}

void check_late(Engine& engine) {
  const int size = engine.membership().size();
  require(size >= 2, "start two ranks or more");
  const std::byte out{};
  if (engine.membership().rank == size - 1) {
    std::this_thread::sleep_for(1s);
    // What the others still have posted is then complete, and MPI can be finalised.
    for (int rank = 0; rank < size - 1; ++rank) {
      const Send send{rank, std::span(&out, 1)};
      require(engine.exchange({&send, 1}, {}, deadline_after(5s)), "late exchange");
    }
  } else {
    static std::byte in{};  // MPI may write to it later.
    const Receive receive{size - 1, std::span(&in, 1)};
    const auto began = std::chrono::steady_clock::now();
    const Status status = engine.exchange({}, {&receive, 1}, began + 300ms);
    require(std::chrono::steady_clock::now() - began < 800ms, "must return in time");
    require(!status.ok() && status.error().code() == Code::kTimeout, "must be late");
    const std::string& message = status.error().message();
    require(message.find(engine.membership().name(size - 1)) != std::string::npos, message);
    require(engine.exchange({}, {}, began + 300ms).error().message() == message, "must stay so");
  }
}

}  // namespace
}  // namespace tandem::collective

int main(int argc, char** argv) {
  using namespace tandem::collective;
  using namespace std::chrono_literals;
  auto engine = make_mpi_engine({1, deadline_after(20s)});
  if (!engine.ok()) give_up(engine.error().message());
  const bool late = argc > 1 && std::string_view(argv[1]) == "late";
  std::thread other([&] { late ? check_late(**engine) : check_all(**engine); });
  other.join();
  engine->reset();
  // An engine that failed does not, and mpirun would call this an abnormal end.
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
  return 0;
}
