#include "ps/connection.h"

#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "ps/credit.h"

namespace tandem::ps {
namespace {

// Messages that one system call sends at most.
constexpr std::size_t kGather = 32;
// And bytes, about: after them it is looked what has come, so that what is under way stays in the
// cache, and neither direction waits for the other.
constexpr std::size_t kSentBytes = std::size_t{128} << 10;
// What is received in one turn at most, so that one peer cannot keep the others waiting.
constexpr std::size_t kFairBytes = std::size_t{4} << 20;
// Between peers that share memory little comes by the socket, and asking it costs more than a look
// into the ring: it is asked once in so many turns.
constexpr unsigned kQuietTurns = 16;

// What comes in every step, and goes through the ring. A kPull does not: it must not overtake what
// was said of a closed step.
bool is_hot(Kind kind) {
  return kind == Kind::kPush || kind == Kind::kResult || kind == Kind::kTask;
}

std::uint64_t result_cost(const Header& header) {
  return header.kind == Kind::kResult ? cost_of(header.bytes) : 0;
}

}  // namespace

Connection::Connection(net::SecureSocket socket, std::string peer)
    : socket_(std::move(socket)), peer_(std::move(peer)) {}

void Connection::send(const Header& header, std::span<const std::byte> payload,
                      std::shared_ptr<const void> owner) {
  Header full = header;
  full.bytes = payload.size();
  unsent_results_ += result_cost(full);
  if (is_hot(header.kind) && shared_ && (payload.empty() || is_own(payload))) {
    if (!payload.empty())
      full.offset = static_cast<std::uint64_t>(payload.data() - shared_->own.data());
    sent_bytes_ += payload.size();
    shared_->waiting.push_back(full);
    write_ring();
    return;
  }
  queue_.push_back({encode(full), payload, {}, std::move(owner), result_cost(full)});
}

void Connection::send_ahead(const Header& result, std::span<const std::byte> payload) {
  if (shared_) return send(result, payload);
  keep_unsent_here();
  Header full = result;
  full.bytes = payload.size();
  unsent_results_ += result_cost(full);
  std::size_t at = sent_of_first_ > 0 ? 1 : 0;
  const auto is_earlier = [&](const Outgoing& each) {
    return each.result_cost > 0 && each.result_place < full.place;
  };
  while (at < queue_.size() && !is_earlier(queue_[at])) ++at;
  queue_.insert(at, {encode(full), payload, {}, {}, result_cost(full), full.place});
}

void Connection::keep_unsent_here() {
  constexpr int kBytes = 1 << 18;
  if (std::exchange(keeps_unsent_, true)) return;
  ::setsockopt(socket_.fd(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &kBytes, sizeof kBytes);
}

void Connection::send_text(Header header, std::string payload) {
  header.bytes = payload.size();
  queue_.push_back({encode(header), {}, std::move(payload)});
}

void Connection::forget_memory() {
  shared_.reset();
  const bool half = sent_of_first_ > 0 && queue_.front().text.empty();
  if (half) queue_.clear();
  queue_.erase_if([](const Outgoing& each) { return each.text.empty() && !each.lent.empty(); });
  if (half) sent_of_first_ = 0;
  unsent_results_ = 0;
}

void Connection::share(const SharedMemory& memory) {
  shared_.emplace(
      Shared{RingWriter(*memory.out), RingReader(*memory.in), memory.own, memory.peers, {}});
}

bool Connection::is_own(std::span<const std::byte> payload) const {
  const std::span<const std::byte> own = shared_->own;
  return payload.data() >= own.data() && payload.data() + payload.size() <= own.data() + own.size();
}

Result<bool> Connection::turn(Receiver& receiver) {
  bool moved = false;
  if (shared_) {
    TANDEM_ASSIGN(moved, read_ring(receiver));
    // What was read may have ended the generation, and its memory with it.
    if (!shared_) return moved;
    moved |= write_ring();
    if (quiet_turns_++ % kQuietTurns != 0) {
      TANDEM_ASSIGN(const bool sent, flush());
      return moved || sent;
    }
  }
  for (std::size_t total = 0; total < kFairBytes;) {
    TANDEM_ASSIGN(const bool sent, send_some());
    TANDEM_ASSIGN(const std::size_t received, receive_some(receiver));
    if (!sent && received == 0) break;
    moved = true;
    total += received;
  }
  return moved;
}

bool Connection::write_ring() {
  bool wrote = false;
  while (!shared_->waiting.empty() && shared_->out.write(shared_->waiting.front())) {
    unsent_results_ -= result_cost(shared_->waiting.front());
    shared_->waiting.pop_front();
    wrote = true;
  }
  if (wrote && shared_->out.must_wake()) queue_.push_back({encode(Header{}), {}, {}});
  return wrote;
}

Result<bool> Connection::read_ring(Receiver& receiver) {
  bool moved = false;
  for (std::uint64_t i = 0; i < RingMemory::kSlots && shared_ && !shared_->in.is_empty(); ++i) {
    moved = true;
    TANDEM_ASSIGN(const Header header, shared_->in.read());
    const std::size_t size = shared_->peers.size();
    if (header.offset > size || header.bytes > size - header.offset ||
        header.offset % alignof(float) != 0)
      return Error(Code::kCorrupt, fmt::format("{} named memory that it does not share", peer_));
    if (!is_hot(header.kind))
      return Error(Code::kCorrupt, fmt::format("{} put into a ring what is not for it", peer_));
    received_bytes_ += header.bytes;
    TANDEM_TRY(receiver.message(header, shared_->peers.subspan(header.offset, header.bytes)));
  }
  return moved;
}

Result<bool> Connection::flush() {
  bool moved = false;
  for (;;) {
    TANDEM_ASSIGN(const bool sent, send_some());
    if (!sent) return moved;
    moved = true;
  }
}

Result<bool> Connection::send_some() {
  if (queue_.empty()) {
    auto flushed = socket_.flush();
    if (!flushed.ok()) return std::move(flushed).error().within("send to " + peer_);
    return flushed;
  }
  std::array<iovec, kGather> parts;
  std::size_t count = 0, bytes = 0;
  std::size_t skip = sent_of_first_;
  const auto add = [&](std::span<const std::byte> some) {
    const std::size_t skipped = std::min(skip, some.size());
    skip -= skipped;
    some = some.subspan(skipped);
    bytes += some.size();
    if (!some.empty()) parts[count++] = {const_cast<std::byte*>(some.data()), some.size()};
  };
  for (std::size_t i = 0; i < queue_.size() && count + 2 <= kGather && bytes < kSentBytes; ++i) {
    add(queue_[i].header);
    add(queue_[i].payload());
  }
  auto sent = socket_.send(std::span(parts).first(count));
  if (!sent.ok()) return std::move(sent).error().within("send to " + peer_);
  if (*sent == 0) return false;
  sent_of_first_ += *sent;
  while (!queue_.empty()) {
    const std::size_t payload = queue_.front().payload().size();
    if (sent_of_first_ < kHeaderBytes + payload) break;
    sent_of_first_ -= kHeaderBytes + payload;
    sent_bytes_ += payload;
    unsent_results_ -= queue_.front().result_cost;
    queue_.pop_front();
  }
  return true;
}

Result<std::size_t> Connection::receive_some(Receiver& receiver) {
  // What is missing of a payload goes straight to its place; what follows it, to the buffer.
  const std::span<std::byte> missing = payload_.subspan(received_of_payload_);
  if (input_begin_ == input_end_) input_begin_ = input_end_ = 0;
  std::span<std::byte> rest = std::span(input_).subspan(input_end_);
  // Behind much comes more: its header alone, so that it goes to its place, too, and no byte twice.
  if (missing.size() >= rest.size()) rest = rest.first(std::min(rest.size(), kHeaderBytes));
  std::array<iovec, 2> parts = {iovec{missing.data(), missing.size()},
                                iovec{rest.data(), rest.size()}};
  auto got = socket_.receive(missing.empty() ? std::span(parts).subspan(1) : std::span(parts));
  if (!got.ok()) return std::move(got).error().within("receive from " + peer_);
  if (*got == 0) return std::size_t{0};
  const std::size_t bytes = *got;
  const std::size_t direct = std::min(bytes, missing.size());
  received_of_payload_ += direct;
  input_end_ += bytes - direct;
  TANDEM_TRY(take(receiver));
  return bytes;
}

// Takes whole messages from the buffer.
Status Connection::take(Receiver& receiver) {
  for (;;) {
    const std::size_t there = input_end_ - input_begin_;
    if (!header_) {
      if (there < kHeaderBytes) break;
      const auto bytes =
          std::span<const std::byte>(input_).subspan(input_begin_).first<kHeaderBytes>();
      auto header = parse(bytes);
      if (!header.ok()) return std::move(header).error().within(peer_);
      input_begin_ += kHeaderBytes;
      header_ = *header;
      received_of_payload_ = 0;
      payload_ = {};
      if (header_->bytes > 0) {
        TANDEM_ASSIGN(payload_, receiver.place(*header_));
        TANDEM_CHECK(payload_.size() == header_->bytes);
      }
      continue;
    }
    const std::size_t some = std::min(there, payload_.size() - received_of_payload_);
    if (some > 0)
      std::memcpy(payload_.data() + received_of_payload_, input_.data() + input_begin_, some);
    input_begin_ += some;
    received_of_payload_ += some;
    if (received_of_payload_ < payload_.size()) break;
    const Header header = *header_;
    header_.reset();
    received_bytes_ += payload_.size();
    if (header.kind != Kind::kBell) TANDEM_TRY(receiver.message(header, payload_));
    payload_ = {};
    received_of_payload_ = 0;
  }
  // What is left is less than a header, or nothing.
  if (input_begin_ > 0) {
    std::memmove(input_.data(), input_.data() + input_begin_, input_end_ - input_begin_);
    input_end_ -= input_begin_;
    input_begin_ = 0;
  }
  return {};
}

}  // namespace tandem::ps
