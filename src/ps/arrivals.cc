#include "ps/arrivals.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "base/check.h"
#include "base/span_math.h"

namespace tandem::ps {
namespace {

// Floats that are worked on at a time: they stay in the first-level cache.
constexpr std::size_t kPart = 2048;

constexpr std::uint64_t kNever = std::numeric_limits<std::uint64_t>::max();

Error refused(const std::string& what) {
  return Error(Code::kInvalidArgument, "refused a push: " + what);
}

}  // namespace

Arrivals::Arrivals(DenseSlice& slice, TaskProgress& progress, std::vector<Piece> pieces,
                   std::int64_t lanes, AsyncRule rule, std::size_t workers, std::span<float> copies)
    : slice_(slice),
      progress_(progress),
      pieces_(std::move(pieces)),
      lanes_(lanes),
      rule_(rule),
      copies_(copies),
      workers_(workers),
      updates_(pieces_.size()),
      scratch_(kPart) {
  for (const Piece& piece : pieces_) {
    places_.push_back(copy_floats_);
    copy_floats_ += piece.end - piece.begin;
  }
  TANDEM_CHECK(copies.size() >= workers * copy_floats_);
  if (collects()) collected_.resize(static_cast<std::size_t>(lanes));
  for (Worker& worker : workers_) worker.seen.assign(pieces_.size(), kNever);
}

Status Arrivals::check_shape(const Header& push, int worker) const {
  if (worker < 0 || std::cmp_greater_equal(worker, workers_.size()))
    return refused(fmt::format("there is no worker {}", worker));
  if (!progress_.has(push.step))
    return refused(fmt::format("task {} does not belong to the stretch after step {}", push.step,
                               progress_.from()));
  if (push.place >= pieces_.size())
    return refused(fmt::format("piece {} of {}", push.place, pieces_.size()));
  const Piece& piece = pieces_[push.place];
  if (push.bytes != (piece.end - piece.begin) * sizeof(float)) {
    return refused(fmt::format("piece {} has {} floats, and {} bytes came", push.place,
                               piece.end - piece.begin, push.bytes));
  }
  if (!std::isfinite(push.number) || push.number < 0)
    return refused(fmt::format("learning rate {}", push.number));
  return {};
}

Status Arrivals::check(const Header& push, int worker) const {
  TANDEM_TRY(check_shape(push, worker));
  const Worker& known = workers_[static_cast<std::size_t>(worker)];
  const std::uint64_t due = known.task == push.step ? known.next : 0;
  if (push.place != due) {
    return refused(fmt::format("piece {} of task {} where piece {} of {} is due", push.place,
                               push.step, due, pieces_.size()));
  }
  if (collects() && push.step / lanes_ > progress_.open_step())
    return refused(
        fmt::format("task {} before step {} is closed", push.step, push.step / lanes_ - 1));
  if (const std::size_t applied = progress_.applied(push.step); !collects() && push.place > applied)
    return refused(
        fmt::format("piece {} of task {} before piece {}", push.place, push.step, applied));
  return {};
}

bool Arrivals::has_all(std::int64_t task, int worker) const {
  const Worker& known = workers_[static_cast<std::size_t>(worker)];
  return pieces_.empty() || (known.task == task && known.next == pieces_.size());
}

Result<optim::Updated> Arrivals::apply(const Header& push, int worker,
                                       std::span<const float> gradient) {
  const Piece& piece = pieces_[push.place];
  const Bucket& slice = slice_.config().slice;
  const Bucket at{piece.begin - slice.begin, piece.end - slice.begin};
  // What comes through shared memory may change under our eyes; a worker that does that harms
  // itself, as any gradient could.
  if (const std::size_t bad = first_not_finite(gradient); bad < gradient.size()) {
    return Error(Code::kDiverged,
                 fmt::format("the gradient of parameter {} is not a finite number; lower "
                             "train.optimizer.lr, or add train.clip.value",
                             piece.begin + bad));
  }
  Worker& known = workers_[static_cast<std::size_t>(worker)];
  known.task = push.step;
  known.next = push.place + 1;
  if (collects()) {
    collect(push, at, gradient);
    return optim::Updated::kFinite;
  }
  if (push.place < progress_.applied(push.step)) return optim::Updated::kFinite;
  progress_.apply(push.step);

  const std::uint64_t seen = known.seen[push.place];
  const std::uint64_t missed = seen == kNever ? 0 : updates_[push.place] - seen;
  double lr = push.number;
  if (rule_.stale_lr == StaleRate::kLowered)
    lr /= 1 + static_cast<double>(missed) / static_cast<double>(lanes_);
  slice_.begin_arrival(lr, push.step);
  const float compensation = missed == 0 ? 0 : static_cast<float>(rule_.compensation);
  const std::span<const float> then = copy_of(push.place, worker);
  optim::Updated result = optim::Updated::kFinite;
  for (std::size_t begin = 0; begin < gradient.size(); begin += kPart) {
    const std::size_t count = std::min(kPart, gradient.size() - begin);
    const Bucket part{at.begin + begin, at.begin + begin + count};
    const std::span<float> slopes = std::span(scratch_).first(count);
    std::copy_n(gradient.begin() + static_cast<std::ptrdiff_t>(begin), count, slopes.begin());
    if (compensation != 0) {
      const std::span<const float> now = slice_.now(part);
      for (std::size_t i = 0; i < count; ++i)
        slopes[i] += compensation * slopes[i] * slopes[i] * (now[i] - then[begin + i]);
    }
    if (slice_.apply_arrival(part, slopes) == optim::Updated::kNotFinite)
      result = optim::Updated::kNotFinite;
  }
  ++updates_[push.place];
  return result;
}

void Arrivals::collect(const Header& push, const Bucket& at, std::span<const float> gradient) {
  if (push.step / lanes_ < progress_.open_step()) return;  // Too late.
  Collected& lane = collected_[static_cast<std::size_t>(push.step % lanes_)];
  lane.gradient.resize(slice_.size());
  std::copy(gradient.begin(), gradient.end(),
            lane.gradient.begin() + static_cast<std::ptrdiff_t>(at.begin));
  lane.pieces = push.place + 1;
  lane.lr = push.number;
  lane.samples = push.sequence;
}

Result<optim::Updated> Arrivals::close(std::int64_t step, std::span<const std::int64_t> lanes) {
  const auto wrong = [&] {
    return Error(
        Code::kInvalidArgument,
        fmt::format("step {} cannot be closed while step {} is open", step, progress_.open_step()));
  };
  if (!collects() || step < progress_.from() || step > progress_.open_step()) return wrong();
  if (step < progress_.open_step()) return optim::Updated::kFinite;
  std::uint64_t samples = 0;
  double lr = 0;
  for (const std::int64_t lane : lanes) {
    if (lane < 0 || lane >= lanes_) return wrong();
    const Collected& each = collected_[static_cast<std::size_t>(lane)];
    if (each.pieces != pieces_.size()) return wrong();
    samples += each.samples;
    lr = std::max(lr, each.lr);  // Empty lanes have none.
  }
  slice_.begin_arrival(lr, step);
  optim::Updated result = optim::Updated::kFinite;
  for (std::size_t begin = 0; begin < slice_.size() && samples > 0; begin += kPart) {
    const std::size_t count = std::min(kPart, slice_.size() - begin);
    const std::span<float> sum = std::span(scratch_).first(count);
    std::fill(sum.begin(), sum.end(), 0.0F);
    for (const std::int64_t lane : lanes) {
      const Collected& each = collected_[static_cast<std::size_t>(lane)];
      const auto weight =
          static_cast<float>(static_cast<double>(each.samples) / static_cast<double>(samples));
      for (std::size_t i = 0; i < count; ++i) sum[i] += weight * each.gradient[begin + i];
    }
    if (slice_.apply_arrival({begin, begin + count}, sum) == optim::Updated::kNotFinite)
      result = optim::Updated::kNotFinite;
  }
  for (Collected& each : collected_) each.pieces = 0;
  progress_.apply_step();
  for (std::uint64_t& updates : updates_) ++updates;
  return result;
}

std::span<float> Arrivals::copy_of(std::size_t piece, int worker) const {
  return copies_.subspan(static_cast<std::size_t>(worker) * copy_floats_ + places_[piece],
                         pieces_[piece].end - pieces_[piece].begin);
}

std::span<const float> Arrivals::answer(std::size_t piece, int worker) {
  const std::size_t begin = pieces_[piece].begin - slice_.config().slice.begin;
  const std::span<const float> now =
      slice_.now({begin, begin + pieces_[piece].end - pieces_[piece].begin});
  const std::span<float> copy = copy_of(piece, worker);
  std::copy(now.begin(), now.end(), copy.begin());
  workers_[static_cast<std::size_t>(worker)].seen[piece] = updates_[piece];
  return copy;
}

void Arrivals::note_answer(std::size_t piece, int worker) {
  // What it was is compared with later only then.
  if (rule_.compensation > 0) (void)answer(piece, worker);
  workers_[static_cast<std::size_t>(worker)].seen[piece] = updates_[piece];
}

}  // namespace tandem::ps
