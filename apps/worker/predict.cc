#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <numeric>

#include "base/text.h"
#include "commands.h"
#include "data/inputs.h"
#include "data/loader.h"
#include "train/generate.h"
#include "train/saved_model.h"

namespace tandem::worker {
namespace {

using Row = std::span<const float>;

// A class as the data names it, or its number.
std::string class_name(const data::Spec& spec, std::size_t number) {
  return number < spec.class_names.size() ? spec.class_names[number] : std::to_string(number);
}

// Probabilities of all classes; a single output is the second of two classes.
std::vector<float> probabilities(Row row) {
  if (row.size() > 1) return {row.begin(), row.end()};
  return {1 - row[0], row[0]};
}

std::vector<std::size_t> likeliest(const std::vector<float>& values, std::int64_t top) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return values[a] > values[b]; });
  order.resize(std::min(order.size(), static_cast<std::size_t>(std::max<std::int64_t>(1, top))));
  return order;
}

// With the bytes of a file's name replaced that are not UTF-8.
void print_line(const nlohmann::json& line) {
  std::puts(line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace).c_str());
}

class Printer {
 public:
  Printer(const PredictOptions& options, const data::Spec& spec) : options_(options), spec_(spec) {}

  void sample(const std::string& file, std::int64_t index, Row row) const {
    if (spec_.target == data::Target::kValue) {
      values(file, index, row);
    } else {
      classes(file, index, row);
    }
  }

 private:
  void values(const std::string& file, std::int64_t index, Row row) const {
    if (options_.format == Format::kJson) {
      const nlohmann::json line = {
          {"file", file}, {"index", index}, {"values", std::vector<float>(row.begin(), row.end())}};
      print_line(line);
      return;
    }
    fmt::print("{}\t{}", without_controls(file), index);
    for (float value : row) fmt::print("\t{:.6g}", value);
    fmt::print("\n");
  }

  void classes(const std::string& file, std::int64_t index, Row row) const {
    const std::vector<float> all = probabilities(row);
    const std::vector<std::size_t> best = likeliest(all, options_.top);
    if (options_.format == Format::kJson) {
      nlohmann::json line = {{"file", file},
                             {"index", index},
                             {"class", class_name(spec_, best[0])},
                             {"probability", all[best[0]]},
                             {"top", nlohmann::json::array()}};
      for (std::size_t c : best)
        line["top"].push_back({{"class", class_name(spec_, c)}, {"probability", all[c]}});
      print_line(line);
      return;
    }
    fmt::print("{}\t{}", without_controls(file), index);
    for (std::size_t c : best)
      fmt::print("\t{}\t{:.4f}", without_controls(class_name(spec_, c)), all[c]);
    fmt::print("\n");
  }

  const PredictOptions& options_;
  const data::Spec& spec_;
};

Status predict_file(const std::string& path, const train::TrainedModel& trained,
                    const Printer& printer) {
  constexpr std::int64_t kBatch = 128;
  TANDEM_ASSIGN(const auto inputs, data::read_inputs(path, trained.spec, trained.encoding));
  if (inputs->size() == 0)
    return Error(Code::kInvalidArgument, fmt::format("{} holds no samples", path));
  data::Loader loader(*inputs, std::min(kBatch, inputs->size()), trained.job.data.prefetch);
  const auto outputs = static_cast<std::size_t>(trained.model->blueprint().interface.outputs);
  std::int64_t index = 0;
  while (const data::LoadedBatch* loaded = loader.next()) {
    TANDEM_ASSIGN(const Row rows, trained.model->predict(loaded->batch));
    for (std::int64_t i = 0; i < loaded->batch.size; ++i, ++index) {
      printer.sample(path, index, rows.subspan(static_cast<std::size_t>(i) * outputs, outputs));
    }
  }
  return {};
}

Status continue_text(const PredictOptions& options, const train::TrainedModel& trained) {
  std::string text = options.prompt;
  const bool stream = options.format == Format::kText;
  // The prompt is shown only once it is known to be readable.
  bool shown = false;
  TANDEM_TRY(train::generate(*trained.model, trained.spec, options.prompt, options.generate,
                             [&](std::string_view character) {
                               if (stream && !shown)
                                 std::fwrite(text.data(), 1, text.size(), stdout);
                               shown = true;
                               text += character;
                               if (!stream) return;
                               std::fwrite(character.data(), 1, character.size(), stdout);
                               std::fflush(stdout);
                             }));
  if (stream) {
    std::puts("");
    return {};
  }
  const nlohmann::json line = {{"prompt", options.prompt}, {"text", text}};
  print_line(line);
  return {};
}

}  // namespace

Status predict(const PredictOptions& options) {
  TANDEM_ASSIGN(const train::TrainedModel trained, train::load_trained(options.model, {}));
  const bool text = trained.spec.input == data::Input::kTokens;
  if (text != options.has_prompt) {
    return Error(
        Code::kInvalidArgument,
        text ? "this model continues text; give --prompt TEXT"
             : "this model does not continue text; give files of samples (IDX, CSV or npy)");
  }
  if (text) return continue_text(options, trained);
  const Printer printer(options, trained.spec);
  for (const std::string& path : options.inputs) TANDEM_TRY(predict_file(path, trained, printer));
  return {};
}

}  // namespace tandem::worker
