"""A run whose workers are killed, stopped, or lost all at once goes on and ends as if nothing had happened."""
import json
import os
import random
import re
import signal
import time

from harness import TandemTest, argument_of, await_rest, children_of, is_gone, main, wait_for, whole_lines
from jobs import DIGITS

# With a schedule and an early stop that have a memory.
JOB = f"""\
name = "recovery"
{DIGITS}epochs = 40
schedule = {{ kind = "plateau", patience = 1, gamma = 0.5 }}
early_stop = {{ patience = 500 }}
[cluster]
lanes = 4
max_restarts = 100
[checkpoint]
every_steps = 100
"""
ENGINES = ("shm", "gloo")
KILLS = int(os.environ.get("TANDEM_TEST_KILLS", 4))
# Steps long enough to tell a slow worker from a quick one.
HEAVY = ("model.hidden=[256,256]", "train.batch=128", "train.schedule=constant", "train.early_stop.patience=0",
         "train.eval_every_epochs=100000")
# What must not depend on who died.
TRUTH = ("status", "weights_hash", "steps", "epochs", "samples", "eval")


class RecoveryTest(TandemTest):
    truth = None

    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)
        if RecoveryTest.truth is None:
            self.tandem("train", self.job, "--out", "truth", "-q", "cluster.workers=1")
            RecoveryTest.truth = self.essence("truth")

    def essence(self, run):
        report = self.report(run)
        lines = map(json.loads, (self.scratch / run / "metrics.jsonl").read_text().splitlines())
        told = [(line["part"], line["step"], line["loss"]) for line in lines if line["kind"] == "eval"]
        return {key: report[key] for key in TRUTH}, told

    def begin(self, out, *overrides):
        """Starts a run and waits until it trains."""
        process = self.start("train", self.job, "--out", out, "-q", *overrides)
        self.await_steps(process, out, 1)
        return process

    def step(self, out):
        lines = whole_lines(self.scratch / out / "metrics.jsonl")
        steps = [json.loads(line)["step"] for line in lines[-1:]]
        return max(steps, default=0)

    def await_steps(self, process, out, steps):
        def reached():
            self.assertIsNone(process.poll(), "tandem ended early")
            return self.step(out) >= steps
        wait_for(reached, f"{steps} steps")

    def workers(self, process):
        """The pids of the workers that run, by number."""
        found = {argument_of(pid, "--number"): pid for pid in children_of(process.pid)}
        return {int(number): pid for number, pid in found.items() if number is not None and not is_gone(pid)}

    def kill(self, process, numbers, number_of_signal=signal.SIGKILL):
        for number in numbers:
            pid = self.workers(process).get(number)
            if pid is not None:
                self.addCleanup(lambda pid=pid: is_gone(pid) or os.kill(pid, signal.SIGKILL))
                os.kill(pid, number_of_signal)

    def events(self, out, kind):
        lines = whole_lines(self.scratch / out / "events.jsonl")
        return [event for event in map(json.loads, lines) if event["kind"] == kind]

    def await_end(self, process, out):
        """A busy machine may make it slow; without a step in a minute it hangs."""
        while process.poll() is None:
            before = self.step(out)
            wait_for(lambda: process.poll() is not None or self.step(out) > before, f"more than {before} steps")

    def assert_same_end(self, process, out):
        pids = list(self.workers(process).values())
        self.await_end(process, out)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 0, errors)
        self.assertEqual(self.essence(out), RecoveryTest.truth)
        self.assertEqual([pid for pid in pids if not is_gone(pid)], [], "workers were left behind")


class Death(RecoveryTest):
    def test_workers_that_are_killed_at_any_moment_change_nothing(self):
        seed = int(os.environ.get("TANDEM_TEST_SEED", time.time_ns() % 1_000_000))
        moments = random.Random(seed)
        for run in range(KILLS):
            engine, count, kills = ENGINES[run % 2], moments.randint(2, 4), moments.randint(1, 3)
            with self.subTest(TANDEM_TEST_SEED=seed, run=run, engine=engine, workers=count, kills=kills):
                out = f"run-{run}"
                process = self.begin(out, f"cluster.workers={count}", f"cluster.engine={engine}")
                for _ in range(kills):
                    time.sleep(moments.uniform(0, 0.5))  # The moment is the point, not a state.
                    alive = self.workers(process)
                    if process.poll() is None and alive:
                        self.kill(process, [moments.choice(sorted(alive))])
                self.assert_same_end(process, out)
                lost, recovered = self.events(out, "lost"), self.events(out, "recovered")
                self.assertTrue(all(re.match(r"worker \d+", event["who"]) for event in lost), lost)
                self.assertTrue(all(event["recovered_ms"] < 5000 for event in recovered), recovered)

    def test_workers_that_are_killed_while_the_others_meet_anew_change_nothing(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process = self.begin(engine, "cluster.workers=3", f"cluster.engine={engine}")
                for delay_s in (0.01, 0.03, 0.06):
                    joined = len(self.events(engine, "joined"))
                    alive = sorted(self.workers(process))
                    self.kill(process, alive[-1:])
                    time.sleep(delay_s)  # The moment is the point, not a state.
                    self.kill(process, alive[:1])
                    wait_for(lambda: process.poll() is not None or len(self.events(engine, "joined")) >= joined + 2,
                             "the replacements")
                self.assert_same_end(process, engine)
                recovered = self.events(engine, "recovered")
                self.assertTrue(all(event["recovered_ms"] < 5000 for event in recovered), recovered)

    def test_a_worker_that_others_ask_to_end_leaves_alone(self):
        process = self.begin("run", "cluster.workers=2")
        self.kill(process, [1], signal.SIGTERM)
        self.assert_same_end(process, "run")
        self.assertEqual([event["who"] for event in self.events("run", "lost")], ["worker 1"])

    def test_half_of_the_workers_are_killed_at_once(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process = self.begin(engine, "cluster.workers=4", f"cluster.engine={engine}")
                self.kill(process, (0, 2))
                self.assert_same_end(process, engine)
                self.assertEqual({event["who"] for event in self.events(engine, "lost")}, {"worker 0", "worker 2"})
                self.assertGreaterEqual(len(self.events(engine, "recovered")), 1)

    def test_all_workers_are_killed_at_once(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process = self.begin(engine, "cluster.workers=3", f"cluster.engine={engine}")
                store = self.scratch / engine / "checkpoints"
                wait_for(lambda: list(store.glob("step-*")), "a checkpoint")
                self.kill(process, (0, 1, 2))
                self.assert_same_end(process, engine)
                self.assertIn("from the checkpoint of step", self.events(engine, "rollback")[0]["detail"])

    def test_a_worker_alone_is_killed(self):
        process = self.begin("run", "cluster.workers=1", "checkpoint.every_steps=0")
        self.kill(process, [0])
        self.assert_same_end(process, "run")
        self.assertIn("from the start", self.events("run", "rollback")[0]["detail"])

    def test_workers_are_killed_while_they_start(self):
        process = self.start("train", self.job, "--out", "run", "-q", "cluster.workers=3")
        wait_for(lambda: 1 in self.workers(process), "the workers")
        self.kill(process, [1])
        self.assert_same_end(process, "run")

    def test_replacements_come_to_an_end(self):
        process = self.begin("run", "cluster.workers=2", "cluster.max_restarts=1", "train.epochs=100000")
        for number in (1, 2):
            wait_for(lambda: number in self.workers(process), "the worker")
            self.kill(process, [number])
        code, _, errors = self.finish(process)
        self.assertEqual(code, 5, errors)
        self.assertIn("worker 2", errors)
        self.assertIn("cluster.max_restarts", errors)
        self.assertEqual(self.report("run")["status"], "failed")


class Verdict(RecoveryTest):
    # The third evaluation says that it is enough, or the first one.
    STOPS = {"shm": ("train.epochs=1000", "train.eval_every_epochs=40", "train.early_stop.patience=2",
                     "train.early_stop.min_delta=0.02"),
             "gloo": ("train.eval_every_epochs=20", "train.early_stop.target=100")}

    def end_of(self, out):
        return self.essence(out), self.report(out)["reason"]

    def decisions(self, out):
        return [(event["who"], event["detail"]) for event in self.events(out, "early_stop")]

    def test_is_the_same_by_tandem_and_by_a_worker_even_when_who_asked_is_killed(self):
        for engine, stop in self.STOPS.items():
            with self.subTest(engine=engine):
                own = f"{engine}-own"
                self.tandem("train", self.job, "--out", own, "-q", "cluster.workers=1", "cluster.max_restarts=0", *stop)
                essence, reason = self.end_of(own)
                self.assertEqual(essence[0]["status"], "converged")
                self.assertEqual(self.decisions(own), [("worker 0", reason)])
                process = self.begin(engine, "cluster.workers=2", f"cluster.engine={engine}", *stop)
                self.addCleanup(lambda: process.poll() is None and process.send_signal(signal.SIGCONT))
                # Whom nobody answers waits.
                process.send_signal(signal.SIGSTOP)
                await_rest(self.workers(process))
                self.kill(process, [0])
                process.send_signal(signal.SIGCONT)
                code, _, errors = self.finish(process)
                self.assertEqual(code, 0, errors)
                self.assertEqual(self.end_of(engine), (essence, reason))
                self.assertEqual(self.decisions(engine), [("master", reason)])
                self.assertEqual([event["who"] for event in self.events(engine, "lost")], ["worker 0"])


class Change(RecoveryTest):
    def test_a_lost_worker_is_replaced_and_the_new_one_joins(self):
        process = self.begin("run", "cluster.workers=2", "train.epochs=100000")
        self.kill(process, [1])
        wait_for(lambda: self.events("run", "joined"), "the replacement")
        self.assertEqual(self.events("run", "joined")[0]["who"], "worker 2")
        self.assertEqual(sorted(self.workers(process)), [0, 2])
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process)[0], 130)
        report = self.report("run")
        self.assertEqual(report["cluster"]["workers"], {"start": 2, "end": 2})

    def test_with_too_few_workers_it_waits_for_the_next(self):
        process = self.begin("run", "cluster.workers=2", "cluster.min_workers=2")
        self.kill(process, [0])
        self.assert_same_end(process, "run")
        self.assertIn("1 of at least 2 workers", self.events("run", "waiting")[0]["detail"])

    def test_a_stopped_worker_is_called_late_and_replaced(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process = self.begin(engine, "cluster.workers=3", f"cluster.engine={engine}", "cluster.timeout_s=3")
                self.kill(process, [1], signal.SIGSTOP)
                self.assert_same_end(process, engine)
                # On a busy machine another one may have been late, too.
                self.assertIn("worker 1", [event["who"] for event in self.events(engine, "late")])


class Straggler(RecoveryTest):
    def test_a_slow_worker_gets_fewer_lanes_and_the_result_stays_the_same(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process = self.begin(engine, "cluster.workers=2", f"cluster.engine={engine}", "train.epochs=100000", *HEAVY)
                slow = self.workers(process)[1]
                self.addCleanup(lambda: is_gone(slow) or os.kill(slow, signal.SIGKILL))
                # It gets the processor for a quarter of the time.
                deadline = time.monotonic() + 60
                while all(event["detail"] != "lanes by worker: 3 1" for event in self.events(engine, "rebalanced")):
                    self.assertLess(time.monotonic(), deadline, "it was not noticed that the worker is slow")
                    os.kill(slow, signal.SIGSTOP)
                    time.sleep(0.06)
                    os.kill(slow, signal.SIGCONT)
                    time.sleep(0.02)
                process.send_signal(signal.SIGINT)
                code, _, errors = self.finish(process)
                self.assertEqual(code, 130, errors)
                steps = self.report(engine)["steps"]
                self.tandem("train", self.job, "--out", f"{engine}-truth", "-q", "cluster.workers=1",
                            f"train.steps={steps}", *HEAVY)
                self.assertEqual(self.report(engine)["weights_hash"], self.report(f"{engine}-truth")["weights_hash"])


class Interrupt(RecoveryTest):
    def test_control_c_saves_the_state_and_resume_goes_on(self):
        for engine in ENGINES:
            with self.subTest(engine=engine):
                process = self.begin(engine, "cluster.workers=3", f"cluster.engine={engine}")
                self.kill(process, [2])
                pids = list(self.workers(process).values())
                process.send_signal(signal.SIGINT)
                code, _, errors = self.finish(process)
                self.assertEqual(code, 130, errors)
                self.assertEqual([pid for pid in pids if not is_gone(pid)], [])
                report = self.report(engine)
                self.assertEqual(report["status"], "cancelled")
                self.tandem("resume", engine, "-q", "cluster.workers=2")
                self.assertEqual(self.essence(engine), RecoveryTest.truth)

    def test_control_c_says_what_could_not_be_saved(self):
        process = self.begin("run", "cluster.workers=2", "train.epochs=100000")
        (self.scratch / "run" / "model.safetensors").mkdir()
        process.send_signal(signal.SIGINT)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 130, errors)
        self.assertRegex(self.report("run")["reason"], "cancelled by the user .* was not saved, .*model.safetensors")

    def test_control_c_after_the_end_does_not_undo_it(self):
        # A wide model and a large test part: the last evaluation takes long.
        process = self.start("train", self.job, "--out", "run", "-q", "cluster.workers=2", "train.steps=2",
                             "train.schedule=constant", "train.early_stop.patience=0", "model.hidden=[4096,4096]",
                             "data.test=0.9")

        def saved():
            self.assertIsNone(process.poll(), "tandem ended early")
            return self.events("run", "saved")
        wait_for(saved, "the model to be saved")
        process.send_signal(signal.SIGINT)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 0, errors)
        report = self.report("run")
        self.assertEqual((report["status"], report["steps"]), ("finished", 2))
        self.assertEqual(self.events("run", "cancelled"), [])

    def test_control_c_while_workers_start(self):
        process = self.start("train", self.job, "--out", "run", "-q", "cluster.workers=3")
        wait_for(lambda: len(self.workers(process)) == 3, "the workers")
        pids = list(self.workers(process).values())
        process.send_signal(signal.SIGINT)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 130, errors)
        self.assertEqual([pid for pid in pids if not is_gone(pid)], [])

    def test_workers_do_not_outlive_tandem(self):
        process = self.begin("run", "cluster.workers=3")
        pids = list(self.workers(process).values())
        process.kill()
        wait_for(lambda: all(map(is_gone, pids)), "the workers' end")


if __name__ == "__main__":
    main()
