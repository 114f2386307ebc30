// The keys of [train].
#include "job/keys.h"

namespace tandem::job {
namespace {

template <auto... path>
Field train() {
  return field<Job, &Job::train, path...>();
}

std::vector<Key> loss_keys() {
  using Loss = arch::Loss;
  const std::vector<Word> kinds = {{"cross_entropy", "for classes"},
                                   {"mse", "mean squared error, for values"},
                                   {"bce", "binary cross entropy of each output"}};
  const When cross_entropy = {"train.loss.kind", {"cross_entropy"}};
  const std::string_view meaning = "What training makes small.";
  return {
      {.path = "train.loss.kind",
       .field = train<&Train::loss, &Loss::kind>(),
       .meaning = meaning,
       .words = kinds,
       .when = {"data.task", {"values"}},
       .fallback = "\"mse\""},
      {.path = "train.loss.kind",
       .field = train<&Train::loss, &Loss::kind>(),
       .meaning = meaning,
       .words = kinds},
      {.path = "train.loss.class_weights",
       .field = train<&Train::loss, &Loss::class_weights>(),
       .meaning = "How much each class counts, one number a class; empty: all the same.",
       .range = at_least(0),
       .when = cross_entropy},
      {.path = "train.loss.label_smoothing",
       .field = train<&Train::loss, &Loss::label_smoothing>(),
       .meaning = "Share of the target that is spread over all classes.",
       .range = kShare,
       .when = cross_entropy},
  };
}

std::vector<Key> optimizer_keys() {
  using Config = optim::OptimizerConfig;
  const std::string_view kind = "train.optimizer.kind";
  const When sgd = {kind, {"sgd"}};
  const When adam = {kind, {"adam", "adamw"}};
  const std::string_view lr = "train.optimizer.lr";
  const std::string_view lr_meaning = "Learning rate, before the schedule.";
  const Field lr_field = train<&Train::optimizer, &Config::lr>();
  return {
      {.path = kind,
       .field = train<&Train::optimizer, &Config::kind>(),
       .meaning = "How gradients become steps.",
       .words = {{"sgd", "stochastic gradient descent"},
                 {"adam", "Adam"},
                 {"adamw", "Adam with decoupled weight decay"},
                 {"adagrad", "AdaGrad"}}},
      {.path = lr, .field = lr_field, .meaning = lr_meaning, .range = kPositiveFloat, .when = sgd},
      {.path = lr,
       .field = lr_field,
       .meaning = lr_meaning,
       .range = kPositiveFloat,
       .when = adam,
       .fallback = "0.001"},
      {.path = lr,
       .field = lr_field,
       .meaning = lr_meaning,
       .range = kPositiveFloat,
       .fallback = "0.01"},
      {.path = "train.optimizer.momentum",
       .field = train<&Train::optimizer, &Config::momentum>(),
       .meaning = "Share of the last step that is kept in the next.",
       .range = kShare,
       .when = sgd},
      {.path = "train.optimizer.nesterov",
       .field = train<&Train::optimizer, &Config::nesterov>(),
       .meaning = "Look ahead along the momentum; needs `momentum`.",
       .when = sgd},
      {.path = "train.optimizer.beta1",
       .field = train<&Train::optimizer, &Config::beta1>(),
       .meaning = "Decay of the gradient's running mean.",
       .range = kShare,
       .when = adam},
      {.path = "train.optimizer.beta2",
       .field = train<&Train::optimizer, &Config::beta2>(),
       .meaning = "Decay of the squared gradient's running mean.",
       .range = kShare,
       .when = adam},
      {.path = "train.optimizer.epsilon",
       .field = train<&Train::optimizer, &Config::epsilon>(),
       .meaning = "Keeps the division by the gradient's size away from zero.",
       .range = kPositiveFloat,
       .when = {kind, {"adam", "adamw", "adagrad"}}},
      {.path = "train.optimizer.weight_decay",
       .field = train<&Train::optimizer, &Config::weight_decay>(),
       .meaning = "Pulls weights towards 0: L2, decoupled for adamw.",
       .range = at_least(0)},
      {.path = "train.optimizer.l1",
       .field = train<&Train::optimizer, &Config::l1>(),
       .meaning = "Pulls weights towards 0 by their sign: L1.",
       .range = at_least(0)},
  };
}

std::vector<Key> schedule_keys() {
  using Config = optim::ScheduleConfig;
  const std::string_view kind = "train.schedule.kind";
  return {
      {.path = kind,
       .field = train<&Train::schedule, &Config::kind>(),
       .meaning = "How the learning rate changes.",
       .words = {{"constant", "it does not"},
                 {"step", "times `gamma` after every `every_epochs`"},
                 {"cosine", "down to `min_lr` at the end of training, along a half cosine"},
                 {"plateau",
                  "times `gamma` when the loss has not improved for `patience` evaluations"}}},
      {.path = "train.schedule.warmup_steps",
       .field = train<&Train::schedule, &Config::warmup_steps>(),
       .meaning = "Steps over which the rate first grows from 0.",
       .range = from_to(0, kMostCount)},
      {.path = "train.schedule.every_epochs",
       .field = train<&Train::schedule, &Config::every_epochs>(),
       .meaning = "Epochs between two changes.",
       .range = from_to(1, kMostCount),
       .when = {kind, {"step"}}},
      {.path = "train.schedule.gamma",
       .field = train<&Train::schedule, &Config::gamma>(),
       .meaning = "Factor of a change.",
       .range = {.least = 0, .most = 1, .open_least = true},
       .when = {kind, {"step", "plateau"}}},
      {.path = "train.schedule.min_lr",
       .field = train<&Train::schedule, &Config::min_lr>(),
       .meaning = "The rate does not go below this.",
       .range = at_least(0),
       .when = {kind, {"cosine", "plateau"}}},
      {.path = "train.schedule.patience",
       .field = train<&Train::schedule, &Config::patience>(),
       .meaning = "Evaluations without a better loss before a change.",
       .range = from_to(1, kMostCount),
       .when = {kind, {"plateau"}}},
  };
}

std::vector<Key> plain_keys() {
  return {
      {.path = "train.epochs",
       .field = train<&Train::epochs>(),
       .meaning = "Passes over the training part.",
       .range = from_to(1, 1e9)},
      {.path = "train.steps",
       .field = train<&Train::steps>(),
       .meaning =
           "Train for this many optimizer steps, whatever `epochs` says; 0: `epochs` decides.",
       .range = from_to(0, kMostCount)},
      {.path = "train.batch",
       .field = train<&Train::batch>(),
       .meaning = "Samples in a step, over all lanes.",
       .range = from_to(1, 1 << 24)},
      {.path = "train.seed",
       .field = train<&Train::seed>(),
       .meaning = "Fixes initial weights, order of samples and dropout: the same seed gives the "
                  "same bits.",
       .range = at_least(0)},
      {.path = "train.threads",
       .field = train<&Train::threads>(),
       .meaning = "Threads of each worker's kernels. Another number may give other bits.",
       .range = from_to(1, kMostThreads)},
  };
}

std::vector<Key> stop_keys() {
  using Clip = optim::ClipConfig;
  return {
      {.path = "train.clip.norm",
       .field = train<&Train::clip, &Clip::norm>(),
       .meaning = "Scale the whole gradient down to this length when it is longer; 0: off.",
       .range = at_least(0)},
      {.path = "train.clip.value",
       .field = train<&Train::clip, &Clip::value>(),
       .meaning = "Cut each element of the gradient to at most this size; 0: off.",
       .range = at_least(0)},
      {.path = "train.early_stop.patience",
       .field = train<&Train::early_stop_patience>(),
       .meaning = "Stop after this many evaluations without improvement; 0: off.",
       .range = from_to(0, kMostCount)},
      {.path = "train.early_stop.metric",
       .field = train<&Train::early_stop_metric>(),
       .meaning = "What must improve, on the validation part (on the test part if that is empty).",
       .words = {{"loss", "smaller is better"}, {"accuracy", "larger is better"}}},
      {.path = "train.early_stop.min_delta",
       .field = train<&Train::early_stop_min_delta>(),
       .meaning = "A smaller change than this is no improvement.",
       .range = at_least(0)},
      {.path = "train.early_stop.target",
       .field = train<&Train::early_stop_target>(),
       .meaning = "Stop when the metric is as good as this; 0: off.",
       .range = at_least(0)},
      {.path = "train.early_stop.change",
       .field = train<&Train::early_stop_change>(),
       .meaning =
           "Stop when the loss changes by less than this fraction between two evaluations; 0: "
           "off.",
       .range = from_to(0, 1)},
      {.path = "train.eval_every_epochs",
       .field = train<&Train::eval_every_epochs>(),
       .meaning = "Epochs between two evaluations.",
       .range = from_to(1, 1e9)},
      {.path = "train.report_every_s",
       .field = train<&Train::report_every_s>(),
       .meaning = "Seconds between two lines of progress and of `metrics.jsonl`.",
       .range = from_to(0.01, 86400)},
  };
}

}  // namespace

std::vector<Key> train_keys() {
  std::vector<Key> keys = plain_keys();
  for (const std::vector<Key>& part :
       {loss_keys(), optimizer_keys(), schedule_keys(), stop_keys()}) {
    keys.insert(keys.end(), part.begin(), part.end());
  }
  return keys;
}

}  // namespace tandem::job
