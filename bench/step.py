"""A training step against PyTorch in Python: step.py [--rounds N] [--build DIR] [--json] [WORKLOAD...]

Both sides are alive at the same time and take turns, so that what else the machine does hits both: the same batch, one
thread each, the same BLAS core type and instruction set. Prints samples/s of the best round of each and their ratio;
exits with 1 when a ratio is below its target.
"""
import argparse
import json
import os
import pathlib
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "peers"))

from sides import PYTHON, Side, kernel_environment  # noqa: E402

# Workload: batch, steps a round, and the ratio that must be reached at least.
WORKLOADS = {
    "softmax": (64, 2000, 2.0),
    "mlp": (64, 100, 1.5),
    "cnn": (64, 8, 1.4),
    "resnet18": (16, 2, 1.2),
    "gpt": (16, 8, 1.3),
}


def compare(workload, rounds, binary, environment):
    batch, steps, _ = WORKLOADS[workload]
    peer = Side([PYTHON, FOLDER / "peers" / "pytorch_step.py", workload, batch], environment)
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
    parser.add_argument("--rounds", type=int, default=32)
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parent / "build")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    unknown = [name for name in arguments.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; there are: {', '.join(WORKLOADS)}")
    programs = arguments.build.resolve() / "bin"
    for name in ("tandem", "tandem-bench-step"):
        if not (programs / name).is_file():
            parser.error(f"there is no {programs / name}; `./dev build` makes it")
    environment = {**os.environ, **kernel_environment(programs / "tandem")}
    missed = []
    if not arguments.json:
        print(f"{'workload':10} {'batch':>5} {'pytorch/s':>12} {'tandem/s':>12} {'ratio':>6} {'target':>6}")
    for workload in arguments.workloads or WORKLOADS:
        peer, ours = compare(workload, arguments.rounds, programs / "tandem-bench-step", environment)
        batch, _, target = WORKLOADS[workload]
        ratio = ours / peer
        if ratio < target:
            missed.append(workload)
        if arguments.json:
            print(json.dumps({"workload": workload, "batch": batch, "pytorch_samples_per_s": peer,
                              "tandem_samples_per_s": ours, "ratio": ratio, "target": target,
                              "reached": ratio >= target}), flush=True)
        else:
            mark = "" if ratio >= target else "  below target"
            print(f"{workload:10} {batch:5} {peer:12,.0f} {ours:12,.0f} {ratio:6.2f} {target:6.2f}{mark}", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
