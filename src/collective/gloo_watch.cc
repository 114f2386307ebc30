#include "collective/gloo_watch.h"

#include <algorithm>

namespace tandem::collective {
namespace {

using Kind = Verdict::Kind;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kTick{20};
// A notice and the answer to it take two ticks at most.
constexpr milliseconds kHearing{60};
// How long a rank that closed has for its last words.
constexpr milliseconds kLastWords{250};
constexpr std::uint64_t kLastWordsSlot = 1, kNoticeSlot = 2, kGreetingSlot = 3, kProbeSlot = 4;

// Words that may just be arriving: Gloo does not tell without waiting. Their check tells.
__attribute__((no_sanitize("thread"))) Words as_they_are(const Words& words) {
  const volatile std::uint32_t* arriving = words.data();
  return {arriving[0], arriving[1], arriving[2], arriving[3]};
}

// Whether the connection of a buffer that waits for something has failed.
bool has_failed(::gloo::transport::UnboundBuffer& buffer) {
  try {
    // Aborted beforehand, so it does not wait; but it throws when the connection has failed.
    buffer.abortWaitRecv();
    buffer.waitRecv(nullptr, kTick);
  } catch (const std::exception&) {
    return true;
  }
  return false;
}

Kind kind_of(std::string_view what) {
  const auto has = [&](std::string_view text) { return what.find(text) != what.npos; };
  if (has("Connection") || has("closed") || has("pipe")) return Kind::kLost;
  return has("imed out") ? Kind::kLate : Kind::kFailed;
}

}  // namespace

GlooWatch::GlooWatch(const Membership& membership, GlooMesh mesh, std::function<void()> abort)
    : membership_(membership),
      mesh_(std::move(mesh)),
      abort_(std::move(abort)),
      peers_(static_cast<std::size_t>(membership.size())) {
  const auto bind = [&](Message& message) {
    message.buffer = mesh_.control->createUnboundBuffer(message.words.data(), sizeof message.words);
  };
  bind(last_words_);
  bind(notice_);
  closer_ = mesh_.data->createUnboundBuffer(nullptr, 0);
  for (int rank = 0; rank < membership_.size(); ++rank) {
    if (rank == membership_.rank) continue;
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    peer.watched = true;
    bind(peer.last_words);
    bind(peer.notice);
    bind(peer.greeting);
    peer.probe = mesh_.data->createUnboundBuffer(nullptr, 0);
    peer.probe->recv(rank, kProbeSlot);
    peer.last_words.buffer->recv(rank, kLastWordsSlot);
    peer.notice.buffer->recv(rank, kNoticeSlot);
  }
  thread_ = std::thread([this] { run(); });
}

GlooWatch::~GlooWatch() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
  if (!failure_) say({Kind::kLeft, membership_.rank}, last_words_, kLastWordsSlot);
}

Status GlooWatch::meet(Deadline deadline) {
  begin(deadline);
  const auto for_each_peer = [&](auto action) {
    for (int rank = 0; rank < membership_.size(); ++rank)
      if (rank != membership_.rank)
        action(rank, *peers_[static_cast<std::size_t>(rank)].greeting.buffer);
  };
  int awaited = membership_.rank;
  bool met = true;
  try {
    for_each_peer([&](int rank, auto& buffer) {
      awaited = rank;
      buffer.recv(rank, kGreetingSlot);
      buffer.send(rank, kGreetingSlot);
    });
    for_each_peer([&](int rank, auto& buffer) {
      if (!met) return;
      await(awaited = rank);
      met = buffer.waitRecv(nullptr, patience(deadline)) &&
            buffer.waitSend(nullptr, patience(deadline));
    });
  } catch (const std::exception& failure) {
    return explain(awaited, failure.what());
  }
  if (!met) return explain(awaited, "the connection closed");
  end();
  return {};
}

milliseconds GlooWatch::patience(Deadline deadline) {
  constexpr milliseconds kGrace{2000};
  const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
  return std::clamp(left, milliseconds(0), milliseconds(std::chrono::hours(24 * 365))) + kGrace;
}

std::optional<Error> GlooWatch::failure() {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void GlooWatch::begin(Deadline deadline) {
  const std::lock_guard lock(mutex_);
  began_ = Clock::now();
  deadline_ = deadline;
  overdue_.reset();
}

void GlooWatch::await(int peer) {
  const std::lock_guard lock(mutex_);
  awaited_ = peer;
}

void GlooWatch::end() {
  await(-1);
}

Error GlooWatch::explain(int peer, std::string_view what) {
  std::unique_lock lock(mutex_);
  suspicion_ = Verdict{kind_of(what), peer, 0, -1, std::string(what)};
  suspicion_until_ = Clock::now() + kLastWords;
  changed_.notify_all();
  changed_.wait(lock, [&] { return failure_.has_value(); });
  return *failure_;
}

void GlooWatch::accuse(Code why, int culprit) {
  std::unique_lock lock(mutex_);
  suspicion_ = Verdict{why == Code::kTimeout ? Kind::kLate : Kind::kLost, culprit};
  suspicion_until_ = Clock::now();
  changed_.notify_all();
  changed_.wait(lock, [&] { return failure_.has_value(); });
}

void GlooWatch::run() {
  std::unique_lock lock(mutex_);
  while (!stopping_ && !failure_) {
    changed_.wait_for(lock, kTick);
    std::optional<Verdict> verdict = look();
    if (!verdict) verdict = judge_lateness();
    if (!verdict) verdict = probe();
    if (!verdict && suspicion_ && Clock::now() >= suspicion_until_) verdict = suspicion_;
    if (verdict) conclude(*std::move(verdict));
  }
}

std::optional<Verdict> GlooWatch::look() {
  std::optional<Verdict> lost;
  for (int rank = 0; rank < membership_.size(); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.watched) continue;
    // First this, then the words: they may arrive in between.
    const bool is_lost = has_failed(*peer.last_words.buffer);
    auto heard = to_verdict(as_they_are(peer.last_words.words), rank, membership_.size());
    if (heard && heard->kind == Kind::kLeft) {
      peer.watched = false;
      peer.left = true;
    } else if (heard) {
      // What another rank says about the cause is worth more than that it closed.
      return heard;
    } else if (is_lost && !lost) {
      lost = Verdict{Kind::kLost, rank};
    }
  }
  return lost;
}

std::optional<Verdict> GlooWatch::probe() {
  const auto now = Clock::now();
  for (int rank = 0; rank < membership_.size(); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.watched) continue;
    if (!peer.cut_off && has_failed(*peer.probe)) peer.cut_off = now + kLastWords;
    if (peer.cut_off && now >= *peer.cut_off) return Verdict{Kind::kLost, rank};
  }
  return std::nullopt;
}

std::optional<Verdict> GlooWatch::judge_lateness() {
  const auto now = Clock::now();
  hear_notices();
  // What was waited for has come after all.
  if (awaited_ < 0) overdue_.reset();
  if (!overdue_ && awaited_ >= 0 && now >= deadline_) {
    const auto waited = std::chrono::round<milliseconds>(now - began_) + milliseconds(50);
    overdue_ = Verdict{Kind::kLate, awaited_, static_cast<std::uint32_t>(waited.count() / 100)};
    overdue_until_ = now + kHearing;
  }
  const bool asked = std::ranges::any_of(peers_, [](const Peer& peer) { return peer.awaits >= 0; });
  if (!noticed_ && awaited_ >= 0 && (overdue_ || asked)) {
    noticed_ = true;
    say({Kind::kAwaits, awaited_}, notice_, kNoticeSlot);
  }
  if (!overdue_ || now < overdue_until_) return std::nullopt;
  overdue_->rank = blamed_for(overdue_->rank);
  return overdue_;
}

void GlooWatch::hear_notices() {
  for (int rank = 0; rank < membership_.size(); ++rank) {
    Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if (!peer.watched) continue;
    const auto heard = to_verdict(as_they_are(peer.notice.words), rank, membership_.size());
    if (heard && heard->kind == Kind::kAwaits) peer.awaits = heard->rank;
  }
}

// Whoever waits for another is late only because that one is. In a circle nobody is better.
int GlooWatch::blamed_for(int awaited) const {
  int rank = awaited;
  for (int hops = 0; hops < membership_.size(); ++hops) {
    const int next = peers_[static_cast<std::size_t>(rank)].awaits;
    if (next < 0) return rank;
    if (next == membership_.rank) break;
    rank = next;
  }
  return awaited;
}

void GlooWatch::conclude(Verdict verdict) {
  if (verdict.kind == Kind::kLost && peers_[static_cast<std::size_t>(verdict.rank)].left)
    verdict.kind = Kind::kLeft;
  Verdict told = verdict;
  if (told.kind == Kind::kFailed) told.rank = membership_.rank;
  // To the others a goodbye is that of whoever says it.
  if (told.kind == Kind::kLeft) told.kind = Kind::kLost;
  say(told, last_words_, kLastWordsSlot);
  try {
    // A wait that runs out makes Gloo fail and close every connection of the context, which no call
    // does without losing what was sent before.
    closer_->waitRecv(nullptr, milliseconds(1));
  } catch (const std::exception&) {
  }
  failure_ = to_error(verdict, membership_);
  abort_();
  for (const Peer& peer : peers_) {
    if (!peer.greeting.buffer) continue;
    peer.greeting.buffer->abortWaitRecv();
    peer.greeting.buffer->abortWaitSend();
  }
  changed_.notify_all();
}

void GlooWatch::say(const Verdict& verdict, Message& message, std::uint64_t slot) {
  message.words = to_words(verdict);
  for (int rank = 0; rank < membership_.size(); ++rank) {
    if (!peers_[static_cast<std::size_t>(rank)].watched) continue;
    try {
      message.buffer->send(rank, slot);
    } catch (const std::exception&) {
      // Gone already.
    }
  }
}

}  // namespace tandem::collective
