// What is kept of one job while its workers change: records what they say, says where they meet,
// and sums up at the end. The decisions are a Coordinator's; whoever drives both carries out what
// it decides. Belongs to one thread.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/result.h"
#include "cluster/line_file.h"
#include "cluster/node.h"
#include "cluster/recorder.h"
#include "cluster/run.h"
#include "cluster/team.h"

namespace tandem::cluster {

// Where the members of a generation find each other: a collective::StoreServer.
struct MeetingPoint {
  std::string host;
  std::uint16_t port = 0;
};

class JobRun {
 public:
  // All must outlive it.
  JobRun(const RunRequest& request, const RunDirectory& directory, Recorder& recorder,
         RunView& view)
      : request_(request), directory_(directory), recorder_(recorder), view_(view) {
    recorder_.set_warn([&view](const Event& event) { show(event, view); });
  }

  // A worker is about to start.
  void add_worker(int worker) {
    recorder_.add_worker(directory_, static_cast<std::size_t>(worker));
  }
  void message(int worker, const wire::WorkerMessage& message);
  // A parameter server listens there.
  void serving(int server, const std::string& host, std::uint32_t port) {
    servers_[server] = {host, static_cast<std::uint16_t>(port)};
  }
  void line(int worker, Stream stream, std::string_view text);
  void server_line(int server, std::string_view text);
  // It was lost with its node.
  void forget(int worker) { recorder_.end_worker(static_cast<std::size_t>(worker)); }
  // `team` is the job's; null when it has none any more.
  Ending ended(int worker, const WorkerEnd& end, const Team* team);

  // The message that tells a worker its place. Where no member has a state, the newest whole
  // checkpoint is looked for and what the run recorded after it is taken away.
  // `found` is what newest_or_start() has given already; without it it is called here.
  Result<wire::WorkerMessage> place(const PlaceWorker& place, const MeetingPoint& point,
                                    const ResumePoint* found = nullptr);
  // Whether place() will want to know the newest whole checkpoint.
  bool must_find_checkpoint(const PlaceWorker& place) const {
    return place.anew && generation_ > 0 && place.generation != generation_;
  }
  void tell(const TellUser& news);
  // Writes how it ended into the report.
  void finish(const EndJob& end, Report& report);

 private:
  Status go_back(const ResumePoint* found);
  bool has_trained_to_the_end() const;
  void finish_well(Report& report);
  void finish_badly(const EndJob& end, Report& report);

  const RunRequest& request_;
  const RunDirectory& directory_;
  Recorder& recorder_;
  RunView& view_;
  std::map<int, WorkerEnd> ends_;
  std::uint64_t generation_ = 0;   // The last one that a place was made for.
  bool has_started_ = false;       // A worker has said so.
  std::uint64_t rolled_back_ = 0;  // One that has gone back and made no step yet; 0: none.
  std::filesystem::path checkpoint_;
  std::string owner_;  // Of the run directory (checkpoint/owner.h).
  Count workers_;
  std::int64_t placed_servers_ = 0;  // Of that generation.
  std::uint64_t control_bytes_ = 0;
  std::map<int, MeetingPoint> servers_;  // Where parameter servers listen.
  std::map<int, LineFile> server_logs_;
};

}  // namespace tandem::cluster
