// A model described without running it: which layers, in which blocks, with which parameters of
// which shapes. The light binary uses it to check a job and to count parameters; model/ executes
// it. Pure values, no libtorch.
//
// A model is a list of blocks, so that pipeline stages can be ranges of them; a block is a list of
// layers. Parameters and buffers ("slots") lie in two flat vectors in the order of `slots`; a
// slot's name and shape are PyTorch's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace tandem::arch {

enum class LayerKind : std::uint8_t {
  kLinear,
  kConv,
  kMaxPool,
  kAvgPool,
  kGlobalAvgPool,
  kRelu,
  kGelu,
  kTanh,
  kDropout,
  kBatchNorm,
  kLayerNorm,
  kFlatten,
  kEmbedding,
  kResidual,  // Two 3x3 convolutions with batch-norm and a skip; resnet18's block.
  kDecoder,   // Attention and a feed-forward part, each behind a layer-norm, each added; gpt's
              // block.
  // Models by themselves; not for lists of layers.
  kFactors,   // A bias, two rows' biases and their product; matrix_factorization.
  kWideDeep,  // A sum of rows and linear features, and an mlp on rows and features; wide_deep.
};

// The name in a job file: "linear", "conv", "max_pool", ...
std::string_view to_string(LayerKind kind);
// All names that `layers` in a job file accepts, in the order of the enum.
std::vector<std::string_view> layer_names();

enum class Init : std::uint8_t { kDefault, kKaiming, kXavier, kNormal, kZeros };

// One layer as a job file or a model kind asks for it. Fields that a kind does not use stay at
// their defaults.
struct Layer {
  LayerKind kind = LayerKind::kLinear;
  std::int64_t out = 0;  // linear, conv, residual: outputs or channels; embedding: width. 0 in the
                         // last linear layer: as many as the data has classes or values. factors,
                         // wide_deep: width of a row.
  std::int64_t kernel = 3;                // conv, pools.
  std::int64_t stride = 1;                // conv, pools (0: the kernel's size), residual.
  std::int64_t padding = 0;               // conv, pools.
  std::int64_t heads = 4;                 // decoder.
  double rate = 0.5;                      // dropout, wide_deep.
  double scale = 0;                       // factors, wide_deep: rows begin in [-scale, scale).
  bool bias = true;                       // linear, conv.
  bool position = false;                  // embedding: adds a learnt vector for each place.
  Init init = Init::kDefault;             // Of the weight.
  std::vector<std::int64_t> hidden = {};  // wide_deep: widths of the mlp.
  std::string name;  // Prefix of its slots' names; given by build() when empty.
};

enum class LossKind : std::uint8_t { kCrossEntropy, kMse, kBce };

struct Loss {
  LossKind kind = LossKind::kCrossEntropy;
  std::vector<float> class_weights;  // cross entropy: empty, or one a class.
  double label_smoothing = 0;        // cross entropy.
};

// What the job file says in [model]. Loss is in [train].
struct ModelConfig {
  std::string kind;                  // softmax, mlp, cnn, resnet18, gpt, matrix_factorization,
                                     // wide_deep, layers.
  std::vector<Layer> layers;         // kind = "layers".
  std::vector<std::int64_t> hidden;  // mlp, wide_deep: widths; empty: {512, 512}, {64, 32}.
  double dropout = 0;                // mlp, cnn, gpt, wide_deep.
  std::int64_t width = 128;          // gpt.
  std::int64_t heads = 4;            // gpt.
  std::int64_t blocks = 4;           // gpt.
  std::int64_t dim = 16;             // matrix_factorization, wide_deep: width of an embedding.
  double scale = 0.05;               // The same: embeddings begin uniform in [-scale, scale).
  Init init = Init::kDefault;        // For every weight whose layer does not say.
};

// An input that is no quantity but the number of a row in a table.
struct IdColumn {
  std::int64_t column = 0;  // Which of a sample's inputs.
  std::int64_t rows = 0;    // Its numbers are whole, from 0 to rows - 1.
};

// What the data looks like to a model: data::Spec without the data.
struct Interface {
  bool tokens = false;                    // Inputs are token numbers instead of floats.
  std::vector<std::int64_t> input_shape;  // Of one sample.
  std::int64_t vocabulary = 0;            // tokens: how many numbers there are.
  std::int64_t outputs = 0;               // Classes, or values a sample.
  std::vector<IdColumn> ids;              // Ascending by column; the other inputs are quantities.
};

enum class SlotKind : std::uint8_t { kParameter, kBuffer };

// How a slot is filled at the start.
enum class Fill : std::uint8_t {
  kZeros,
  kOnes,
  kNormal,
  kUniform,
  kRows,  // Uniform, each row of a table by itself (base/rows.h).
};

// A named tensor in the flat parameter or buffer vector.
struct Slot {
  std::string name;  // "conv1.weight"
  SlotKind kind = SlotKind::kParameter;
  std::vector<std::int64_t> shape;
  std::int64_t offset = 0;  // Floats from the start of its flat vector.
  std::int64_t size = 0;    // Floats.
  Fill fill = Fill::kZeros;
  double scale = 0;  // kNormal: deviation; kUniform, kRows: half-width.
};

// A parameter slot of shape {rows, width} of which a sample uses one row, that of the number in one
// of its inputs. All other rows have a gradient of exactly 0.
struct Table {
  std::int64_t slot = 0;  // Index into Blueprint::slots.
  std::int64_t rows = 0;
  std::int64_t width = 0;
  std::int64_t column = 0;    // Which of a sample's inputs says the row.
  std::int64_t all_rows = 0;  // Of the whole table, where `rows` is a window on it; else `rows`.
};

struct Block {
  std::string name;
  std::vector<Layer> layers;              // With names and inferred sizes.
  std::vector<std::int64_t> input_shape;  // Of one sample.
  std::int64_t first_slot = 0;            // Its slots are slots[first_slot, last_slot).
  std::int64_t last_slot = 0;
};

struct Blueprint {
  Interface interface;
  std::vector<Block> blocks;
  std::vector<Slot> slots;
  std::vector<Table> tables;    // They come first in the flat parameter vector, in this order.
  std::int64_t parameters = 0;  // Floats in the flat parameter vector.
  std::int64_t buffers = 0;     // Floats in the flat buffer vector.
  // Floats at the front that are windows: places for some rows of tables that are kept elsewhere.
  std::int64_t window = 0;
};

// Where in `layers` a configuration is wrong, for messages that point at a line of the job file.
struct LayerError {
  std::int64_t layer = -1;  // Index into ModelConfig::layers, or -1 for the model as a whole.
  std::string message;
};

// Infers shapes, names and slots. On failure returns kInvalidArgument; *where, if given, says which
// layer.
Result<Blueprint> build(const ModelConfig& config, const Interface& interface,
                        LayerError* where = nullptr);

// The same with a window of at most `window_rows` rows instead of each table. A sample's number of
// a row is then the place of that row in the window.
Result<Blueprint> build_with_window(const ModelConfig& config, const Interface& interface,
                                    std::int64_t window_rows, LayerError* where = nullptr);

}  // namespace tandem::arch
