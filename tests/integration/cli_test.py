"""The command line as a user and a script see it: help, mistakes, exit codes, streams."""
import json
import os
import re
import signal
import subprocess
import time

from harness import JOB, TandemTest, main, wait_for

COMMANDS = [[], ["train"], ["eval"], ["predict"], ["model"], ["model", "summary"], ["model", "verify"],
            ["model", "export"], ["doctor"], ["job-reference"], ["bench", "allreduce"], ["bench", "checkpoint"],
            ["bench", "ps"]]


class Help(TandemTest):
    def test_every_command_has_help_on_standard_output(self):
        for command in COMMANDS:
            result = self.tandem(*command, "--help")
            self.assertIn("Usage:", result.stdout)
            self.assertEqual(result.stderr, "")

    def test_version(self):
        self.assertRegex(self.tandem("--version").stdout, r"^tandem \d+\.\d+\.\d+\n$")

    def test_starts_at_once(self):
        def seconds():
            begin = time.monotonic()
            self.tandem("--help")
            return time.monotonic() - begin
        self.assertLess(min(seconds() for _ in range(20)), 0.02)

    def test_does_not_link_libtorch(self):
        libraries = subprocess.run(["ldd", self.program], capture_output=True, text=True, check=True).stdout
        self.assertNotIn("torch", libraries)

    def test_the_job_reference_is_markdown(self):
        self.assertTrue(self.tandem("job-reference").stdout.startswith("# "))

    def test_a_reader_that_has_seen_enough_is_no_error(self):
        line = subprocess.run(f"'{self.program}' job-reference | head -1", shell=True, capture_output=True, text=True)
        self.assertEqual((line.returncode, line.stderr), (0, ""))


class Mistakes(TandemTest):
    def test_unknown_words_get_a_suggestion(self):
        for arguments, meant in ((["trian"], "train"), (["model", "sumary", "x"], "summary"),
                                 (["train", "digits.toml", "--dryrun"], "--dry-run")):
            self.assertIn(f"did you mean `{meant}`?", self.tandem(*arguments, code=2).stderr)

    def test_nothing_to_do(self):
        self.assertIn("Usage:", self.tandem(code=2).stderr)

    def test_a_missing_job_file(self):
        self.assertIn("absent.toml", self.tandem("train", "absent.toml", code=3).stderr)

    def test_a_wrong_job_file_points_at_the_line(self):
        self.job.write_text(JOB.replace("optimizer", "optimiser"))
        errors = self.tandem("train", self.job, code=2).stderr
        self.assertTrue(errors.startswith("error: unknown key"), errors)
        self.assertIn("digits.toml:10:1", errors)
        self.assertIn("did you mean `optimizer`?", errors)
        self.assertFalse((self.scratch / "runs").exists())

    def test_a_model_that_does_not_fit_the_data_points_at_the_users_own_text(self):
        layers = 'layers = [{ kind = "linear", out = 3 }]'
        text = JOB.replace('kind = "softmax"', f'kind = "layers"\n{layers}')
        self.job.write_text(text)
        line = text.splitlines().index(layers) + 1
        errors = self.tandem("train", "digits.toml", "--out", "run", code=2).stderr
        self.assertIn(f"--> digits.toml:{line}:", errors)
        self.assertIn(layers, errors)
        self.assertNotIn("job.toml", errors)
        self.assertIn(f"digits.toml:{line}:", self.report("run")["error"]["message"])

        errors = self.tandem("train", "-", input=text, code=2).stderr
        self.assertIn(f"--> <stdin>:{line}:", errors)

    def test_an_override_that_does_not_fit_the_data_is_shown(self):
        override = 'model.freeze=["absent*"]'
        errors = self.tandem("train", self.job, override, code=2).stderr
        self.assertIn(override, errors)
        self.assertNotIn("job.toml", errors)

    def test_a_wrong_override(self):
        self.assertIn("train.epoch", self.tandem("train", self.job, "train.epoch=3", code=2).stderr)

    def test_a_missing_worker(self):
        errors = self.tandem("train", self.job, "--worker-binary", "absent", code=3).stderr
        self.assertIn("absent", errors)
        self.assertFalse((self.scratch / "runs").exists())

    def test_a_taken_run_directory(self):
        taken = self.scratch / "taken"
        taken.mkdir()
        (taken / "file").write_text("precious")
        self.assertIn("nothing is overwritten", self.tandem("train", self.job, "--out", taken, code=2).stderr)
        self.assertEqual([p.name for p in taken.iterdir()], ["file"])

    def test_a_missing_model(self):
        for command in (["eval"], ["model", "summary"], ["model", "verify"]):
            self.tandem(*command, "absent.safetensors", code=3)
        (self.scratch / "empty").mkdir()
        self.assertIn("model.safetensors", self.tandem("eval", "empty", code=3).stderr)

    def test_a_damaged_model(self):
        (self.scratch / "bad.safetensors").write_bytes(b"\xff" * 64)
        self.tandem("model", "summary", "bad.safetensors", code=4)

    def test_full_standard_output(self):
        with open("/dev/full", "w") as full:
            self.tandem("job-reference", code=9, capture_output=False, stdout=full, stderr=subprocess.PIPE)


class PrintJob(TandemTest):
    def test_prints_every_default_and_reads_it_again(self):
        first = self.tandem("train", self.job, "train.epochs=7", "--print-job").stdout
        self.assertIn("epochs = 7", first)
        self.assertIn("weight_decay", first)
        second = self.tandem("train", "-", "--print-job", input=first).stdout
        self.assertEqual(first, second)
        self.assertFalse((self.scratch / "runs").exists())

    def test_settings_that_do_nothing_are_warned_of(self):
        served = ["cluster.servers=2", "cluster.replicas=2"]
        idle = self.tandem("train", self.job, *served, "--print-job").stderr
        self.assertEqual(idle, "warning: `cluster.servers` and `cluster.replicas` have no effect with "
                               'cluster.strategy = "allreduce"\n')
        used = self.tandem("train", self.job, *served, "cluster.strategy=ps", "--print-job").stderr
        self.assertEqual(used, "")


class Manifest(TandemTest):
    def test_a_model_without_one_is_used_with_a_warning(self):
        self.tandem("train", self.job, "--out", "run")
        warning = "no manifest beside it"
        commands = (["eval", "run"], ["model", "summary", "run"], ["model", "summary", "run", "--json"],
                    ["model", "export", "run", "--out", "a.npz"])
        for command in commands:
            self.assertNotIn(warning, self.tandem(*command).stderr)
        (self.scratch / "run/model.manifest.json").unlink()
        (self.scratch / "a.npz").unlink()
        for command in commands:
            result = self.tandem(*command)
            self.assertRegex(result.stderr, f"^warning: run/model.safetensors: {warning}")
            self.assertNotIn(warning, result.stdout)
        self.assertIn("manifest", self.tandem("model", "verify", "run", code=3).stderr)


class Doctor(TandemTest):
    def test_every_line_has_a_verdict(self):
        checks = json.loads(self.tandem("doctor", "--json").stdout)
        names = [check["name"] for check in checks]
        for name in ("cpu", "threads", "kernels", "worker", "blas", "memory", "disk", "shared memory", "open files", "loopback"):
            self.assertIn(name, names)
        for check in checks:
            self.assertIn(check["verdict"], ("ok", "warn", "fail"))
            self.assertEqual(check["verdict"] == "ok", check["advice"] == "", check)

    def test_names_the_chosen_kernels_and_those_in_use(self):
        text = self.tandem("doctor").stdout
        chosen = re.search(r"OPENBLAS_CORETYPE=(\w+)", text)[1]
        self.assertRegex(text, re.compile(rf"^ok +blas .*kernels for {chosen}", re.M | re.I))

    def test_shows_what_blas_is_and_not_how_it_was_built(self):
        self.assertNotIn("MAX_THREADS", self.tandem("doctor").stdout)

    def test_a_missing_worker_fails_with_advice(self):
        self.assertIn("--worker-binary", self.tandem("doctor", "--worker-binary", "absent", code=1).stdout)


class Terminal(TandemTest):
    def train_on_terminal(self, **environment):
        """What a terminal would have got."""
        ours, theirs = os.openpty()
        process = self.start("train", self.job, stderr=theirs,
                             env=self.environment(TERM="xterm", LC_ALL="C.UTF-8", **environment))
        os.close(theirs)
        text = b""
        try:
            while chunk := os.read(ours, 65536):
                text += chunk
        except OSError:  # The other end is closed.
            pass
        os.close(ours)
        self.assertEqual(process.wait(), 0)
        return text.decode()

    def test_has_a_live_line_and_colours(self):
        text = self.train_on_terminal()
        self.assertIn("\r\x1b[K", text)
        self.assertIn("\x1b[1;32mfinished\x1b[0m", text)

    def test_no_color_leaves_the_line_but_no_colour(self):
        text = self.train_on_terminal(NO_COLOR="1")
        self.assertIn("\r\x1b[K", text)
        self.assertNotIn("\x1b[1;", text)


class BenchCheckpoint(TandemTest):
    def setUp(self):
        super().setUp()
        self.disk = self.scratch / "disk"
        self.disk.mkdir()

    def left(self):
        return list(self.disk.iterdir())

    def test_gives_figures_and_leaves_nothing(self):
        arguments = ["bench", "checkpoint", "--bytes", "3MiB", "--rounds", "2", "--directory", self.disk]
        result = json.loads(self.tandem(*arguments, "--json").stdout)
        self.assertEqual((result["bytes"], result["rounds"]), (3 << 20, 2))
        for name in ("stop_ms", "memcpy_ms", "write_mb_s", "dd_mb_s"):
            self.assertGreater(result[name], 0, name)
        self.assertAlmostEqual(result["stop_ratio"], result["stop_ms"] / result["memcpy_ms"])
        self.assertAlmostEqual(result["write_ratio"], result["write_mb_s"] / result["dd_mb_s"])
        table = self.tandem(*arguments).stdout
        self.assertIn("training stops for", table)
        self.assertIn("written and synced at", table)
        self.assertEqual(self.left(), [])

    def test_a_disk_that_is_too_small_is_refused(self):
        free = os.statvfs(self.disk)
        more = 2 * free.f_bavail * free.f_frsize
        errors = self.tandem("bench", "checkpoint", "--bytes", more, "--directory", self.disk, code=9).stderr
        self.assertRegex(errors, r"has \d+ MB free, and \d+ MB are needed; name another with --directory")
        errors = self.tandem("bench", "checkpoint", "--directory", self.disk / "absent", code=3).stderr
        self.assertIn("absent: No such file or directory", errors)
        self.assertEqual(self.left(), [])

    def test_nothing_is_left_when_it_is_interrupted(self):
        process = self.start("bench", "checkpoint", "--bytes", "64MiB", "--rounds", "1000", "--directory", self.disk)
        wait_for(lambda: list(self.disk.glob("*/*/*")), "something to be written")
        process.send_signal(signal.SIGINT)
        code, output, errors = self.finish(process)
        self.assertEqual((code, output), (130, ""), errors)
        self.assertEqual(self.left(), [])


class BenchPs(TandemTest):
    def test_gives_figures_of_time_and_memory(self):
        arguments = ["bench", "ps", "--sparse-keys", "20000", "--rows", "30000", "--width", "16"]
        result = json.loads(self.tandem(*arguments, "--json").stdout)
        self.assertEqual((result["sparse_keys"], result["rows"], result["width"]), (20000, 30000, 16))
        self.assertEqual(result["bytes"], 20000 * (8 + 16 * 4))
        self.assertEqual(result["payload_bytes"], 30000 * 16 * 4)
        for name in ("memcpy_ms", "push_ms", "pull_ms", "fill_ms", "resident_bytes"):
            self.assertGreater(result[name], 0, name)
        self.assertGreater(result["table_bytes"], result["payload_bytes"])
        self.assertAlmostEqual(result["push_ratio"], result["push_ms"] / result["memcpy_ms"])
        self.assertAlmostEqual(result["pull_ratio"], result["pull_ms"] / result["memcpy_ms"])
        self.assertAlmostEqual(result["table_ratio"], result["table_bytes"] / result["payload_bytes"])
        table = self.tandem(*arguments).stdout
        for line in ("memcpy", "push", "pull", "floats of the rows", "the table's count", "resident memory"):
            self.assertRegex(table, rf"(?m)^{line} ")

    def test_gives_figures_of_pushes_and_pulls(self):
        arguments = ["bench", "ps", "--bytes", "5,100000", "--workers", "2", "--servers", "2"]
        rows = json.loads(self.tandem(*arguments, "--json").stdout)["dense"]
        self.assertEqual([(row["transport"], row["bytes"]) for row in rows],
                         [("shm", 5), ("shm", 100000), ("tcp", 5), ("tcp", 100000)])
        for row in rows:
            for name in ("microseconds", "gb_s", "cpu_s_per_gb", "echo_microseconds", "streamed_echo_microseconds",
                         "memcpy_microseconds"):
                self.assertGreater(row[name], 0, name)
            self.assertGreaterEqual(row["p99_microseconds"], row["microseconds"])
            self.assertAlmostEqual(row["echo_speedup"], row["echo_microseconds"] / row["microseconds"])
        table = self.tandem("bench", "ps", "--bytes", "1KiB", "--transport", "shm").stdout
        self.assertRegex(table, r"(?m)^shm +1024 ")

    def test_more_than_the_memory_holds_is_refused_at_once(self):
        self.assertIn("give less with --bytes", self.tandem("bench", "allreduce", "--bytes", 10**12, code=9).stderr)
        errors = self.tandem("bench", "ps", "--bytes", 10**12, code=9).stderr
        self.assertRegex(errors, r"need about \S+ TiB of memory, and \S+ [MG]iB are free; give less with --bytes")
        for arguments in (("--rows", 10**9, "--width", 65536), ("--sparse-keys", 10**9, "--width", 65536)):
            errors = self.tandem("bench", "ps", *arguments, code=9).stderr
            self.assertRegex(errors, r"10,000,000 (rows|keys)|1,000,000,000 (rows|keys)")
            self.assertRegex(errors, r"need about \S+ TiB of memory, and \S+ [MG]iB are free; give less with --rows")


if __name__ == "__main__":
    main()
