"""How soon training is back after a worker's SIGKILL: recovery.py [--kills N] [--engine shm|gloo] [--build DIR] [--json]

One run of `tandem train` with 3 workers, one of which is killed again and again, each time once its last replacement has joined. The
times are those of the report's `recovered` events: from the loss to the first step after it. Exits with 1 when the median is
above a second.
"""
import argparse
import json
import os
import pathlib
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
    parser.add_argument("--engine", default="shm", choices=["shm", "gloo"])
    parser.add_argument("--build", default="build")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    times = sorted(measure(options))
    result = {"engine": options.engine, "kills": len(times), "median_ms": statistics.median(times), "worst_ms": times[-1],
              "target_ms": TARGET_MS}
    print(json.dumps(result) if options.json else
          f"{options.engine}: back after {result['median_ms']:.0f} ms (median of {len(times)}), {times[-1]:.0f} ms at worst; "
          f"target {TARGET_MS} ms")
    return 0 if result["median_ms"] <= TARGET_MS else 1


if __name__ == "__main__":
    sys.exit(main())
