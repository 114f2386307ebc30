"""A disk that is really full: checkpoints on a small file system of their own, mounted in a world of the test's own."""
import errno
import json
import os
import shutil
import subprocess

from harness import PATIENCE_S, TandemTest, wait_for
from world import main

# 85,002 parameters: a checkpoint of 1 MB, 30 of which are due in some seconds.
JOB = """\
name = "full"
[model]
kind = "mlp"
hidden = [256, 256]
[data]
source = "digits"
[train]
steps = 1
batch = 32
eval_every_epochs = 1000000
optimizer = { kind = "adam", lr = 0.002 }
[checkpoint]
every_steps = 200
every_seconds = 0
keep = 3
"""
STEPS = 6000
DISK_BYTES = 8 << 20
NO_SPACE = 9


def mount_disk(test, place):
    subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", place], check=True, timeout=PATIENCE_S)
    test.addCleanup(subprocess.run, ["umount", "--lazy", place], check=True, timeout=PATIENCE_S)


class FullDisk(TandemTest):
    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)
        # Only the checkpoints are on the small disk; what else a run writes must go on.
        self.tandem("train", self.job, "--out", "run", "-q")
        self.store = self.scratch / "run/checkpoints"
        self.store.rename(self.scratch / "first")
        self.store.mkdir()
        mount_disk(self, self.store)
        shutil.copytree(self.scratch / "first", self.store, dirs_exist_ok=True)
        self.checkpoint_bytes = DISK_BYTES - self.free_bytes()
        self.ballast = self.store / "ballast"

    def free_bytes(self):
        disk = os.statvfs(self.store)
        return disk.f_bavail * disk.f_frsize

    def leave_room_for(self, checkpoints):
        with self.ballast.open("wb") as file:
            os.posix_fallocate(file.fileno(), 0, self.free_bytes() - int(checkpoints * self.checkpoint_bytes))

    def steps(self):
        return sorted(int(path.name.removeprefix("step-")) for path in self.store.glob("step-*"))

    def events(self, kind):
        lines = (self.scratch / "run/events.jsonl").read_text().splitlines()
        return [event["detail"] for event in map(json.loads, lines) if event["kind"] == kind]

    def others(self):
        """What is on the disk beside whole checkpoints."""
        return {path.name for path in self.store.iterdir() if not path.name.startswith("step-")} | {
            path.name for path in self.store.glob("step-*/*.tmp*")}

    def test_training_goes_on_and_the_next_checkpoint_with_room_is_written(self):
        self.leave_room_for(1.5)
        process = self.start("resume", "run", "-q", f"train.steps={STEPS}")
        failed = wait_for(lambda: self.events("checkpoint_failed"), "a checkpoint without room")
        self.assertRegex(failed[0], r"^step \d+: .*No space left on device.*; training goes on$")
        # Each that is due fails, and leaves nothing.
        wait_for(lambda: len(self.events("checkpoint_failed")) > 1, "another one")
        wait_for(lambda: self.others() == {"ballast"}, "the rest of what did not fit to be gone")
        self.assertIsNone(process.poll(), "the run ended before there was room again")
        kept = self.steps()
        self.assertEqual((len(kept), kept[0]), (2, 1))
        self.tandem("checkpoint", "verify", "run")

        self.ballast.unlink()
        wait_for(lambda: self.steps()[-1] > kept[-1], "a checkpoint after there was room again")
        code, _, errors = self.finish(process)
        self.assertEqual(code, 0, errors)
        report = self.report("run")
        self.assertEqual((report["status"], report["steps"]), ("finished", STEPS))
        self.assertEqual(self.others(), set())
        self.assertEqual((len(self.steps()), self.steps()[-1]), (3, STEPS))
        self.tandem("checkpoint", "verify", "run")

        # That checkpoints failed has changed nothing.
        self.tandem("train", self.job, "--out", "truth", "-q", f"train.steps={STEPS}", "checkpoint.keep=0")
        self.assertEqual(report["weights_hash"], self.report("truth")["weights_hash"])

    def test_a_disk_that_stays_full_costs_checkpoints_only(self):
        self.leave_room_for(0.5)
        done = self.tandem("resume", "run", "-q", "train.steps=450")
        self.assertIn("No space left on device", done.stderr)
        self.assertEqual((self.report("run")["status"], self.report("run")["steps"]), ("finished", 450))
        self.assertEqual((self.steps(), self.others()), ([1], {"ballast"}))
        self.tandem("checkpoint", "verify", "run")


class FullRunDirectory(TandemTest):
    """The whole run directory is on the small disk."""

    def setUp(self):
        super().setUp()
        self.job.write_text(JOB)
        self.disk = self.scratch / "disk"
        self.disk.mkdir()
        mount_disk(self, self.disk)
        self.directory = self.disk / "run"
        self.tandem("train", self.job, "--out", self.directory, "-q")

    def fill(self):
        with (self.disk / "ballast").open("wb", buffering=0) as file, self.assertRaises(OSError) as full:
            while True:
                file.write(bytes(4096))
        self.assertEqual(full.exception.errno, errno.ENOSPC)

    def test_a_resumed_run_keeps_its_report_until_there_is_another(self):
        before = (self.directory / "report.json").read_text()
        self.fill()
        for command in (("resume", self.directory), ("train", self.job, "--resume", "--out", self.directory)):
            done = self.tandem(*command, "-q", "train.steps=2", code=NO_SPACE)
            self.assertIn("No space left on device", done.stderr)
            self.assertEqual((self.directory / "report.json").read_text(), before)
        (self.disk / "ballast").unlink()
        self.tandem("resume", self.directory, "-q", "train.steps=2")
        self.assertEqual(json.loads((self.directory / "report.json").read_text())["steps"], 2)
        self.assertEqual(list(self.directory.glob("report-*")), [])


if __name__ == "__main__":
    main()
