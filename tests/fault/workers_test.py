"""What happens to a run of several workers when one is killed, stopped, missing or refused, or the user ends it."""
import json
import os
import random
import signal
import socket
import time

from harness import TandemTest, argument_of, children_of, is_gone, main, wait_for

# Endless, with a bucket for each layer and hardly an evaluation: a worker that is missed is missed in a bucket.
LONG_JOB = """\
name = "long"
[model]
kind = "mlp"
hidden = [48, 48]
[data]
source = "digits"
[train]
steps = 1000000000
batch = 32
eval_every_epochs = 1000000000
report_every_s = 0.05
optimizer = { kind = "sgd", lr = 0.01 }
[cluster]
lanes = 4
bucket_bytes = 8192
max_restarts = 0
"""

ENGINES = ("shm", "gloo")
RUNS = int(os.environ.get("TANDEM_TEST_KILLS", 16))
# Gradients that every worker sums for itself, piece by piece; that are summed in slices; that are clipped.
JOBS = ([], ["model.hidden=[600]"], ["model.hidden=[600]", "train.clip.norm=1"])
# After a kill: a survivor misses the dead one; its words are in its log, which takes time on a busy machine; the whole
# run is over, with the ends of all processes.
NOTICE_S = 1
WORDS_S = 1
END_S = 5
# After a stop with this cluster.timeout_s.
LATE_S = 1
LATE_END_S = 6


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class WorkersTest(TandemTest):
    def setUp(self):
        super().setUp()
        self.job.write_text(LONG_JOB)

    def assert_runs(self, process):
        if process.poll() is not None:
            self.fail(f"tandem ended early with exit code {process.returncode}\n{process.stderr.read()}")

    def workers_of(self, process, count):
        """The pids of the workers by number, as soon as all have been started."""
        def named():
            self.assert_runs(process)
            found = {argument_of(pid, "--rank"): pid for pid in children_of(process.pid)}
            return all(str(rank) in found for rank in range(count)) and found
        found = wait_for(named, "all workers")
        pids = [found[str(rank)] for rank in range(count)]
        for pid in pids:
            self.addCleanup(self.end, pid)
        return pids

    def end(self, pid):
        # Of a failed test; a worker does not outlive tandem, which start() kills, but a stopped one might.
        if not is_gone(pid) and argument_of(pid, "--rank") is not None:
            os.kill(pid, signal.SIGKILL)

    def launch(self, out, engine, count, *overrides, **options):
        process = self.start("train", self.job, "--out", out, "-q", f"cluster.engine={engine}",
                             f"cluster.workers={count}", *overrides, **options)
        return process, self.workers_of(process, count)

    def await_training(self, process, out):
        metrics = self.scratch / out / "metrics.jsonl"

        def trains():
            self.assert_runs(process)
            return metrics.exists() and metrics.read_text()
        wait_for(trains, "the first progress")

    def assert_gone(self, pids):
        self.assertEqual([pid for pid in pids if not is_gone(pid)], [], "workers were left behind")

    def ended(self, process, since, within_s):
        """The exit code and errors of a run that ends by itself in time."""
        code, _, errors = self.finish(process)
        self.assertLess(time.monotonic() - since, within_s, f"the run took too long to end\n{errors}")
        return code, errors


class Death(WorkersTest):
    def killed(self, out, engine, count, victim, delay_s, changes):
        process, pids = self.launch(out, engine, count, *changes)
        self.await_training(process, out)
        time.sleep(delay_s)  # The moment is the point, not a state.
        killed_at, since = time.time(), time.monotonic()
        os.kill(pids[victim], signal.SIGKILL)
        code, errors = self.ended(process, since, END_S)
        self.assertEqual(code, 5, errors)
        self.assert_gone(pids)
        report = self.report(out)
        self.assertEqual((report["status"], report["error"]["code"]), ("failed", "peer_lost"))
        self.assertIsNone(report["weights_hash"])
        self.assertEqual(report["cluster"]["workers"], {"start": count, "end": count - 1})
        message = report["error"]["message"]
        name = rf"worker {victim} \(pid {pids[victim]}"
        self.assertRegex(message, rf"^{name}\) was killed by signal 9 \(SIGKILL\) at step \d+, epoch \d+")
        self.assertRegex(message, rf"worker \d says: step \d+: .*{name} on ")
        self.assertRegex(message, r"bucket \d+ of \d+")
        self.assertIn(message.splitlines()[0], errors)
        events = [(event["kind"], event["who"]) for event in report["events"]]
        self.assertEqual(events, [("lost", f"worker {victim}")])
        for survivor in set(range(count)) - {victim}:
            log = self.scratch / out / f"worker-{survivor}.log"
            self.assertRegex(log.read_text(), rf"error: step \d+: .*{name} on ")
            self.assertLess(log.stat().st_mtime - killed_at, NOTICE_S + WORDS_S, f"worker {survivor} noticed late")

    def test_a_worker_that_is_killed_at_any_moment_ends_the_run_and_is_named(self):
        seed = int(os.environ.get("TANDEM_TEST_SEED", time.time_ns() % 1_000_000))
        moments = random.Random(seed)
        for run in range(RUNS):
            engine = ENGINES[run % 2]
            count = moments.randint(2, 4)
            victim = moments.randrange(count)
            delay_s = moments.uniform(0, 0.3)
            changes = moments.choice(JOBS)
            with self.subTest(TANDEM_TEST_SEED=seed, run=run, engine=engine, workers=count, victim=victim,
                              delay_s=delay_s, changes=changes):
                self.killed(f"run-{run}", engine, count, victim, delay_s, changes)

    def test_a_worker_that_is_killed_while_it_starts_is_named(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process, pids = self.launch(engine, engine, 3)
                since = time.monotonic()
                os.kill(pids[1], signal.SIGKILL)
                code, errors = self.ended(process, since, END_S)
                self.assertEqual(code, 5, errors)
                self.assertRegex(errors, rf"worker 1 \(pid {pids[1]}\) was killed by signal 9 \(SIGKILL\) before its")
                self.assert_gone(pids)
                self.assertEqual(self.report(engine)["status"], "failed")


class Lateness(WorkersTest):
    def test_a_stopped_worker_is_called_late_and_not_dead(self):
        for engine in ENGINES:
            for victim in (0, 2):
                with self.subTest(engine=engine, victim=victim):
                    self.stopped(f"{engine}-{victim}", engine, victim)

    def stopped(self, out, engine, victim):
        process, pids = self.launch(out, engine, 3, f"cluster.timeout_s={LATE_S}")
        self.await_training(process, out)
        since = time.monotonic()
        os.kill(pids[victim], signal.SIGSTOP)
        code, _, errors = self.finish(process)
        took_s = time.monotonic() - since
        self.assert_gone(pids)
        self.assertEqual(code, 6, errors)
        message = self.report(out)["error"]["message"]
        self.assertEqual(self.report(out)["error"]["code"], "timeout", message)
        self.assertRegex(message, rf"step \d+: .*worker {victim} \(pid {pids[victim]} on .*late")
        self.assertRegex(message, r"bucket \d+ of \d+")
        self.assertNotRegex(message, r"was killed|is gone|ended")
        self.assertGreater(took_s, LATE_S)
        self.assertLess(took_s, LATE_END_S, message)

    def test_a_short_stop_does_no_harm(self):
        process, pids = self.launch("run", "shm", 3)
        self.await_training(process, "run")
        metrics = self.scratch / "run/metrics.jsonl"
        os.kill(pids[1], signal.SIGSTOP)
        time.sleep(0.5)  # Longer than anybody waits between two looks at the others.
        size = metrics.stat().st_size
        os.kill(pids[1], signal.SIGCONT)
        wait_for(lambda: metrics.stat().st_size > size, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process)[0], 130)


class Interrupt(WorkersTest):
    def cancelled(self, out, process, pids, since):
        code, errors = self.ended(process, since, END_S)
        self.assertEqual(code, 130, errors)
        self.assert_gone(pids)
        report = self.report(out)
        self.assertEqual(report["status"], "cancelled", report)
        self.assertEqual(report["cluster"]["workers"], {"start": len(pids), "end": len(pids)})
        return report

    def assert_saved(self, out, report):
        self.assertRegex(report["weights_hash"], r"^[0-9a-f]{32}$")
        self.assertTrue((self.scratch / out / report["model"]).is_file())
        summary = json.loads(self.tandem("model", "summary", out, "--json").stdout)
        self.assertEqual(summary["weights_hash"], report["weights_hash"])

    def test_control_c_saves_the_model_and_ends_every_worker(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process, pids = self.launch(engine, engine, 3)
                self.await_training(process, engine)
                since = time.monotonic()
                process.send_signal(signal.SIGINT)
                report = self.cancelled(engine, process, pids, since)
                self.assertGreater(report["steps"], 0)
                self.assert_saved(engine, report)

    def test_control_c_while_workers_start(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process, pids = self.launch(engine, engine, 3)
                since = time.monotonic()
                process.send_signal(signal.SIGINT)
                report = self.cancelled(engine, process, pids, since)
                if report["steps"] > 0:
                    self.assert_saved(engine, report)

    def test_workers_do_not_outlive_tandem(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process, pids = self.launch(engine, engine, 3)
                self.await_training(process, engine)
                process.kill()
                wait_for(lambda: all(map(is_gone, pids)), "the workers' end")


class Ranks(WorkersTest):
    """Processes that somebody else starts, each with its rank in the environment."""

    def setUp(self):
        super().setUp()
        self.port = free_port()

    def start_rank(self, rank, size, *arguments, out="run", **variables):
        return self.start("train", self.job, "--out", out, "-q", *arguments,
                          env=self.environment(RANK=str(rank), WORLD_SIZE=str(size), MASTER_ADDR="127.0.0.1",
                                               MASTER_PORT=str(self.port), TMPDIR=str(self.scratch), **variables))

    def worker_of(self, process):
        def found():
            self.assert_runs(process)
            return children_of(process.pid)
        return wait_for(found, "the worker")[0]

    def test_a_rank_that_never_comes_is_named(self):
        # A worker that waits for a rank gives up before tandem gives up on the worker, so that the reason is told.
        # It waits for three quarters of this, and loads in the rest.
        start_s = 16
        ranks = [self.start_rank(rank, 3, "--start-timeout", start_s) for rank in (0, 1)]
        since = time.monotonic()
        workers = [self.worker_of(process) for process in ranks]
        for rank, process in enumerate(ranks):
            with self.subTest(rank=rank):
                code, errors = self.ended(process, since, start_s + END_S)
                self.assertEqual(code, 6, errors)
                self.assertIn("rank 2 of 3 has not come", errors)
        self.assert_gone(workers)

    def test_a_rank_with_another_job_is_refused(self):
        for engine in ("auto", "gloo"):
            with self.subTest(engine=engine):
                self.port = free_port()
                ranks = [self.start_rank(rank, 2, f"cluster.engine={engine}", f"train.seed={rank + 1}", out=engine,
                                         TANDEM_TOKEN="secret") for rank in (0, 1)]
                for process in ranks:
                    code, _, errors = self.finish(process)
                    self.assertEqual(code, 2, errors)
                    self.assertRegex(errors, r"worker 1 \(pid \d+ on .*\) has another job")
                self.assertEqual(self.report(engine)["error"]["code"], "invalid_argument")

    def test_a_rank_with_another_token_is_refused(self):
        # Without a token of the user's it comes from the job, so that jobs do not mix.
        first = self.start_rank(0, 2)
        worker = self.worker_of(first)
        code, _, errors = self.finish(self.start_rank(1, 2, "train.seed=2"))
        self.assertEqual(code, 7, errors)
        self.assertIn("TANDEM_TOKEN", errors)
        # The one that is still waited for may come later, so the first waits on, until the user has enough.
        self.assertIsNone(first.poll())
        since = time.monotonic()
        first.send_signal(signal.SIGINT)
        self.assertEqual(self.ended(first, since, END_S)[0], 130)
        self.assert_gone([worker])

    def test_a_killed_worker_is_named_by_its_rank_everywhere(self):
        for engine in ENGINES:
            for victim in (0, 1):
                with self.subTest(engine=engine, victim=victim):
                    self.killed(engine, victim)

    def killed(self, engine, victim):
        self.port = free_port()
        out = f"{engine}-{victim}"
        ranks = [self.start_rank(rank, 3, f"cluster.engine={engine}", out=out) for rank in range(3)]
        workers = [self.worker_of(process) for process in ranks]
        self.await_training(ranks[0], out)
        since = time.monotonic()
        os.kill(workers[victim], signal.SIGKILL)
        for process in ranks:
            code, errors = self.ended(process, since, END_S)
            self.assertEqual(code, 5, errors)
            self.assertRegex(errors, rf"worker {victim} \(pid {workers[victim]}")
        self.assert_gone(workers)
        self.assertEqual(self.report(out)["status"], "failed")


if __name__ == "__main__":
    main()
