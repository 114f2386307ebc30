"""A master and nodes as real processes, for tests of clusters."""
import json
import re
import subprocess

from harness import TandemTest, argument_of, children_of, is_gone, wait_for, whole_lines
from jobs import DIGITS

JOB = f"""\
name = "cluster"
{DIGITS}epochs = 40
[cluster]
lanes = 4
workers = 2
max_restarts = 100
[checkpoint]
every_steps = 100
"""
TRUTH = ("status", "weights_hash", "steps", "epochs", "samples", "eval")
LONG = ("train.epochs=100000", "train.eval_every_epochs=100000")


class ClusterTest(TandemTest):
    truth = None

    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)
        self.secret = self.scratch / "secret"
        self.tandem("master", "--init", "--secret", self.secret)
        self.variables = self.environment(TANDEM_SECRET=str(self.secret))
        if ClusterTest.truth is None:
            self.tandem("train", self.job, "--out", "truth", "-q", "cluster.workers=1")
            ClusterTest.truth = self.essence(self.scratch / "truth/report.json")

    def essence(self, path):
        report = json.loads(path.read_text())
        return {key: report[key] for key in TRUTH}

    def start_master(self, *arguments):
        log = self.scratch / "master.log"
        with open(log, "w") as errors:
            self.master = self.start("master", "--listen", "127.0.0.1:0", "--http", "127.0.0.1:0", *arguments,
                                     env=self.variables, stdout=subprocess.DEVNULL, stderr=errors)
        found = wait_for(lambda: re.search(r"connect to (\S+:\d+); HTTP is at (\S+:\d+)", log.read_text()),
                         "the master")
        self.listen, self.http = found.groups()
        self.variables["TANDEM_MASTER"] = self.http

    def start_node(self, name, slots=2, *arguments):
        log = self.scratch / f"node-{name}.log"
        with open(log, "w") as errors:
            node = self.start("node", "--master", self.listen, "--slots", slots, "--name", name, *arguments,
                              env=self.variables, stdout=subprocess.DEVNULL, stderr=errors)
        wait_for(lambda: "connected to the master" in log.read_text(), f"node {name}")
        wait_for(lambda: any(each["name"] == name for each in self.ask("nodes")["nodes"]), f"node {name}")
        return node

    def ask(self, *arguments, code=0):
        return json.loads(self.tandem(*arguments, "--json", env=self.variables, code=code).stdout)

    def submit(self, *arguments):
        return self.tandem("submit", self.job, *arguments, env=self.variables).stdout.strip()

    def state(self, job):
        return self.ask("status", job)["state"]

    def step(self, job):
        return self.ask("status", job).get("progress", {}).get("step", 0)

    def await_step(self, job, step=1):
        wait_for(lambda: self.step(job) >= step, f"{step} steps of {job}")

    def await_members(self, job, count):
        wait_for(lambda: self.ask("status", job)["workers"]["now"] == count, f"{count} workers of {job}")

    def run_of(self, job):
        return self.scratch / "runs" / job

    def events(self, job, kind):
        lines = whole_lines(self.run_of(job) / "events.jsonl")
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def metrics(self, job, kind):
        """The steps for which there are such lines."""
        lines = (self.run_of(job) / "metrics.jsonl").read_text().splitlines()
        return [line["step"] for line in map(json.loads, lines) if line["kind"] == kind]

    def await_end(self, job, state="finished"):
        wait_for(lambda: self.state(job) not in ("queued", "running"), f"the end of {job}")
        self.assertEqual(self.state(job), state, self.ask("status", job))

    def assert_truth(self, job):
        self.await_end(job)
        self.assertEqual(self.essence(self.run_of(job) / "report.json"), ClusterTest.truth)

    def assert_truth_when_cancelled(self, job):
        """Of a job that was submitted with LONG: one process alone comes to the same weights with as many steps."""
        self.tandem("cancel", job, env=self.variables)
        self.await_end(job, "cancelled")
        report = json.loads((self.run_of(job) / "report.json").read_text())
        self.tandem("train", self.job, "--out", f"{job}-truth", "-q", "cluster.workers=1", *LONG,
                    f"train.steps={report['steps']}")
        truth = self.report(f"{job}-truth")
        self.assertEqual([report[key] for key in ("weights_hash", "steps", "samples")],
                         [truth[key] for key in ("weights_hash", "steps", "samples")])

    def workers(self, *nodes):
        return [pid for node in nodes for pid in children_of(node.pid) if argument_of(pid, "--number") is not None]

    def await_gone(self, pids):
        wait_for(lambda: all(map(is_gone, pids)), "the workers' end")
