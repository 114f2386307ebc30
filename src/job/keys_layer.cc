// The keys of one entry of model.layers.
#include "job/keys.h"

namespace tandem::job {
namespace {

template <auto... path>
Field layer() {
  return field<arch::Layer, path...>();
}

std::vector<Word> layer_words() {
  return {{"linear", "a matrix and a bias; on a sequence, at each place"},
          {"conv", "a two-dimensional convolution with a square kernel"},
          {"max_pool", "the largest number of each window"},
          {"avg_pool", "the mean of each window"},
          {"global_avg_pool", "the mean of each channel"},
          {"relu", "max(x, 0)"},
          {"gelu", "the Gaussian error linear unit"},
          {"tanh", "the hyperbolic tangent"},
          {"dropout", "drops activations in training"},
          {"batchnorm", "normalises each channel over its lane's part of the batch"},
          {"layernorm", "normalises each sample's vector"},
          {"flatten", "an image becomes a vector"},
          {"embedding", "characters become vectors; the first layer for text"},
          {"residual", "resnet18's block: two 3x3 convolutions with batch-norm, and a skip"},
          {"decoder", "gpt's block: attention and a feed-forward part, each added to its input"}};
}

}  // namespace

std::vector<Key> layer_keys() {
  using Layer = arch::Layer;
  const When pools = {"kind", {"max_pool", "avg_pool"}};
  const Range size = from_to(1, kMostWidth);
  return {
      {.path = "kind",
       .field = layer<&Layer::kind>(),
       .meaning = "What the layer does.",
       .words = layer_words(),
       .presence = Presence::kRequired},
      {.path = "out",
       .field = layer<&Layer::out>(),
       .meaning = "Outputs, channels or width.",
       .range = size,
       .when = {"kind", {"conv", "embedding", "residual"}},
       .presence = Presence::kRequired},
      {.path = "out",
       .field = layer<&Layer::out>(),
       .meaning = "Outputs; 0: the data's number of classes or values, for the last layer.",
       .range = from_to(0, kMostWidth),
       .when = {"kind", {"linear"}}},
      {.path = "kernel",
       .field = layer<&Layer::kernel>(),
       .meaning = "Height and width of the kernel or window.",
       .range = size,
       .when = {"kind", {"conv"}}},
      {.path = "kernel",
       .field = layer<&Layer::kernel>(),
       .meaning = "Height and width of the window.",
       .range = size,
       .when = pools,
       .fallback = "2"},
      {.path = "stride",
       .field = layer<&Layer::stride>(),
       .meaning = "Pixels from a window to the next.",
       .range = size,
       .when = {"kind", {"conv", "residual"}}},
      {.path = "stride",
       .field = layer<&Layer::stride>(),
       .meaning = "Pixels from a window to the next; 0: the window's size.",
       .range = from_to(0, kMostWidth),
       .when = pools,
       .fallback = "0"},
      {.path = "padding",
       .field = layer<&Layer::padding>(),
       .meaning = "Pixels added on each side.",
       .range = from_to(0, kMostWidth),
       .when = {"kind", {"conv", "max_pool", "avg_pool"}}},
      {.path = "heads",
       .field = layer<&Layer::heads>(),
       .meaning = "Attention heads; they must divide the width.",
       .range = size,
       .when = {"kind", {"decoder"}}},
      {.path = "rate",
       .field = layer<&Layer::rate>(),
       .meaning = "Share that is dropped.",
       .range = kShare,
       .when = {"kind", {"dropout"}}},
      {.path = "bias",
       .field = layer<&Layer::bias>(),
       .meaning = "Whether there is a bias.",
       .when = {"kind", {"linear", "conv"}}},
      {.path = "position",
       .field = layer<&Layer::position>(),
       .meaning = "Add a learnt vector for each place in the sample.",
       .when = {"kind", {"embedding"}}},
      {.path = "init",
       .field = layer<&Layer::init>(),
       .meaning = "How the weights start; `default`: what `model.init` says.",
       .words = init_words(),
       .when = {"kind", {"linear", "conv", "embedding", "residual", "decoder"}}},
      {.path = "name",
       .field = layer<&Layer::name>(),
       .meaning = "Begins the names of its parameters. Without it: kind and number, such as "
                  "`conv1`. No two layers may have the same."},
  };
}

}  // namespace tandem::job
