// Values that come with a request, checked: query parameters and JSON bodies. An error names the
// field, what was found and what was expected. Pure.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "web/backend.h"

namespace tandem::web {

using Query = std::multimap<std::string, std::string>;

// kInvalidArgument when `query` has a parameter twice, or one that is not in `known`.
Status check_query(const Query& query, std::span<const std::string_view> known);

// The number that a parameter holds, or `otherwise` without it. kInvalidArgument for what is no
// decimal number or is above `most`.
Result<std::uint64_t> number(const Query& query, const std::string& name, std::uint64_t otherwise,
                             std::uint64_t most);
Result<std::uint64_t> number(std::string_view name, std::string_view text, std::uint64_t most);

// The bodies of the POST routes. An empty body counts as {}.
Status read_nothing(std::string_view body);
Result<Submission> read_submission(std::string_view body);
Result<std::optional<std::int64_t>> read_resume(std::string_view body);
Result<Resizing> read_resize(std::string_view body);

// Job ids are names of directories: letters, digits, '-', '_' and '.', and no '.' in front.
bool is_job_id(std::string_view text);

}  // namespace tandem::web
