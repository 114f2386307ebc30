// Images that lie in blocks of channels: [n][channels / block][height][width][block]. Internal to
// src/model/.
#pragma once

#include <cstdint>
#include <dnnl.hpp>
#include <vector>

namespace tandem::model {

struct Image {
  std::int64_t samples, channels, height, width;
  std::int64_t block;  // 8 or 16; divides channels.
};

// A block of channels as the compiler's own vector, of as many registers as it takes.
template <std::int64_t kBlock>
using Vector [[gnu::vector_size(kBlock * sizeof(float))]] = float;

// Channels that lie together in the layout, or 0 when it is not such a layout.
inline std::int64_t block_of(const dnnl::memory::desc& desc,
                             const std::vector<std::int64_t>& shape) {
  const auto is = [&](dnnl::memory::format_tag tag) {
    return desc == dnnl::memory::desc(shape, dnnl::memory::data_type::f32, tag);
  };
  if (is(dnnl::memory::format_tag::nChw8c) && shape[1] % 8 == 0) return 8;
  if (is(dnnl::memory::format_tag::nChw16c) && shape[1] % 16 == 0) return 16;
  return 0;
}

inline dnnl::memory::desc blocked_desc(const std::vector<std::int64_t>& shape, std::int64_t block) {
  const auto tag =
      block == 8 ? dnnl::memory::format_tag::nChw8c : dnnl::memory::format_tag::nChw16c;
  return {shape, dnnl::memory::data_type::f32, tag};
}

inline Image image_of(const std::vector<std::int64_t>& shape, std::int64_t block) {
  return {shape[0], shape[1], shape[2], shape[3], block};
}

}  // namespace tandem::model
