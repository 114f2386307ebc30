"""A run with parameter servers whose workers or servers are killed or stopped ends as if nothing had happened."""
import random
import signal

from harness import is_gone, main, wait_for
from server_faults import FaultsTest


class ServersTest(FaultsTest):
    """Each slice on one server."""

    def test_a_server_killed_between_pushes_and_results(self):
        self.kill_between_pushes_and_results("run")
        self.assertEqual(len(self.events("run", "rollback")), 1)

    def test_a_worker_killed_between_its_last_push_and_the_answer(self):
        for transport in ("auto", "tcp"):
            with self.subTest(transport=transport):
                self.kill_a_worker_between_pushes_and_results(transport, f"ps.transport={transport}")

    def test_a_killed_worker_is_replaced_while_servers_keep_the_state(self):
        for transport in ("auto", "tcp"):
            with self.subTest(transport=transport):
                process = self.begin(transport, f"ps.transport={transport}")
                self.signal(self.pids(process, "--number")[:1])
                self.assert_same_end(process, transport)
                self.assertEqual(len(self.events(transport, "lost")), 1)
                self.assertEqual(self.events(transport, "rollback"), [])

    def test_a_killed_server_sends_the_workers_back_to_a_checkpoint(self):
        process = self.begin("run")
        self.await_steps(process, "run", 250)
        workers = self.pids(process, "--number")
        self.signal(self.pids(process, "--address")[:1])
        self.assert_same_end(process, "run")
        lost = self.events("run", "lost")
        self.assertEqual([event["who"] for event in lost], ["server 0"])
        self.assertIn("SIGKILL", lost[0]["detail"])
        self.assertEqual(len(self.events("run", "rollback")), 1)
        self.assertEqual(self.events("run", "joined"), [], "workers were started anew")
        self.assertEqual(len(workers), 2)

    def test_all_servers_at_once_before_the_first_checkpoint(self):
        process = self.begin("run", "checkpoint.every_steps=0", "checkpoint.every_seconds=86400")
        self.signal(self.pids(process, "--address"))
        self.assert_same_end(process, "run")
        self.assertIn("from the start", self.events("run", "rollback")[0]["detail"])

    def test_a_server_and_a_worker_at_once(self):
        process = self.begin("run")
        self.signal(self.pids(process, "--address")[:1] + self.pids(process, "--number")[:1])
        self.assert_same_end(process, "run")

    def test_a_server_that_is_stopped_is_killed_and_replaced(self):
        process = self.begin("run", "--timeout", "4", "cluster.timeout_s=2")
        self.signal(self.pids(process, "--address")[:1], signal.SIGSTOP)
        self.assert_same_end(process, "run")
        self.assertIn("said nothing", self.events("run", "lost")[0]["detail"])

    def test_a_stopped_worker_does_not_keep_others_from_meeting(self):
        process = self.begin("run", "cluster.timeout_s=2")
        stopped, killed = self.pids(process, "--number")[:2]
        self.signal([stopped], signal.SIGSTOP)
        self.signal([killed])
        self.assert_same_end(process, "run")
        self.assertIn("said nothing", self.events("run", "lost")[1]["detail"])

    def test_a_late_worker_that_is_not_replaced_ends_the_run(self):
        process = self.begin("run", "cluster.timeout_s=2", "cluster.max_restarts=0")
        self.signal(self.pids(process, "--number")[:1], signal.SIGSTOP)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 6, errors)
        self.assertIn("was late", errors)

    def test_a_server_that_is_not_replaced_ends_the_run(self):
        process = self.begin("run", "cluster.max_restarts=0")
        self.signal(self.pids(process, "--address")[:1])
        code, _, errors = self.finish(process)
        self.assertEqual(code, 5, errors)
        self.assertIn("server 0 was lost: it was killed by signal 9", errors)
        self.assertIn("max_restarts", errors)

    def test_ctrl_c_saves_and_resume_goes_on(self):
        process = self.begin("run", "train.epochs=1000000")
        process.send_signal(signal.SIGINT)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 130, errors)
        done = self.report("run")["steps"]
        self.assertGreater(done, 0)
        self.tandem("resume", "run", "-q", "train.epochs=30")
        self.assertEqual(self.essence("run"), self.truth)


class CopiesTest(FaultsTest):
    """Each slice on two of three servers: one can die at any moment, and no step is made twice."""
    COPIES = ("cluster.servers=3", "cluster.replicas=2")

    def assert_no_step_back(self, out, lost):
        self.assertEqual(len(self.events(out, "lost")), lost)
        self.assertEqual(self.events(out, "rollback"), [])
        self.assertEqual(self.events(out, "joined"), [], "workers were started anew")

    def test_each_server_in_turn_is_killed_and_no_step_is_lost(self):
        """Each of them is the first holder of one slice, and the second of another."""
        for transport in ("auto", "tcp"):
            with self.subTest(transport=transport):
                process = self.begin(transport, *self.COPIES, f"ps.transport={transport}")
                for kills in range(1, 4):
                    self.signal(self.pids(process, "--address")[:1])  # The oldest that lives.
                    self.await_recoveries(process, transport, kills)
                self.assert_same_end(process, transport)
                self.assert_no_step_back(transport, 3)

    def test_a_server_killed_between_pushes_and_results(self):
        self.kill_between_pushes_and_results("run", *self.COPIES)
        self.assert_no_step_back("run", 1)

    def test_a_killed_server_changes_no_bit(self):
        for moment in range(3):
            with self.subTest(moment=moment):
                out = f"run-{moment}"
                process = self.begin(out, *self.COPIES)
                # Whatever step is under way: between its pushes and its results, as likely as not.
                self.await_steps(process, out, 60 + 97 * moment)
                self.signal(self.pids(process, "--address")[moment:moment + 1])
                self.assert_same_end(process, out)
                self.assert_no_step_back(out, 1)

    def test_two_servers_at_once(self):
        """Both that hold a slice: back to a checkpoint."""
        process = self.begin("run", *self.COPIES)
        self.await_steps(process, "run", 150)
        self.signal(self.pids(process, "--address")[:2])
        self.assert_same_end(process, "run")
        self.assertEqual(len(self.events("run", "lost")), 2)
        self.assertEqual(len(self.events("run", "rollback")), 1)

    def test_two_servers_at_once_that_hold_no_slice_together(self):
        process = self.begin("run", "cluster.servers=4", "cluster.replicas=2")
        self.signal(self.pids(process, "--address")[::2])
        self.assert_same_end(process, "run")
        self.assert_no_step_back("run", 2)

    def test_a_server_and_a_worker_at_once(self):
        process = self.begin("run", *self.COPIES)
        self.signal(self.pids(process, "--address")[:1] + self.pids(process, "--number")[:1])
        self.assert_same_end(process, "run")
        self.assertEqual(self.events("run", "rollback"), [])

    def test_servers_killed_as_soon_as_they_are_there_again(self):
        """Whether the copies were made by then or not: with the state that is left, or back to a checkpoint."""
        process = self.begin("run", "cluster.servers=2", "cluster.replicas=2")
        choice = random.Random(5)
        for _ in range(6):
            pids = wait_for(lambda: len(self.pids(process, "--address")) == 2 and self.pids(process, "--address"),
                            "two servers")
            victim = choice.choice(pids)
            self.signal([victim])
            wait_for(lambda: is_gone(victim), "its end")
        self.assert_same_end(process, "run")
        self.assertEqual(len(self.events("run", "lost")), 6)

    def test_a_server_that_hangs(self):
        process = self.begin("run", *self.COPIES, "--timeout", "4", "cluster.timeout_s=2")
        self.signal(self.pids(process, "--address")[:1], signal.SIGSTOP)
        self.assert_same_end(process, "run")
        self.assertEqual(self.events("run", "rollback"), [])


if __name__ == "__main__":
    main()
