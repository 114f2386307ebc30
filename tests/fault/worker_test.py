"""What happens to a run when its processes are killed, stopped or interrupted, or the disk is full."""
import os
import resource
import signal

from harness import LONG, TandemTest, is_gone, main, process_state, wait_for


class Death(TandemTest):
    def test_a_killed_worker_is_named_and_reported(self):
        process, worker = self.start_training("run", "cluster.max_restarts=0")
        os.kill(worker, signal.SIGKILL)
        code, output, errors = self.finish(process)
        self.assertEqual(code, 5, errors)
        self.assertRegex(errors, rf"worker 0 \(pid {worker}\) was killed by signal 9 \(SIGKILL\) at step \d+, epoch \d+")
        report = self.report("run")
        self.assertEqual((report["status"], report["error"]["code"]), ("failed", "peer_lost"))
        self.assertGreater(report["steps"], 0)
        self.assertIsNone(report["weights_hash"])
        self.assertEqual(report["cluster"]["workers"], {"start": 1, "end": 0})
        self.assertEqual(report["events"][-1]["kind"], "lost")

    def test_a_crashed_worker_is_reported_too(self):
        process, worker = self.start_training("run", "cluster.max_restarts=0")
        os.kill(worker, signal.SIGSEGV)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 5)
        self.assertIn("SIGSEGV", errors)

    def test_a_worker_does_not_outlive_tandem(self):
        process, worker = self.start_training("run")
        process.kill()
        wait_for(lambda: is_gone(worker), "the worker's end")

    def test_a_silent_worker_is_killed_and_named(self):
        process, worker = self.start_training("run", "--timeout", "2", "cluster.max_restarts=0")
        os.kill(worker, signal.SIGSTOP)
        code, _, errors = self.finish(process)
        self.assertEqual(code, 6)
        self.assertRegex(errors, rf"worker 0 \(pid {worker}\) said nothing for 2\.0 s")
        self.assertTrue(is_gone(worker))
        self.assertEqual(self.report("run")["error"]["code"], "timeout")

    def test_a_worker_that_does_not_start_is_killed(self):
        errors = self.tandem("train", self.job, "--start-timeout", "0.01", "--out", "run", code=6).stderr
        self.assertIn("--start-timeout", errors)


class Interrupt(TandemTest):
    def interrupted(self, number):
        process, worker = self.start_training("run")
        process.send_signal(number)
        code, output, errors = self.finish(process)
        self.assertEqual(code, 130, errors)
        self.assertTrue(is_gone(worker))
        report = self.report("run")
        self.assertEqual(report["status"], "cancelled")
        self.assertGreater(report["steps"], 0)
        self.assertEqual(output, "run\n")

    def test_control_c_cancels_in_order(self):
        self.interrupted(signal.SIGINT)

    def test_sigterm_cancels_in_order(self):
        self.interrupted(signal.SIGTERM)

    def test_a_hangup_cancels_in_order(self):
        self.interrupted(signal.SIGHUP)

    def test_a_second_control_c_kills_at_once(self):
        process, worker = self.start_training("run")
        os.kill(worker, signal.SIGSTOP)  # It cannot answer the first.
        process.send_signal(signal.SIGINT)
        wait_for(lambda: "stopping" in process.stderr.readline(), "the answer to the first Ctrl-C")
        process.send_signal(signal.SIGINT)
        code, _, _ = self.finish(process)
        self.assertEqual(code, 130)
        self.assertTrue(is_gone(worker))
        report = self.report("run")
        self.assertEqual(report["status"], "cancelled")
        self.assertLess(report["wall_s"], 10)

    def test_the_whole_process_group_gets_control_c(self):
        # As a terminal does it: to every process of the group, of which the worker is none.
        process, worker = self.start_training("run", start_new_session=True)
        os.killpg(process.pid, signal.SIGINT)
        self.assertEqual(self.finish(process)[0], 130)
        self.assertTrue(is_gone(worker))
        self.assertEqual(self.report("run")["status"], "cancelled")

    def test_control_z_suspends_the_worker_too(self):
        process, worker = self.start_training("run")
        process.send_signal(signal.SIGTSTP)
        wait_for(lambda: process_state(process.pid) == "T" and process_state(worker) == "T", "both to stop")
        process.send_signal(signal.SIGCONT)
        metrics = self.scratch / "run/metrics.jsonl"
        size = metrics.stat().st_size
        wait_for(lambda: metrics.stat().st_size > size, "the run to go on")
        process.send_signal(signal.SIGINT)
        self.assertEqual(self.finish(process)[0], 130)


class Disk(TandemTest):
    def limited(self, size, *arguments, code=0):
        """Trains with a limit on the size of files, which fails as a full disk does."""
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
        return self.tandem("train", self.job, "--out", "run", *arguments, code=code, preexec_fn=limit)

    def test_a_full_disk_costs_metrics_but_not_the_run(self):
        epochs = "train.epochs=200"  # Each has two lines at least.
        self.tandem("train", self.job, "--out", "truth", "-q", epochs)
        errors = self.limited(32768, "-q", epochs, "checkpoint.keep=0").stderr
        self.assertEqual(errors.count("recording_failed"), 1, errors)
        self.assertIn("metrics.jsonl", errors)
        report = self.report("run")
        self.assertEqual((report["status"], report["weights_hash"]), ("finished", self.report("truth")["weights_hash"]))
        self.assertEqual([event["kind"] for event in report["events"]].count("recording_failed"), 1)
        lines = (self.scratch / "run/metrics.jsonl").read_text()
        self.assertTrue(lines.endswith("}\n"), "no half line is left")

    def test_a_full_disk_that_does_not_take_the_model_is_a_clear_error(self):
        errors = self.limited(8192, "-q", "checkpoint.keep=0", "model.kind=mlp", "model.hidden=[64]", code=9).stderr
        self.assertIn("model.safetensors", errors)
        self.assertEqual(self.report("run")["error"]["code"], "out_of_space")

    def test_a_disk_that_is_full_from_the_start(self):
        self.assertIn("job.toml", self.limited(16, code=9).stderr)


if __name__ == "__main__":
    main()
