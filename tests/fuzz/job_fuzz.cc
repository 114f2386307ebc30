// clang-format off
// Sources: src/job/document.cc src/job/field.cc src/job/keys.cc src/job/keys_layer.cc src/job/keys_train.cc src/job/locations.cc src/job/mistake.cc src/job/override.cc src/job/parse.cc src/job/print.cc src/job/read.cc src/job/rules.cc src/job/scan.cc src/job/schema.cc src/arch/arch.cc src/arch/assembler.cc src/arch/assembler_tables.cc src/arch/kinds.cc src/base/check.cc src/base/result.cc src/base/text.cc src/base/utf8.cc
// Links: -lfmt
// clang-format on
//
// The job file's parser on arbitrary text. The first line is an override when it starts with '$'. A
// job that parses must print to a text that parses to the same text.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/check.h"
#include "job/parse.h"
#include "job/print.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  std::string_view text(reinterpret_cast<const char*>(data), size);
  std::vector<std::string> overrides;
  if (text.starts_with('$')) {
    const std::size_t end = text.find('\n');
    overrides.emplace_back(text.substr(1, end == std::string_view::npos ? end : end - 1));
    text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  }
  const tandem::Result<tandem::job::Job> job = tandem::job::parse(text, "fuzz.toml", overrides);
  if (!job.ok()) return 0;
  const std::string printed = tandem::job::print(*job);
  const tandem::Result<tandem::job::Job> again = tandem::job::parse(printed, "again.toml", {});
  TANDEM_CHECK(again.ok());
  TANDEM_CHECK(tandem::job::print(*again) == printed);
  return 0;
}
