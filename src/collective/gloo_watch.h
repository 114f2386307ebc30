// Watches the connections of a Gloo mesh, because Gloo by itself tells only whoever waits for the
// very rank that is gone, and not who that is. Decides once why the engine failed; then tells every
// other rank (its last words) and closes the data's connections, so that all of them return the
// same reason at once. Used by gloo_engine.cc.
//
// It has connections of its own (GlooMesh::control): when one of those closes, the rank is gone.
// That a connection for data closed says less, since a rank closes them on any failure; so the
// watch then waits a moment for last words.
//
// When a deadline passes, the ranks first tell each other whom they wait for: who waits is not to
// blame, but who answers nothing.
//
// Owns a thread that looks every 20 ms and when asked. Methods are for the engine's one caller.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "collective/gloo_mesh.h"
#include "collective/gloo_verdict.h"
#include "collective/membership.h"

namespace tandem::collective {

class GlooWatch {
 public:
  // `abort` makes every wait for data return: Gloo leaves one waiting whose message was half there
  // when the connection closed. May throw what Gloo and std::thread throw. REQUIRES: a connected
  // mesh.
  GlooWatch(const Membership& membership, GlooMesh mesh, std::function<void()> abort);
  // Says goodbye to the others unless the engine failed, so that they do not call it a loss.
  ~GlooWatch();
  GlooWatch(const GlooWatch&) = delete;
  GlooWatch& operator=(const GlooWatch&) = delete;

  // Greets every rank. From then on all of them hear each other's last words: Gloo sends only what
  // it knows to be awaited, and a connection keeps its order. To be called first.
  Status meet(Deadline deadline);

  // For Gloo's own waits. The watch knows who is late and tells the others, so Gloo's own time-out,
  // which closes all without a word, is only for the case that the watch is stuck.
  static std::chrono::milliseconds patience(Deadline deadline);

  // The failure that was found, if any. No memory of the caller is in use then.
  std::optional<Error> failure();

  // An operation begins that has to end by `deadline`. Cheap.
  void begin(Deadline deadline);
  // It waits for `peer` now: that one is late when the deadline passes.
  void await(int peer);
  void end();

  // Another means has shown that a rank is gone (kPeerLost) or late (kTimeout): ends the engine
  // with that for all, unless it has ended already.
  void accuse(Code why, int culprit);

  // After an exception of Gloo's in an operation that had to do with `peer`: finds the reason and
  // closes all connections.
  Error explain(int peer, std::string_view what);

 private:
  // Words that go to or come from another rank, once.
  struct Message {
    std::unique_ptr<::gloo::transport::UnboundBuffer> buffer;
    Words words{};
  };

  struct Peer {
    bool watched = false;  // Neither ourselves nor one that has left.
    bool left = false;
    int awaits = -1;     // Whom it said to wait for.
    Message last_words;  // Received.
    Message notice;      // Received.
    Message greeting;    // Sent and received.
    // Receives nothing; fails with the connection for data.
    std::unique_ptr<::gloo::transport::UnboundBuffer> probe;
    std::optional<Deadline> cut_off;  // When that one will have failed for too long.
  };

  void run();
  // What the connections say.
  std::optional<Verdict> look();
  // Whether a rank cannot be reached that still answers the watch.
  std::optional<Verdict> probe();
  // What the clock says.
  std::optional<Verdict> judge_lateness();
  void hear_notices();
  int blamed_for(int awaited) const;
  void conclude(Verdict verdict);
  void say(const Verdict& verdict, Message& message, std::uint64_t slot);

  // Constant after construction.
  const Membership& membership_;
  const GlooMesh mesh_;
  const std::function<void()> abort_;

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_.
  std::vector<Peer> peers_;  // By rank.
  Message last_words_, notice_;
  bool noticed_ = false;  // `notice_` has gone out.
  std::unique_ptr<::gloo::transport::UnboundBuffer> closer_;
  std::optional<Error> failure_;
  std::optional<Verdict> suspicion_;  // The caller's; taken when nothing better is found.
  Deadline suspicion_until_;
  std::optional<Verdict> overdue_;  // Becomes the verdict when the others were heard.
  Deadline overdue_until_;
  bool stopping_ = false;
  int awaited_ = -1;  // Of the operation under way.
  Deadline began_;
  Deadline deadline_;

  std::thread thread_;
};

}  // namespace tandem::collective
