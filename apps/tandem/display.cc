#include "display.h"

#include <fmt/format.h>

#include <algorithm>

#include "counted.h"

namespace tandem::cli {
namespace {

using std::chrono::duration;
using std::chrono::milliseconds;

constexpr milliseconds kShortestRedraw{100};
// However short the job's interval is, a log gets no more lines than this.
constexpr double kShortestInterval_s = 1.0;
constexpr std::string_view kClearLine = "\r\x1b[K";

bool is_shown(std::string_view event, Detail detail) {
  // A warning: what was to be safe is not.
  if (event == "checkpoint_failed" || event == "recording_failed") return true;
  return detail == Detail::kVerbose || (detail == Detail::kNormal && event != "checkpoint");
}

}  // namespace

Display::Display(const job::Job& job, const Kernels& kernels, DisplayStyle style,
                 DisplayWorld world)
    : job_(job),
      kernels_(kernels),
      style_(style),
      world_(std::move(world)),
      training_since_(world_.now()) {}

Display::~Display() {
  clear_live();
}

void Display::message(const wire::WorkerMessage& message) {
  if (message.has_started()) {
    show(message.started());
  } else if (message.has_progress()) {
    show(message.progress());
  } else if (message.has_evaluated() && !quiet()) {
    print(evaluation_line(started_.value_or(wire::Started()), message.evaluated()));
  } else if (message.has_event() && is_shown(message.event().kind(), style_.detail)) {
    print(fmt::format("{}: {}", message.event().kind(), message.event().detail()));
  }
}

void Display::show(const wire::Started& started) {
  started_ = started;
  training_since_ = world_.now();
  if (quiet()) return;
  std::string text = start_text(job_, started, kernels_);
  text.pop_back();  // print() ends the line.
  print(text);
}

void Display::show(const wire::Progress& progress) {
  const bool news = !progress_.has_value() || progress.step() != progress_->step();
  measure(progress);
  if (news) losses_.add(progress.loss());
  if (quiet()) return;
  const TimePoint now = world_.now();
  if (style_.live) {
    if (!last_draw_.has_value() || now - *last_draw_ >= kShortestRedraw) draw_live();
    return;
  }
  // A little early counts, or every second report of a worker that is punctual would be left out.
  const double interval_s = std::max(job_.train.report_every_s, kShortestInterval_s) * 0.9;
  if (!news || (last_line_.has_value() && duration<double>(now - *last_line_).count() < interval_s))
    return;
  last_line_ = now;
  print(progress_line(*position_));
}

// The speed since the last report, and from the pace so far (evaluations included) the time that is
// left.
void Display::measure(const wire::Progress& progress) {
  Position next = position(started_.value_or(wire::Started()), progress);
  const double train_s = progress.train_s() - (progress_.has_value() ? progress_->train_s() : 0);
  const auto samples = progress.samples() - (progress_.has_value() ? progress_->samples() : 0);
  if (train_s > 0 && samples > 0) {
    next.samples_per_s = static_cast<double>(samples) / train_s;
  } else if (position_.has_value()) {
    next.samples_per_s = position_->samples_per_s;
  }
  const double elapsed_s = duration<double>(world_.now() - training_since_).count();
  // A guess from the first moments would be wild.
  if (elapsed_s >= 1 && progress.step() > 0 && next.total_steps >= progress.step()) {
    next.left_s = elapsed_s / static_cast<double>(progress.step()) *
                  static_cast<double>(next.total_steps - progress.step());
  }
  progress_ = progress;
  position_ = next;
}

void Display::line(int worker, cluster::Stream stream, std::string_view text) {
  if (stream == cluster::Stream::kOutput && style_.detail != Detail::kVerbose) return;
  print(fmt::format("{}: {}", cluster::worker_name(static_cast<std::size_t>(worker)), text));
}

void Display::stopping(cluster::Order order, cluster::Cause cause) {
  if (cause != cluster::Cause::kCancelled || quiet()) return;
  print(order == cluster::Order::kTerminate
            ? "stopping: the workers finish their step (Ctrl-C again kills them at once)"
            : "stopping: the workers were killed");
}

void Display::resumed() {
  live_.clear();
  if (position_.has_value()) draw_live();
}

void Display::tick() {
  if (!style_.live || quiet()) return;
  const TimePoint now = world_.now();
  if (!last_draw_.has_value() || now - *last_draw_ >= std::chrono::seconds(1)) draw_live();
}

void Display::lost(std::size_t worker, const std::deque<std::string>& last_lines) {
  if (last_lines.empty()) return;
  print(fmt::format("the last lines of {}:", cluster::worker_name(worker)));
  for (const std::string& text : last_lines) print("  " + text);
}

void Display::summary(const cluster::Report& report, const std::string& run_directory) {
  if (quiet()) return;
  const std::vector<double> losses = losses_.values();
  std::string text = summary_text(report, losses, run_directory, style_.charset);
  if (style_.colour) {
    const bool good = report.status == cluster::RunStatus::kFinished ||
                      report.status == cluster::RunStatus::kConverged;
    const std::string_view status = cluster::to_string(report.status);
    text = fmt::format("\x1b[1;{}m{}\x1b[0m{}", good ? 32 : 33, status, text.substr(status.size()));
  }
  write_fresh(Weight::kLast, text);
}

std::string Display::live_text() const {
  if (!started_.has_value()) return "starting the worker ...";
  if (!position_.has_value()) return "first step ...";
  const auto width = static_cast<std::size_t>(std::max(world_.width(), 1));
  return progress_bar(*position_, width, style_.charset);
}

void Display::draw_live() {
  if (!style_.live || quiet()) return;
  last_draw_ = world_.now();
  const std::string text = live_text();
  if (text == live_) return;
  if (world_.write(Weight::kFrame, fmt::format("{}{}", kClearLine, text))) live_ = text;
}

void Display::clear_live() {
  if (!live_.empty()) world_.write(Weight::kLast, kClearLine);
  live_.clear();
}

void Display::print(std::string_view text) {
  const std::string live = live_.empty() ? "" : live_text();
  if (write_fresh(Weight::kLine, fmt::format("{}\n{}", text, live))) {
    live_ = live;
  } else {
    ++left_out_;
  }
}

bool Display::write_fresh(Weight weight, std::string_view text) {
  std::string whole(live_.empty() ? "" : kClearLine);
  if (left_out_ > 0)
    whole += fmt::format("({} left out while nobody read them)\n", counted(left_out_, "line"));
  whole += text;
  if (!world_.write(weight, whole)) return false;
  live_.clear();
  left_out_ = 0;
  return true;
}

}  // namespace tandem::cli
