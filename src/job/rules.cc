#include "job/rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::job {
namespace {

// What is wrong, and at the value of which key.
struct Broken {
  std::string at;
  std::string message;
  std::string help;
};

struct Rule {
  std::vector<std::string_view> about;  // The keys that it compares.
  std::optional<Broken> (*check)(const Job& job);
};

std::optional<Broken> name_is_a_directory(const Job& job) {
  constexpr std::size_t kLongest = 100;
  const bool plain = std::none_of(job.name.begin(), job.name.end(), [](char c) {
    return static_cast<unsigned char>(c) <= 0x20 || c == '/' || c == '\\' || c == 0x7f;
  });
  const bool starts_well = !job.name.empty() && job.name[0] != '.' && job.name[0] != '-';
  if (plain && starts_well && job.name.size() <= kLongest) return std::nullopt;
  return Broken{"name", "`name` must be fit to name a directory",
                "up to 100 letters, digits, `-`, `_` and `.`, starting with a letter or digit"};
}

std::optional<Broken> heads_divide_width(const Job& job) {
  const arch::ModelConfig& model = job.model.config;
  if (model.kind != "gpt" || model.width % model.heads == 0) return std::nullopt;
  return Broken{"model.heads",
                fmt::format("{} heads do not divide a width of {}", model.heads, model.width),
                "`model.width` must be a multiple of `model.heads`"};
}

std::optional<Broken> layers_have_names_of_their_own(const Job& job) {
  const std::vector<arch::Layer>& layers = job.model.config.layers;
  std::map<std::string_view, std::size_t> first_of_name;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].name.empty()) continue;
    const auto [first, is_new] = first_of_name.emplace(layers[i].name, i);
    if (is_new) continue;
    return Broken{fmt::format("model.layers[{}].name", i),
                  fmt::format("`model.layers[{}]` and `model.layers[{}]` are both named `{}`",
                              first->second, i, layers[i].name),
                  "give one of them another name: it begins the names of the layer's parameters"};
  }
  return std::nullopt;
}

std::optional<Broken> text_needs_a_text_model(const Job& job) {
  const std::string& kind = job.model.config.kind;
  if (job.data.source != "text" || kind == "gpt" || kind == "layers") return std::nullopt;
  return Broken{"model.kind", fmt::format("model `{}` cannot read text", kind),
                "use \"gpt\", or \"layers\" that start with an embedding"};
}

std::optional<Broken> gpt_needs_text(const Job& job) {
  if (job.model.config.kind != "gpt" || job.data.source == "text") return std::nullopt;
  return Broken{
      "model.kind",
      fmt::format("model `gpt` reads text, but the data's source is `{}`", job.data.source),
      "write source = \"text\" and `path` in [data]"};
}

bool has_tables(const Job& job) {
  const std::string& kind = job.model.config.kind;
  return kind == "matrix_factorization" || kind == "wide_deep";
}

std::optional<Broken> ids_need_tables(const Job& job) {
  if (has_tables(job) || (job.data.categorical.empty() && job.data.source != "ratings"))
    return std::nullopt;
  return Broken{"model.kind",
                fmt::format("model `{}` has no tables of embeddings for the rows that the data "
                            "names",
                            job.model.config.kind),
                "use \"matrix_factorization\" or \"wide_deep\""};
}

std::optional<Broken> tables_need_ids(const Job& job) {
  if (!has_tables(job) || job.data.source == "ratings") return std::nullopt;
  const std::string& kind = job.model.config.kind;
  if (job.data.source != "csv") {
    return Broken{"model.kind",
                  fmt::format("model `{}` reads tables, but the data's source is `{}`", kind,
                              job.data.source),
                  "write source = \"csv\" and `categorical`, or source = \"ratings\", in [data]"};
  }
  const std::size_t columns = job.data.categorical.size();
  if (kind == "wide_deep" ? columns > 0 : columns == 2) return std::nullopt;
  return Broken{
      "data.categorical",
      fmt::format("model `{}` needs {} of row numbers in `data.categorical`, which has {}", kind,
                  kind == "wide_deep" ? "at least one column" : "two columns", columns),
      "name them, such as categorical = [\"user\", \"item\"]"};
}

std::optional<Broken> every_table_has_rows(const Job& job) {
  if (job.data.rows.empty() || job.data.rows.size() == job.data.categorical.size())
    return std::nullopt;
  return Broken{"data.rows",
                fmt::format("`data.rows` has {} numbers for {} columns of `data.categorical`",
                            job.data.rows.size(), job.data.categorical.size()),
                "give one a column, or none: then the data decides"};
}

std::optional<Broken> ratings_need_a_loss_for_values(const Job& job) {
  const arch::LossKind loss = job.train.loss.kind;
  const bool made_up = job.data.source == "ratings";
  const bool one_number = job.model.config.kind == "matrix_factorization";
  if (made_up ? loss == arch::LossKind::kMse : !one_number || loss != arch::LossKind::kCrossEntropy)
    return std::nullopt;
  return Broken{"train.loss", "ratings are numbers, not classes", "use \"mse\""};
}

std::optional<Broken> test_files_come_in_pairs(const Job& job) {
  if (job.data.test_images.empty() == job.data.test_labels.empty()) return std::nullopt;
  const bool images = !job.data.test_images.empty();
  return Broken{images ? "data.test_images" : "data.test_labels",
                fmt::format("`data.test_{}` is given without `data.test_{}`",
                            images ? "images" : "labels", images ? "labels" : "images"),
                "give both, or neither"};
}

std::optional<Broken> values_need_a_loss_for_values(const Job& job) {
  if (job.data.task != "values" || job.train.loss.kind != arch::LossKind::kCrossEntropy)
    return std::nullopt;
  return Broken{"train.loss", "`cross_entropy` is for classes, but data.task is \"values\"",
                "use \"mse\""};
}

std::optional<Broken> text_needs_cross_entropy(const Job& job) {
  if (job.data.source != "text" || job.train.loss.kind == arch::LossKind::kCrossEntropy)
    return std::nullopt;
  return Broken{"train.loss", "a model of text predicts characters, which are classes",
                "use \"cross_entropy\""};
}

std::optional<Broken> some_class_counts(const Job& job) {
  const std::vector<float>& weights = job.train.loss.class_weights;
  if (weights.empty() ||
      std::any_of(weights.begin(), weights.end(), [](float w) { return w > 0; })) {
    return std::nullopt;
  }
  return Broken{"train.loss.class_weights", "all class weights are 0, so nothing could be learnt",
                "at least one must be more than 0"};
}

std::optional<Broken> nesterov_needs_momentum(const Job& job) {
  const optim::OptimizerConfig& optimizer = job.train.optimizer;
  if (!optimizer.nesterov || optimizer.momentum > 0) return std::nullopt;
  return Broken{"train.optimizer.nesterov", "`nesterov` needs momentum",
                "add `momentum`, such as momentum = 0.9"};
}

std::optional<Broken> schedule_goes_down(const Job& job) {
  const double lr = job.train.optimizer.lr, least = job.train.schedule.min_lr;
  if (least <= lr) return std::nullopt;
  return Broken{"train.schedule.min_lr",
                fmt::format("`min_lr` {} is above the learning rate {}", least, lr),
                "it must be at most `train.optimizer.lr`"};
}

std::optional<Broken> warmup_ends(const Job& job) {
  const std::int64_t warmup = job.train.schedule.warmup_steps, steps = job.train.steps;
  if (steps == 0 || warmup <= steps) return std::nullopt;
  return Broken{"train.schedule.warmup_steps",
                fmt::format("the warm-up of {} steps does not end within {} steps", warmup, steps),
                "it must be at most `train.steps`"};
}

std::optional<Broken> accuracy_needs_classes(const Job& job) {
  if (job.train.early_stop_metric != "accuracy" || job.data.task != "values") return std::nullopt;
  return Broken{"train.early_stop.metric", "there is no accuracy where data.task is \"values\"",
                "use \"loss\""};
}

std::optional<Broken> best_needs_classes(const Job& job) {
  if (job.checkpoint.best != "accuracy" || job.data.task != "values") return std::nullopt;
  return Broken{"checkpoint.best", "there is no accuracy where data.task is \"values\"",
                "use \"loss\""};
}

std::optional<Broken> accuracy_is_a_fraction(const Job& job) {
  if (job.train.early_stop_metric != "accuracy" || job.train.early_stop_target <= 1)
    return std::nullopt;
  return Broken{"train.early_stop.target",
                fmt::format("no accuracy is as high as {}", job.train.early_stop_target),
                "it is a fraction from 0 to 1: 0.95 means 95 %"};
}

std::optional<Broken> every_worker_has_a_lane(const Job& job) {
  if (job.cluster.lanes == 0 || job.cluster.workers <= job.cluster.lanes) return std::nullopt;
  return Broken{
      "cluster.workers",
      fmt::format("{} workers cannot share {} lanes", job.cluster.workers, job.cluster.lanes),
      "each worker needs at least one lane: use fewer workers or more `lanes`"};
}

std::optional<Broken> fewest_workers_are_not_more(const Job& job) {
  if (job.cluster.min_workers <= job.cluster.workers) return std::nullopt;
  return Broken{"cluster.min_workers",
                fmt::format("{} workers are less than the {} that the job waits for",
                            job.cluster.workers, job.cluster.min_workers),
                "it must be at most `workers`"};
}

std::optional<Broken> most_workers_have_lanes(const Job& job) {
  const std::int64_t most = job.cluster.max_workers;
  if (most == 0 || (most >= job.cluster.workers && most <= job.lanes())) return std::nullopt;
  return Broken{"cluster.max_workers",
                fmt::format("at most {} workers is not between {} workers and {} lanes", most,
                            job.cluster.workers, job.lanes()),
                "it must be at least `workers` and at most `lanes`; or 0: as many as workers"};
}

std::optional<Broken> servers_need_no_mpi(const Job& job) {
  if (!job.has_servers() || job.cluster.engine != "mpi") return std::nullopt;
  return Broken{"cluster.engine", "parameter servers do not work with engine `mpi`",
                "use \"auto\", or strategy = \"allreduce\""};
}

std::optional<Broken> aggregate_needs_servers(const Job& job) {
  if (job.has_servers() || job.ps.aggregate == "weighted") return std::nullopt;
  return Broken{
      "ps.aggregate",
      fmt::format("strategy `{}` knows only the mean over all samples", job.cluster.strategy),
      "use \"weighted\", or strategy = \"ps\""};
}

std::optional<Broken> quorum_needs_bsp(const Job& job) {
  if (job.ps.quorum == 1) return std::nullopt;
  if (job.ps.consistency != "bsp") {
    return Broken{"ps.quorum", fmt::format("`{}` waits for no quorum", job.ps.consistency),
                  "use 1, or consistency = \"bsp\""};
  }
  if (job.ps.aggregate != "weighted") {
    return Broken{"ps.quorum", "a quorum's gradients are weighted by their samples",
                  "use 1, or aggregate = \"weighted\""};
  }
  return std::nullopt;
}

std::optional<Broken> copies_fit_on_servers(const Job& job) {
  const std::int64_t replicas = job.cluster.replicas;
  if (replicas == 1 || !job.has_servers()) return std::nullopt;
  if (replicas <= job.cluster.servers) return std::nullopt;
  return Broken{"cluster.replicas",
                fmt::format("{} copies of each slice do not fit on {} server{}", replicas,
                            job.cluster.servers, job.cluster.servers == 1 ? "" : "s"),
                "each copy needs a server of its own: use more `servers`"};
}

std::optional<Broken> rows_travel_in_one_order(const Job& job) {
  const bool sparse = job.has_sparse_tables();
  if (!job.has_servers() || !has_tables(job) || !(sparse || job.ps.pull == "partial"))
    return std::nullopt;
  const std::string at = sparse ? "ps.tables" : "ps.pull";
  const std::string what = sparse ? "sparse tables" : "partial pulls of tables";
  const std::string other = sparse ? "dense" : "full";
  if (job.ps.quorum < 1) {
    return Broken{at,
                  fmt::format("{} do not work with a quorum: servers would have to keep the "
                              "rows of every lane until a step is closed",
                              what),
                  fmt::format("use \"{}\", or quorum = 1", other)};
  }
  if (job.cluster.replicas > 1 && job.is_async()) {
    return Broken{at,
                  fmt::format("{} do not work with copies of slices where workers do not wait for "
                              "each other",
                              what),
                  fmt::format("use \"{}\", replicas = 1, or consistency = \"bsp\"", other)};
  }
  return std::nullopt;
}

std::optional<Broken> sparse_tables_have_a_place(const Job& job) {
  if (job.ps.tables != "sparse") return std::nullopt;
  if (!job.has_servers()) {
    return Broken{"ps.tables",
                  fmt::format("sparse tables live on parameter servers, and strategy `{}` has none",
                              job.cluster.strategy),
                  "use \"dense\", or strategy = \"ps\""};
  }
  if (!has_tables(job)) {
    return Broken{"ps.tables",
                  fmt::format("model `{}` has no tables of embeddings", job.model.config.kind),
                  "use \"dense\", or model \"matrix_factorization\" or \"wide_deep\""};
  }
  return std::nullopt;
}

std::optional<Broken> sparse_tables_have_their_limits(const Job& job) {
  if (!job.has_sparse_tables() || !has_tables(job)) return std::nullopt;
  // Workers that do not wait for each other clip what they push themselves.
  if (job.train.clip.norm > 0 && !job.is_async()) {
    return Broken{"ps.tables",
                  "clipping by norm needs the gradients of all rows in one order, and sparse "
                  "tables are spread over servers by key",
                  "use \"dense\", or clip by `value`"};
  }
  if (!job.model.init_from.empty()) {
    return Broken{"ps.tables", "sparse tables begin empty, not with the rows of `model.init_from`",
                  "use \"dense\", or leave `init_from` out"};
  }
  return std::nullopt;
}

std::optional<Broken> rows_live_until_the_next_step(const Job& job) {
  if (job.ps.evict_after != 1) return std::nullopt;
  return Broken{"ps.evict_after", "rows would be gone before the step after the one that made them",
                "use 0 to keep them, or 2 or more"};
}

std::optional<Broken> buckets_are_worth_a_message(const Job& job) {
  constexpr std::int64_t kLeast = 256;
  if (job.cluster.bucket_bytes == 0 || job.cluster.bucket_bytes >= kLeast) return std::nullopt;
  return Broken{"cluster.bucket_bytes",
                fmt::format("buckets of {} bytes would take longer to send than to sum",
                            job.cluster.bucket_bytes),
                fmt::format("use {} or more, or 0 for the default", kLeast)};
}

std::optional<Broken> lanes_share_a_batch(const Job& job) {
  if (job.lanes() <= job.train.batch) return std::nullopt;
  return Broken{job.cluster.lanes > 0 ? "cluster.lanes" : "cluster.workers",
                fmt::format("{} lanes cannot share a batch of {}", job.lanes(), job.train.batch),
                "each lane needs at least one sample: use fewer lanes or a larger `train.batch`"};
}

std::vector<Rule> rules() {
  return {
      {{"name"}, name_is_a_directory},
      {{"model.width", "model.heads"}, heads_divide_width},
      {{"model.layers"}, layers_have_names_of_their_own},
      {{"model.kind", "data.source"}, text_needs_a_text_model},
      {{"model.kind", "data.source"}, gpt_needs_text},
      {{"model.kind", "data.source", "data.categorical"}, ids_need_tables},
      {{"model.kind", "data.source", "data.categorical"}, tables_need_ids},
      {{"data.rows", "data.categorical"}, every_table_has_rows},
      {{"train.loss", "train.loss.kind", "model.kind", "data.source"},
       ratings_need_a_loss_for_values},
      {{"data.test_images", "data.test_labels"}, test_files_come_in_pairs},
      {{"data.task", "train.loss", "train.loss.kind"}, values_need_a_loss_for_values},
      {{"data.source", "train.loss", "train.loss.kind"}, text_needs_cross_entropy},
      {{"train.loss.class_weights"}, some_class_counts},
      {{"train.optimizer.nesterov", "train.optimizer.momentum"}, nesterov_needs_momentum},
      {{"train.schedule.min_lr", "train.optimizer.lr"}, schedule_goes_down},
      {{"train.schedule.warmup_steps", "train.steps"}, warmup_ends},
      {{"train.early_stop.metric", "data.task"}, accuracy_needs_classes},
      {{"checkpoint.best", "data.task"}, best_needs_classes},
      {{"train.early_stop.target", "train.early_stop.metric"}, accuracy_is_a_fraction},
      {{"cluster.workers", "cluster.lanes"}, every_worker_has_a_lane},
      {{"cluster.min_workers", "cluster.workers"}, fewest_workers_are_not_more},
      {{"cluster.max_workers", "cluster.workers", "cluster.lanes"}, most_workers_have_lanes},
      {{"cluster.lanes", "cluster.workers", "train.batch"}, lanes_share_a_batch},
      {{"cluster.engine", "cluster.strategy"}, servers_need_no_mpi},
      {{"ps.aggregate", "cluster.strategy"}, aggregate_needs_servers},
      {{"ps.quorum", "ps.consistency", "ps.aggregate"}, quorum_needs_bsp},
      {{"cluster.replicas", "cluster.servers", "cluster.strategy"}, copies_fit_on_servers},
      {{"ps.pull", "ps.tables", "ps.quorum", "ps.consistency", "cluster.replicas",
        "cluster.strategy", "model.kind"},
       rows_travel_in_one_order},
      {{"ps.tables", "cluster.strategy", "model.kind"}, sparse_tables_have_a_place},
      {{"ps.tables", "ps.consistency", "train.clip.norm", "model.init_from", "cluster.strategy",
        "model.kind"},
       sparse_tables_have_their_limits},
      {{"ps.evict_after"}, rows_live_until_the_next_step},
      {{"cluster.bucket_bytes"}, buckets_are_worth_a_message},
  };
}

}  // namespace

void check_rules(const Job& job, Findings& findings) {
  for (const Rule& rule : rules()) {
    const bool known =
        std::none_of(rule.about.begin(), rule.about.end(),
                     [&](std::string_view path) { return findings.failed.contains(path); });
    if (!known) continue;
    std::optional<Broken> broken = rule.check(job);
    if (!broken) continue;
    // The mistake may lie in a key that was left at its default: point then at another key of the
    // rule.
    std::string_view at = broken->at;
    for (std::string_view path : rule.about) {
      if (!findings.locations.has(at) && findings.locations.has(path)) at = path;
    }
    findings.mistakes.add(findings.locations.value(at), std::move(broken->message),
                          std::move(broken->help));
  }
}

}  // namespace tandem::job
