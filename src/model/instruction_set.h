// Which of our kernels that are compiled once for each instruction set a process uses.
#pragma once

#include <cstdint>

namespace tandem::model {

enum class InstructionSet : std::uint8_t { kPlain, kAvx2, kAvx512 };

// oneDNN's choice, not the processor's: it is what the job's nodes agreed on.
InstructionSet instruction_set();

}  // namespace tandem::model
