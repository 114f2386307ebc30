// How the rows of tables, such as embeddings, begin: a pure function of (seed, table, row). So a
// row has the same bits whether a model fills its whole table at the start or a parameter server
// makes the row when it is first needed.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

namespace tandem {

// The seed of one table's rows, for the job's seed and the table's name.
std::uint64_t table_seed(std::uint64_t seed, std::string_view table);

// Fills a row with numbers uniform in [-scale, scale); zeros when the scale is 0.
void begin_row(std::uint64_t table_seed, std::uint64_t row, float scale, std::span<float> weights);

}  // namespace tandem
