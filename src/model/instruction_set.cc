#include "model/instruction_set.h"

#include <dnnl.hpp>

namespace tandem::model {

InstructionSet instruction_set() {
  const auto has = [isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa())](dnnl::cpu_isa set) {
    return (isa & static_cast<unsigned>(set)) == static_cast<unsigned>(set);  // They are bit masks.
  };
  if (has(dnnl::cpu_isa::avx512_core)) return InstructionSet::kAvx512;
  return has(dnnl::cpu_isa::avx2) ? InstructionSet::kAvx2 : InstructionSet::kPlain;
}

}  // namespace tandem::model
