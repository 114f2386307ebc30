#include "cluster/run_workers.h"

#include <utility>

namespace tandem::cluster {
namespace {

class Crew final : public NodeListener {
 public:
  Crew(const Limits& limits, SignalQueue& signals, WorkerListener& listener)
      : listener_(listener), node_(limits, signals, *this) {}

  Result<std::vector<WorkerEnd>> run(std::span<const Command> commands) {
    ends_.resize(commands.size());
    for (std::size_t i = 0; i < commands.size(); ++i)
      TANDEM_TRY(node_.start(static_cast<int>(i), commands[i]));
    while (!node_.is_idle()) {
      if (node_.turn(TimePoint::max()) == Node::Signal::kStop)
        for_all([&](int worker) { node_.stop(worker, Cause::kCancelled); });
      announce();
      listener_.tick();
    }
    return std::move(ends_);
  }

  Status message(int worker, const wire::WorkerMessage& message) override {
    return listener_.message(worker, message);
  }
  Status line(int worker, Stream stream, std::string_view text) override {
    return listener_.line(worker, stream, text);
  }
  void resumed() override { listener_.resumed(); }

  // One that is gone is missed by the others, who end by themselves and say how far they were.
  void ended(int worker, WorkerEnd end) override {
    if (end.badly) for_all([&](int other) { node_.expect_end(other); });
    ends_[static_cast<std::size_t>(worker)] = std::move(end);
  }

 private:
  template <typename Do>
  void for_all(Do act) {
    for (int worker = 0; worker < static_cast<int>(ends_.size()); ++worker) act(worker);
  }

  // Once for all workers.
  void announce() {
    const auto [order, cause] = node_.strongest();
    if (order <= announced_) return;
    announced_ = order;
    listener_.stopping(order, cause);
  }

  WorkerListener& listener_;
  Node node_;
  std::vector<WorkerEnd> ends_;
  Order announced_ = Order::kNothing;
};

}  // namespace

Result<std::vector<WorkerEnd>> run_workers(std::span<const Command> commands, const Limits& limits,
                                           SignalQueue& signals, WorkerListener& listener) {
  return Crew(limits, signals, listener).run(commands);
}

}  // namespace tandem::cluster
