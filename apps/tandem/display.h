// Shows a run on standard error: one live line on a terminal, a plain line per interval elsewhere,
// the worker's warnings between them. Belongs to the thread of the run.
#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "background_writer.h"
#include "cluster/run.h"
#include "options.h"
#include "progress_text.h"
#include "sparkline.h"

namespace tandem::cli {

struct DisplayStyle {
  bool live = false;  // On a terminal: redraw one line.
  bool colour = false;
  Charset charset = Charset::kAscii;
  Detail detail = Detail::kNormal;
};

// What a Display needs from the world; a test gives it its own.
struct DisplayWorld {
  // Whether the text was taken; see BackgroundWriter::write().
  std::function<bool(Weight, std::string_view)> write;
  std::function<std::chrono::steady_clock::time_point()> now;
  std::function<int()> width;
};

class Display : public cluster::RunView {
 public:
  Display(const job::Job& job, const Kernels& kernels, DisplayStyle style, DisplayWorld world);
  // Takes the live line away.
  ~Display() override;

  void message(const wire::WorkerMessage& message) override;
  void line(int worker, cluster::Stream stream, std::string_view text) override;
  void stopping(cluster::Order order, cluster::Cause cause) override;
  void resumed() override;
  void tick() override;
  void lost(std::size_t worker, const std::deque<std::string>& last_lines) override;

  // The last words, after the run.
  void summary(const cluster::Report& report, const std::string& run_directory);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  void show(const wire::Started& started);
  void show(const wire::Progress& progress);
  void measure(const wire::Progress& progress);
  std::string live_text() const;
  void draw_live();
  void clear_live();
  // Prints a whole line, above the live one.
  void print(std::string_view text);
  // Text that starts on a line of its own: instead of the live one, and behind a word about lines
  // that were left out. False when it was not taken.
  bool write_fresh(Weight weight, std::string_view text);
  bool quiet() const { return style_.detail == Detail::kQuiet; }

  const job::Job& job_;
  const Kernels kernels_;
  const DisplayStyle style_;
  const DisplayWorld world_;

  std::optional<wire::Started> started_;
  std::optional<wire::Progress> progress_;
  std::optional<Position> position_;
  Curve losses_;
  TimePoint training_since_;
  std::optional<TimePoint> last_line_, last_draw_;
  std::string live_;           // What the live line shows now.
  std::int64_t left_out_ = 0;  // Lines that were not taken since the last one that was.
};

}  // namespace tandem::cli
