#include "cluster/agent.h"

#include <fmt/format.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "base/cpu.h"
#include "base/file.h"
#include "cluster/node.h"
#include "cluster/remote.h"
#include "cluster/words.h"
#include "cluster/worker_command.h"
#include "job/parse.h"
#include "net/link.h"

namespace tandem::cluster {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

// What the connection's thread has for the other one, in the order in which it came.
struct News {
  enum class Kind : std::uint8_t { kUp, kDown, kMessage };
  Kind kind = Kind::kUp;
  std::string bytes;  // The message, or why the connection is down.
};

// The connection, on a thread of its own. Other methods than take() may be called from any thread.
class Connection {
 public:
  static Result<std::unique_ptr<Connection>> create(const AgentConfig& config) {
    Descriptor wakeup(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    if (!wakeup.is_open()) return system_error("make an eventfd", errno);
    TANDEM_ASSIGN(auto loop, net::Loop::create());
    auto connection =
        std::unique_ptr<Connection>(new Connection(config, std::move(loop), std::move(wakeup)));
    TANDEM_TRY(connection->start());
    return connection;
  }
  ~Connection() {
    loop_->post([this] { link_->stop(); });
    loop_->stop();
    if (thread_.joinable()) thread_.join();
    link_.reset();
  }

  int wakeup() const { return wakeup_.get(); }

  std::vector<News> take() {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = ::read(wakeup_.get(), &count, sizeof count);
    const std::lock_guard lock(mutex_);
    return std::exchange(news_, {});
  }

  void send(const wire::NodeMessage& message) {
    loop_->post([this, bytes = message.SerializeAsString()]() mutable {
      net::Channel* channel = link_->channel();
      if (channel == nullptr) return;  // The master counts these workers as lost.
      const Status status = channel->send(kFromNode, std::move(bytes));
      // Nothing may be left out: a master that does not read gets a new connection.
      if (!status.ok()) channel->close(net::Closing::kNow);
    });
  }

 private:
  Connection(const AgentConfig& config, std::unique_ptr<net::Loop> loop, Descriptor wakeup)
      : config_(config), loop_(std::move(loop)), wakeup_(std::move(wakeup)) {}

  Status start() {
    net::Link::Handler handler;
    handler.on_up = [this](net::Channel& channel) {
      wire::NodeMessage message;
      wire::NodeHello& hello = *message.mutable_hello();
      const Cpu cpu = detect_cpu();
      hello.set_name(config_.name);
      hello.set_slots(config_.slots);
      hello.set_version(config_.version);
      hello.set_avx2(cpu.avx2);
      hello.set_avx512(cpu.avx512);
      hello.set_processor(cpu.name);
      [[maybe_unused]] const Status sent = channel.send(kFromNode, message.SerializeAsString());
      add({News::Kind::kUp, ""});
    };
    handler.on_message = [this](std::uint16_t kind, std::string bytes) {
      if (kind == kFromMaster) add({News::Kind::kMessage, std::move(bytes)});
    };
    handler.on_down = [this](const Error& why) {
      add({News::Kind::kDown,
           why.message() + (why.code() == Code::kDenied
                                ? "; stop this node, set that right, and start it again"
                                : "; trying again")});
    };
    TANDEM_ASSIGN(link_, net::Link::create(*loop_, config_.master, config_.security, config_.limits,
                                           std::move(handler)));
    thread_ = std::thread([this] { loop_->run(); });
    return {};
  }

  void add(News news) {
    {
      const std::lock_guard lock(mutex_);
      news_.push_back(std::move(news));
    }
    const std::uint64_t one = 1;
    [[maybe_unused]] const ssize_t put = ::write(wakeup_.get(), &one, sizeof one);
  }

  const AgentConfig& config_;
  const std::unique_ptr<net::Loop> loop_;
  const Descriptor wakeup_;
  std::unique_ptr<net::Link> link_;  // Of the loop's thread.
  std::thread thread_;
  std::mutex mutex_;
  std::vector<News> news_;  // Guarded by mutex_.
};

class Agent final : public NodeListener {
 public:
  Agent(const AgentConfig& config, SignalQueue& signals)
      : config_(config), node_(Limits{}, signals, *this) {}

  Status run() {
    TANDEM_ASSIGN(connection_, Connection::create(config_));
    node_.set_wakeup(connection_->wakeup());
    while (!ending_ || !node_.is_idle()) {
      if (node_.turn(TimePoint::max()) == Node::Signal::kStop) end();
      for (const News& news : connection_->take()) handle(news);
      const bool abandoned =
          down_since_ && steady_clock::now() - *down_since_ >= config_.master_timeout;
      if (abandoned && !node_.is_idle() && !gave_up_) {
        gave_up_ = true;
        config_.log("the master is gone for too long; the workers end");
        for (const auto& [number, who] : who_) {
          if (!is_server(who.worker)) node_.stop(number, Cause::kNone);
        }
      }
      if (gave_up_) end_idle_servers();
    }
    return {};
  }

  Status message(int number, const wire::WorkerMessage& message) override {
    wire::NodeMessage told;
    const Who& who = who_.at(number);
    told.mutable_said()->set_job(who.job);
    told.mutable_said()->set_worker(who.worker);
    told.mutable_said()->set_message(message.SerializeAsString());
    send(who, told);
    return {};
  }
  Status line(int number, Stream stream, std::string_view text) override {
    wire::NodeMessage told;
    const Who& who = who_.at(number);
    told.mutable_line()->set_job(who.job);
    told.mutable_line()->set_worker(who.worker);
    told.mutable_line()->set_errors(stream == Stream::kErrors);
    told.mutable_line()->set_text(std::string(text));
    send(who, told);
    return {};
  }
  void ended(int number, WorkerEnd end) override {
    const Who who = who_.at(number);
    who_.erase(number);
    wire::NodeMessage told;
    *told.mutable_ended() = to_wire(who.job, who.worker, end);
    send(who, told);
  }
  void resumed() override {}

 private:
  // A worker as the master knows it. `session` counts connections: what was started in an earlier
  // one is nothing to the master any more.
  struct Who {
    std::int64_t job = 0;
    int worker = 0;
    int session = 0;
  };

  void send(const Who& who, const wire::NodeMessage& message) {
    if (who.session == session_ && !down_since_) connection_->send(message);
  }

  // Workers need them to save what they have.
  void end_idle_servers() {
    for (const auto& [number, who] : who_) {
      if (!is_server(who.worker)) return;
    }
    for (const auto& [number, who] : who_) node_.kill(number);
  }

  // Asked to end, a worker would end its whole job. Killed, it leaves it to the others.
  void end() {
    config_.log("ends, and its workers with it");
    ending_ = true;
    // To the master they are lost with the node, which is no fault of theirs.
    ++session_;
    for (const auto& [number, who] : who_) node_.kill(number);
  }

  void handle(const News& news) {
    switch (news.kind) {
      case News::Kind::kUp:
        config_.log(fmt::format("connected to the master at {}", net::to_string(config_.master)));
        ++session_;
        down_since_.reset();
        gave_up_ = false;
        last_down_.clear();
        // It has given up those that it lost with the connection, and replaces them.
        for (const auto& [number, who] : who_) node_.kill(number);
        return;
      case News::Kind::kDown:
        if (!down_since_) down_since_ = steady_clock::now();
        if (news.bytes != last_down_)
          config_.log(fmt::format("no connection to the master: {}", news.bytes));
        last_down_ = news.bytes;
        return;
      case News::Kind::kMessage:
        obey(news.bytes);
    }
  }

  void obey(const std::string& bytes) {
    const auto message = parse_master_message(bytes);
    if (!message.ok()) return config_.log(message.error().message());
    if (message->has_start()) start(message->start());
    if (message->has_tell()) tell(message->tell());
    if (message->has_end()) end(message->end());
  }

  std::optional<int> number_of(std::int64_t job, int worker) const {
    for (const auto& [number, who] : who_) {
      if (who.job == job && who.worker == worker && who.session == session_) return number;
    }
    return std::nullopt;
  }

  void start(const wire::StartWorker& start) {
    if (ending_) return;
    const int number = next_number_++;
    who_[number] = {start.job(), start.worker(), session_};
    Status status = try_to_start(number, start);
    if (status.ok()) return;
    const std::string why =
        fmt::format("{} cannot start a worker: {}", config_.name, status.error().message());
    config_.log(why);
    // Another node may be able to, so it is a lost worker and no end of the job.
    [[maybe_unused]] const Status told = line(number, Stream::kErrors, why);
    WorkerEnd end;
    end.exit = {false, 127};
    end.badly = true;
    ended(number, std::move(end));
  }

  Status try_to_start(int number, const wire::StartWorker& start) {
    RunRequest request;
    TANDEM_ASSIGN(request.parsed.job, job::parse(start.job_text(), "job.toml", {}));
    request.base_directory = start.base_directory();
    request.worker_program = config_.worker_program;
    request.environment = config_.environment;
    request.tls = config_.security.tls;
    request.kernels = {start.blas_core(), start.aten(), start.onednn()};
    request.limits.start = milliseconds(start.start_ms());
    request.limits.silence = milliseconds(start.silence_ms());
    if (is_server(start.worker())) {
      Command command = server_command(request, start.serve_at());
      command.environment.push_back("TANDEM_TOKEN=" + start.token());
      config_.log(fmt::format("starts {} of {}", server_name(server_of(start.worker())),
                              start.run_directory()));
      return node_.start(number, command, server_limits(request));
    }
    TANDEM_ASSIGN(const RunDirectory directory,
                  RunDirectory::open_or_create(start.run_directory(), start.job_text()));
    Command command = worker_command(request, directory);
    command.arguments.insert(command.arguments.end(),
                             {"--placed-by-node", "--number", std::to_string(start.worker())});
    command.environment.push_back("TANDEM_TOKEN=" + start.token());
    config_.log(fmt::format("starts worker {} of {}", start.worker(), start.run_directory()));
    return node_.start(number, command, limits_of(request));
  }

  void tell(const wire::TellWorker& tell) {
    auto message = parse_worker_message(tell.message());
    if (!message.ok()) return config_.log(message.error().message());
    if (message->has_place()) name_hosts(*message->mutable_place());
    if (const auto number = number_of(tell.job(), tell.worker())) node_.tell(*number, *message);
  }

  // What runs on the master's host is where this node reaches the master.
  void name_hosts(wire::Place& place) const {
    if (place.store_host().empty()) place.set_store_host(config_.master.host);
    for (auto* const servers : {place.mutable_servers(), place.mutable_former_servers()}) {
      for (wire::ServerAddress& server : *servers) {
        if (server.host().empty()) server.set_host(config_.master.host);
      }
    }
  }

  void end(const wire::EndWorker& end) {
    const auto number = number_of(end.job(), end.worker());
    if (!number) return;
    if (end.order() == static_cast<int>(Order::kKill)) return node_.kill(*number);
    const bool cancelled = end.cause() == static_cast<int>(Cause::kCancelled);
    node_.stop(*number, cancelled ? Cause::kCancelled : Cause::kNone);
  }

  const AgentConfig& config_;
  std::unique_ptr<Connection> connection_;
  std::map<int, Who> who_;  // By our number.
  int next_number_ = 0;
  int session_ = 0;
  std::optional<TimePoint> down_since_;
  std::string last_down_;
  bool ending_ = false, gave_up_ = false;
  Node node_;
};

}  // namespace

Status run_agent(const AgentConfig& config, SignalQueue& signals) {
  return Agent(config, signals).run();
}

}  // namespace tandem::cluster
