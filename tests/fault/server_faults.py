"""For tests of runs with parameter servers whose workers or servers are killed or stopped."""
import json
import os
import signal

from harness import TandemTest, argument_of, await_rest, children_of, is_gone, wait_for, whole_lines
from jobs import DIGITS, SERVED

JOB = f"""\
name = "servers"
{DIGITS}epochs = 30
{SERVED}[checkpoint]
every_steps = 100
"""
TRUTH = ("status", "weights_hash", "steps", "epochs", "samples", "eval")


class FaultsTest(TandemTest):
    text = JOB
    truth = None

    def setUp(self):
        super().setUp()
        self.job.write_text(self.text)
        if self.truth is None:
            self.tandem("train", self.job, "--out", "truth", "-q", "cluster.workers=1", "cluster.strategy=allreduce")
            type(self).truth = self.essence("truth")

    def essence(self, run):
        report = self.report(run)
        return {key: report[key] for key in TRUTH}

    def begin(self, out, *arguments):
        process = self.start("train", self.job, "--out", out, "-q", *arguments)
        self.await_steps(process, out, 50)
        return process

    def step(self, out):
        lines = whole_lines(self.scratch / out / "metrics.jsonl")
        return max((json.loads(line)["step"] for line in lines[-1:]), default=0)

    def await_steps(self, process, out, steps):
        def reached():
            self.assertIsNone(process.poll(), "tandem ended early")
            return self.step(out) >= steps
        wait_for(reached, f"{steps} steps")

    def await_recoveries(self, process, out, count):
        def recovered():
            self.assertIsNone(process.poll(), "tandem ended early")
            return len(self.events(out, "recovered")) >= count
        wait_for(recovered, f"{count} recoveries")

    def pids(self, process, option):
        """Workers have a --number, servers an --address."""
        return [pid for pid in children_of(process.pid) if argument_of(pid, option) is not None and not is_gone(pid)]

    def events(self, out, kind):
        return [event for event in map(json.loads, whole_lines(self.scratch / out / "events.jsonl"))
                if event["kind"] == kind]

    def signal(self, pids, number=signal.SIGKILL):
        for pid in pids:
            self.addCleanup(lambda pid=pid: is_gone(pid) or os.kill(pid, signal.SIGKILL))
            os.kill(pid, number)

    def kill_between_pushes_and_results(self, out, *arguments):
        """A server is stopped, and killed when the workers have pushed and can only wait for it."""
        process = self.begin(out, *arguments)
        server = self.pids(process, "--address")[:1]
        self.signal(server, signal.SIGSTOP)
        await_rest(self.pids(process, "--number"))
        self.signal(server)
        self.assert_same_end(process, out)
        self.assertEqual(len(self.events(out, "lost")), 1)

    def kill_a_worker_between_pushes_and_results(self, out, *arguments):
        """A server is stopped, and goes on when a worker that had pushed all of its step was killed before it was answered."""
        process = self.begin(out, *arguments)
        server, workers = self.pids(process, "--address")[:1], self.pids(process, "--number")
        self.signal(server, signal.SIGSTOP)
        await_rest(workers)
        self.signal(workers[:1])
        wait_for(lambda: is_gone(workers[0]), "the worker's end")
        self.signal(server, signal.SIGCONT)
        self.assert_same_end(process, out)
        self.assertEqual(len(self.events(out, "lost")), 1)
        self.assertEqual(self.events(out, "rollback"), [])

    def assert_ends(self, process, out):
        """A busy machine may make it slow; without a step in a minute it hangs."""
        pids = self.pids(process, "--number") + self.pids(process, "--address")
        while process.poll() is None:
            before = self.step(out)
            wait_for(lambda: process.poll() is not None or self.step(out) != before, f"more than {before} steps")
        code, _, errors = self.finish(process)
        self.assertEqual(code, 0, errors)
        self.assertEqual([pid for pid in pids if not is_gone(pid)], [], "processes were left behind")

    def assert_same_end(self, process, out):
        self.assert_ends(process, out)
        self.assertEqual(self.essence(out), self.truth)
