// How the tables of job/schema.h are written: field() makes a Field from pointers to members, and
// the functions that give each part of the table. Private to this folder; pure.
#pragma once

#include <cstddef>
#include <type_traits>
#include <utility>
#include <vector>

#include "job/job.h"
#include "job/schema.h"

namespace tandem::job {

// member<&Job::train, &Train::epochs>(job) is job.train.epochs.
template <auto... path, typename Record>
auto& member(Record& record) {
  return (record.*....*path);
}

template <typename Record, auto... path>
Field field() {
  using T = std::remove_reference_t<decltype(member<path...>(std::declval<Record&>()))>;
  if constexpr (std::is_enum_v<T>) {
    return EnumAccess{
        [](void* record) {
          return static_cast<std::size_t>(member<path...>(*static_cast<Record*>(record)));
        },
        [](void* record, std::size_t value) {
          member<path...>(*static_cast<Record*>(record)) = static_cast<T>(value);
        }};
  } else {
    return Access<T>{
        [](void* record) -> T& { return member<path...>(*static_cast<Record*>(record)); }};
  }
}

constexpr Range at_least(double least) {
  return {.least = least};
}
constexpr Range from_to(double least, double most) {
  return {.least = least, .most = most};
}
// A share of something: 0 is allowed, all of it is not.
inline constexpr Range kShare = {.least = 0, .most = 1, .open_most = true};

// The normal floats above 0, in round numbers. What kernels compute with is a float: a smaller
// number would be 0 there, a larger one infinite.
inline constexpr Range kPositiveFloat = {.least = 1.2e-38, .most = 3.4e38};

// Limits that no real job meets; they keep sums and products of sizes far from overflow.
inline constexpr double kMostCount = 1e12;
inline constexpr double kMostWidth = 65536;
inline constexpr double kMostWorkers = 4096;
inline constexpr double kMostThreads = 1024;

std::vector<Key> model_keys();
std::vector<Key> data_keys();
std::vector<Key> train_keys();
std::vector<Key> cluster_keys();
std::vector<Key> ps_keys();
std::vector<Key> checkpoint_keys();
std::vector<Key> layer_keys();
// The words of arch::Init.
std::vector<Word> init_words();

}  // namespace tandem::job
