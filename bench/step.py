"""A training step against PyTorch in Python: step.py [--rounds N] [--build DIR] [--json] [WORKLOAD...]

Both sides are alive at the same time and take turns, so that what else the machine does hits both: the same batch, one
thread each, the same BLAS core type and instruction set. Prints samples/s of the best round of each and their ratio.
"""
import argparse
import json
import os
import pathlib
import subprocess
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
# Workload: batch, steps a round, and the ratio that must be reached at least.
WORKLOADS = {
    "softmax": (64, 2000, 2.0),
    "mlp": (64, 100, 1.5),
    "cnn": (64, 8, 1.4),
    "resnet18": (16, 2, 1.2),
    "gpt": (16, 8, 1.3),
}


def kernel_environment():
    """What `tandem` chooses for its workers (src/base/cpu.h), for both sides."""
    flags = set()
    for line in open("/proc/cpuinfo"):
        if line.startswith("flags"):
            flags = set(line.split())
            break
    if {"avx512f", "avx512dq", "avx512bw", "avx512vl"} <= flags:
        chosen = {"OPENBLAS_CORETYPE": "SkylakeX", "ATEN_CPU_CAPABILITY": "avx512"}
    elif {"avx2", "fma"} <= flags:
        chosen = {"OPENBLAS_CORETYPE": "Haswell", "ATEN_CPU_CAPABILITY": "avx2"}
    else:
        chosen = {"OPENBLAS_CORETYPE": "Nehalem", "ATEN_CPU_CAPABILITY": "default"}
    return {**chosen, "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}


class Side:
    """A process that answers "run STEPS" with a JSON line."""

    def __init__(self, command, environment):
        self.process = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                        text=True, env=environment)
        self.best = 0.0

    def answer(self):
        line = self.process.stdout.readline()
        if not line:
            sys.exit(f"error: {self.process.args[0]} ended with exit code {self.process.wait()}")
        return json.loads(line)

    def run(self, steps):
        self.process.stdin.write(f"run {steps}\n")
        self.process.stdin.flush()
        self.best = max(self.best, self.answer()["samples_per_s"])

    def end(self):
        self.process.stdin.close()
        self.process.wait()


def compare(workload, rounds, binary, environment):
    batch, steps, _ = WORKLOADS[workload]
    # Debian's own Python: another one on the PATH does not see python3-torch.
    peer = Side(["/usr/bin/python3", FOLDER / "peers" / "pytorch_step.py", workload, batch], environment)
    ours = Side([binary, workload, batch], environment)
    peer.answer()  # It describes itself first.
    for _ in range(rounds):
        peer.run(steps)
        ours.run(steps)
    peer.end()
    ours.end()
    return peer.best, ours.best


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=" ".join(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parent / "build")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; there are: {', '.join(WORKLOADS)}")
    environment = {**os.environ, **kernel_environment()}
    if not arguments.json:
        print(f"{'workload':10} {'batch':>5} {'pytorch/s':>12} {'tandem/s':>12} {'ratio':>6} {'target':>6}")
    for workload in arguments.workloads or WORKLOADS:
        peer, ours = compare(workload, arguments.rounds, arguments.build / "bin" / "tandem-bench-step", environment)
        batch, _, target = WORKLOADS[workload]
        if arguments.json:
            print(json.dumps({"workload": workload, "batch": batch, "pytorch_samples_per_s": peer,
                              "tandem_samples_per_s": ours, "ratio": ours / peer, "target": target}), flush=True)
        else:
            print(f"{workload:10} {batch:5} {peer:12,.0f} {ours:12,.0f} {ours / peer:6.2f} {target:6.2f}", flush=True)


if __name__ == "__main__":
    main()
