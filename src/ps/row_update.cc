#include "ps/row_update.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "collective/reducer.h"
#include "optim/clip.h"
#include "ps/scope.h"

namespace tandem::ps {
namespace {

// Floats that are summed at a time, about: they stay in the first-level cache.
constexpr std::size_t kPart = 2048;

void note(optim::Updated part, optim::Updated& all) {
  if (part == optim::Updated::kNotFinite) all = part;
}

optim::Updated update(DenseSlice& slice, Into into, const Bucket& at, std::span<float> sums) {
  return into == Into::kNext ? slice.apply(at, sums) : slice.apply_arrival(at, sums);
}

}  // namespace

RowUpdate::RowUpdate(const Plan& plan, const Bucket& slice, const KeyShare& share)
    : ranges_(rows_of(plan, slice, share)),
      partials_(collective::partials_of(plan.ends)),
      lanes_(plan.lanes),
      slice_begin_(slice.begin),
      only_touched_(optim::ignores_zero_gradients(plan.optimizer)),
      clip_(plan.clip),
      touched_(ranges_.size()),
      before_(ranges_.size()),
      cursors_(partials_.size()) {
  if (ranges_.empty()) return;
  std::size_t room = kPart;
  for (const RowRange& range : ranges_) room = std::max(room, range.width);
  sums_.resize(room);
  chunk_.resize(room);
  gradients_.resize(partials_.size() * room);
  for (std::size_t i = 0; i < partials_.size(); ++i)
    sources_.push_back(gradients_.data() + i * room);
}

Bucket RowUpdate::place_of(const RowRange& range, std::size_t row) const {
  const std::size_t begin = range.at(row) - slice_begin_;
  return {begin, begin + range.width};
}

void RowUpdate::make_room(std::size_t range, std::span<const RowGradients> partials) {
  std::size_t rows = 0;
  for (const RowGradients& partial : partials) rows += partial.rows.size();
  for (RowList* const list : {&touched_[range], &before_[range], &merged_}) list->reserve(rows);
}

void RowUpdate::merge(std::size_t range, std::span<const RowGradients> partials) {
  std::swap(touched_[range], before_[range]);
  RowList& touched = touched_[range];
  touched.clear();
  for (const RowGradients& partial : partials) {
    merged_.clear();
    std::set_union(touched.begin(), touched.end(), partial.rows.begin(), partial.rows.end(),
                   std::back_inserter(merged_));
    std::swap(touched, merged_);
  }
  std::fill(cursors_.begin(), cursors_.end(), 0);
}

void RowUpdate::sum_some(std::size_t range, std::span<const RowGradients> partials,
                         std::span<const std::uint32_t> rows) {
  const std::size_t width = ranges_[range].width;
  for (std::size_t i = 0; i < partials.size(); ++i) {
    float* to = gradients_.data() + i * sums_.size();
    std::size_t& cursor = cursors_[i];
    for (const std::uint32_t row : rows) {
      if (cursor < partials[i].rows.size() && partials[i].rows[cursor] == row) {
        std::copy_n(partials[i].floats + cursor * width, width, to);
        ++cursor;
      } else {
        std::fill_n(to, width, 0.0F);
      }
      to += width;
    }
  }
  collective::add_partials({0, lanes_}, partials_, sources_, {0, rows.size() * width},
                           sums_.data());
}

void RowUpdate::keep_last(std::size_t range, DenseSlice& slice) {
  for (const std::uint32_t row : before_[range]) slice.keep(place_of(ranges_[range], row));
}

optim::Updated RowUpdate::apply(std::size_t range, std::span<const RowGradients> partials,
                                DenseSlice& slice, Into into) {
  merge(range, partials);
  return only_touched_ ? apply_touched(range, partials, slice, into)
                       : apply_all(range, partials, slice, into);
}

// All in one push: what the table remembers of it grows once.
Result<optim::Updated> RowUpdate::apply(std::size_t range, std::span<const RowGradients> partials,
                                        TableSet& tables) {
  merge(range, partials);
  const std::size_t width = ranges_[range].width, most = sums_.size() / width;
  const std::span<const std::uint32_t> all = touched_[range];
  keys_.assign(all.begin(), all.end());
  key_sums_.resize(all.size() * width);
  float* to = key_sums_.data();
  for (std::size_t first = 0; first < all.size(); first += most) {
    const auto rows = all.subspan(first, std::min(most, all.size() - first));
    sum_some(range, partials, rows);
    to = std::copy_n(sums_.data(), rows.size() * width, to);
  }
  const optim::Range whole{0, static_cast<std::int64_t>(key_sums_.size())};
  optim::clip_by_value(key_sums_, clip_, std::span(&whole, 1));
  return tables.push(ranges_[range].table, keys_, key_sums_);
}

optim::Updated RowUpdate::apply_touched(std::size_t range, std::span<const RowGradients> partials,
                                        DenseSlice& slice, Into into) {
  if (into == Into::kNext) keep_last(range, slice);
  optim::Updated updated = optim::Updated::kFinite;
  const std::size_t width = ranges_[range].width, most = sums_.size() / width;
  const std::span<const std::uint32_t> all = touched_[range];
  for (std::size_t first = 0; first < all.size(); first += most) {
    const auto rows = all.subspan(first, std::min(most, all.size() - first));
    sum_some(range, partials, rows);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      note(update(slice, into, place_of(ranges_[range], rows[i]),
                  std::span(sums_).subspan(i * width, width)),
           updated);
    }
  }
  return updated;
}

optim::Updated RowUpdate::apply_all(std::size_t range, std::span<const RowGradients> partials,
                                    DenseSlice& slice, Into into) {
  optim::Updated updated = optim::Updated::kFinite;
  const RowRange& held = ranges_[range];
  const std::size_t width = held.width, most = sums_.size() / width;
  auto touched = touched_[range].begin();
  for (std::size_t first = held.first; first < held.last; first += most) {
    const std::size_t last = std::min(held.last, first + most);
    const auto chunk = std::span(chunk_).first((last - first) * width);
    std::fill(chunk.begin(), chunk.end(), 0.0F);
    const auto end = std::lower_bound(touched, touched_[range].end(), last);
    if (touched != end) sum_some(range, partials, {touched, end});
    for (const float* from = sums_.data(); touched != end; ++touched, from += width)
      std::copy_n(from, width, chunk.data() + (*touched - first) * width);
    const std::size_t begin = held.at(first) - slice_begin_;
    note(update(slice, into, {begin, begin + chunk.size()}, chunk), updated);
  }
  return updated;
}

void RowUpdate::sum(std::size_t range, std::span<const RowGradients> partials,
                    std::span<float> sums) {
  merge(range, partials);
  const RowRange& held = ranges_[range];
  const std::size_t width = held.width, most = sums_.size() / width;
  const std::size_t begin = held.at(held.first) - slice_begin_;
  const std::size_t end = held.at(held.last) - slice_begin_;
  const std::span<float> table = sums.subspan(begin, end - begin);
  std::fill(table.begin(), table.end(), 0.0F);
  const std::span<const std::uint32_t> all = touched_[range];
  for (std::size_t first = 0; first < all.size(); first += most) {
    const auto rows = all.subspan(first, std::min(most, all.size() - first));
    sum_some(range, partials, rows);
    for (std::size_t i = 0; i < rows.size(); ++i)
      std::copy_n(sums_.data() + i * width, width, table.data() + (rows[i] - held.first) * width);
  }
}

optim::Updated RowUpdate::apply_sums(std::size_t range, std::span<float> sums, DenseSlice& slice) {
  const RowRange& held = ranges_[range];
  const auto apply_part = [&](const Bucket& at) {
    return slice.apply(at, sums.subspan(at.begin, at.end - at.begin));
  };
  if (!only_touched_)
    return apply_part({held.at(held.first) - slice_begin_, held.at(held.last) - slice_begin_});
  keep_last(range, slice);
  optim::Updated updated = optim::Updated::kFinite;
  for (const std::uint32_t row : touched_[range]) note(apply_part(place_of(held, row)), updated);
  return updated;
}

}  // namespace tandem::ps
