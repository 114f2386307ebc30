#include "checkpoint/safetensors_header.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <unordered_set>

namespace tandem::checkpoint {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kMetadataKey = "__metadata__";

// Receives the parser's events. Every handler returns false to stop, after fail() has said why.
class HeaderReader final : public nlohmann::json_sax<Json> {
 public:
  Result<Header> finish(bool parsed) && {
    if (error_) return *std::move(error_);
    if (!parsed) return Error(Code::kCorrupt, "the header is not valid JSON");
    return std::move(header_);
  }

  bool start_object(std::size_t) override {
    switch (place_) {
      case Place::kBefore:
        place_ = Place::kNames;
        return true;
      case Place::kNames:
        return start_entry();
      default:
        return fail("an object stands where none belongs");
    }
  }

  bool end_object() override {
    if (place_ == Place::kTensor) {
      if (!has_dtype_ || !has_shape_ || !has_offsets_) {
        return fail("dtype, shape and data_offsets are needed, and one is missing");
      }
      header_.tensors.push_back(std::move(entry_));
    }
    place_ = place_ == Place::kNames ? Place::kAfter : Place::kNames;
    return true;
  }

  bool key(string_t& text) override {
    if (place_ == Place::kTensor) return start_field(text);
    key_ = std::move(text);
    if (place_ == Place::kMetadata) {
      return !header_.metadata.contains(key_) || fail("the key occurs twice");
    }
    return names_.insert(key_).second || fail("the name occurs twice");
  }

  bool string(string_t& text) override {
    if (place_ == Place::kMetadata) {
      header_.metadata.emplace(key_, std::move(text));
      return true;
    }
    if (place_ != Place::kDtype) return fail("a text stands where none belongs");
    const std::optional<Dtype> dtype = dtype_named(text);
    if (!dtype) {
      return fail(fmt::format("the element type \"{}\" is not known; convert the tensor to F32",
                              text.substr(0, 32)),
                  Code::kVersionMismatch);
    }
    entry_.dtype = *dtype;
    has_dtype_ = true;
    place_ = Place::kTensor;
    return true;
  }

  bool start_array(std::size_t) override {
    if (place_ == Place::kShape || place_ == Place::kOffsets) {
      if (in_list_) return fail("a list stands inside a list");
      in_list_ = true;
      numbers_.clear();
      return true;
    }
    return fail("a list stands where none belongs");
  }

  bool end_array() override {
    in_list_ = false;
    if (place_ == Place::kShape) {
      entry_.shape = numbers_;
      has_shape_ = true;
    } else {
      if (numbers_.size() != 2) return fail("data_offsets must be two numbers");
      entry_.begin = static_cast<std::uint64_t>(numbers_[0]);
      entry_.end = static_cast<std::uint64_t>(numbers_[1]);
      has_offsets_ = true;
    }
    place_ = Place::kTensor;
    return true;
  }

  bool number_unsigned(number_unsigned_t number) override {
    if (!in_list_) return fail("a number stands where none belongs");
    if (number > static_cast<number_unsigned_t>(std::numeric_limits<std::int64_t>::max())) {
      return fail(fmt::format("the number {} is too large", number));
    }
    if (numbers_.size() == kMostDimensions) {
      return fail(fmt::format("a list has more than {} numbers", kMostDimensions));
    }
    numbers_.push_back(static_cast<std::int64_t>(number));
    return true;
  }

  bool number_integer(number_integer_t number) override {
    return fail(fmt::format("the number {} is negative", number));
  }
  bool number_float(number_float_t, const string_t& text) override {
    return fail(fmt::format("{} is not a whole number below 2^63", text.substr(0, 32)));
  }
  bool null() override { return fail("null stands where a value belongs"); }
  bool boolean(bool) override { return fail("true or false stands where it does not belong"); }
  bool binary(binary_t&) override { return fail("binary data in JSON"); }

  bool parse_error(std::size_t position, const std::string&,
                   const nlohmann::detail::exception&) override {
    return fail_plain(fmt::format("the header is not valid JSON at its byte {}", position));
  }

 private:
  enum class Place : std::uint8_t {
    kBefore,
    kNames,
    kMetadata,
    kTensor,
    kDtype,
    kShape,
    kOffsets,
    kAfter,
  };

  bool start_entry() {
    if (key_ == kMetadataKey) {
      place_ = Place::kMetadata;
      return true;
    }
    entry_ = TensorEntry{};
    entry_.name = key_;
    has_dtype_ = has_shape_ = has_offsets_ = false;
    place_ = Place::kTensor;
    return true;
  }

  bool start_field(std::string_view field) {
    const auto enter = [this](Place place, bool seen) {
      if (seen) return fail("a field occurs twice");
      place_ = place;
      return true;
    };
    if (field == "dtype") return enter(Place::kDtype, has_dtype_);
    if (field == "shape") return enter(Place::kShape, has_shape_);
    if (field == "data_offsets") return enter(Place::kOffsets, has_offsets_);
    return fail(fmt::format("the field \"{}\" is not known", field.substr(0, 32)));
  }

  // With the tensor or metadata key that was being read.
  bool fail(std::string_view what, Code code = Code::kCorrupt) {
    if (place_ == Place::kBefore || key_.empty()) {
      return fail_plain(fmt::format("the header: {}", what), code);
    }
    const std::string_view kind = place_ == Place::kMetadata ? "metadata" : "tensor";
    return fail_plain(fmt::format("{} \"{}\": {}", kind, key_.substr(0, 200), what), code);
  }

  bool fail_plain(std::string message, Code code = Code::kCorrupt) {
    if (!error_) error_.emplace(code, std::move(message));
    return false;
  }

  Header header_;
  std::unordered_set<std::string> names_;
  std::optional<Error> error_;

  Place place_ = Place::kBefore;
  std::string key_;  // Of the tensor, or inside the metadata.

  // The tensor that is being read.
  TensorEntry entry_;
  std::vector<std::int64_t> numbers_;
  bool in_list_ = false;
  bool has_dtype_ = false;
  bool has_shape_ = false;
  bool has_offsets_ = false;
};

}  // namespace

Result<Header> parse_header(std::string_view json) {
  HeaderReader reader;
  const bool parsed = Json::sax_parse(json.begin(), json.end(), &reader);
  return std::move(reader).finish(parsed);
}

}  // namespace tandem::checkpoint
