#include "collective/gloo_engine.h"

#include <gloo/allreduce.h>
#include <gloo/math.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <limits>

#include "collective/gloo_mesh.h"
#include "collective/gloo_watch.h"

namespace tandem::collective {
namespace {

// The watch's probe has another; collectives of Gloo have their own.
constexpr std::uint64_t kSlot = 0;
struct Free {
  void operator()(std::byte* memory) const { std::free(memory); }
};

class GlooEngine : public Engine {
 public:
  // The mesh of a group of one is empty. May throw what Gloo and std::thread throw.
  GlooEngine(Membership membership, const GlooMesh& mesh)
      : membership_(std::move(membership)), context_(mesh.data) {
    if (!context_) return;
    // One buffer for each peer that covers all memory, with addresses as offsets, so that an
    // exchange makes none. A buffer counts completions, hence one for each peer.
    for (int rank = 0; rank < membership_.size(); ++rank) {
      peers_.push_back(
          context_->createUnboundBuffer(nullptr, std::numeric_limits<std::size_t>::max()));
    }
    watch_ = std::make_unique<GlooWatch>(membership_, mesh, [this] { abort(); });
  }

  Status meet(Deadline deadline) { return watch_ ? watch_->meet(deadline) : Status(); }

  std::string_view name() const override { return "gloo"; }
  const Membership& membership() const override { return membership_; }
  Traffic traffic() const override { return traffic_; }

  Status exchange(std::span<const Send> sends, std::span<const Receive> receives,
                  Deadline deadline) override {
    if (!watch_) {
      TANDEM_CHECK(sends.empty() && receives.empty());
      return {};
    }
    if (auto failure = watch_->failure()) return *std::move(failure);
    watch_->begin(deadline);
    int peer = membership_.rank;
    try {
      for (const Receive& receive : receives) {
        peer = receive.from;
        if (!receive.bytes.empty())
          buffer(peer).recv(peer, kSlot, address(receive.bytes.data()), receive.bytes.size());
      }
      for (const Send& send : sends) {
        peer = send.to;
        if (!send.bytes.empty())
          buffer(peer).send(peer, kSlot, address(send.bytes.data()), send.bytes.size());
      }
      for (const Receive& receive : receives) {
        if (receive.bytes.empty()) continue;
        watch_->await(peer = receive.from);
        if (!buffer(peer).waitRecv(nullptr, GlooWatch::patience(deadline)))
          return watch_->explain(peer, "the connection closed");
        traffic_.received += receive.bytes.size();
      }
      for (const Send& send : sends) {
        if (send.bytes.empty()) continue;
        watch_->await(peer = send.to);
        if (!buffer(peer).waitSend(nullptr, GlooWatch::patience(deadline)))
          return watch_->explain(peer, "the connection closed");
        traffic_.sent += send.bytes.size();
      }
    } catch (const std::exception& failure) {
      return watch_->explain(peer, failure.what());
    }
    watch_->end();
    return {};
  }

  Result<std::span<std::byte>> allocate(std::size_t bytes, Deadline) override {
    constexpr std::size_t kAlignment = 64;
    const std::size_t rounded = std::max(bytes, std::size_t{1}) + kAlignment - 1;
    const std::size_t whole = rounded / kAlignment * kAlignment;
    auto* memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
    if (rounded < bytes || memory == nullptr) {
      std::free(memory);
      return Error(Code::kOutOfSpace,
                   "no memory for " + std::to_string(bytes) + " bytes of operands");
    }
    std::memset(memory, 0, whole);
    memory_.emplace_back(memory);
    return std::span(memory, bytes);
  }

  void give_up(Code why, int culprit) override {
    if (watch_) watch_->accuse(why, culprit);
  }

  std::optional<Status> all_reduce(const Operand& operand, Op op, Order order,
                                   Deadline deadline) override {
    if (order != Order::kRing || op != Op::kSum) return std::nullopt;
    switch (operand.type) {
      case Type::kFloat32:
        return ring_sum<float>(operand, deadline);
      case Type::kFloat64:
        return ring_sum<double>(operand, deadline);
      case Type::kInt32:
        return ring_sum<std::int32_t>(operand, deadline);
      case Type::kInt64:
        return ring_sum<std::int64_t>(operand, deadline);
      case Type::kUint8:
        break;
    }
    return std::nullopt;
  }

 private:
  template <typename Element>
  Status ring_sum(const Operand& operand, Deadline deadline) {
    if (!watch_ || operand.count == 0) return {};
    if (auto failure = watch_->failure()) return *std::move(failure);
    watch_->begin(deadline);
    // In Gloo's ring, this is where data comes from.
    const int next = (membership_.rank + 1) % membership_.size();
    watch_->await(next);
    try {
      ::gloo::AllreduceOptions options(context_);
      options.setAlgorithm(::gloo::AllreduceOptions::Algorithm::RING);
      options.setOutput(static_cast<Element*>(operand.data), operand.count);
      options.setReduceFunction([](void* to, const void* a, const void* b, std::size_t count) {
        ::gloo::sum<Element>(to, a, b, count);
      });
      options.setTimeout(GlooWatch::patience(deadline));
      ::gloo::allreduce(options);
    } catch (const std::exception& failure) {
      return watch_->explain(next, failure.what());
    }
    watch_->end();
    // Each slice goes round twice, without its last hop.
    const auto size = static_cast<std::uint64_t>(membership_.size());
    const std::uint64_t moved = 2 * operand.bytes() / size * (size - 1);
    traffic_.sent += moved;
    traffic_.received += moved;
    return {};
  }

  // Called by the watch when all is over.
  void abort() {
    for (const auto& peer : peers_) {
      peer->abortWaitRecv();
      peer->abortWaitSend();
    }
  }

  ::gloo::transport::UnboundBuffer& buffer(int rank) {
    TANDEM_CHECK(rank >= 0 && rank < membership_.size() && rank != membership_.rank);
    return *peers_[static_cast<std::size_t>(rank)];
  }

  static std::size_t address(const std::byte* memory) {
    return reinterpret_cast<std::size_t>(memory);
  }

  const Membership membership_;
  const std::shared_ptr<::gloo::Context> context_;
  std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>> peers_;
  std::vector<std::unique_ptr<std::byte, Free>> memory_;
  Traffic traffic_;
  // Last, so that it ends first.
  std::unique_ptr<GlooWatch> watch_;
};

void ignore_broken_pipes() {
  struct sigaction current {};
  if (::sigaction(SIGPIPE, nullptr, &current) == 0 && current.sa_handler == SIG_DFL)
    ::signal(SIGPIPE, SIG_IGN);
}

}  // namespace

Result<std::unique_ptr<Engine>> make_gloo_engine(GlooOptions options) {
  try {
    GlooMesh mesh;
    if (options.membership.size() > 1) {
      TANDEM_CHECK(options.store != nullptr);
      ignore_broken_pipes();
      TANDEM_ASSIGN(mesh, connect_gloo_mesh(options));
    }
    auto engine = std::make_unique<GlooEngine>(std::move(options.membership), mesh);
    TANDEM_TRY(engine->meet(options.deadline));
    return std::unique_ptr<Engine>(std::move(engine));
  } catch (const std::exception& failure) {
    return Error(Code::kInternal, std::string("cannot make the Gloo engine: ") + failure.what());
  }
}

}  // namespace tandem::collective
