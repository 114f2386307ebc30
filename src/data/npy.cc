#include "data/npy.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>
#include <utility>

namespace tandem::data {
namespace {

constexpr std::string_view kMagic = "\x93NUMPY";
constexpr std::size_t kMostHeaderBytes = std::size_t{1} << 16;
constexpr std::size_t kMostRank = 8;

Error damaged(std::string_view what) {
  return Error(Code::kCorrupt, fmt::format("the npy header is damaged: {}", what));
}

// The header's Python dict, read by someone who expects nothing else.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  Result<Npy> read();

 private:
  void skip_space();
  bool accept(std::string_view token);
  Status expect(std::string_view token);
  Result<std::string_view> read_string();
  Status read_entry();
  Status read_descr();
  Status read_order();
  Status read_shape();

  std::string_view text_;
  std::optional<Element> element_;
  std::optional<NpyOrder> order_;
  std::optional<std::vector<std::int64_t>> shape_;
};

void HeaderReader::skip_space() {
  text_.remove_prefix(std::min(text_.find_first_not_of(" \n\t"), text_.size()));
}

bool HeaderReader::accept(std::string_view token) {
  skip_space();
  if (!text_.starts_with(token)) return false;
  text_.remove_prefix(token.size());
  return true;
}

Status HeaderReader::expect(std::string_view token) {
  if (accept(token)) return {};
  return damaged(fmt::format("expected `{}`", token));
}

Result<std::string_view> HeaderReader::read_string() {
  TANDEM_TRY(expect("'"));
  const std::size_t end = text_.find('\'');
  if (end == std::string_view::npos) return damaged("a string does not end");
  const std::string_view value = text_.substr(0, end);
  text_.remove_prefix(end + 1);
  return value;
}

Status HeaderReader::read_descr() {
  static constexpr std::pair<std::string_view, Element> kTypes[] = {
      {"b1", Element::kBool}, {"u1", Element::kU8},  {"i1", Element::kI8},  {"u2", Element::kU16},
      {"i2", Element::kI16},  {"u4", Element::kU32}, {"i4", Element::kI32}, {"i8", Element::kI64},
      {"f4", Element::kF32},  {"f8", Element::kF64}};
  skip_space();
  if (text_.starts_with("[")) {
    return Error(Code::kInvalidArgument,
                 "structured npy arrays are not supported; save plain numbers");
  }
  TANDEM_ASSIGN(const std::string_view descr, read_string());
  if (descr.starts_with(">")) {
    return Error(Code::kInvalidArgument,
                 fmt::format("npy type '{}' is big-endian; save it with array.astype('<{}')", descr,
                             descr.substr(1)));
  }
  for (const auto& [name, element] : kTypes) {
    if (descr.size() == 3 && descr.substr(1) == name && (descr[0] == '<' || descr[0] == '|'))
      element_ = element;
  }
  if (element_) return {};
  return Error(Code::kInvalidArgument, fmt::format("npy type '{}' is not supported; convert with "
                                                   "array.astype('<f4') or to one of b1, u1, u2, "
                                                   "u4, i1, i2, i4, i8, f4, f8",
                                                   descr.substr(0, 32)));
}

Status HeaderReader::read_order() {
  if (accept("True")) {
    order_ = NpyOrder::kFortran;
  } else if (accept("False")) {
    order_ = NpyOrder::kRowMajor;
  } else {
    return damaged("'fortran_order' is neither True nor False");
  }
  return {};
}

Status HeaderReader::read_shape() {
  TANDEM_TRY(expect("("));
  shape_.emplace();
  while (!accept(")")) {
    skip_space();
    std::int64_t extent = -1;
    const auto [end, error] = std::from_chars(text_.data(), text_.data() + text_.size(), extent);
    if (error != std::errc() || extent < 0) return damaged("'shape' holds what is no size");
    text_.remove_prefix(static_cast<std::size_t>(end - text_.data()));
    shape_->push_back(extent);
    if (shape_->size() > kMostRank)
      return damaged(fmt::format("more than {} dimensions", kMostRank));
    if (!accept(",")) {
      TANDEM_TRY(expect(")"));
      break;
    }
  }
  return {};
}

Status HeaderReader::read_entry() {
  TANDEM_ASSIGN(const std::string_view key, read_string());
  TANDEM_TRY(expect(":"));
  if (key == "descr" && !element_) return read_descr();
  if (key == "fortran_order" && !order_) return read_order();
  if (key == "shape" && !shape_) return read_shape();
  return damaged(fmt::format("unexpected key '{}'", key.substr(0, 32)));
}

Result<Npy> HeaderReader::read() {
  TANDEM_TRY(expect("{"));
  while (!accept("}")) {
    TANDEM_TRY(read_entry());
    if (!accept(",")) {
      TANDEM_TRY(expect("}"));
      break;
    }
  }
  skip_space();
  if (!text_.empty()) return damaged("something follows the dict");
  if (!element_ || !order_ || !shape_)
    return damaged("it lacks 'descr', 'fortran_order' or 'shape'");
  Npy npy;
  npy.array.element = *element_;
  npy.array.shape = std::move(*shape_);
  npy.order = *order_;
  return npy;
}

// The size of the header's length field; 0 for a version that is not known.
std::size_t length_bytes(std::uint8_t version) {
  return version == 1 ? 2 : version == 2 || version == 3 ? 4 : 0;
}

}  // namespace

bool is_npy(std::string_view bytes) {
  return bytes.starts_with(kMagic);
}

Result<Npy> parse_npy(std::string_view bytes) {
  if (!is_npy(bytes))
    return Error(Code::kCorrupt, "not an npy file: it does not begin with \\x93NUMPY");
  if (bytes.size() < 12) return Error(Code::kCorrupt, "the npy file is truncated in its header");
  const auto version = static_cast<std::uint8_t>(bytes[kMagic.size()]);
  const std::size_t field = length_bytes(version);
  if (field == 0) {
    return Error(Code::kVersionMismatch,
                 fmt::format("npy version {} is not known; 1 to 3 are", version));
  }
  std::size_t length = 0;
  for (std::size_t i = field; i-- > 0;)
    length = (length << 8) | static_cast<std::uint8_t>(bytes[8 + i]);
  if (length > kMostHeaderBytes) {
    return Error(Code::kCorrupt, fmt::format("the npy header claims {} bytes; {} are allowed",
                                             length, kMostHeaderBytes));
  }
  const std::string_view rest = bytes.substr(8 + field);
  if (length > rest.size()) return Error(Code::kCorrupt, "the npy file is truncated in its header");
  TANDEM_ASSIGN(Npy npy, HeaderReader(rest.substr(0, length)).read());
  npy.array.bytes = rest.substr(length);
  TANDEM_TRY(check_payload(npy.array.shape, npy.array.element, npy.array.bytes));
  return npy;
}

}  // namespace tandem::data
