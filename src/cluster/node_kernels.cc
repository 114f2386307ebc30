#include "cluster/node_kernels.h"

namespace tandem::cluster {

Kernels common_kernels(const Peers& peers) {
  Cpu cpu;
  cpu.avx2 = cpu.avx512 = true;
  peers.for_each([&](NodeId, const wire::NodeHello& hello, const std::string&) {
    cpu.avx2 = cpu.avx2 && hello.avx2();
    cpu.avx512 = cpu.avx512 && hello.avx512();
  });
  return best_kernels(cpu);
}

bool can_run(const wire::NodeHello& node, const Kernels& kernels) {
  return (kernels.aten != "avx512" || node.avx512()) && (kernels.aten != "avx2" || node.avx2());
}

}  // namespace tandem::cluster
