"""Data-parallel training against PyTorch DDP on Gloo: ddp.py [--rounds N] [--build DIR] [--json] [WORKLOAD...]

Ours on shared memory and PyTorch's DistributedDataParallel with 1, 2 and 4 workers of one thread each, and two of ours that do
not know of each other, all alive at the same time and taking turns. Prints samples/s of all workers together, best round of
each; exits with 1 when a target is missed:

  x2      ours with 2 workers against DDP with 2
  scale   ours with 2 workers against two independent ones (0.92)
  crowd   ours with 4 workers against ours with 2, which share the same samples, on a machine of 2 cores (0.90)
"""
import argparse
import json
import os
import pathlib
import socket
import sys

FOLDER = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(FOLDER / "peers"))

from sides import PYTHON, Team, kernel_environment  # noqa: E402

# Workload: batch of each worker, steps a round, and the least ratio to DDP with 2 workers.
WORKLOADS = {
    "softmax": (64, 1000, 15.0),
    "mlp": (64, 100, 3.0),
    "cnn": (64, 6, 1.5),
    "resnet18": (16, 2, 1.3),
    "gpt": (16, 6, 1.8),
}
SCALE, CROWD = 0.92, 0.90


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def ranks(environment, count):
    """An environment for each of `count` ranks."""
    if count == 1:
        return [environment]
    meeting = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(free_port()), "WORLD_SIZE": str(count)}
    return [{**environment, **meeting, "RANK": str(rank)} for rank in range(count)]


def teams_of(workload, programs, environment):
    """Name: the team, and how its answers become one number."""
    batch = str(WORKLOADS[workload][0])
    ours = [programs / "tandem-bench-step", workload, batch]
    peer = [PYTHON, FOLDER / "peers" / "pytorch_step.py", workload, batch]

    def first(answers):
        return answers[0]

    teams = {}
    # Each worker has as many samples as the peer's, but 4 share those of 2: the same job with more workers.
    for count, part in ((1, 1), (2, 1), (4, 2)):
        teams[f"ours{count}"] = Team([*ours, "1", "1", str(part)], ranks(environment, count)), first
    teams["apart"] = Team(ours, [environment] * 2), sum
    for count in (1, 2, 4):
        teams[f"ddp{count}"] = Team(peer, ranks(environment, count)), first
    for name, (team, _) in teams.items():
        if name.startswith("ddp"):
            team.hear()
    return teams


def measure(workload, rounds, programs, environment):
    teams = teams_of(workload, programs, environment)
    for _ in range(rounds):
        for team, together in teams.values():
            team.run(WORKLOADS[workload][1], together)
    for team, _ in teams.values():
        team.end()
    return {name: team.best for name, (team, _) in teams.items()}


def judge(workload, speed):
    """Each ratio with its target."""
    return {
        "x2": (speed["ours2"] / speed["ddp2"], WORKLOADS[workload][2]),
        "scale": (speed["ours2"] / speed["apart"], SCALE),
        "crowd": (speed["ours4"] / speed["ours2"], CROWD if os.cpu_count() == 2 else 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=" ".join(WORKLOADS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--build", type=pathlib.Path, default=FOLDER.parent / "build")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    unknown = [name for name in options.workloads if name not in WORKLOADS]
    if unknown:
        parser.error(f"unknown workload {unknown[0]!r}; there are: {', '.join(WORKLOADS)}")
    programs = options.build.resolve() / "bin"
    environment = {**os.environ, **kernel_environment(programs / "tandem")}
    names = ["ddp1", "ddp2", "ddp4", "ours1", "ours2", "ours4", "apart"]
    if not options.json:
        print(f"{'workload':9}" + "".join(f"{name:>10}" for name in names) + "   ratios (targets)")
    missed = False
    for workload in options.workloads or WORKLOADS:
        speed = measure(workload, options.rounds, programs, environment)
        ratios = judge(workload, speed)
        missed = missed or any(ratio < target for ratio, target in ratios.values())
        if options.json:
            print(json.dumps({"workload": workload, "samples_per_s": speed,
                              "ratios": {name: {"ratio": ratio, "target": target} for name, (ratio, target) in ratios.items()}}),
                  flush=True)
            continue
        text = ", ".join(f"{name} {ratio:.2f} ({target:g}){'' if ratio >= target else '!'}"
                         for name, (ratio, target) in ratios.items())
        print(f"{workload:9}" + "".join(f"{speed[name]:>10,.0f}" for name in names) + f"   {text}", flush=True)
    return int(missed)


if __name__ == "__main__":
    sys.exit(main())
