"""How soon training is back after a SIGKILL: recovery.py [--kills N] [--engine shm|gloo] [--hosts] [--build DIR] [--json]

One run of `tandem train` with 3 workers, one of which is killed again and again, each time once its last replacement has joined. With
--hosts: a master and 3 nodes of one worker each; a node is killed with its worker, as when a host is lost and its connections are
reset, and another comes. The times are those of the events `recovered`: from the moment the loss is noticed to the first step after it;
with --hosts also from the kill to the moment the event is on disk, as seen from outside. Exits with 1 when the median is above the target:
a second, with --hosts three.
"""
import argparse
import json
import os
import pathlib
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
JOB = """\
name = "recovery"
[model]
kind = "mlp"
hidden = [512, 512]
[data]
source = "digits"
[train]
epochs = 1000000
eval_every_epochs = 1000000
batch = 64
optimizer = { kind = "adam", lr = 0.001 }
[cluster]
workers = 3
lanes = 4
max_restarts = 1000000
"""
TARGET_MS = 1000
HOSTS_TARGET_MS = 3000
PATIENCE_S = 60


def await_true(condition, what):
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            sys.exit(f"error: waited {PATIENCE_S} s for {what}")
        time.sleep(0.02)


def events(run, kind):
    path = run / "events.jsonl"
    lines = path.read_text().splitlines() if path.exists() else []
    return [event for event in map(json.loads, lines) if event["kind"] == kind]


def workers(process):
    return [int(pid) for pid in pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


class Cluster:
    """A master and nodes, and one job that trains on them."""

    def __init__(self, options, scratch):
        self.tandem = ROOT / options.build / "bin/tandem"
        self.scratch, self.options, self.processes = pathlib.Path(scratch), options, []
        self.environment = {**os.environ, "TANDEM_SECRET": str(self.scratch / "secret")}
        self.ask("master", "--init")
        self.master = self.start("master", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", "--runs", self.scratch / "runs")
        pattern = r"connect to (\S+); HTTP is at (\S+);"
        await_true(lambda: re.search(pattern, self.log(self.master)), "the master")
        self.listen, self.environment["TANDEM_MASTER"] = re.search(pattern, self.log(self.master)).groups()

    def ask(self, *words):
        return subprocess.run([self.tandem, *words], env=self.environment, check=True, capture_output=True, text=True,
                              timeout=PATIENCE_S).stdout

    def start(self, *words):
        with open(self.scratch / f"{len(self.processes)}.log", "w") as log:
            process = subprocess.Popen([self.tandem, *words], env=self.environment, stdout=log, stderr=log)
        self.processes.append(process)
        return process

    def log(self, process):
        return (self.scratch / f"{self.processes.index(process)}.log").read_text()

    def add_node(self):
        return self.start("node", "--master", self.listen, "--slots", "1", "--name", f"host-{len(self.processes)}")

    def end(self):
        for process in reversed(self.processes):
            process.send_signal(signal.SIGINT)
        for process in self.processes:
            process.wait(timeout=PATIENCE_S)


def measure_hosts(options):
    """What the events say, and what was seen from outside; milliseconds."""
    with tempfile.TemporaryDirectory() as scratch:
        cluster, seen = Cluster(options, scratch), []
        try:
            nodes = [cluster.add_node() for _ in range(3)]
            job = pathlib.Path(scratch) / "job.toml"
            job.write_text(JOB)
            run = pathlib.Path(scratch) / "runs" / cluster.ask("submit", job, f"cluster.engine={options.engine}").strip()

            def members():
                return json.loads(cluster.ask("status", run.name, "--json"))["workers"]["now"]

            for kill in range(options.kills):
                await_true(lambda: members() == 3 and len(events(run, "joined")) >= kill, "three workers that train")
                time.sleep(0.1)  # Into the middle of their steps.
                nodes[kill % 3].kill()
                begin = time.monotonic()
                await_true(lambda: len(events(run, "recovered")) == kill + 1, "the recovery")
                seen.append((time.monotonic() - begin) * 1000)
                nodes[kill % 3].wait(timeout=PATIENCE_S)
                nodes[kill % 3] = cluster.add_node()
            return [event["recovered_ms"] for event in events(run, "recovered")], seen
        finally:
            cluster.end()


def measure(options):
    with tempfile.TemporaryDirectory() as scratch:
        run, job = pathlib.Path(scratch) / "run", pathlib.Path(scratch) / "job.toml"
        job.write_text(JOB)
        process = subprocess.Popen([ROOT / options.build / "bin/tandem", "train", job, "--out", run, "-q",
                                    f"cluster.engine={options.engine}"])
        try:
            await_true(lambda: (run / "metrics.jsonl").exists() and (run / "metrics.jsonl").read_text(), "the first step")
            for kill in range(options.kills):
                await_true(lambda: len(events(run, "joined")) == kill and len(workers(process)) == 3, "the replacement")
                time.sleep(0.1)  # Into the middle of its steps.
                os.kill(workers(process)[kill % 3], signal.SIGKILL)
                await_true(lambda: len(events(run, "recovered")) == kill + 1, "the recovery")
            return [event["recovered_ms"] for event in events(run, "recovered")]
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(timeout=PATIENCE_S)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--engine", choices=["shm", "gloo"], help="default: shm; with --hosts gloo, as between hosts")
    parser.add_argument("--hosts", action="store_true", help="kill nodes of a cluster with their workers")
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    options.engine = options.engine or ("gloo" if options.hosts else "shm")
    times, seen = measure_hosts(options) if options.hosts else (measure(options), [])
    target = HOSTS_TARGET_MS if options.hosts else TARGET_MS
    result = {"what": "host" if options.hosts else "worker", "engine": options.engine, "kills": len(times),
              "median_ms": statistics.median(times), "worst_ms": max(times), "target_ms": target}
    if seen:
        result.update(seen_median_ms=statistics.median(seen), seen_worst_ms=max(seen))
    outside = f" (seen from outside: {result['seen_median_ms']:.0f} ms, {result['seen_worst_ms']:.0f} ms at worst)" if seen else ""
    print(json.dumps(result) if options.json else
          f"{result['what']} lost, {options.engine}: back after {result['median_ms']:.0f} ms (median of {len(times)}), "
          f"{result['worst_ms']:.0f} ms at worst{outside}; target {target} ms")
    return 0 if max(result["median_ms"], result.get("seen_median_ms", 0)) <= target else 1


if __name__ == "__main__":
    sys.exit(main())
