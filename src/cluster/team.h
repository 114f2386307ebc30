// The workers of one job through all their generations: who is started, who is placed where, who is
// lost and replaced, and when the job is over. A pure state machine: it is told what happened and
// when, and answers what to do; it reads no clock and touches no process, so tests give it any time
// and any misfortune they like.
//
// A generation is a set of workers that train together. It ends when a member dies or leaves, or
// when another worker is ready to join; the members keep their state and get a place in the next.
// Who shall go gets none, and is asked to end only when it has left: one that was asked while it
// trains would end the training of all.
//
// A job may have parameter servers, too. Workers are placed when all of them serve. One that is
// lost is replaced, in its seat, which says what it holds; when no other server held the same,
// training goes back to a checkpoint. One that shall go is ended when the next generation has made
// a step, because until then it may have what the others need.
//
//   starting --ready--> ready --place--> placed --finished--> finished
//                                 ^         |
//                                 +-- left <-+       any of them --ended--> gone
//
// Belongs to one thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "cluster/supervision.h"
#include "converge/judge.h"

namespace tandem::cluster {

struct TeamConfig {
  int wanted = 1;                       // Workers to have.
  int least = 1;                        // With fewer the job waits.
  int servers = 0;                      // Parameter servers to have.
  int replicas = 1;                     // How many of them hold the same.
  std::int64_t lanes = 0;               // That the workers share; 0: always equally.
  int restarts = 8;                     // Lost workers that are replaced before the job fails.
  std::chrono::milliseconds echo{300};  // From the news that one is missing to its exit.
  // From a time-out at one member to those of the others, and from the first that has finished to
  // the last.
  std::chrono::milliseconds settle{2000};
  converge::Criteria criteria;  // What ends the training before its last step.
  std::chrono::milliseconds first_backoff{250}, most_backoff{15000};  // Between replacements.
};

// How a worker's process came to its end.
struct Ending {
  enum class Kind : std::uint8_t {
    kLost,      // It died, or was killed because it said nothing.
    kFailed,    // It said why the job cannot go on.
    kFinished,  // It had said Finished.
  };
  Kind kind = Kind::kLost;
  std::string how;  // "was killed by signal 9 (SIGKILL) at step 7".
};

// What shall be done.
struct StartWorker {
  int worker = 0;
};
struct PlaceWorker {
  int worker = 0;
  std::uint64_t generation = 0;
  int rank = 0, size = 1;
  std::vector<std::int64_t> lane_ends = {};  // By rank; empty: equal shares.
  bool anew = false;  // No member has a state: from the newest checkpoint, or from the start.
  std::vector<int> servers = {};         // In the order of the slices that they hold.
  std::vector<int> former_servers = {};  // That shall go, and may have what the others need.
};
struct StartServer {
  int server = 0;
};
struct EndServer {
  int server = 0;
};
// Whether training ends where the worker is that asked.
struct AnswerWorker {
  int worker = 0;
  std::uint64_t number = 0;  // The question's.
  converge::Verdict verdict;
};
struct EndWorker {
  int worker = 0;
  Order order = Order::kTerminate;
};
struct TellUser {
  std::string kind;  // As in events.jsonl: lost, joined, recovered, ...
  std::string who;
  std::string detail;
  std::optional<std::chrono::milliseconds> recovered = {};
};
// Every worker has ended.
struct EndJob {
  enum class How : std::uint8_t { kFinished, kFailed, kCancelled };
  How how = How::kFinished;
  int worker = -1;     // kFailed: because of this one.
  std::string reason;  // kFailed: beside what is to be said of the worker; may be "".
};
using TeamAction = std::variant<StartWorker, PlaceWorker, AnswerWorker, EndWorker, StartServer,
                                EndServer, TellUser, EndJob>;
using TeamActions = std::vector<TeamAction>;

// How far a worker has got with the data.
struct DataProgress {
  std::int64_t step = 0;     // Done so far.
  std::int64_t samples = 0;  // Trained on, each once an epoch.
  double lane_seconds = 0;   // What a lane takes the worker; 0: not known.
};

// Why a worker left its group.
enum class Leaving : std::uint8_t {
  kAgreed,    // The members agreed to meet anew.
  kPeerLost,  // Another one was missed.
  kTimeout,   // Another one was late.
  kNoState,   // The parameter servers did not have what training was to go on from.
};

class Team {
 public:
  explicit Team(const TeamConfig& config)
      : config_(config),
        wanted_(config.wanted),
        seats_(static_cast<std::size_t>(config.servers), kNobody) {}

  // On which node a worker is started. Members of one node get ranks that follow each other.
  void set_node(int worker, std::int64_t node);

  // Each is told once; all of them answer what is to be done now.
  TeamActions begin(TimePoint now);
  TeamActions ready(int worker, TimePoint now);
  TeamActions placed(int worker, std::uint64_t generation, TimePoint now);
  TeamActions left(int worker, std::uint64_t generation, Leaving why, TimePoint now);
  // Members that are much slower than others get fewer lanes.
  TeamActions progressed(int worker, const DataProgress& progress);
  // The answer depends on the question alone: whoever is asked again, another master too, says the
  // same.
  TeamActions asked(int worker, std::uint64_t number, const converge::Question& question);
  TeamActions finished(int worker, TimePoint now);
  TeamActions ended(int worker, const Ending& ending, TimePoint now);
  // Several at once, as with their node, and how many to have without them.
  TeamActions ended(const std::vector<int>& workers, const Ending& ending, int wanted,
                    TimePoint now);
  // Of parameter servers, which are numbered by themselves.
  TeamActions server_ready(int server, TimePoint now);
  TeamActions server_ended(int server, const std::string& how, TimePoint now);
  // The number of them to have from now on. REQUIRES: there are some, and not fewer than replicas.
  TeamActions resize_servers(int wanted, TimePoint now);
  // The number of workers to have from now on. With fewer than `least` those that train go on as
  // they are, but there is no next generation.
  TeamActions resize(int wanted, TimePoint now);
  // The first call asks the workers to end, the next kills them. A job that has failed stays so.
  TeamActions cancel(TimePoint now);
  TeamActions tick(TimePoint now);

  // When tick() has something to do next.
  TimePoint deadline() const;
  // The first member of the generation: it speaks for all. Nothing between generations.
  std::optional<int> speaker() const;
  std::uint64_t generation() const { return generation_; }
  // How many workers to have.
  int wanted() const { return wanted_; }
  // How many parameter servers to have, and those that the generation has.
  int wanted_servers() const { return static_cast<int>(seats_.size()); }
  int serving() const { return static_cast<int>(servers_placed_.size()); }
  // Whether the worker shall live: false of one that EndWorker was said of, and of unknown ones.
  bool wants(int worker) const;
  // Workers whose process runs, or is being started.
  int alive() const;
  int members() const { return static_cast<int>(members_.size()); }
  bool is_waiting() const { return waiting_; }
  bool is_over() const { return over_; }

 private:
  enum class Stage : std::uint8_t { kStarting, kReady, kPlaced, kLeft, kFinished, kEnding };
  enum class Goal : std::uint8_t { kTrain, kFail, kCancel };

  struct Worker {
    Stage stage = Stage::kStarting;
    bool has_state = false;
    bool has_joined = false;  // It has said so.
    std::int64_t node = 0;
    std::uint64_t place = 0;  // The generation of its last place.
    double lane_seconds = 0;  // 0: not known.
    std::int64_t measured_step = -1;
    bool unwanted = false;  // Leaves with the end of the generation.
  };

  TeamActions take();
  void decide(TimePoint now);
  void confirm(int worker, TimePoint now);
  void end_all();
  void want(int wanted);
  void take_back();
  void start_missing(TimePoint now);
  void start_missing_servers();
  void lose_server(int server, const std::string& how, TimePoint now);
  bool every_slice_is_held() const;
  void forget_state();
  void release_servers();
  std::vector<int> former_servers() const;
  void count_replacement(int lost, const char* what, TimePoint now);
  bool has_all_servers() const;
  void mark_superfluous();
  void release_superfluous();
  void release_the_rest();
  void regroup();
  bool must_wait() const;
  void kill_the_late(TimePoint now);
  std::optional<std::vector<double>> lane_seconds() const;
  void balance(int worker, double lane_seconds_now);
  std::vector<std::int64_t> shares_worth_it() const;
  void place(std::vector<int> next);
  void bury(int worker, const Ending& ending, TimePoint now);
  void lose(int worker, const Worker& lost, const std::string& how, TimePoint now);
  void fail(int guilty, std::string reason);
  std::vector<int> next_members() const;
  bool is_member(int worker) const;
  bool trains(const Worker& worker) const;
  int count(Stage stage) const;
  int wanted_alive() const;
  bool somebody_has_state() const;
  void tell(std::string kind, std::string who, std::string detail,
            std::optional<std::chrono::milliseconds> recovered = {});

  const TeamConfig config_;
  int wanted_;
  Goal goal_ = Goal::kTrain;
  Order order_ = Order::kTerminate;  // What those who shall end get, when the goal is another.
  int guilty_ = -1;
  std::string reason_;
  std::map<int, Worker> workers_;  // Those whose process has not ended.
  int next_worker_ = 0;
  enum class ServerStage : std::uint8_t { kStarting, kServing };
  static constexpr int kNobody = -1;
  std::map<int, ServerStage> servers_;  // Those whose process has not ended, nor shall end now.
  std::vector<int> seats_;              // Who holds slice 0, 1, ... in the next generation.
  std::vector<int> servers_placed_;     // The same of the generation,
  std::vector<int> servers_proven_;  // and of the last one that made a step: they have the state.
  int next_server_ = 0;
  std::uint64_t void_generation_ = 0;  // What workers had in it, and before, is of no more use.
  int replaced_ = 0;
  bool stays_short_ = false;  // Newcomers die again and again; those that live go on.
  int fruitless_ = 0;         // Generations in a row that ended without a step and without a loss.
  int stillborn_ = 0;         // Lost without having made a step, since the last step.
  bool somebody_finished_ = false;
  bool waiting_ = false, over_ = false;

  std::uint64_t generation_ = 0;
  std::vector<int> members_;          // Of the generation, by rank.
  bool confirmed_ = false;            // A member of the generation has made a step.
  bool broken_ = false;               // A member has left it, or is gone.
  std::optional<TimePoint> lost_at_;  // Since when no step was made.
  std::optional<TimePoint> echo_until_;
  std::optional<TimePoint> settle_until_;  // Until then the late may yet leave, or finish.
  std::optional<TimePoint> start_after_;
  std::chrono::milliseconds backoff_{0};
  std::vector<std::int64_t> lane_ends_;  // Of the generation; empty: equal shares.
  int uneven_ = 0;                       // Measurements in a row by which other shares were better.

  DataProgress progress_;  // What the first member said last.
  // After which step training ends, and why, as the user was told.
  std::pair<std::int64_t, std::string> decided_{-1, ""};

  TeamActions actions_;
};

}  // namespace tandem::cluster
