#include "collective/mpi_engine.h"

#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "collective/mpi_requests.h"

namespace tandem::collective {
namespace {

constexpr int kTag = 0;
// MPI counts in int.
constexpr std::size_t kMaxPiece = std::size_t{1} << 30;

// What a rank tells of itself.
struct Introduction {
  char host[248];
  std::int64_t pid;
};

struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

MPI_Datatype mpi_type(Type type) {
  switch (type) {
    case Type::kFloat32:
      return MPI_FLOAT;
    case Type::kFloat64:
      return MPI_DOUBLE;
    case Type::kInt32:
      return MPI_INT32_T;
    case Type::kInt64:
      return MPI_INT64_T;
    case Type::kUint8:
      break;
  }
  return MPI_UINT8_T;
}

MPI_Op mpi_op(Op op) {
  return op == Op::kSum ? MPI_SUM : op == Op::kMin ? MPI_MIN : MPI_MAX;
}

class MpiEngine : public Engine {
 public:
  enum class Finalize { kYes, kNo };

  MpiEngine(MPI_Comm communicator, Finalize finalize)
      : communicator_(communicator), finalize_(finalize) {}

  ~MpiEngine() override {
    // After a failure both would wait for ranks that are gone.
    if (failure_) return;
    MPI_Comm_free(&communicator_);
    if (finalize_ == Finalize::kYes) MPI_Finalize();
  }

  // Learns who the members are.
  Status meet(const MpiOptions& options) {
    int rank = 0, size = 1;
    MPI_Comm_rank(communicator_, &rank);
    MPI_Comm_size(communicator_, &size);
    membership_.rank = rank;
    membership_.generation = options.generation;
    membership_.members.resize(static_cast<std::size_t>(size));
    Introduction own{};
    ::gethostname(own.host, sizeof own.host - 1);
    own.pid = ::getpid();
    std::vector<Introduction> all(static_cast<std::size_t>(size));
    requests_.begin();
    const int code = MPI_Iallgather(&own, sizeof own, MPI_BYTE, all.data(), sizeof own, MPI_BYTE,
                                    communicator_, &requests_.add(MpiRequests::kEverybody));
    TANDEM_TRY(finish(code, options.deadline));
    for (std::size_t i = 0; i < all.size(); ++i) {
      all[i].host[sizeof all[i].host - 1] = '\0';
      membership_.members[i] = {all[i].host, static_cast<pid_t>(all[i].pid)};
    }
    return {};
  }

  std::string_view name() const override { return "mpi"; }
  const Membership& membership() const override { return membership_; }
  Traffic traffic() const override { return traffic_; }

  Status exchange(std::span<const Send> sends, std::span<const Receive> receives,
                  Deadline deadline) override {
    if (failure_) return *failure_;
    requests_.begin();
    int code = MPI_SUCCESS;
    std::uint64_t received = 0, sent = 0;
    for (const Receive& receive : receives) {
      for (std::size_t at = 0; at < receive.bytes.size() && code == MPI_SUCCESS; at += kMaxPiece) {
        const auto piece = static_cast<int>(std::min(kMaxPiece, receive.bytes.size() - at));
        code = MPI_Irecv(&receive.bytes[at], piece, MPI_BYTE, receive.from, kTag, communicator_,
                         &requests_.add(receive.from));
      }
      received += receive.bytes.size();
    }
    for (const Send& send : sends) {
      for (std::size_t at = 0; at < send.bytes.size() && code == MPI_SUCCESS; at += kMaxPiece) {
        const auto piece = static_cast<int>(std::min(kMaxPiece, send.bytes.size() - at));
        code = MPI_Isend(&send.bytes[at], piece, MPI_BYTE, send.to, kTag, communicator_,
                         &requests_.add(send.to));
      }
      sent += send.bytes.size();
    }
    TANDEM_TRY(finish(code, deadline));
    traffic_.received += received;
    traffic_.sent += sent;
    return {};
  }

  Result<std::span<std::byte>> allocate(std::size_t bytes, Deadline) override {
    constexpr std::size_t kAlignment = 64;
    const std::size_t whole = (bytes / kAlignment + 1) * kAlignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (memory == nullptr) {
      return Error(Code::kOutOfSpace, fmt::format("no memory for {} bytes of operands", bytes));
    }
    std::memset(memory, 0, whole);
    memory_.emplace_back(memory);
    return std::span(memory, bytes);
  }

  std::optional<Status> all_reduce(const Operand& operand, Op op, Order order,
                                   Deadline deadline) override {
    if (order != Order::kRing) return std::nullopt;
    if (failure_) return *failure_;
    requests_.begin();
    int code = MPI_SUCCESS;
    auto* data = static_cast<std::byte*>(operand.data);
    for (std::size_t at = 0; at < operand.count && code == MPI_SUCCESS; at += kMaxPiece) {
      const auto piece = static_cast<int>(std::min(kMaxPiece, operand.count - at));
      code = MPI_Iallreduce(MPI_IN_PLACE, data + at * size_of(operand.type), piece,
                            mpi_type(operand.type), mpi_op(op), communicator_,
                            &requests_.add(MpiRequests::kEverybody));
    }
    Status done = finish(code, deadline);
    if (done.ok()) {
      // What a ring would move; MPI does not say what it did.
      const auto size = static_cast<std::uint64_t>(membership_.size());
      const std::uint64_t moved = 2 * operand.bytes() / size * (size - 1);
      traffic_.sent += moved;
      traffic_.received += moved;
    }
    return done;
  }

 private:
  Status finish(int code, Deadline deadline) {
    Status done = requests_.finish(code, membership_, deadline);
    if (!done.ok()) failure_ = done.error();
    return done;
  }

  MPI_Comm communicator_;
  const Finalize finalize_;
  Membership membership_;
  Traffic traffic_;
  std::optional<Error> failure_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  MpiRequests requests_;
};

}  // namespace

bool has_mpi() {
  return true;
}

Result<std::unique_ptr<Engine>> make_mpi_engine(MpiOptions options) {
  int initialized = 0, finalized = 0, provided = 0;
  MPI_Initialized(&initialized);
  MPI_Finalized(&finalized);
  if (finalized != 0) {
    return Error(Code::kInvalidArgument,
                 "MPI has ended in this process and cannot start again; start a new process");
  }
  const int code = initialized != 0
                       ? MPI_Query_thread(&provided)
                       : MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided);
  if (code != MPI_SUCCESS) return mpi_error(code, "cannot start MPI; was mpirun used?");
  if (provided < MPI_THREAD_SERIALIZED) {
    return Error(Code::kInvalidArgument,
                 "this MPI lets only the main thread call it, but tandem needs "
                 "MPI_THREAD_SERIALIZED; use an MPI that was built with threads");
  }
  MPI_Comm_set_errhandler(MPI_COMM_WORLD, MPI_ERRORS_RETURN);
  MPI_Comm communicator = MPI_COMM_NULL;
  if (const int failed = MPI_Comm_dup(MPI_COMM_WORLD, &communicator); failed != MPI_SUCCESS)
    return mpi_error(failed, "cannot make a communicator");
  MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN);
  auto engine = std::make_unique<MpiEngine>(
      communicator, initialized != 0 ? MpiEngine::Finalize::kNo : MpiEngine::Finalize::kYes);
  TANDEM_TRY(engine->meet(options));
  return std::unique_ptr<Engine>(std::move(engine));
}

}  // namespace tandem::collective
