"""Workers that do not wait for each other: whatever is killed, each sample counts once an epoch, and the run ends as it should."""
import os
import signal
import threading

import rows_test
from harness import main, wait_for
from server_faults import FaultsTest

WAYS = ("ps.consistency=asp", "ps.consistency=ssp", "ps.quorum=0.75")
# Workers meet at the end of an epoch; an epoch of many steps gives more time in between.
STEPS = ("train.batch=8", "train.epochs=12")


class AsyncTest(FaultsTest):
    def assert_complete(self, out, *, epochs=30):
        report = self.report(out)
        self.assertEqual(report["status"], "finished")
        self.assertFalse(report["exact"])
        self.assertEqual(report["epochs"], epochs)
        self.assertEqual(report["samples"] + report["dropped_samples"], epochs * 1294)
        self.assertGreater(report["eval"]["accuracy"], 0.93)
        return report

    def test_every_way_and_transport_trains(self):
        for way in WAYS:
            for transport in ("auto", "tcp"):
                with self.subTest(way=way, transport=transport):
                    out = f"{way}-{transport}"
                    self.tandem("train", self.job, "--out", out, "-q", way, f"ps.transport={transport}")
                    report = self.assert_complete(out)
                    tasks = report["steps"] * report["cluster"]["lanes"]
                    if "quorum" in way:
                        self.assertGreater(report["dropped_samples"], 0)
                        self.assertLess(report["dropped_samples"], 0.4 * report["samples"])
                    else:
                        self.assertEqual(report["dropped_samples"], 0)
                        self.assertEqual(sum(report["staleness"]["steps"]), tasks)
                    if "ssp" in way:
                        self.assertLessEqual(len(report["staleness"]["steps"]), 3 + 1)

    def test_a_worker_alone_repeats_itself(self):
        """Also when it goes back to a checkpoint: all of the state comes back, or it would end elsewhere."""
        alone = ("ps.consistency=ssp", "cluster.workers=1")
        self.tandem("train", self.job, "--out", "one", "-q", *alone)
        process = self.begin("two", *alone)
        self.await_steps(process, "two", 250)
        self.signal(self.pids(process, "--address")[:1])
        self.assert_ends(process, "two")
        self.assertEqual(len(self.events("two", "rollback")), 1)
        self.assertEqual(self.report("two")["weights_hash"], self.report("one")["weights_hash"])

    def test_a_killed_worker_loses_no_sample(self):
        for way in WAYS:
            with self.subTest(way=way):
                process = self.begin(way, way, *STEPS)
                self.signal(self.pids(process, "--number")[:1])
                self.await_steps(process, way, self.step(way) + 50)
                self.signal(self.pids(process, "--number")[-1:])
                self.assert_ends(process, way)
                self.assert_complete(way, epochs=12)
                self.assertEqual(len(self.events(way, "lost")), 2)
                self.assertEqual(self.events(way, "rollback"), [])

    def test_a_killed_server_sends_the_workers_back_to_a_checkpoint(self):
        process = self.begin("run", "ps.consistency=asp", *STEPS)
        self.await_steps(process, "run", 250)
        self.signal(self.pids(process, "--address")[:1])
        self.assert_ends(process, "run")
        self.assert_complete("run", epochs=12)
        self.assertEqual(len(self.events("run", "rollback")), 1)

    def test_whatever_is_killed_copies_lose_nothing(self):
        """In turn: the oldest server, first holder of one slice and copy of another, until the one that hands out tasks was; and a worker."""
        for way in WAYS:
            with self.subTest(way=way):
                process = self.begin(way, way, "cluster.servers=3", "cluster.replicas=2", *STEPS)
                for kills in range(1, 5):
                    self.signal(self.pids(process, "--number" if kills == 2 else "--address")[:1])
                    self.await_recoveries(process, way, kills)
                self.assert_ends(process, way)
                report = self.assert_complete(way, epochs=12)
                self.assertEqual(len(self.events(way, "lost")), 4)
                self.assertEqual(self.events(way, "rollback"), [])
                if "ssp" in way:
                    self.assertLessEqual(len(report["staleness"]["steps"]), 3 + 1)

    def test_a_slow_worker_stays_within_the_bound(self):
        process = self.begin("run", "ps.consistency=ssp", "ps.staleness=1", *STEPS)
        slow, over = self.pids(process, "--number")[0], threading.Event()
        self.addCleanup(over.set)

        def slow_down():
            try:
                while not over.is_set():
                    os.kill(slow, signal.SIGSTOP)
                    over.wait(0.03)
                    os.kill(slow, signal.SIGCONT)
                    over.wait(0.01)
            except ProcessLookupError:
                pass

        thread = threading.Thread(target=slow_down)
        thread.start()
        self.assert_ends(process, "run")
        over.set()
        thread.join()
        self.assertLessEqual(len(self.assert_complete("run", epochs=12)["staleness"]["steps"]), 2)
        self.assertEqual(self.events("run", "lost"), [])

    def test_an_update_that_is_not_finite_ends_the_run_in_every_way(self):
        for way in WAYS:
            with self.subTest(way=way):
                done = self.tandem("train", self.job, "--out", way, "-q", way, "train.steps=1", "train.optimizer.kind=sgd",
                                   "train.optimizer.lr=3e38", "train.optimizer.weight_decay=100000", code=10)
                self.assertIn("diverged", done.stderr)

    def test_ctrl_c_saves_and_resume_goes_on_in_any_consistency(self):
        for way, then in (("asp", "bsp"), ("bsp", "ssp")):
            with self.subTest(way=way):
                process = self.begin(way, f"ps.consistency={way}", "train.epochs=1000000")
                process.send_signal(signal.SIGINT)
                code, _, errors = self.finish(process)
                self.assertEqual(code, 130, errors)
                steps = self.report(way)["steps"]
                self.assertGreater(steps, 0)
                self.tandem("resume", way, "-q", "train.epochs=40", f"ps.consistency={then}")
                report = self.report(way)
                self.assertEqual(report["epochs"], 40)
                self.assertEqual(report["samples"], 40 * 1294)


class AsyncRowsTest(FaultsTest):
    """Tables whose rows travel by themselves, in slices and by key."""
    text = rows_test.JOB.replace('pull = "partial"\n', "")
    truth = None

    def test_rows_count_once_whatever_is_killed(self):
        for rows, way in (("ps.pull=partial", "asp"), ("ps.tables=sparse", "ssp")):
            with self.subTest(rows=rows, way=way):
                out = f"{rows}-{way}"
                process = self.begin(out, rows, f"ps.consistency={way}", "ps.staleness=2", "train.epochs=20")
                self.signal(self.pids(process, "--number")[:1])
                wait_for(lambda out=out: self.events(out, "joined"), "another worker")
                self.assertEqual(self.events(out, "rollback"), [])
                self.signal(self.pids(process, "--address")[-1:])
                self.assert_ends(process, out)
                report = self.report(out)
                self.assertEqual((report["status"], report["exact"], report["epochs"]), ("finished", False, 20))
                self.assertEqual(report["samples"], 20 / 30 * self.truth["samples"])
                self.assertLess(report["eval"]["loss"], 1)
                self.assertEqual(len(self.events(out, "rollback")), 1)
                if way == "ssp":
                    self.assertLessEqual(len(report["staleness"]["steps"]), 2 + 1)


if __name__ == "__main__":
    main()
