#include "model/attention.h"

#include <algorithm>
#include <cmath>

#include "model/kernels.h"
#include "model/matmul.h"
#include "model/tile_product.h"

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

std::int64_t round_up(std::int64_t number, std::int64_t unit) {
  return (number + unit - 1) / unit * unit;
}

// The products of one head, of which about half are known to be zero: no place sees a later one.
// `right` is where a right side is packed.
class Products {
 public:
  Products(const AttentionShape& shape, float* right)
      : kernel_(tile_kernel()), places_(shape.places), depth_(shape.head_width()), right_(right) {}

  // What needs to be packed at most.
  static std::int64_t floats(const AttentionShape& shape) {
    constexpr std::int64_t kWidestTile = 32;
    return std::max(round_up(shape.places, kWidestTile) * shape.head_width(),
                    round_up(shape.head_width(), kWidestTile) * shape.places);
  }

  // to[i][j] = a[i] . b[j]; beyond the diagonal it may or may not be written.
  void between_places(Matrix a, Matrix b, float* to) const {
    if (kernel_ == nullptr)
      return multiply(places_, places_, depth_, a, {b.data, b.stride, Transpose::kYes}, to,
                      places_);
    pack_right({b.data, b.stride, Transpose::kYes}, depth_, places_, kernel_->columns, right_);
    for_each_rows([&](std::int64_t i, std::int64_t rows) {
      kernel_->multiply({.rows = rows,
                         .columns = std::min(places_, round_up(i + rows, kernel_->columns)),
                         .depth = depth_,
                         .left = a.data + i * a.stride,
                         .row_step = a.stride,
                         .k_step = 1,
                         .panels = right_,
                         .to = to + i * places_,
                         .to_row_step = places_,
                         .to_column_step = 1});
    });
  }

  // to[i] = sum over j <= i of weights[i][j] b[j]. Weights beyond the diagonal are zero.
  void sum_of_earlier(const float* weights, Matrix b, float* to, std::int64_t to_stride) const {
    if (kernel_ == nullptr)
      return multiply(places_, depth_, places_, {weights, places_}, b, to, to_stride);
    pack_right(b, places_, depth_, kernel_->columns, right_);
    for_each_rows([&](std::int64_t i, std::int64_t rows) {
      kernel_->multiply({.rows = rows,
                         .columns = depth_,
                         .depth = i + rows,
                         .left = weights + i * places_,
                         .row_step = places_,
                         .k_step = 1,
                         .panels = right_,
                         .to = to + i * to_stride,
                         .to_row_step = to_stride,
                         .to_column_step = 1,
                         .panel_rows = places_});
    });
  }

  // to[j] = sum over i >= j of weights[i][j] b[i]. Weights beyond the diagonal are zero.
  void sum_of_later(const float* weights, Matrix b, float* to, std::int64_t to_stride) const {
    if (kernel_ == nullptr)
      return multiply(places_, depth_, places_, {weights, places_, Transpose::kYes}, b, to,
                      to_stride);
    pack_right(b, places_, depth_, kernel_->columns, right_);
    for_each_rows([&](std::int64_t j, std::int64_t rows) {
      kernel_->multiply({.rows = rows,
                         .columns = depth_,
                         .depth = places_ - j,
                         .left = weights + j * places_ + j,
                         .row_step = 1,
                         .k_step = places_,
                         .panels = right_ + j * kernel_->columns,
                         .to = to + j * to_stride,
                         .to_row_step = to_stride,
                         .to_column_step = 1,
                         .panel_rows = places_});
    });
  }

 private:
  template <typename Work>
  void for_each_rows(Work work) const {
    for (std::int64_t i = 0; i < places_; i += kernel_->rows)
      work(i, std::min(kernel_->rows, places_ - i));
  }

  const TileKernel* const kernel_;
  const std::int64_t places_, depth_;
  float* const right_;
};

}  // namespace

std::int64_t attention_scratch(const AttentionShape& shape) {
  return Products::floats(shape) + shape.places * shape.places;
}

void attention(const AttentionShape& shape, const float* qkv, float* probabilities, float* out,
               float* scratch) {
  const std::int64_t places = shape.places, stride = 3 * shape.width;
  const Products products(shape, scratch);
  for (std::int64_t sample = 0; sample < shape.samples; ++sample) {
    for (std::int64_t head = 0; head < shape.heads; ++head) {
      const float* query = qkv + begin(shape, sample, head, stride);
      const float* key = query + shape.width;
      const float* value = key + shape.width;
      float* p = probabilities + (sample * shape.heads + head) * places * places;
      products.between_places({query, stride}, {key, stride}, p);
      for (std::int64_t place = 0; place < places; ++place)
        softmax_row(p + place * places, place + 1, places, scale_of(shape));
      products.sum_of_earlier(p, {value, stride}, out + begin(shape, sample, head, shape.width),
                              shape.width);
    }
  }
}

void attention_backward(const AttentionShape& shape, const float* qkv, const float* probabilities,
                        const float* out_gradient, float* qkv_gradient, float* scratch) {
  const std::int64_t places = shape.places, stride = 3 * shape.width;
  const Products products(shape, scratch);
  float* const scores = scratch + Products::floats(shape);  // Their gradients.
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
      products.sum_of_later(p, {up, shape.width}, value_gradient, stride);
      products.between_places({up, shape.width}, {value, stride}, scores);
      for (std::int64_t place = 0; place < places; ++place) {
        softmax_row_backward(p + place * places, scores + place * places, place + 1, places,
                             scale_of(shape));
      }
      products.sum_of_earlier(scores, {key, stride}, query_gradient, stride);
      products.sum_of_later(scores, {query, stride}, key_gradient, stride);
    }
  }
}

}  // namespace tandem::model
