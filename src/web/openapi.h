// docs/openapi.yaml, embedded in the program.
#pragma once

#include <string_view>

namespace tandem::web {

std::string_view openapi_yaml();

}  // namespace tandem::web
