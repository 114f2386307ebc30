// The part of Service for workers that do not wait for each other.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "ps/progress_wire.h"
#include "ps/service.h"

namespace tandem::ps {
namespace {

void to_wire(const ClosedStep& closed, wire::PsClosed& message) {
  message.set_step(closed.step);
  for (const std::int64_t lane : closed.lanes) message.add_lanes(lane);
}

}  // namespace

// All of it is there before the first worker asks for its place.
Status Service::make_copies() {
  copies_ = {};
  // A server that has rows alone shares memory all the same.
  std::size_t floats = 1;
  for (const Piece& piece : round_->pieces())
    floats += plan_->workers() * (piece.end - piece.begin);
  TANDEM_ASSIGN(collective::Arena arena, collective::Arena::create());
  copies_.arena = std::make_unique<collective::Arena>(std::move(arena));
  TANDEM_ASSIGN(copies_.memory, copies_.arena->map(0, floats * sizeof(float)));
  return {};
}

void Service::tell_progress(wire::PsBegun& begun) const {
  if (!is_async() || !holding_ || !holding_->progress || holding_->slice->is_loading()) return;
  *begun.mutable_progress() = to_wire(*holding_->progress);
  if (is_last_) *begun.mutable_progress()->mutable_tally() = to_wire(holding_->tally);
}

Status Service::take_progress(const Header& header, std::span<const std::byte> payload) {
  wire::PsProgress progress;
  if (!progress.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Error(Code::kCorrupt, "a progress of tasks is damaged");
  if (in_use_ || !is_async()) return unexpected(header);
  given_progress_ = std::move(progress);
  return {};
}

// Goes on with the stretch that began after `step`, or begins the next one.
Status Service::use_async(std::int64_t step) {
  Holding& held = *holding_;
  if (!held.progress) {
    held.tally = {};
    held.progress.emplace(held.slice->step(), plan_->lanes, parts_of_task());
  }
  if (step != held.progress->from()) {
    if (!held.progress->stands_after(step))
      return Error(Code::kNotFound, fmt::format("the server does not stand after step {}", step));
    held.tally = {};
    held.progress.emplace(step, plan_->lanes, parts_of_task());
    held.slice->stand_after(step);
    if (held.tables) TANDEM_TRY(held.tables->stand_after(step));
  }
  dispenser_.reset();
  order_ = {};
  arrivals_.emplace(*held.slice, *held.progress, round_->pieces(), plan_->lanes, *plan_->async,
                    plan_->workers(),
                    std::span(reinterpret_cast<float*>(copies_.memory.data()),
                              copies_.memory.size() / sizeof(float)));
  return {};
}

// A push or a pull. The first holder does what comes, a copy what the first holder did.
Status Service::take_event(const EventOrder::Event& event) {
  note_push();
  if (follows() && event.header.sequence != order_.next())
    return order_.keep(event, plan_->workers() * (arrivals_->pieces().size() + 1));
  TANDEM_TRY(carry_out(event));
  while (const auto early = order_.take()) {
    const Status done = carry_out(*early);
    if (done.ok()) continue;
    if (early->peer == event.peer) return done;
    const std::string& culprit = members_.at(early->peer).name;
    dismiss(Error(done.error().code(), fmt::format("{}: {}", culprit, done.error().message())));
    return {};
  }
  return {};
}

Status Service::carry_out(const EventOrder::Event& event) {
  TANDEM_TRY(event.header.kind == Kind::kPull
                 ? pull(event.peer, event.header)
                 : push_async(event.peer, event.header, event.payload));
  order_.done();
  return {};
}

Status Service::push_async(PeerId peer, const Header& header, std::span<const std::byte> payload) {
  Member& member = members_.at(peer);
  const int worker = member.worker;
  member.credit.give_back(cost_of(header.bytes));
  if (follows()) TANDEM_TRY(arrivals_->check(header, worker));
  TANDEM_ASSIGN(const optim::Updated updated, arrivals_->apply(header, worker, floats_of(payload)));
  if (updated == optim::Updated::kNotFinite) finite_ = false;
  answer(peer, header.step, header.place);
  return apply_arrived_rows(peer);
}

void Service::answer(PeerId peer, std::int64_t task, std::size_t piece) {
  const int worker = members_.at(peer).worker;
  std::span<const float> floats;
  if (is_copy_) {
    arrivals_->note_answer(piece, worker);
  } else {
    floats = arrivals_->answer(piece, worker);
  }
  out_.send(peer,
            {.kind = Kind::kResult,
             .code = static_cast<std::uint16_t>(finite_ ? 0 : 1),
             .step = task + 1,
             .place = piece,
             .sequence = order_.next()},
            bytes_of(floats));
}

Status Service::pull(PeerId peer, const Header& header) {
  for (std::size_t piece = 0; piece < arrivals_->pieces().size(); ++piece)
    answer(peer, header.step, piece);
  return {};
}

Status Service::stretch(PeerId peer, std::span<const std::byte> payload) {
  wire::PsStretch message;
  if (!message.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Error(Code::kCorrupt, "a worker's stretch is damaged");
  const bool due = arrivals_ && is_last_ && members_.at(peer).worker == 0;
  const std::int64_t from = message.from(), to = message.to();
  if (!due || from != holding_->progress->from() || to < from ||
      to - from > kMostTasks / plan_->lanes || message.staleness() < 0 || message.quorum() < 0 ||
      message.begun_below() < 0) {
    return Error(Code::kInvalidArgument,
                 fmt::format("a stretch of steps {} to {} makes no sense here", from, to));
  }
  Stretch stretch{.from = from,
                  .to = to,
                  .lanes = plan_->lanes,
                  .begun = std::min(message.begun_below(), to * plan_->lanes),
                  .done_below = message.done_below(),
                  .quorum = message.quorum()};
  if (message.has_staleness()) stretch.staleness = message.staleness();
  dispenser_.emplace(stretch,
                     std::vector<std::int64_t>(message.done().begin(), message.done().end()),
                     holding_->tally);
  out_.send(peer, {.kind = Kind::kUsing, .step = from}, {});
  return {};
}

Status Service::task(PeerId peer, const Header& header) {
  if (!dispenser_ || header.place > std::uint64_t{1} << 40) return unexpected(header);
  const int worker = members_.at(peer).worker;
  // A worker whose loss is not a number says so itself.
  const double loss = std::isfinite(header.number) ? header.number : 0;
  if (header.step >= 0) {
    TANDEM_TRY(
        dispenser_->complete(worker, header.step, loss, static_cast<std::int64_t>(header.place)));
  }
  TANDEM_TRY(dispenser_->ask(worker));
  dispenser_->end_soon(header.code);
  hand_out();
  return {};
}

Status Service::close(const Header& header, std::span<const std::byte> payload) {
  wire::PsClosed closed;
  if (!closed.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Error(Code::kCorrupt, "a worker's closed step is damaged");
  if (!arrivals_) return unexpected(header);
  const std::int64_t open = holding_->progress->open_step();
  TANDEM_ASSIGN(const optim::Updated updated,
                arrivals_->close(closed.step(), {closed.lanes().data(),
                                                 static_cast<std::size_t>(closed.lanes_size())}));
  if (updated == optim::Updated::kNotFinite) finite_ = false;
  // As the server that hands out tasks does, to which this one may have to be an heir.
  if (is_last_ && is_copy_ && closed.step() == open) {
    for (std::int64_t lane = 0; lane < plan_->lanes; ++lane) {
      if (std::find(closed.lanes().begin(), closed.lanes().end(), lane) == closed.lanes().end())
        holding_->tally.dropped.push_back(open * plan_->lanes + lane);
    }
  }
  return {};
}

Status Service::keep_tally(const Header& header, std::span<const std::byte> payload) {
  wire::PsTally message;
  if (!message.ParseFromArray(payload.data(), static_cast<int>(payload.size())))
    return Error(Code::kCorrupt, "what is known of tasks is damaged");
  if (!arrivals_ || !is_last_ || !is_copy_) return unexpected(header);
  TaskTally& tally = holding_->tally;
  if (message.samples() < tally.samples) return {};  // Another worker's was newer.
  TaskTally newer = from_wire(message);
  newer.dropped = std::move(tally.dropped);
  tally = std::move(newer);
  return {};
}

void Service::hand_out() {
  for (const Dispenser::Answer& answer : dispenser_->take_answers()) {
    const auto to = std::find_if(members_.begin(), members_.end(), [&](const auto& each) {
      return each.second.worker == answer.worker;
    });
    if (to == members_.end()) continue;  // Its end is about to be noticed.
    wire::PsTaskNews news;
    if (answer.closes) to_wire(*dispenser_->closed(), *news.mutable_closed());
    if (answer.task >= 0) {
      const Header task{.kind = Kind::kTask,
                        .code = answer.pull ? kPullFirst : std::uint16_t{0},
                        .step = answer.task,
                        .place = static_cast<std::uint64_t>(dispenser_->below()),
                        .number = dispenser_->tally().loss,
                        .sequence = static_cast<std::uint64_t>(dispenser_->tally().samples)};
      if (plan_->replicas > 1) {
        *news.mutable_tally() = to_wire(dispenser_->tally());
        news.mutable_tally()->clear_dropped();
      }
      if (answer.closes || plan_->replicas > 1) {
        out_.send_text(to->first, task, news.SerializeAsString());
      } else {
        out_.send(to->first, task, {});
      }
      continue;
    }
    wire::PsStretchEnd end;
    if (answer.closes) *end.mutable_closed() = news.closed();
    end.set_end(dispenser_->end());
    end.set_wish(dispenser_->wish());
    *end.mutable_tally() = to_wire(dispenser_->tally());
    out_.send_text(to->first, {.kind = Kind::kStretchEnd}, end.SerializeAsString());
  }
}

}  // namespace tandem::ps
