#include "commands.h"
#include "job/reference.h"

namespace tandem::cli {

int job_reference() {
  print_out(job::reference_markdown());
  return 0;
}

}  // namespace tandem::cli
