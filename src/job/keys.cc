// The keys of the job file but those of [train] (keys_train.cc) and of layers (keys_layer.cc). The
// order of rows is the order of printing; a selector stands before what it selects.
#include "job/keys.h"

#include "data/limits.h"

namespace tandem::job {
namespace {

template <auto... path>
Field model() {
  return field<Job, &Job::model, path...>();
}

template <auto... path>
Field config() {
  return field<Job, &Job::model, &Model::config, path...>();
}

template <auto... path>
Field data_() {
  return field<Job, &Job::data, path...>();
}

template <auto... path>
Field cluster() {
  return field<Job, &Job::cluster, path...>();
}

template <auto... path>
Field ps() {
  return field<Job, &Job::ps, path...>();
}

template <auto... path>
Field checkpoint() {
  return field<Job, &Job::checkpoint, path...>();
}

}  // namespace

std::vector<Word> init_words() {
  return {{"default", "what PyTorch does for the layer; normal with deviation 0.02 in gpt"},
          {"kaiming", "normal, deviation √(2 / inputs): for relu"},
          {"xavier", "uniform, half-width √(6 / (inputs + outputs)): for tanh"},
          {"normal", "normal, deviation 0.02"},
          {"zeros", "all zero"}};
}

std::vector<Key> model_keys() {
  using Config = arch::ModelConfig;
  const std::string_view kind = "model.kind";
  const When tables = {kind, {"matrix_factorization", "wide_deep"}};
  return {
      {.path = "model.kind",
       .field = config<&Config::kind>(),
       .meaning = "Which model to train.",
       .words = {{"softmax", "one linear layer: logistic regression over classes"},
                 {"mlp", "linear layers of `hidden` widths with relu between them"},
                 {"cnn",
                  "two 3x3 convolutions (32 and 64 channels), a 2x2 max pool, a linear layer of "
                  "128; for images"},
                 {"resnet18", "the residual network for images of 3x32x32"},
                 {"gpt", "a character-level decoder; for `source = \"text\"`"},
                 {"matrix_factorization",
                  "a user's and an item's bias and the product of their embeddings; for ratings"},
                 {"wide_deep",
                  "an mlp on embeddings and dense features, plus a linear model of both; for "
                  "tables with `data.categorical`"},
                 {"layers", "the list in `layers`, in order"}},
       .presence = Presence::kRequired},
      {.path = "model.layers",
       .field = config<&Config::layers>(),
       .meaning = "The layers, in order, each a table of its own keys (see below); a bare word is "
                  "a layer's kind.",
       .when = {kind, {"layers"}},
       .presence = Presence::kRequired},
      {.path = "model.hidden",
       .field = config<&Config::hidden>(),
       .meaning = "Widths of the hidden layers.",
       .range = from_to(1, kMostWidth),
       .when = {kind, {"mlp"}},
       .fallback = "[512, 512]"},
      {.path = "model.hidden",
       .field = config<&Config::hidden>(),
       .meaning = "Widths of the mlp's hidden layers.",
       .range = from_to(1, kMostWidth),
       .when = {kind, {"wide_deep"}},
       .fallback = "[64, 32]"},
      {.path = "model.dropout",
       .field = config<&Config::dropout>(),
       .meaning = "Share of the activations that is dropped in training.",
       .range = kShare,
       .when = {kind, {"mlp", "cnn", "gpt", "wide_deep"}}},
      {.path = "model.width",
       .field = config<&Config::width>(),
       .meaning = "Numbers that stand for one character inside the model; a multiple of `heads`.",
       .range = from_to(1, kMostWidth),
       .when = {kind, {"gpt"}}},
      {.path = "model.heads",
       .field = config<&Config::heads>(),
       .meaning = "Attention heads of each block.",
       .range = from_to(1, kMostWidth),
       .when = {kind, {"gpt"}}},
      {.path = "model.blocks",
       .field = config<&Config::blocks>(),
       .meaning = "Decoder blocks.",
       .range = from_to(1, 1024),
       .when = {kind, {"gpt"}}},
      {.path = "model.dim",
       .field = config<&Config::dim>(),
       .meaning = "Numbers in an embedding: a row of a table.",
       .range = from_to(1, kMostWidth),
       .when = tables},
      {.path = "model.scale",
       .field = config<&Config::scale>(),
       .meaning = "Embeddings begin uniform between -`scale` and `scale`; biases and wide weights "
                  "begin at 0.",
       .range = from_to(0, 1000),
       .when = tables},
      {.path = "model.init",
       .field = config<&Config::init>(),
       .meaning = "How weights start, where a layer does not say.",
       .words = init_words()},
      {.path = "model.init_from",
       .field = model<&Model::init_from>(),
       .meaning = "A `model.safetensors` or a run directory whose weights to start from, where "
                  "name and shape match."},
      {.path = "model.freeze",
       .field = model<&Model::freeze>(),
       .meaning = "Patterns of parameter names that are not trained, such as `\"conv*\"`."},
  };
}

std::vector<Key> data_keys() {
  using Source = data::SourceConfig;
  const std::string_view source = "data.source";
  const When arrays = {source, {"idx", "npy"}};
  const When files = {source, {"csv", "text"}};
  const When csv = {source, {"csv"}};
  const When text = {source, {"text"}};
  const When ratings = {source, {"ratings"}};
  return {
      {.path = "data.source",
       .field = data_<&Source::source>(),
       .meaning = "Where the data comes from.",
       .words = {{"digits", "1,797 handwritten digits of 8x8, inside Tandem"},
                 {"idx", "the files of MNIST and Fashion-MNIST, plain or gzip"},
                 {"csv", "a table of numbers and categories"},
                 {"npy", "two NumPy arrays"},
                 {"text", "plain text, for character models"},
                 {"ratings", "ratings of items by users, made up at any size"}}},
      {.path = "data.images",
       .field = data_<&Source::images>(),
       .meaning = "File of the inputs.",
       .when = arrays,
       .presence = Presence::kRequired},
      {.path = "data.labels",
       .field = data_<&Source::labels>(),
       .meaning = "File of the classes or values.",
       .when = arrays,
       .presence = Presence::kRequired},
      {.path = "data.test_images",
       .field = data_<&Source::test_images>(),
       .meaning = "File of the test part's inputs; without it `test` cuts a share.",
       .when = arrays},
      {.path = "data.test_labels",
       .field = data_<&Source::test_labels>(),
       .meaning = "File of the test part's classes or values.",
       .when = arrays},
      {.path = "data.path",
       .field = data_<&Source::path>(),
       .meaning = "The file.",
       .when = files,
       .presence = Presence::kRequired},
      {.path = "data.test_path",
       .field = data_<&Source::test_path>(),
       .meaning = "File of the test part; without it `test` cuts a share.",
       .when = files},
      {.path = "data.label",
       .field = data_<&Source::label>(),
       .meaning = "The column to predict: its name, or its number from 0 (negative: from the end). "
                  "Without it: the last.",
       .when = csv,
       .accepts = Accepts::kIntegerToo},
      {.path = "data.header",
       .field = data_<&Source::header>(),
       .meaning = "Whether the first row names the columns.",
       .words = {{"auto", "it does when it holds no number and is unlike the rows below"},
                 {"yes", "it does"},
                 {"no", "it is data"}},
       .when = csv},
      {.path = "data.categorical",
       .field = data_<&Source::categorical>(),
       .meaning =
           "Columns that hold numbers of rows, from 0, in tables of embeddings: their names, "
           "or their numbers as for `label`.",
       .when = csv},
      {.path = "data.rows",
       .field = data_<&Source::rows>(),
       .meaning = "Rows of these tables, in the order of `categorical`. Without it: the largest "
                  "number in the files + 1.",
       .range = from_to(1, data::kMostRows),
       .when = csv},
      {.path = "data.ignore",
       .field = data_<&Source::ignore>(),
       .meaning = "Columns that are not read; for files with a header.",
       .when = csv},
      {.path = "data.task",
       .field = data_<&Source::task>(),
       .meaning = "What the label is.",
       .words = {{"auto", "decided by looking at the labels"},
                 {"classes", "one of several classes"},
                 {"values", "a number to come close to (regression)"}},
       .when = {source, {"csv", "npy"}}},
      {.path = "data.users",
       .field = data_<&Source::users>(),
       .meaning = "Users that rate.",
       .range = from_to(1, data::kMostRows),
       .when = ratings},
      {.path = "data.items",
       .field = data_<&Source::items>(),
       .meaning = "Items that are rated, those with small numbers more often.",
       .range = from_to(1, data::kMostRows),
       .when = ratings},
      {.path = "data.samples",
       .field = data_<&Source::samples>(),
       .meaning = "Ratings in all.",
       .range = from_to(1, data::kMostSamples),
       .when = ratings},
      {.path = "data.rank",
       .field = data_<&Source::rank>(),
       .meaning = "Hidden numbers that describe a user or an item; a rating has their product.",
       .range = from_to(1, 1024),
       .when = ratings},
      {.path = "data.noise",
       .field = data_<&Source::noise>(),
       .meaning = "Deviation of what cannot be predicted: the least rmse that is possible.",
       .range = from_to(0, 1000),
       .when = ratings},
      {.path = "data.seed",
       .field = data_<&Source::seed>(),
       .meaning = "Names the ratings: another one makes up others.",
       .range = at_least(0),
       .when = ratings},
      {.path = "data.context",
       .field = data_<&Source::context>(),
       .meaning = "Characters in a sample.",
       .range = from_to(1, data::kMostContext),
       .when = text},
      {.path = "data.stride",
       .field = data_<&Source::stride>(),
       .meaning = "Characters from the start of a sample to that of the next; 0: the context.",
       .range = from_to(0, kMostCount),
       .when = text},
      {.path = "data.validation",
       .field = data_<&Source::validation>(),
       .meaning = "Share of the training part that is kept for evaluation while training.",
       .range = kShare},
      {.path = "data.test",
       .field = data_<&Source::test>(),
       .meaning =
           "Share of the whole that becomes the test part, where the data has none of its own.",
       .range = kShare},
      {.path = "data.normalise",
       .field = data_<&Source::normalise>(),
       .meaning = "Bring inputs to mean 0 and deviation 1, as measured on the training part.",
       .when = {source, {"digits", "idx", "csv", "npy"}}},
      {.path = "data.prefetch",
       .field = data_<&Source::prefetch>(),
       .meaning = "Threads that prepare batches ahead; 0: none. It does not change the result.",
       .range = from_to(0, 64)},
  };
}

std::vector<Key> cluster_keys() {
  return {
      {.path = "cluster.workers",
       .field = cluster<&Cluster::workers>(),
       .meaning = "Worker processes.",
       .range = from_to(1, kMostWorkers)},
      {.path = "cluster.min_workers",
       .field = cluster<&Cluster::min_workers>(),
       .meaning = "When fewer workers are left, the job waits for others instead of going on.",
       .range = from_to(1, kMostWorkers)},
      {.path = "cluster.max_workers",
       .field = cluster<&Cluster::max_workers>(),
       .meaning = "Workers that it takes on a cluster when there is room; 0: as many as workers.",
       .range = from_to(0, kMostWorkers)},
      {.path = "cluster.max_restarts",
       .field = cluster<&Cluster::max_restarts>(),
       .meaning =
           "Lost workers that are replaced while the others go on; 0: a lost worker ends the "
           "run.",
       .range = from_to(0, 1e6)},
      {.path = "cluster.lanes",
       .field = cluster<&Cluster::lanes>(),
       .meaning = "Data-parallel slots that share a batch; the result depends on them, not on the "
                  "workers. "
                  "0: as many as workers.",
       .range = from_to(0, kMostWidth)},
      {.path = "cluster.strategy",
       .field = cluster<&Cluster::strategy>(),
       .meaning = "How the lanes' gradients meet.",
       .words = {{"allreduce", "the workers sum them in every step, and each updates its own copy"},
                 {"ps", "parameter servers sum them and update"}}},
      {.path = "cluster.servers",
       .field = cluster<&Cluster::servers>(),
       .meaning =
           "Parameter servers of strategy `ps`, each with a slice of the parameters. It does "
           "not change the result.",
       .range = from_to(1, 256)},
      {.path = "cluster.replicas",
       .field = cluster<&Cluster::replicas>(),
       .meaning =
           "Servers that hold each slice: with 2 or more the job goes on without a step back "
           "when one of them dies. It does not change the result.",
       .range = from_to(1, 8)},
      {.path = "cluster.engine",
       .field = cluster<&Cluster::engine>(),
       .meaning =
           "What moves gradients between workers; with parameter servers only the rest: the "
           "state for workers that join, shares of evaluations, verdicts. It does not change "
           "the result.",
       .words = {{"auto", "shared memory on one host, Gloo between hosts"},
                 {"shm", "shared memory; all workers must be on one host"},
                 {"gloo", "Gloo over TCP"},
                 {"mpi", "MPI; only under `mpirun` or `srun`"}}},
      {.path = "cluster.timeout_s",
       .field = cluster<&Cluster::timeout_s>(),
       .meaning = "Seconds that a worker waits for another inside a step before it gives up.",
       .range = from_to(0.1, 86400)},
      {.path = "cluster.bucket_bytes",
       .field = cluster<&Cluster::bucket_bytes>(),
       .meaning = "Gradients that are summed together, in bytes, while backward goes on; 0: 1 MiB. "
                  "It does not change the result.",
       .range = from_to(0, std::int64_t{1} << 30)},
  };
}

std::vector<Key> ps_keys() {
  return {
      {.path = "ps.consistency",
       .field = ps<&Ps::consistency>(),
       .meaning = "What workers wait for, with strategy `ps`.",
       .words = {{"bsp", "for every worker in every step: the bits of an all-reduce"},
                 {"ssp", "for workers that are more than `staleness` steps behind"},
                 {"asp", "for nothing"}}},
      {.path = "ps.staleness",
       .field = ps<&Ps::staleness>(),
       .meaning =
           "With `ssp`: by how many steps the parameters that a gradient is computed with may "
           "be behind.",
       .range = from_to(0, 1'000'000)},
      {.path = "ps.quorum",
       .field = ps<&Ps::quorum>(),
       .meaning =
           "With `bsp`: a step is over when this fraction of its lanes is there. The mean is then "
           "that of their samples; lanes that come later are dropped, so a slow worker does not "
           "hold up the others. 1: all of them, with the bits of an all-reduce.",
       .range = from_to(0.01, 1)},
      {.path = "ps.aggregate",
       .field = ps<&Ps::aggregate>(),
       .meaning = "What the gradients of a step's lanes count, with strategy `ps`.",
       .words = {{"weighted", "each as much as it has samples: the mean over all samples"},
                 {"mean", "each the same: the mean of the lanes' means"},
                 {"sum", "each fully: the sum of the lanes' means"}}},
      {.path = "ps.stale_lr",
       .field = ps<&Ps::stale_lr>(),
       .meaning = "With `ssp` and `asp`: the learning rate of gradients that missed updates.",
       .words = {{"same", "as that of others"},
                 {"lowered", "divided by one more than the steps' worth of updates missed"}}},
      {.path = "ps.compensation",
       .field = ps<&Ps::compensation>(),
       .meaning = "With `ssp` and `asp`: corrects a gradient g that missed updates by this number "
                  "times g * g * (change of the parameter meanwhile); 0: not.",
       .range = from_to(0, 1e6)},
      {.path = "ps.transport",
       .field = ps<&Ps::transport>(),
       .meaning = "How workers and servers exchange floats. It does not change the result.",
       .words = {{"auto", "in shared memory where both are on one host, else over TCP"},
                 {"tcp", "over TCP, also on one host"}}},
      {.path = "ps.pull",
       .field = ps<&Ps::pull>(),
       .meaning = "What workers and servers exchange in a step. It does not change the result.",
       .words = {{"full", "all gradients and parameters"},
                 {"partial",
                  "those that are not frozen; of tables of embeddings, the rows of the worker's "
                  "batches"}}},
      {.path = "ps.tables",
       .field = ps<&Ps::tables>(),
       .meaning = "Where tables of embeddings are kept, with strategy `ps`.",
       .words = {{"dense", "as other parameters: whole, with every worker and on the servers"},
                 {"sparse",
                  "on the servers alone, which make a row when it is first trained; a worker has "
                  "the rows of its batches. `pull` is then `partial`. Updates act on the rows that "
                  "a step touches"}}},
      {.path = "ps.admit_after",
       .field = ps<&Ps::admit_after>(),
       .meaning =
           "With sparse tables: so many steps (with `ssp` and `asp`: tasks) that touch a row are "
           "counted and dropped before it is made.",
       .range = from_to(0, 1e9)},
      {.path = "ps.evict_after",
       .field = ps<&Ps::evict_after>(),
       .meaning = "With sparse tables: a row that no step touched for so many steps is as if it "
                  "had never been; 0: rows stay.",
       .range = from_to(0, 1e9)},
  };
}

std::vector<Key> checkpoint_keys() {
  return {
      {.path = "checkpoint.every_steps",
       .field = checkpoint<&Checkpoint::every_steps>(),
       .meaning = "Steps between two checkpoints; 0: only time decides.",
       .range = from_to(0, kMostCount)},
      {.path = "checkpoint.every_seconds",
       .field = checkpoint<&Checkpoint::every_seconds>(),
       .meaning = "Seconds between two checkpoints; 0: only steps decide.",
       .range = from_to(0, 1e9)},
      {.path = "checkpoint.keep",
       .field = checkpoint<&Checkpoint::keep>(),
       .meaning = "How many are kept, the newest; 0: none is written.",
       .range = from_to(0, kMostCount)},
      {.path = "checkpoint.best",
       .field = checkpoint<&Checkpoint::best>(),
       .meaning = "A checkpoint that is kept beside them: after the evaluation with the best ...",
       .words = {{"none", "nothing: there is no such one"},
                 {"loss", "the lowest loss"},
                 {"accuracy", "the highest accuracy"}}},
  };
}

const Schema& job_schema() {
  static const Schema schema([] {
    std::vector<Key> keys = {
        {.path = "name",
         .field = field<Job, &Job::name>(),
         .meaning = "Names the run's directory. Without it: the job file's name without `.toml`."}};
    for (const std::vector<Key>& part :
         {model_keys(), data_keys(), train_keys(), cluster_keys(), ps_keys(), checkpoint_keys()}) {
      keys.insert(keys.end(), part.begin(), part.end());
    }
    return keys;
  }());
  return schema;
}

const Schema& layer_schema() {
  static const Schema schema(layer_keys());
  return schema;
}

}  // namespace tandem::job
