"""Checkpoints: a run that was killed, cancelled or rolled back ends as if nothing had happened."""
import json
import shutil
import signal

from harness import PATIENCE_S, TandemTest, main, wait_for

# Dropout, an uneven last batch, and a schedule and an early stop with a memory.
JOB = """\
name = "kept"
[model]
kind = "mlp"
hidden = [24]
dropout = 0.1
[data]
source = "digits"
[train]
epochs = 6
batch = 19
seed = 7
optimizer = { kind = "adam", lr = 0.002 }
schedule = { kind = "plateau", patience = 1, gamma = 0.5 }
early_stop = { patience = 50 }
[cluster]
lanes = 4
[checkpoint]
every_steps = 40
"""
STEPS = 6 * 69
# What must not depend on how often a run was interrupted.
TRUTH = ("status", "weights_hash", "steps", "epochs", "samples", "eval")


class Checkpoints(TandemTest):
    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)

    def told(self, run):
        lines = map(json.loads, (self.scratch / run / "metrics.jsonl").read_text().splitlines())
        # A run that ended and was told to go on has judgements of the test part in between.
        return [(line["part"], line["step"], line["loss"]) for line in lines
                if line["kind"] == "eval" and (line["part"] == "validation" or line["step"] == STEPS)]

    def undisturbed(self):
        self.tandem("train", self.job, "--out", "truth", "-q")
        return self.report("truth")

    def assert_same(self, run):
        truth, report = self.undisturbed(), self.report(run)
        self.assertEqual({key: report[key] for key in TRUTH}, {key: truth[key] for key in TRUTH})
        self.assertEqual(self.told(run), self.told("truth"))

    def steps(self, run):
        return [row["step"] for row in json.loads(self.tandem("checkpoint", "list", run, "--json").stdout)]

    def start_and_wait(self, out, *arguments):
        """A run that is slow enough to be killed in the middle, once it has two checkpoints."""
        process = self.start("train", self.job, "--out", out, "-q", *arguments)
        store = self.scratch / out / "checkpoints"
        wait_for(lambda: store.exists() and len(list(store.glob("step-*"))) >= 2 or process.poll() is not None,
                 "two checkpoints")
        return process

    def test_a_run_that_is_killed_goes_on_with_other_numbers_of_workers(self):
        for before, after in ((1, 3), (2, 1), (4, 2)):
            with self.subTest(before=before, after=after):
                out = f"run-{before}"
                process = self.start_and_wait(out, f"cluster.workers={before}")
                process.send_signal(signal.SIGKILL)
                process.communicate(timeout=PATIENCE_S)
                self.tandem("resume", out, "-q", f"cluster.workers={after}")
                shutil.rmtree(self.scratch / "truth", ignore_errors=True)
                self.assert_same(out)
                self.assertIn("resumed", [event["kind"] for event in self.report(out)["events"]])

    def test_a_run_that_is_cancelled_goes_on_where_it_was(self):
        process = self.start_and_wait("run", "cluster.workers=2")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        report = self.report("run")
        if report["status"] == "cancelled":
            self.assertEqual(self.steps("run")[-1], report["steps"])
        self.tandem("resume", "run", "-q")
        self.assert_same("run")

    def test_a_run_that_is_cancelled_before_it_goes_on_keeps_what_it_had(self):
        process = self.start_and_wait("run", "train.epochs=60")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        before = self.report("run")
        self.assertEqual(before["status"], "cancelled")
        process = self.start("resume", "run", "-q")
        events = self.scratch / "run" / "events.jsonl"
        wait_for(lambda: '"resumed"' in events.read_text(), "the resumption")
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=PATIENCE_S)
        after = self.report("run")
        self.assertEqual(after["status"], "cancelled")
        self.assertGreaterEqual(after["steps"], before["steps"])
        self.assertIsNotNone(after["weights_hash"])
        if after["steps"] == before["steps"]:
            self.assertEqual([after[key] for key in ("samples", "weights_hash")],
                             [before[key] for key in ("samples", "weights_hash")])

    def test_a_run_that_is_killed_before_its_report_is_judged_once(self):
        self.tandem("train", self.job, "--out", "run", "-q")
        (self.scratch / "run" / "report.json").unlink()
        self.tandem("resume", "run", "-q")
        self.assert_same("run")

    def train_in_thirds(self):
        """A run with checkpoints at its thirds: those of every 40 steps may come late on a slow disk."""
        self.tandem("train", self.job, "--out", "run", "-q", "checkpoint.keep=100", "train.epochs=2")
        for epochs in (4, 6):
            self.tandem("resume", "run", "-q", f"train.epochs={epochs}")
        steps = self.steps("run")
        self.assertLess({STEPS // 3, STEPS // 3 * 2, STEPS}, set(steps))
        return steps

    def test_a_finished_run_rolls_back_and_grows(self):
        steps = self.train_in_thirds()
        self.assertEqual(steps[0], 40)
        back = STEPS // 3
        self.tandem("resume", "run", "--step", back, "-q")
        kept = [step for step in steps if step <= back]
        self.assertEqual(self.steps("run")[:len(kept)], kept)
        self.assert_same("run")
        self.tandem("resume", "run", "train.epochs=7", "-q")
        self.assertEqual(self.report("run")["steps"], STEPS // 6 * 7)
        shutil.rmtree(self.scratch / "truth")
        self.tandem("train", self.job, "--out", "truth", "-q", "train.epochs=7")
        self.assertEqual(self.report("run")["weights_hash"], self.report("truth")["weights_hash"])

    def test_a_job_that_does_not_go_on_from_there_leaves_the_run_as_it_was(self):
        self.tandem("train", self.job, "--out", "run", "-q", "cluster.workers=2")
        files = [self.scratch / "run" / name for name in ("job.toml", "report.json")]
        before = [file.read_bytes() for file in files]
        done = self.tandem("resume", "run", "train.epochs=1", code=2).stderr
        self.assertIn(f"the checkpoint is of step {STEPS}, but the job ends after {STEPS // 6}; raise train.epochs", done)
        done = self.tandem("resume", "run", "train.epochs=9", 'train.optimizer={kind="sgd",lr=0.1,momentum=0.9}', code=2).stderr
        self.assertIn("it belongs to another model or optimizer", done)
        self.assertEqual([file.read_bytes() for file in files], before)
        self.tandem("resume", "run", "-q", "train.epochs=7")
        self.assertEqual(self.report("run")["steps"], STEPS // 6 * 7)

    def test_damaged_checkpoints_are_passed_over_and_named(self):
        self.train_in_thirds()
        store = self.scratch / "run/checkpoints"
        newest, next_newest, *_ = sorted(store.glob("step-*"), reverse=True)
        weights = newest / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[len(data) // 2] ^= 1
        weights.write_bytes(data)
        (next_newest / "training.manifest.json").unlink()
        done = self.tandem("checkpoint", "verify", "run", code=4)
        self.assertIn(f"step {STEPS}: damaged", done.stdout)
        self.assertIn("training.manifest.json is missing", done.stdout)
        self.assertIn(" checkpoints are damaged: step ", done.stderr)
        done = self.tandem("resume", "run", "-q")
        self.assertIn(f"warning: the checkpoint of step {STEPS} is damaged", done.stderr)
        self.assertEqual([event["kind"] for event in self.report("run")["events"]].count("checkpoint_damaged"), 2)
        self.assert_same("run")

    def test_only_one_goes_on_at_a_time(self):
        process = self.start_and_wait("run", "train.epochs=100000", "train.eval_every_epochs=100000")
        done = self.tandem("resume", "run", code=2)
        self.assertIn("another tandem is at work in run", done.stderr)
        process.send_signal(signal.SIGKILL)

    def test_train_resume_starts_or_goes_on(self):
        arguments = ["train", self.job, "--out", "run", "--resume", "-q"]
        process = self.start(*arguments)
        store = self.scratch / "run/checkpoints"
        wait_for(lambda: store.exists() and list(store.glob("step-*")), "a checkpoint")
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=PATIENCE_S)
        self.tandem(*arguments)
        self.assert_same("run")
        self.assertIn("--resume needs --out", self.tandem("train", self.job, "--resume", code=2).stderr)

    def test_a_step_without_a_checkpoint_is_told_from_a_run_without_any(self):
        self.tandem("train", self.job, "--out", "run", "-q", "train.epochs=1")
        self.assertIn("run has no checkpoint of step 7; it has those of steps 40 69\n",
                      self.tandem("checkpoint", "show", "run", "--step", 7, code=3).stderr)
        for path in (self.scratch / "run/checkpoints").glob("step-*"):
            shutil.rmtree(path)
        self.assertRegex(self.tandem("checkpoint", "show", "run", "--step", 7, code=3).stderr,
                         r"run has no checkpoint\n")

    def test_the_newest_and_the_best_are_kept(self):
        # A rate at which the last epochs are not the best.
        self.tandem("train", self.job, "--out", "run", "-q", "checkpoint.keep=2", "checkpoint.best=loss",
                    "train.optimizer.lr=0.1")
        lines = map(json.loads, (self.scratch / "run/metrics.jsonl").read_text().splitlines())
        best = min((line["loss"], line["step"]) for line in lines if line.get("part") == "validation")[1]
        steps = self.steps("run")
        self.assertIn(best, steps)
        self.assertEqual(steps[-1], STEPS)
        self.assertEqual(len(steps), 2 if best in steps[-2:] else 3)
        self.tandem("checkpoint", "prune", "run", "--keep", "1")
        self.assertEqual(self.steps("run"), [STEPS])

    def test_a_checkpoint_is_a_model(self):
        self.tandem("train", self.job, "--out", "run", "-q")
        shown = json.loads(self.tandem("checkpoint", "show", "run", "--json").stdout)
        self.assertEqual(shown["weights_hash"], self.report("run")["weights_hash"])
        newest = sorted((self.scratch / "run/checkpoints").glob("step-*"))[-1]
        evaluated = json.loads(self.tandem("eval", newest, "--json").stdout)
        self.assertEqual(evaluated["loss"], self.report("run")["eval"]["loss"])

    def test_a_store_that_vanishes_does_not_end_the_training(self):
        process = self.start_and_wait("run", "train.epochs=100000", "train.eval_every_epochs=100000",
                                      "checkpoint.every_steps=200")
        # Nothing can be created there any more; root may write where the mode forbids it.
        store = self.scratch / "run/checkpoints"
        store.rename(self.scratch / "run/elsewhere")
        store.write_text("")
        events = self.scratch / "run/events.jsonl"
        wait_for(lambda: '"checkpoint_failed"' in events.read_text(), "the event")
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=PATIENCE_S)
        self.assertEqual(process.returncode, 130, errors)
        self.assertEqual(self.report("run")["status"], "cancelled")


if __name__ == "__main__":
    main()
