// The IDX format of MNIST and its relatives. Pure parser.
//
// | offset | size | field | meaning                                                       |
// |--------|------|-------|---------------------------------------------------------------|
// | 0      | 2    | zero  | 0                                                             |
// | 2      | 1    | type  | 8 u8, 9 i8, 11 i16, 12 i32, 13 f32, 14 f64                    |
// | 3      | 1    | rank  | number of dimensions                                          |
// | 4      | 4·r  | shape | big-endian                                                    |
// | 4+4·r  |      | data  | big-endian, row-major, to the end of the file                 |
#pragma once

#include <string_view>

#include "base/result.h"
#include "data/array.h"

namespace tandem::data {

// Whether the bytes begin as an IDX file does.
bool is_idx(std::string_view bytes);

// kCorrupt when the header is not IDX or the data is shorter or longer than it says. The Array
// looks into `bytes`.
Result<Array> parse_idx(std::string_view bytes);

}  // namespace tandem::data
