#include "train/preparation.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "base/hash.h"
#include "base/text.h"
#include "checkpoint/manifest.h"
#include "checkpoint/model_file.h"
#include "job/idle.h"
#include "job/print.h"
#include "train/misfit.h"
#include "train/saved_model.h"
#include "train/window.h"

namespace tandem::train {
namespace {

// Sparse tables are never frozen; how large a window on them is says nothing of their size.
std::string frozen(const arch::Blueprint& blueprint, const Trainable& trainable) {
  std::int64_t trained = 0;
  for (const optim::Range& range : trainable.parameters) trained += range.end - range.begin;
  return fmt::format("frozen: {} of {} parameters{}", with_commas(blueprint.parameters - trained),
                     with_commas(blueprint.parameters - blueprint.window),
                     blueprint.window > 0 ? " beside the sparse tables" : "");
}

class Preparation {
 public:
  Preparation(const TrainRequest& request, std::string& key)
      : request_(request), job_(request.job), key_(key) {}

  Result<Prepared> run() {
    TANDEM_ASSIGN(data::Parts parts, data::load(job_.data, request_.base_directory));
    TANDEM_ASSIGN(arch::Blueprint blueprint, make_blueprint(parts.spec));
    TANDEM_TRY(blame(misfit_of_targets(job_.train, parts)));
    TANDEM_TRY(blame(misfit_of_lanes(job_, blueprint)));
    TANDEM_ASSIGN(Trainable trainable,
                  blame("model.freeze", trainable_ranges(blueprint, job_.model.freeze)));
    TANDEM_TRY(blame(misfit_of_frozen_tables(blueprint, trainable)));
    TANDEM_ASSIGN(auto model,
                  model::Model::create(std::move(blueprint), job_.train.loss, job_.train.threads));
    model->initialise(job_.train.seed);
    std::vector<std::string> notes;
    if (!job_.model.init_from.empty()) {
      TANDEM_ASSIGN(notes, start_from_file(*model));
    }
    if (!job_.model.freeze.empty()) notes.push_back(frozen(model->blueprint(), trainable));
    Length length = length_of(job_.train, parts.train->size());
    TANDEM_TRY(blame(misfit_of_length(job_.train, length, parts)));
    // Who names steps was warned.
    if (job_.train.steps == 0) {
      if (auto note = job::rows_never_made(job_, length.total_steps))
        notes.push_back(std::move(*note));
    }
    TANDEM_TRY(blame(misfit_of_metric(job_, parts.spec)));
    TANDEM_ASSIGN(optim::Schedule schedule,
                  optim::Schedule::create(job_.train.schedule, job_.train.optimizer.lr,
                                          {length.steps_per_epoch, length.total_steps}));
    if (request_.rehearsal == Rehearsal::kOneStep) length.total_steps = 1;
    std::string facts = facts_of(parts, *model);
    return Prepared{std::move(parts), std::move(model), std::move(trainable), length,
                    schedule,         std::move(notes), std::move(facts)};
  }

 private:
  // Passes a result on; when it is an Error, `key` is what a message shall point at.
  template <typename T>
  Result<T> blame(std::string key, Result<T> result) {
    if (!result.ok()) key_ = std::move(key);
    return result;
  }

  Status blame(const std::optional<Misfit>& misfit) {
    if (!misfit) return {};
    key_ = misfit->key;
    return Error(Code::kInvalidArgument, misfit->message);
  }

  Result<arch::Blueprint> make_blueprint(const data::Spec& spec) {
    TANDEM_ASSIGN(const arch::Interface interface,
                  blame("train.loss", interface_of(spec, job_.train.loss)));
    arch::LayerError where;
    Result<arch::Blueprint> blueprint =
        job_.has_sparse_tables() ? arch::build_with_window(job_.model.config, interface,
                                                           window_rows(job_.train.batch), &where)
                                 : arch::build(job_.model.config, interface, &where);
    return blame(where.layer >= 0 ? fmt::format("model.layers[{}]", where.layer) : "model.kind",
                 std::move(blueprint));
  }

  Result<std::vector<std::string>> start_from_file(model::Model& model) {
    const std::filesystem::path path = request_.base_directory / job_.model.init_from;
    TANDEM_ASSIGN(const checkpoint::ModelFile file,
                  blame("model.init_from", checkpoint::load_model(path)));
    return blame("model.init_from", start_from(file, model));
  }

  std::string facts_of(const data::Parts& parts, model::Model& model) const {
    const std::string facts =
        fmt::format("{}\n{}\n{}\n{} {} {}", job::print(job_), kernel_set(),
                    checkpoint::weights_hash(model.parameters(), model.buffers()),
                    data::fingerprint(*parts.train), data::fingerprint(*parts.validation),
                    data::fingerprint(*parts.test));
    return hash_hex(std::as_bytes(std::span(facts)));
  }

  const TrainRequest& request_;
  const job::Job& job_;
  std::string& key_;
};

}  // namespace

Result<Prepared> prepare(const TrainRequest& request, std::string& key) {
  return Preparation(request, key).run();
}

}  // namespace tandem::train
