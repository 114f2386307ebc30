// The loops of the optimizers, one pass over memory each. They are inlined into functions that are
// compiled for several instruction sets (optimizer.cc) and, in the test, for each set by itself.
// All arithmetic is element by element in float and in PyTorch's order, so every set gives the same
// bits. Pure functions on raw memory.
//
// Each returns whether a weight is no longer a finite number.
//
// Gradients are an array, or what has elements like one.
//
// REQUIRES, for all: the arrays hold `count` floats and do not overlap.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>

namespace tandem::optim::kernels {

// How a gradient is changed before an optimizer sees it: g * scale + l1 * sign(w) + decay * w.
struct Penalty {
  float scale = 1;
  float l1 = 0;
  float decay = 0;

  bool is_none() const { return scale == 1 && l1 == 0 && decay == 0; }
};
// The gradient as it is: the usual case.
struct NoPenalty {};

[[gnu::always_inline]] inline float penalised(float gradient, float weight,
                                              const Penalty& penalty) {
  const float sign = static_cast<float>(weight > 0) - static_cast<float>(weight < 0);
  return gradient * penalty.scale + penalty.l1 * sign + penalty.decay * weight;
}

[[gnu::always_inline]] inline float penalised(float gradient, float, NoPenalty) {
  return gradient;
}

// 1 for NaN and infinity: all bits of the exponent are set.
[[gnu::always_inline]] inline std::uint32_t not_finite(float value) {
  constexpr std::uint32_t kExponent = 0x7f800000U;
  return (std::bit_cast<std::uint32_t>(value) & kExponent) == kExponent ? 1U : 0U;
}

template <typename Gradients, typename Penalties>
[[gnu::always_inline]] inline bool sgd(float* __restrict weights, Gradients gradients,
                                       std::size_t count, Penalties penalty, float lr) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] -= lr * penalised(gradients[i], weights[i], penalty);
    found |= not_finite(weights[i]);
  }
  return found != 0;
}

// The same from one array to another.
template <typename Gradients, typename Penalties>
[[gnu::always_inline]] inline bool sgd_from(const float* __restrict old, float* __restrict weights,
                                            Gradients gradients, std::size_t count,
                                            Penalties penalty, float lr) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    weights[i] = old[i] - lr * penalised(gradients[i], old[i], penalty);
    found |= not_finite(weights[i]);
  }
  return found != 0;
}

template <typename Gradients, typename Penalties>
[[gnu::always_inline]] inline bool sgd_momentum(float* __restrict weights, Gradients gradients,
                                                float* __restrict momenta, std::size_t count,
                                                Penalties penalty, float lr, float momentum) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = penalised(gradients[i], weights[i], penalty);
    momenta[i] = momenta[i] * momentum + gradient;
    weights[i] -= lr * momenta[i];
    found |= not_finite(weights[i]);
  }
  return found != 0;
}

template <typename Gradients, typename Penalties>
[[gnu::always_inline]] inline bool sgd_nesterov(float* __restrict weights, Gradients gradients,
                                                float* __restrict momenta, std::size_t count,
                                                Penalties penalty, float lr, float momentum) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = penalised(gradients[i], weights[i], penalty);
    momenta[i] = momenta[i] * momentum + gradient;
    weights[i] -= lr * (gradient + momentum * momenta[i]);
    found |= not_finite(weights[i]);
  }
  return found != 0;
}

// What one step of adam or adamw multiplies and divides by; made once a step in double.
struct AdamFactors {
  float keep = 1;  // Weights are multiplied by it first: adamw's decay; 1 for adam.
  float beta1 = 0;
  float one_minus_beta1 = 0;
  float beta2 = 0;
  float one_minus_beta2 = 0;
  float root_correction2 = 0;  // sqrt(1 - beta2^step)
  float epsilon = 0;
  float step_size = 0;  // lr / (1 - beta1^step)
};

template <typename Gradients, typename Penalties>
[[gnu::always_inline]] inline bool adam(float* __restrict weights, Gradients gradients,
                                        float* __restrict averages, float* __restrict squares,
                                        std::size_t count, Penalties penalty, AdamFactors f) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = penalised(gradients[i], weights[i], penalty);
    averages[i] = averages[i] * f.beta1 + f.one_minus_beta1 * gradient;
    squares[i] = squares[i] * f.beta2 + f.one_minus_beta2 * gradient * gradient;
    const float divisor = std::sqrt(squares[i]) / f.root_correction2 + f.epsilon;
    weights[i] = weights[i] * f.keep - f.step_size * averages[i] / divisor;
    found |= not_finite(weights[i]);
  }
  return found != 0;
}

template <typename Gradients, typename Penalties>
[[gnu::always_inline]] inline bool adagrad(float* __restrict weights, Gradients gradients,
                                           float* __restrict sums, std::size_t count,
                                           Penalties penalty, float lr, float epsilon) {
  std::uint32_t found = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const float gradient = penalised(gradients[i], weights[i], penalty);
    sums[i] += gradient * gradient;
    weights[i] -= lr * gradient / (std::sqrt(sums[i]) + epsilon);
    found |= not_finite(weights[i]);
  }
  return found != 0;
}

}  // namespace tandem::optim::kernels
