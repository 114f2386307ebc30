"""What the scripts of tests/integration and tests/fault share: a job, a scratch directory, the programs.

Each script is started as SCRIPT BIN_DIRECTORY [unittest arguments].
"""
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

# How long anything may take before a test gives up on it.
PATIENCE_S = 60

JOB = """\
name = "digits"
[model]
kind = "softmax"
[data]
source = "digits"
[train]
epochs = 2
batch = 64
seed = 1
optimizer = { kind = "sgd", lr = 0.05, momentum = 0.9 }
"""

# More epochs than any test waits for.
LONG = ["train.epochs=1000000", "train.report_every_s=0.1"]


def bin_directory():
    return pathlib.Path(sys.argv[1]).resolve()


def main():
    """unittest.main() without the argument that is ours."""
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    unittest.main(argv=[sys.argv[0], *sys.argv[2:]])


def wait_for(condition, what):
    """The condition's first true value; an error when there is none in time."""
    deadline = time.monotonic() + PATIENCE_S
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"waited {PATIENCE_S} s for {what}")
        time.sleep(0.01)


def process_state(pid):
    """The letter of /proc/PID/stat, or None when there is no such process."""
    try:
        text = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return None
    return text.rpartition(")")[2].split()[0]


def whole_lines(path):
    """Of a file that grows: the last line may be half written."""
    return path.read_text().rpartition("\n")[0].splitlines() if path.exists() else []


def is_gone(pid):
    # A zombie whose new parent has not looked yet does nothing any more.
    return process_state(pid) in (None, "Z")


def children_of(pid):
    try:
        return [int(child) for child in pathlib.Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def argument_of(pid, name):
    """The value of a command-line option of a process, or None."""
    try:
        words = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().decode().split("\0")
    except OSError:
        return None
    return words[words.index(name) + 1] if name in words else None


def wanted_seconds(pid):
    """The time for which a process's threads computed, or could have if there had been a free core."""
    total = 0
    for thread in pathlib.Path(f"/proc/{pid}/task").glob("*/schedstat"):
        ran, waited, _ = thread.read_text().split()
        total += int(ran) + int(waited)
    return total / 1e9


def await_rest(pids):
    """Waits until no process computes anything, or wants to, but for its signs of life."""
    def rests():
        before = sum(map(wanted_seconds, pids))
        time.sleep(0.5)
        return sum(map(wanted_seconds, pids)) - before < 0.2  # Whoever trains wants half a second.
    wait_for(rests, f"processes {pids} to wait")


class TandemTest(unittest.TestCase):
    def setUp(self):
        self.scratch = pathlib.Path(tempfile.mkdtemp(prefix="tandem-test-"))
        self.addCleanup(shutil.rmtree, self.scratch, ignore_errors=True)
        self.job = self.scratch / "digits.toml"
        self.job.write_text(JOB)
        self.program = bin_directory() / "tandem"

    def tandem(self, *arguments, code=0, **options):
        """Runs tandem in the scratch directory and demands the exit code."""
        result = subprocess.run([self.program, *map(str, arguments)], cwd=self.scratch, timeout=PATIENCE_S,
                                **{"capture_output": True, "text": True, **options})
        self.assertEqual(result.returncode, code, f"{arguments}\n{result.stdout}\n{result.stderr}")
        return result

    def start(self, *arguments, **options):
        """Starts tandem in the scratch directory; it is killed at the end of the test at the latest."""
        process = subprocess.Popen([self.program, *map(str, arguments)], cwd=self.scratch,
                                   **{"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True, **options})
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.addCleanup(lambda: [s.close() for s in (process.stdout, process.stderr) if s])
        return process

    def start_training(self, out, *arguments, **options):
        """Starts a long run and waits until it trains. Returns the process and the worker's pid."""
        process = self.start("train", self.job, *LONG, "--out", out, *arguments, **options)
        metrics = self.scratch / out / "metrics.jsonl"

        def trains():
            self.assertIsNone(process.poll(), "tandem ended early")
            return metrics.exists() and metrics.read_text()

        wait_for(trains, "the first progress")
        children = pathlib.Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        self.assertEqual(len(children), 1)
        return process, int(children[0])

    def finish(self, process):
        """The exit code and what was printed."""
        output, errors = process.communicate(timeout=PATIENCE_S)
        return process.returncode, output, errors

    def report(self, run):
        return json.loads((self.scratch / run / "report.json").read_text())

    def environment(self, **changes):
        return {**os.environ, **changes}
