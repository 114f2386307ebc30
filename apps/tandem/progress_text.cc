#include "progress_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string_view>
#include <vector>

#include "base/text.h"
#include "counted.h"

namespace tandem::cli {
namespace {

constexpr std::size_t kCurveWidth = 40;

std::int64_t total_epochs(const wire::Started& started) {
  if (started.steps_per_epoch() <= 0) return 0;
  return (started.total_steps() + started.steps_per_epoch() - 1) / started.steps_per_epoch();
}

// As many digits as tell one loss from the next.
std::string number(double value) {
  const double size = std::fabs(value);
  if (size != 0 && (size < 1e-3 || size >= 1e6)) return fmt::format("{:.3g}", value);
  return fmt::format("{:.4f}", value);
}

std::string rate(double samples_per_s) {
  const bool countable = std::isfinite(samples_per_s) && samples_per_s >= 0 && samples_per_s < 1e15;
  if (!countable) return "? samples/s";
  if (samples_per_s < 100) return fmt::format("{:.1f} samples/s", samples_per_s);
  return with_commas(std::llround(samples_per_s)) + " samples/s";
}

std::string rmse_text(double rmse) {
  return fmt::format("rmse {:.4f}", rmse);
}

std::string accuracy_text(double accuracy) {
  return fmt::format("accuracy {:.2f} %", accuracy * 100);
}

// The parts of a progress line, most important first.
std::vector<std::string> fields(const Position& position) {
  std::vector<std::string> result = {
      fmt::format("epoch {}/{}", position.epoch, position.total_epochs),
      fmt::format("step {}/{}", position.step, position.total_steps),
      "loss " + number(position.loss), fmt::format("lr {:.4g}", position.lr),
      rate(position.samples_per_s)};
  if (position.left_s.has_value()) result.push_back(human_seconds(*position.left_s) + " left");
  return result;
}

double done(const Position& position) {
  if (position.total_steps <= 0) return 0;
  return std::clamp(static_cast<double>(position.step) / static_cast<double>(position.total_steps),
                    0.0, 1.0);
}

std::string bar(double share, std::size_t width, Charset charset) {
  const auto full = static_cast<std::size_t>(std::lround(share * static_cast<double>(width)));
  std::string text = charset == Charset::kUtf8 ? "" : "[";
  for (std::size_t i = 0; i < width; ++i) {
    if (charset == Charset::kUtf8) {
      text += i < full ? "█" : "░";
    } else {
      text += i < full ? '#' : '-';
    }
  }
  return charset == Charset::kUtf8 ? text : text + "]";
}

std::string row(std::string_view name, std::string_view value) {
  return fmt::format("  {:<12}{}\n", name, value);
}

}  // namespace

Position position(const wire::Started& started, const wire::Progress& progress) {
  Position result;
  result.step = progress.step();
  result.total_steps = started.total_steps();
  result.total_epochs = total_epochs(started);
  // The one that the last step belongs to.
  const std::int64_t steps = std::max<std::int64_t>(started.steps_per_epoch(), 1);
  result.epoch = std::max<std::int64_t>((progress.step() + steps - 1) / steps, 1);
  result.loss = progress.loss();
  result.lr = progress.lr();
  return result;
}

std::string start_text(const job::Job& job, const wire::Started& started, const Kernels& kernels) {
  std::string parameters = with_commas(started.parameters());
  if (started.buffers() > 0) parameters += " and " + counted(started.buffers(), "buffered number");
  std::string text =
      fmt::format("{}: {} on {}\n", job.name, job.model.config.kind, job.data.source);
  text += row("parameters", parameters);
  text += row("data",
              fmt::format("{} training, {} validation, {}", with_commas(started.train_samples()),
                          with_commas(started.validation_samples()),
                          counted(started.test_samples(), "test sample")));
  text += row("batch", fmt::format("{} in {}; {} an epoch, {} in all", with_commas(started.batch()),
                                   counted(started.lanes(), "lane"),
                                   counted(started.steps_per_epoch(), "step"),
                                   with_commas(started.total_steps())));
  text +=
      row("kernels", fmt::format("BLAS {}, ATen {}, oneDNN {}; {}", kernels.blas_core, kernels.aten,
                                 kernels.onednn, counted(job.train.threads, "thread")));
  for (const std::string& note : started.notes()) text += row("note", note);
  return text;
}

std::string progress_line(const Position& position) {
  return fmt::format("{}", fmt::join(fields(position), "  "));
}

std::string progress_bar(const Position& position, std::size_t width, Charset charset) {
  constexpr std::size_t kBarWidth = 20;
  const double share = done(position);
  std::string text = fmt::format("{:3.0f} % ", std::floor(share * 100));
  std::size_t used = text.size();
  const std::size_t bar_columns = kBarWidth + (charset == Charset::kUtf8 ? 0 : 2);
  // A narrow terminal keeps the numbers and loses the picture.
  if (width >= 60) {
    text += bar(share, kBarWidth, charset);
    used += bar_columns;
  }
  for (const std::string& field : fields(position)) {
    if (used + 2 + field.size() >= width) break;
    text += "  " + field;
    used += 2 + field.size();
  }
  return text;
}

std::string evaluation_line(const wire::Started& started, const wire::Evaluated& evaluated) {
  std::string text = fmt::format("epoch {}/{}  {}: loss {}", evaluated.epoch(),
                                 total_epochs(started), evaluated.part(), number(evaluated.loss()));
  if (evaluated.has_accuracy()) text += ", " + accuracy_text(evaluated.accuracy());
  if (evaluated.has_rmse()) text += ", " + rmse_text(evaluated.rmse());
  return text;
}

std::string summary_text(const cluster::Report& report, std::span<const double> losses,
                         const std::string& run_directory, Charset charset) {
  std::string text{cluster::to_string(report.status)};
  // An error is printed by itself, so it is not repeated here.
  if (!report.error.has_value() && !report.reason.empty()) text += ": " + report.reason;
  text += "\n";
  if (report.evaluation.has_value()) {
    std::string result = "loss " + number(report.evaluation->loss);
    if (report.evaluation->accuracy.has_value())
      result = accuracy_text(*report.evaluation->accuracy) + ", " + result;
    if (report.evaluation->rmse.has_value())
      result = rmse_text(*report.evaluation->rmse) + ", " + result;
    text += row("test", result);
  }
  text +=
      row("work", fmt::format("{}, {}, {}", counted(report.steps, "step"),
                              counted(report.epochs, "epoch"), counted(report.samples, "sample")));
  text += row("time", fmt::format("{}, {} of it training; {}", human_seconds(report.wall_s),
                                  human_seconds(report.train_s), rate(report.samples_per_s())));
  if (losses.size() > 1) {
    text +=
        row("loss", fmt::format("{} {} {}", number(losses.front()),
                                sparkline(losses, kCurveWidth, charset), number(losses.back())));
  }
  if (!report.weights_hash.empty()) text += row("weights", report.weights_hash);
  if (!run_directory.empty()) text += row("run", run_directory);
  return text;
}

}  // namespace tandem::cli
