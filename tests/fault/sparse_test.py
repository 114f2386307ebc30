"""A run whose servers keep tables by key, and whose workers or servers are killed or stopped, ends as if nothing had happened."""
import signal

from harness import await_rest, main, wait_for
from jobs import RATINGS, SERVED
from server_faults import FaultsTest

# Adam keeps state beside each row. Rows are made at their second touch and given up after 40 steps without one, so a step that is taken
# back has candidates and new and old rows in it.
JOB = f"""\
name = "sparse"
{RATINGS}epochs = 10
optimizer = {{ kind = "adam", lr = 0.01 }}
{SERVED}[ps]
tables = "sparse"
admit_after = 1
evict_after = 40
[checkpoint]
every_steps = 100
"""


class SparseTest(FaultsTest):
    text = JOB
    truth = None

    def setUp(self):
        if self.truth is None:
            type(self).truth = {}  # There is none without servers.
        super().setUp()
        if not self.truth:
            self.tandem("train", self.job, "--out", "truth", "-q", "cluster.workers=1", "cluster.servers=1")
            type(self).truth = self.essence("truth")

    def test_killed_workers_are_replaced_and_servers_take_back_a_step(self):
        longer = "train.epochs=40"
        process = self.begin("run", "ps.transport=tcp", longer)
        for kills in (1, 2):
            self.signal(self.pids(process, "--number")[:1])
            wait_for(lambda kills=kills: len(self.events("run", "joined")) >= kills, "another worker")
        self.assert_ends(process, "run")
        self.assertEqual(self.events("run", "rollback"), [])
        self.tandem("train", self.job, "--out", "longer", "-q", "cluster.workers=1", "cluster.servers=3", longer)
        self.assertEqual(self.essence("run"), self.essence("longer"))

    def test_a_worker_killed_while_a_server_waits_for_it(self):
        """One server is stopped: the other may have made the step that this one never will."""
        process = self.begin("run")
        server = self.pids(process, "--address")[:1]
        self.signal(server, signal.SIGSTOP)
        await_rest(self.pids(process, "--number"))
        self.signal(self.pids(process, "--number")[:1])
        self.signal(server, signal.SIGCONT)
        self.assert_same_end(process, "run")
        self.assertEqual(self.events("run", "rollback"), [])

    def test_a_killed_server_sends_the_workers_back_to_a_checkpoint_with_its_tables(self):
        for which in (0, 1):  # One has the dense parameters, the other nothing but rows.
            with self.subTest(server=which):
                out = f"run-{which}"
                process = self.begin(out)
                self.await_steps(process, out, 150)
                self.signal(self.pids(process, "--address")[which:which + 1])
                self.assert_same_end(process, out)
                self.assertEqual(len(self.events(out, "rollback")), 1)

    def test_all_servers_at_once_before_the_first_checkpoint(self):
        process = self.begin("run", "checkpoint.every_steps=0", "checkpoint.every_seconds=86400")
        self.signal(self.pids(process, "--address"))
        self.assert_same_end(process, "run")
        self.assertIn("from the start", self.events("run", "rollback")[0]["detail"])

    def test_a_server_and_a_worker_at_once(self):
        process = self.begin("run")
        self.signal(self.pids(process, "--address")[:1] + self.pids(process, "--number")[:1])
        self.assert_same_end(process, "run")

    def test_copies_of_tables_lose_no_step(self):
        """A server that has nothing but rows, a worker, and the server with the dense parameters."""
        process = self.begin("run", "cluster.servers=3", "cluster.replicas=2", "train.epochs=20")
        for kills, (option, which) in enumerate((("--address", 2), ("--number", 0), ("--address", 0)), start=1):
            self.signal(self.pids(process, option)[which:which + 1])
            self.await_recoveries(process, "run", kills)
        self.assert_ends(process, "run")
        self.assertEqual(self.events("run", "rollback"), [])
        self.tandem("train", self.job, "--out", "calm", "-q", "train.epochs=20")
        self.assertEqual(self.essence("run"), self.essence("calm"))

    def test_ctrl_c_saves_and_resume_goes_on_with_others(self):
        for number, others in enumerate((["cluster.workers=3", "cluster.servers=3"], ["cluster.workers=1", "cluster.servers=1"])):
            with self.subTest(others=others):
                out = f"run-{number}"
                process = self.begin(out, "train.epochs=1000000")
                process.send_signal(signal.SIGINT)
                code, _, errors = self.finish(process)
                self.assertEqual(code, 130, errors)
                self.assertLess(self.report(out)["steps"], self.truth["steps"], "it was too fast to be resumed")
                self.tandem("resume", out, "-q", "train.epochs=10", *others)
                self.assertEqual(self.essence(out), self.truth)


if __name__ == "__main__":
    main()
