#include "web/openapi.h"

#include <cstddef>

asm(R"(
  .pushsection .rodata, "a"
  .global tandem_web_openapi_first
  .hidden tandem_web_openapi_first
  .global tandem_web_openapi_last
  .hidden tandem_web_openapi_last
tandem_web_openapi_first:
  .incbin "openapi.yaml"
tandem_web_openapi_last:
  .popsection
)");

extern "C" {
extern const char tandem_web_openapi_first[];
extern const char tandem_web_openapi_last[];
}

namespace tandem::web {

std::string_view openapi_yaml() {
  return {tandem_web_openapi_first,
          static_cast<std::size_t>(tandem_web_openapi_last - tandem_web_openapi_first)};
}

}  // namespace tandem::web
