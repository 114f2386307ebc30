// NumPy's .npy format, versions 1 to 3. Pure parser. Little-endian numbers and booleans only:
// arrays of objects can carry code and are refused.
//
// clang-format off
// | offset | size   | field   | meaning                                              |
// |--------|--------|---------|------------------------------------------------------|
// | 0      | 6      | magic   | 0x93 "NUMPY"                                         |
// | 6      | 2      | version | major, minor                                         |
// | 8      | 2 or 4 | length  | of the header; 2 bytes in version 1, 4 in 2 and 3    |
// |        | length | header  | a Python dict: 'descr', 'fortran_order', 'shape'     |
// |        |        | data    | to the end of the file                               |
// clang-format on
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "data/array.h"

namespace tandem::data {

enum class NpyOrder : std::uint8_t { kRowMajor, kFortran };

struct Npy {
  Array array;                           // Looks into the parsed bytes.
  NpyOrder order = NpyOrder::kRowMajor;  // kFortran: put the bytes through to_row_major() first.
};

// Whether the bytes begin as an npy file does.
bool is_npy(std::string_view bytes);

// kCorrupt when the header is damaged or the data is shorter or longer than it says;
// kInvalidArgument for a type that Tandem does not read.
Result<Npy> parse_npy(std::string_view bytes);

}  // namespace tandem::data
