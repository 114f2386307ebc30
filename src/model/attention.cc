#include "model/attention.h"

#include <cmath>

#include "model/kernels.h"
#include "model/matmul.h"

namespace tandem::model {
namespace {

float scale_of(const AttentionShape& shape) {
  return 1.0F / std::sqrt(static_cast<float>(shape.head_width()));
}

// Where a sample's head begins in a matrix of `stride` columns.
std::int64_t begin(const AttentionShape& shape, std::int64_t sample, std::int64_t head,
                   std::int64_t stride) {
  return sample * shape.places * stride + head * shape.head_width();
}

}  // namespace

void attention(const AttentionShape& shape, const float* qkv, float* probabilities, float* out) {
  const std::int64_t places = shape.places, depth = shape.head_width(), stride = 3 * shape.width;
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const float* query = qkv + begin(shape, sample, head, stride);
      const float* key = query + shape.width;
      const float* value = key + shape.width;
      float* p = probabilities + (sample * shape.heads + head) * places * places;
      multiply(places, places, depth, {query, stride}, {key, stride, Transpose::kYes}, p, places, 0,
               scale_of(shape));
      for (std::int64_t place = 0; place < places; ++place)
        softmax_row(p + place * places, place + 1, places);
      multiply(places, depth, places, {p, places}, {value, stride},
               out + begin(shape, sample, head, shape.width), shape.width);
    }
  }
}

void attention_backward(const AttentionShape& shape, const float* qkv, const float* probabilities,
                        const float* out_gradient, float* qkv_gradient, float* scratch) {
  const std::int64_t places = shape.places, depth = shape.head_width(), stride = 3 * shape.width;
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const std::int64_t at = begin(shape, sample, head, stride);
      const float* query = qkv + at;
      const float* key = query + shape.width;
      const float* value = key + shape.width;
      const float* p = probabilities + (sample * shape.heads + head) * places * places;
      const float* up = out_gradient + begin(shape, sample, head, shape.width);
      float* query_gradient = qkv_gradient + at;
      float* key_gradient = query_gradient + shape.width;
      float* value_gradient = key_gradient + shape.width;
      multiply(places, depth, places, {p, places, Transpose::kYes}, {up, shape.width},
               value_gradient, stride);
      multiply(places, places, depth, {up, shape.width}, {value, stride, Transpose::kYes}, scratch,
               places);
      for (std::int64_t place = 0; place < places; ++place) {
        softmax_row_backward(p + place * places, scratch + place * places, places, scale_of(shape));
      }
      multiply(places, depth, places, {scratch, places}, {key, stride}, query_gradient, stride);
      multiply(places, depth, places, {scratch, places, Transpose::kYes}, {query, stride},
               key_gradient, stride);
    }
  }
}

}  // namespace tandem::model
