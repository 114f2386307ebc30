// How far apart the models of two nodes are, by what they predict or by their weights. Pure; sums
// are in double precision and in index order, so the same inputs give the same bits.
#pragma once

#include <cstddef>
#include <span>

namespace tandem::converge {

// The mean over rows of the Kullback-Leibler divergence of `p` from `q`, in nats: rows of `classes`
// logits, one row a sample, whose softmax are the predictions. 0 for equal ones and when there are
// no rows, never negative; infinite when `q` excludes what `p` does not.
// REQUIRES: equal sizes, a multiple of `classes`; in each row a finite logit, none +inf or NaN.
double mean_kl(std::span<const float> p, std::span<const float> q, std::size_t classes);

// The length of a - b in relation to the longer one of a and b: 0 for equal vectors, at most 2.
// REQUIRES: equal sizes, finite numbers.
double relative_distance(std::span<const float> a, std::span<const float> b);

}  // namespace tandem::converge
